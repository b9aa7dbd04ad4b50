//! Golden bytes of every record, and refusals of bytes that are not ours.
