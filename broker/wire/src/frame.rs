//! Frames: a length of four bytes, a header, a body. Helpers for both ends of a connection; reads no socket itself.

use bytes::Bytes;

use crate::api::{ApiKey, ApiVersion, CorrelationId, Message, Request};
use crate::header::{RequestHeader, ResponseHeader};
use crate::reader::{DecodeError, Reader};
use crate::records::Encoded;
use crate::writer::{EncodeError, Writer};

/// The size of the length in front of a frame, in bytes.
pub const PREFIX: usize = 4;

/// A length that no frame has: the connection must be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadLength {
    /// Below zero.
    #[error("a frame of {0} bytes")]
    Negative(i32),
    /// Above what the receiver accepts.
    #[error("a frame of {given} bytes, where {max} are allowed")]
    TooLarge {
        /// The length that came.
        given: usize,
        /// The limit.
        max: usize,
    },
}

/// The size of the frame behind a prefix, checked before anything is allocated for it.
///
/// # Errors
/// When the length is negative or above `max` bytes.
pub fn length(prefix: [u8; PREFIX], max: usize) -> Result<usize, BadLength> {
    let given = i32::from_be_bytes(prefix);
    let size = usize::try_from(given).map_err(|_| BadLength::Negative(given))?;
    if size > max {
        return Err(BadLength::TooLarge { given: size, max });
    }
    Ok(size)
}

/// A whole request, the prefix included.
///
/// # Errors
/// When the request cannot be written in this version.
pub fn request<R: Request>(
    version: ApiVersion,
    correlation_id: CorrelationId,
    client_id: Option<&str>,
    body: &R,
) -> Result<Encoded, EncodeError> {
    let header = RequestHeader {
        api_key: R::KEY,
        api_version: version,
        correlation_id,
        client_id: client_id.map(str::to_string),
    };
    framed(|writer| {
        header.encode(writer);
        body.encode(version, writer);
    })
}

/// A whole response, the prefix included; `api` and `version` are the request's.
///
/// # Errors
/// When the response cannot be written in this version.
pub fn response<M: Message>(
    api: ApiKey,
    version: ApiVersion,
    correlation_id: CorrelationId,
    body: &M,
) -> Result<Encoded, EncodeError> {
    framed(|writer| {
        ResponseHeader { correlation_id }.encode(api, version, writer);
        body.encode(version, writer);
    })
}

/// Reads the response to an `R` of this version from a frame without its prefix.
///
/// # Errors
/// When the bytes are not such a response.
pub fn parse_response<R: Request>(
    version: ApiVersion,
    frame: Bytes,
) -> Result<(CorrelationId, R::Response), DecodeError> {
    let mut reader = Reader::new(frame);
    let header = ResponseHeader::decode(R::KEY, version, &mut reader)?;
    let body = R::Response::decode(version, &mut reader)?;
    Ok((header.correlation_id, body))
}

fn framed(write: impl FnOnce(&mut Writer)) -> Result<Encoded, EncodeError> {
    let mut writer = Writer::new();
    writer.i32(0);
    write(&mut writer);
    writer.finish_frame()
}
