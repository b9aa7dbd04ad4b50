//! Commands forwarded to the active controller, sent again until it has answered or the caller's time is over
//! (R5.40 to R5.44).
//!
//! A command carries a request id, so that a retry after a failover gets the result of the first attempt. Must not:
//! judge a command; the controller does.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use millrace_proto::Message;
use millrace_proto::v1::admin_client::AdminClient;
use millrace_proto::v1::{
    AllocateProducerIdsReply, AllocateProducerIdsRequest, AlterConfigsReply, AlterConfigsRequest,
    AlterPartitionReply, AlterPartitionRequest, CreatePartitionsReply, CreatePartitionsRequest,
    CreateTopicsReply, CreateTopicsRequest, DeleteTopicsReply, DeleteTopicsRequest, ElectLeadersReply,
    ElectLeadersRequest, Refusal, RefusalKind,
};
use tonic::transport::Channel;
use tonic::{Response, Status};
use tracing::debug;

use super::{Controllers, MESSAGE_BYTES_MAX, REPLY_BYTES_MAX};

/// One attempt may take this long: a controller that hangs is as good as one that is gone, and the command is safe to
/// send again.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);
/// Between two attempts.
const BACKOFF: Duration = Duration::from_millis(30);
/// So often it may be said that nothing is decided for now, for about a second: another controller may take over
/// meanwhile. Then the caller is told why, instead of only that its time is over.
const UNAVAILABLE_MAX: usize = 30;

/// No controller answered in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no active controller answered in time")]
pub struct OutOfTime;

/// Why a command has no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// It may have been carried out all the same.
    #[error(transparent)]
    OutOfTime(#[from] OutOfTime),
    /// No controller takes in so much at once; it was sent to none.
    #[error("{given} bytes for the controller, which takes at most {MESSAGE_BYTES_MAX} in one request")]
    TooLarge {
        /// Its size, in bytes.
        given: usize,
    },
}

/// A command and its reply.
pub trait Command: Message + Clone + Send + 'static {
    /// What the controller answers.
    type Reply: Send;

    /// Sends it once.
    fn send(
        self,
        client: AdminClient<Channel>,
    ) -> impl Future<Output = Result<Response<Self::Reply>, Status>> + Send;

    /// Why the whole command was refused.
    fn refusal(reply: &Self::Reply) -> Option<&Refusal>;
}

macro_rules! command {
    ($request:ident, $reply:ident, $method:ident) => {
        impl Command for $request {
            type Reply = $reply;

            async fn send(self, mut client: AdminClient<Channel>) -> Result<Response<$reply>, Status> {
                client.$method(self).await
            }

            fn refusal(reply: &$reply) -> Option<&Refusal> {
                reply.refusal.as_ref()
            }
        }
    };
}

command!(CreateTopicsRequest, CreateTopicsReply, create_topics);
command!(DeleteTopicsRequest, DeleteTopicsReply, delete_topics);
command!(CreatePartitionsRequest, CreatePartitionsReply, create_partitions);
command!(AlterConfigsRequest, AlterConfigsReply, alter_configs);
command!(ElectLeadersRequest, ElectLeadersReply, elect_leaders);
command!(AlterPartitionRequest, AlterPartitionReply, alter_partition);
command!(
    AllocateProducerIdsRequest,
    AllocateProducerIdsReply,
    allocate_producer_ids
);

/// Sends a command until an active controller answers.
///
/// # Errors
/// [`Unanswered`] when none did within `time`, or none would.
pub async fn forward<C: Command>(
    controllers: &Arc<Controllers>,
    command: C,
    time: Duration,
) -> Result<C::Reply, Unanswered> {
    // Sent, it would look like a controller that is gone, and be sent again and again until the time is over.
    let given = command.encoded_len();
    if MESSAGE_BYTES_MAX < given {
        return Err(Unanswered::TooLarge { given });
    }
    tokio::time::timeout(time, until_answered(controllers, command))
        .await
        .map_err(|_| OutOfTime.into())
}

async fn until_answered<C: Command>(controllers: &Controllers, command: C) -> C::Reply {
    let mut unavailable = 0;
    loop {
        let address = controllers.candidate();
        match attempt(controllers, &address, command.clone()).await {
            Ok(reply) => match C::refusal(&reply) {
                Some(refusal) if is_to_be_tried_again(refusal, unavailable) => {
                    debug!(%address, why = %refusal.message, "a controller does not decide now");
                    unavailable += usize::from(refusal.kind() == RefusalKind::Unavailable);
                    controllers.unlearn(&address, refusal.active.as_ref());
                }
                _ => return reply,
            },
            Err(status) => {
                debug!(%address, %status, "a controller did not answer");
                controllers.unlearn(&address, None);
            }
        }
        tokio::time::sleep(BACKOFF).await;
    }
}

async fn attempt<C: Command>(
    controllers: &Controllers,
    address: &str,
    command: C,
) -> Result<C::Reply, Status> {
    let channel = controllers
        .channel(address)
        .map_err(|error| Status::unavailable(error.to_string()))?;
    let client = AdminClient::new(channel)
        .max_decoding_message_size(REPLY_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    tokio::time::timeout(ATTEMPT_TIMEOUT, command.send(client))
        .await
        .map_err(|_| Status::deadline_exceeded("no answer"))?
        .map(Response::into_inner)
}

/// Where `unavailable` says how often nobody could decide before.
fn is_to_be_tried_again(refusal: &Refusal, unavailable: usize) -> bool {
    match refusal.kind() {
        RefusalKind::NotActive => true,
        RefusalKind::Unavailable => unavailable < UNAVAILABLE_MAX,
        _ => false,
    }
}
