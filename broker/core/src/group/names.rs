//! Names and numbers that groups are made of.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// As text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Whether it is the empty text.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// A group's name. The empty one is a group like any other for those who only commit (G-43).
    GroupId
);
name!(
    /// A member's name, given by the coordinator. A client that has none yet sends the empty one.
    MemberId
);
name!(
    /// A static member's own name, which survives its restarts.
    InstanceId
);
name!(
    /// A topic's name.
    TopicName
);

/// How often a group has agreed on its members and who leads them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub i32);

impl Generation {
    /// The one after it.
    #[must_use]
    pub fn next(self) -> Self {
        // After two billion rebalances it begins again.
        Self(self.0.checked_add(1).unwrap_or(1))
    }
}

/// Names one question to the shard; the shell draws them, each once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplyId(pub u64);

/// Names one atomic write; the shard counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(pub u64);

/// A moment on both clocks: the one that timers run by, and the one that is written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The shell's monotonic clock.
    pub now: crate::time::Moment,
    /// Milliseconds since 1970.
    pub wall_ms: i64,
}
