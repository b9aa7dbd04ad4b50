//! bytes between our processes: gRPC contracts and conversions.
