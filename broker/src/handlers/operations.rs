//! The sets of authorized operations. Without an authorizer everybody may do everything.

/// The field was not asked for.
pub const NOT_ASKED: i32 = i32::MIN;
/// All operations that a cluster has.
pub const CLUSTER: i32 = 8096;
/// All operations that a topic has.
pub const TOPIC: i32 = 3576;
/// All operations that a group has.
pub const GROUP: i32 = 3400;
