//! The APIs: their keys, their versions, and what a message can do. Says nothing of what an API is for.

use std::fmt;
use std::ops::RangeInclusive;

use crate::reader::{DecodeError, Reader};
use crate::writer::Writer;

/// A version of one API's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApiVersion(pub i16);

/// What ties a response to its request on one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CorrelationId(pub i32);

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

impl fmt::Display for CorrelationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A request or a response body.
pub trait Message: Sized + Default + Clone + PartialEq + fmt::Debug {
    /// The name, for errors and logs.
    const NAME: &'static str;

    /// Reads a body; bytes behind it stay unread.
    ///
    /// # Errors
    /// When the version is not one of the API's, or when the bytes are not such a message.
    fn decode(version: ApiVersion, reader: &mut Reader) -> Result<Self, DecodeError>;

    /// Writes the body. What cannot be written (a null where none may be, a string that is too long, an unknown version)
    /// comes out as the error of [`Writer::finish`].
    fn encode(&self, version: ApiVersion, writer: &mut Writer);
}

/// A request body; knows its API and its response.
pub trait Request: Message {
    /// The API.
    const KEY: ApiKey;
    /// What answers it.
    type Response: Message;
}

/// How the header of an API depends on its version.
struct Row {
    versions: RangeInclusive<ApiVersion>,
    flexible: Option<i16>,
}

macro_rules! api_keys {
    ($($name:ident = $key:literal, $first:literal..=$last:literal, $flexible:expr;)*) => {
        /// An API that a listener of a broker can serve.
        ///
        /// Keys that only a controller of Kafka knows, and those whose last version is gone, are not here: on a broker's
        /// listener they are unknown.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i16)]
        pub enum ApiKey {
            $(#[doc = concat!(stringify!($name), ", versions ", $first, " to ", $last, ".")] $name = $key,)*
        }

        impl ApiKey {
            /// All of them, by key.
            pub const ALL: &'static [ApiKey] = &[$(ApiKey::$name,)*];

            /// The API of a key, when there is one.
            pub fn from_code(code: i16) -> Option<ApiKey> {
                match code {
                    $($key => Some(ApiKey::$name),)*
                    _ => None,
                }
            }

            /// Kafka's name.
            pub fn name(self) -> &'static str {
                match self { $(ApiKey::$name => stringify!($name),)* }
            }

            fn row(self) -> Row {
                match self {
                    $(ApiKey::$name => Row {
                        versions: ApiVersion($first)..=ApiVersion($last),
                        flexible: $flexible,
                    },)*
                }
            }
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/api_keys.rs"));

impl ApiKey {
    /// The key on the wire.
    pub fn code(self) -> i16 {
        self as i16
    }

    /// The versions that have a layout, as in Kafka 4.4. (A broker advertises Produce from 0 on .)
    pub fn versions(self) -> RangeInclusive<ApiVersion> {
        self.row().versions
    }

    /// Whether the bodies of this version have compact lengths and tagged fields.
    pub fn is_flexible(self, version: ApiVersion) -> bool {
        self.row().flexible.is_some_and(|first| version.0 >= first)
    }

    /// 1 or 2. Defined for any version, since the header of a request that is not supported must be read as well.
    pub fn request_header_version(self, version: ApiVersion) -> i16 {
        if self.is_flexible(version) { 2 } else { 1 }
    }

    /// 0 or 1; always 0 for ApiVersions, whose client does not know yet what it may expect.
    pub fn response_header_version(self, version: ApiVersion) -> i16 {
        if self.is_flexible(version) && self != ApiKey::ApiVersions {
            1
        } else {
            0
        }
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
