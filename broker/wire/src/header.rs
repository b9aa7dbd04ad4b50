//! The headers of requests and responses.

use crate::api::{ApiKey, ApiVersion, CorrelationId};
use crate::reader::{DecodeError, DecodeReason, Reader};
use crate::writer::Writer;

/// What stands in front of a request body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHeader {
    /// The API.
    pub api_key: ApiKey,
    /// The version of the body; not checked, since an unsupported ApiVersions request has an answer.
    pub api_version: ApiVersion,
    /// Comes back in the response.
    pub correlation_id: CorrelationId,
    /// What the client calls itself.
    pub client_id: Option<String>,
}

impl RequestHeader {
    /// Reads the header in the version that the API's version calls for.
    ///
    /// # Errors
    /// When the key is unknown or the bytes are not a header.
    pub fn decode(reader: &mut Reader) -> Result<RequestHeader, DecodeError> {
        reader.name("RequestHeader", 1);
        let code = reader.i16("requestApiKey")?;
        let api_version = ApiVersion(reader.i16("requestApiVersion")?);
        let correlation_id = CorrelationId(reader.i32("correlationId")?);
        let api_key = ApiKey::from_code(code)
            .ok_or_else(|| reader.error("requestApiKey", DecodeReason::UnknownApi(code)))?;
        let version = api_key.request_header_version(api_version);
        reader.name("RequestHeader", version);
        // Never compact, so that a broker can read the header before it knows the version.
        let client_id = reader.string_or_null("clientId", false, true)?;
        if version >= 2 {
            reader.skip_tagged()?;
        }
        Ok(RequestHeader {
            api_key,
            api_version,
            correlation_id,
            client_id,
        })
    }

    /// Writes the header in the version that the API's version calls for.
    pub fn encode(&self, writer: &mut Writer) {
        writer.i16(self.api_key.code());
        writer.i16(self.api_version.0);
        writer.i32(self.correlation_id.0);
        writer.string_or_null("clientId", false, true, &self.client_id);
        if self.api_key.request_header_version(self.api_version) >= 2 {
            writer.unsigned_varint(0);
        }
    }
}

/// What stands in front of a response body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseHeader {
    /// The request's.
    pub correlation_id: CorrelationId,
}

impl ResponseHeader {
    /// Reads the header of the response to a request of this API and version.
    ///
    /// # Errors
    /// When the bytes are not a header.
    pub fn decode(api: ApiKey, version: ApiVersion, reader: &mut Reader) -> Result<Self, DecodeError> {
        let header_version = api.response_header_version(version);
        reader.name("ResponseHeader", header_version);
        let correlation_id = CorrelationId(reader.i32("correlationId")?);
        if header_version >= 1 {
            reader.skip_tagged()?;
        }
        Ok(ResponseHeader { correlation_id })
    }

    /// Writes the header of the response to a request of this API and version.
    pub fn encode(self, api: ApiKey, version: ApiVersion, writer: &mut Writer) {
        writer.i32(self.correlation_id.0);
        if api.response_header_version(version) >= 1 {
            writer.unsigned_varint(0);
        }
    }
}
