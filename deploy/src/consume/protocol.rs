//! What members of a group tell each other through the broker: subscriptions and assignments, in the format of
//! Kafka's consumers, and the range assignor. The broker passes these bytes on unread.

use std::collections::BTreeMap;

/// What is read of a subscription or an assignment: as much as every version has.
const VERSION: i16 = 0;

/// A subscription to topics.
pub fn subscription(topics: &[&str]) -> Vec<u8> {
    let mut out = VERSION.to_be_bytes().to_vec();
    put_length(&mut out, topics.len());
    topics.iter().for_each(|topic| put_text(&mut out, topic));
    out.extend((-1_i32).to_be_bytes());
    out
}

/// The topics of a subscription of any version; none where the bytes are none.
pub fn subscribed(bytes: &[u8]) -> Vec<String> {
    let read = || -> Option<Vec<String>> {
        let mut left = Cursor(bytes);
        left.i16()?;
        let count = left.length()?;
        (0..count).map(|_| left.text()).collect()
    };
    read().unwrap_or_default()
}

/// An assignment of partitions, by topic.
pub fn assignment(partitions: &BTreeMap<String, Vec<i32>>) -> Vec<u8> {
    let mut out = VERSION.to_be_bytes().to_vec();
    put_length(&mut out, partitions.len());
    for (topic, partitions) in partitions {
        put_text(&mut out, topic);
        put_length(&mut out, partitions.len());
        partitions.iter().for_each(|one| out.extend(one.to_be_bytes()));
    }
    out.extend((-1_i32).to_be_bytes());
    out
}

/// The partitions of an assignment of any version, by topic; none where the bytes are none, as for a member that got nothing.
pub fn assigned(bytes: &[u8]) -> BTreeMap<String, Vec<i32>> {
    let read = || -> Option<BTreeMap<String, Vec<i32>>> {
        let mut left = Cursor(bytes);
        left.i16()?;
        let count = left.length()?;
        let mut found: BTreeMap<String, Vec<i32>> = BTreeMap::new();
        for _ in 0..count {
            let topic = left.text()?;
            let count = left.length()?;
            let partitions: Option<Vec<i32>> = (0..count).map(|_| left.i32()).collect();
            found.entry(topic).or_default().extend(partitions?);
        }
        Some(found)
    };
    read().unwrap_or_default()
}

/// Kafka's range assignor: of each topic, every member that wants it gets a run of neighbours; the first ones get one
/// more where it does not come out even.
pub fn range(
    members: &BTreeMap<String, Vec<String>>,
    counts: &BTreeMap<String, i32>,
) -> BTreeMap<String, BTreeMap<String, Vec<i32>>> {
    let mut shares: BTreeMap<String, BTreeMap<String, Vec<i32>>> = members
        .keys()
        .map(|member| (member.clone(), BTreeMap::new()))
        .collect();
    for (topic, count) in counts {
        let wanting: Vec<&String> = members
            .iter()
            .filter(|(_, topics)| topics.contains(topic))
            .map(|(member, _)| member)
            .collect();
        let Ok(among) = i32::try_from(wanting.len()) else {
            continue;
        };
        if among == 0 {
            continue;
        }
        let (each, more) = (count / among, count % among);
        let mut next = 0;
        for (index, member) in (0_i32..).zip(wanting) {
            let end = next + each + i32::from(index < more);
            if let Some(share) = shares.get_mut(member).filter(|_| next < end) {
                share.insert(topic.clone(), (next..end).collect());
            }
            next = end;
        }
    }
    shares
}

fn put_length(out: &mut Vec<u8>, length: usize) {
    let length = i32::try_from(length).expect("no group has two billion of anything");
    out.extend(length.to_be_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    let length = i16::try_from(text.len()).expect("a topic's name has at most 249 characters");
    out.extend(length.to_be_bytes());
    out.extend(text.as_bytes());
}

/// What is left of some bytes; nothing is believed that does not fit into them.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, left) = self.0.split_first_chunk::<N>()?;
        self.0 = left;
        Some(*taken)
    }

    fn i16(&mut self) -> Option<i16> {
        self.take().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.take().map(i32::from_be_bytes)
    }

    /// A count, which cannot be more than the bytes that are left.
    fn length(&mut self) -> Option<usize> {
        let count = usize::try_from(self.i32()?).ok()?;
        (count <= self.0.len()).then_some(count)
    }

    fn text(&mut self) -> Option<String> {
        let size = usize::try_from(self.i16()?).ok()?;
        let (taken, left) = self.0.split_at_checked(size)?;
        self.0 = left;
        String::from_utf8(taken.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscriptions_and_assignments_read_back_as_written() {
        assert_eq!(subscribed(&subscription(&["a", "b"])), ["a", "b"]);
        let partitions = BTreeMap::from([("a".to_owned(), vec![0, 2]), ("b".to_owned(), vec![])]);
        assert_eq!(assigned(&assignment(&partitions)), partitions);
    }

    #[test]
    fn a_subscription_is_what_kafkas_consumers_read() {
        let golden = [0, 0, 0, 0, 0, 1, 0, 1, b'a', 0xff, 0xff, 0xff, 0xff];
        assert_eq!(subscription(&["a"]), golden);
    }

    #[test]
    fn bytes_that_claim_more_than_they_hold_are_nothing() {
        assert_eq!(subscribed(&[0, 0, 0x7f, 0xff, 0xff, 0xff]), Vec::<String>::new());
        assert_eq!(assigned(&[]), BTreeMap::new());
        assert_eq!(assigned(&[0, 0, 0, 0, 0, 1, 0, 9, b'a']), BTreeMap::new());
    }

    #[test]
    fn the_first_members_get_one_more() {
        let wants = |topics: &[&str]| topics.iter().map(|topic| (*topic).to_owned()).collect::<Vec<_>>();
        let members = BTreeMap::from([
            ("m1".to_owned(), wants(&["a", "b"])),
            ("m2".to_owned(), wants(&["a"])),
            ("m3".to_owned(), wants(&["a"])),
        ]);
        let counts = BTreeMap::from([("a".to_owned(), 7), ("b".to_owned(), 2)]);
        let shares = range(&members, &counts);
        assert_eq!(
            shares["m1"],
            BTreeMap::from([("a".to_owned(), vec![0, 1, 2]), ("b".to_owned(), vec![0, 1])])
        );
        assert_eq!(shares["m2"]["a"], [3, 4]);
        assert_eq!(shares["m3"]["a"], [5, 6]);
    }

    #[test]
    fn more_members_than_partitions_leave_some_with_nothing() {
        let members: BTreeMap<_, _> = (0..3).map(|n| (format!("m{n}"), vec!["a".to_owned()])).collect();
        let shares = range(&members, &BTreeMap::from([("a".to_owned(), 1)]));
        assert_eq!((shares["m0"]["a"].len(), shares["m2"].len()), (1, 0));
    }
}
