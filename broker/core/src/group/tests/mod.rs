//! Groups by hand: what is asked, what is written, what time does.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod bench;
mod membership;
mod offsets;
mod post;
mod statics;
mod succession;
