//! When a broken session stream is enough to fence a broker, long before its session timeout.
//!
//! A stream that the peer closed without a goodbye most often means a process that died. It is taken for that only
//! where nothing speaks against it; in doubt the full session timeout counts.

use std::collections::BTreeMap;
use std::time::Duration;

use metadata::ids::BrokerId;
use metadata::image::Image;

use crate::liveness::{Line, Recent, Session};
use crate::rules::TopicRules;
use crate::settings::Settings;
use crate::time::Moment;

/// Breaks so close together that the cause is likely one, and not in the brokers.
const TOGETHER: Duration = Duration::from_secs(2);

/// How long a broker that was fenced this way is watched.
const MEMORY: Duration = Duration::from_secs(600);

/// Fenced this often in [`MEMORY`], a broker has shown that its breaks mean little.
const FENCED_MAX: usize = 2;

/// What is remembered of broken streams.
#[derive(Clone, Debug, Default)]
pub(crate) struct Breaks {
    recent: BTreeMap<BrokerId, Recent>,
    fenced: BTreeMap<BrokerId, Recent>,
    lagged_at: Option<Moment>,
}

impl Breaks {
    pub(crate) fn note(&mut self, broker: BrokerId, now: Moment) {
        self.recent.entry(broker).or_default().note(now);
    }

    pub(crate) fn note_fenced(&mut self, broker: BrokerId, now: Moment) {
        self.fenced.entry(broker).or_default().note(now);
    }

    pub(crate) fn driver_lagged(&mut self, now: Moment) {
        self.lagged_at = Some(now);
    }

    pub(crate) fn forget_old(&mut self, now: Moment) {
        for (list, horizon) in [(&mut self.recent, TOGETHER * 2), (&mut self.fenced, MEMORY)] {
            list.values_mut().for_each(|it| it.forget_before(now, horizon));
            list.retain(|_, it| !it.is_empty());
        }
    }

    /// Whether nothing speaks against fencing a broker whose stream broke, now that the grace time is over.
    pub(crate) fn justify(
        &self,
        broker: BrokerId,
        session: &Session,
        image: &Image,
        settings: &Settings,
        now: Moment,
    ) -> bool {
        let Line::Broken { at, opened } = session.line else {
            return false;
        };
        let was_stable = at.since(opened) >= settings.session_timeout;
        let was_heard = session.last_contact > at;
        let lagged = self.lagged_at.is_some_and(|lagged| lagged >= at);
        let fenced_often = self
            .fenced
            .get(&broker)
            .is_some_and(|fenced| fenced.count_since(Moment(now.0.saturating_sub(MEMORY))) >= FENCED_MAX);
        was_stable
            && !was_heard
            && !lagged
            && !fenced_often
            && !self.many_together(at, image)
            && can_be_missed(broker, image, settings)
    }

    /// More than one broker, and more than a tenth of them, broke around this moment.
    fn many_together(&self, at: Moment, image: &Image) -> bool {
        let from = Moment(at.0.saturating_sub(TOGETHER));
        let broke = self.recent.values().filter(|recent| recent.count_since(from) > 0);
        broke.count() > (image.brokers.len() / 10).max(1)
    }
}

/// No partition would fall below its minimum, or lose its last in-sync replica.
fn can_be_missed(broker: BrokerId, image: &Image, settings: &Settings) -> bool {
    let mut rules = TopicRules::of(image, settings);
    image.lookup().in_sync_on(broker).all(|id| {
        let Some(topic) = image.topics.get(&id.topic) else {
            return true;
        };
        let Some(partition) = topic.partitions.get(&id.index) else {
            return true;
        };
        let remaining = partition
            .in_sync
            .iter()
            .filter(|member| **member != broker)
            .count();
        remaining >= rules.election(topic).min_in_sync.max(1)
    })
}
