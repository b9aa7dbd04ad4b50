//! Claims, one test each.
