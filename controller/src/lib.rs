//! the controller.
