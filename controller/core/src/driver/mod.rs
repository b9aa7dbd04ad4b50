//! The machine around the decisions: who is active, what is proposed, when an answer is certain.

pub mod event;
