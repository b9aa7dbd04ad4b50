//! Kafka's wire protocol: bytes ⇄ typed requests and responses, and the record batch format.
//!
//! The messages and the records of internal topics ([`internal`]) are generated at build time from the files in `schema/` and
//! `records/` (see `README.md`); the parts that need care
//! by hand are the primitives ([`Reader`], [`Writer`]), the headers, the frames, the record batch ([`batch`]) and the
//! compression codecs ([`codec`]).
//!
//! ```
//! use bytes::Bytes;
//! use wire::messages::{MetadataRequest, MetadataResponse};
//! use wire::{ApiVersion, CorrelationId, frame};
//!
//! let request = MetadataRequest { topics: None, ..Default::default() };
//! let sent = frame::request(ApiVersion(12), CorrelationId(7), Some("example"), &request)?.into_bytes();
//!
//! let mut received = wire::Reader::new(sent.slice(frame::PREFIX..));
//! let header = wire::RequestHeader::decode(&mut received)?;
//! assert_eq!(header.api_key, wire::ApiKey::Metadata);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What comes from the network is never believed: every length is checked against the bytes that are left before
//! anything is allocated, and decoding never panics. Where Kafka's own decoder is lenient, so is this one (A-19).
//!
//! Must never be in here: behaviour (what to answer), metadata, sockets, clocks. Wire types stop at the handlers of the
//! broker; sentinels such as −1 exist only in this crate.

mod api;
pub mod batch;
pub mod codec;
mod error;
mod error_counts;
pub mod frame;
mod header;
pub mod internal;
mod reader;
mod records;
mod uuid;
mod varint;
mod writer;

#[allow(
    clippy::all,
    unused_variables,
    unused_mut,
    reason = "generated code is uniform; what a message does not need is cheaper to leave than to leave out"
)]
pub mod messages {
    //! The messages, one module per API; generated from `schema/`.
    //!
    //! The names are Kafka's, fields in snake case. A struct's `Default` holds Kafka's defaults: mind that some nullable
    //! fields are empty and not null by default. A field that a version does not have is left out when it is encoded,
    //! and keeps its default when it is decoded.

    mod generated {
        //! What every generated module uses.
        pub(super) use crate::reader::Tag;
        pub(super) use crate::{
            ApiKey, ApiVersion, DecodeError, ErrorCode, Message, Reader, Records, Request, Uuid, Writer,
        };
        pub(super) use bytes::Bytes;
    }

    include!(concat!(env!("OUT_DIR"), "/messages.rs"));
}

pub use api::{ApiKey, ApiVersion, CorrelationId, Message, Request};
pub use error::ErrorCode;
pub use error_counts::ErrorCounts;
pub use header::{RequestHeader, ResponseHeader};
pub use reader::{DecodeError, DecodeReason, Reader};
pub use records::{Encoded, Part, Records};
pub use uuid::Uuid;
pub use writer::{EncodeError, Writer};
