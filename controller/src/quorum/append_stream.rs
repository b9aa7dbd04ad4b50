//! The appends to one peer: one stream of messages, answered in order.
//!
//! The consensus library gives a heartbeat up after one interval. The stream outlives that: to open another one takes a
//! round trip of its own, and wherever a round trip takes half an interval, be it that the machines are busy or far
//! apart, no heartbeat would leave any more. Must not send anything twice: the library does.

use futures::future::TryFutureExt;
use futures::stream::{BoxStream, StreamExt};
use millrace_proto::v1::quorum_client::QuorumClient;
use millrace_proto::v1::{Addressed, Answer};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::transport::Channel;

/// Messages of one stream that may be without an answer. A peer that owes more than these does not keep up, and what
/// waits for it must stay little.
pub const UNANSWERED_MAX: usize = 8;

/// An open stream, or one that is being opened: what is said meanwhile goes along.
pub struct AppendStream {
    messages: mpsc::Sender<Addressed>,
    /// The lock only makes it `Sync`: it is never shared.
    answers: Mutex<BoxStream<'static, Result<Answer, Status>>>,
    /// Messages without an answer, be it that nobody waits for it any more.
    unanswered: usize,
}

impl AppendStream {
    /// Begins to open a stream; it is opened while an answer is awaited.
    pub fn open(mut client: QuorumClient<Channel>) -> AppendStream {
        let (messages, outbound) = mpsc::channel(UNANSWERED_MAX);
        let opening = async move {
            let opened = client.append(ReceiverStream::new(outbound)).await;
            opened.map(tonic::Response::into_inner)
        };
        AppendStream::of(messages, opening.try_flatten_stream().boxed())
    }

    fn of(
        messages: mpsc::Sender<Addressed>,
        answers: BoxStream<'static, Result<Answer, Status>>,
    ) -> AppendStream {
        AppendStream {
            messages,
            answers: Mutex::new(answers),
            unanswered: 0,
        }
    }

    /// Says something and waits for the answer to it. Whoever drops this waits no longer, but has spoken.
    ///
    /// # Errors
    /// Why there is no answer. The stream is of no use then.
    pub async fn ask(&mut self, message: Addressed) -> Result<Answer, Status> {
        if UNANSWERED_MAX <= self.unanswered {
            return Err(Status::deadline_exceeded("too many messages without an answer"));
        }
        let sent = self.messages.try_send(message);
        sent.map_err(|_| Status::unavailable("the append stream is closed"))?;
        self.unanswered += 1;
        loop {
            let next = self.answers.get_mut().next().await;
            let answer = next.unwrap_or_else(|| Err(Status::unavailable("the append stream ended")))?;
            self.unanswered -= 1;
            if self.unanswered == 0 {
                return Ok(answer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use futures::FutureExt;

    use super::*;

    struct Peer {
        hears: mpsc::Receiver<Addressed>,
        says: mpsc::Sender<Result<Answer, Status>>,
    }

    fn stream() -> (AppendStream, Peer) {
        let (messages, hears) = mpsc::channel(UNANSWERED_MAX);
        let (says, answers) = mpsc::channel(UNANSWERED_MAX);
        let stream = AppendStream::of(messages, ReceiverStream::new(answers).boxed());
        (stream, Peer { hears, says })
    }

    fn message(number: u8) -> Addressed {
        Addressed {
            payload: vec![number].into(),
            ..Addressed::default()
        }
    }

    fn answer(number: u8) -> Result<Answer, Status> {
        Ok(Answer {
            payload: vec![number].into(),
            misdirected: None,
        })
    }

    /// Says something and waits for nothing.
    fn say(stream: &mut AppendStream, number: u8) {
        assert!(stream.ask(message(number)).now_or_never().is_none());
    }

    #[test]
    fn an_answer_that_nobody_waits_for_is_not_taken_for_the_next_one() {
        let (mut stream, mut peer) = stream();
        say(&mut stream, 1);
        assert_eq!(
            peer.hears.try_recv().unwrap(),
            message(1),
            "it was sent all the same"
        );

        peer.says.try_send(answer(1)).unwrap();
        peer.says.try_send(answer(2)).unwrap();
        let answered = stream.ask(message(2)).now_or_never().unwrap();
        assert_eq!(answered.unwrap(), answer(2).unwrap());

        peer.says.try_send(answer(3)).unwrap();
        let answered = stream.ask(message(3)).now_or_never().unwrap();
        assert_eq!(answered.unwrap(), answer(3).unwrap());
    }

    #[test]
    fn a_peer_that_never_answers_is_given_up() {
        let (mut stream, _peer) = stream();
        (0..8).for_each(|number| say(&mut stream, number));
        let given_up = stream.ask(message(8)).now_or_never().unwrap().unwrap_err();
        assert_eq!(given_up.code(), tonic::Code::DeadlineExceeded);
    }

    #[test]
    fn a_stream_that_ended_says_so() {
        let (mut stream, peer) = stream();
        drop(peer.says);
        let ended = stream.ask(message(1)).now_or_never().unwrap().unwrap_err();
        assert_eq!(ended.code(), tonic::Code::Unavailable);
    }
}
