//! What the driver does with each event.
