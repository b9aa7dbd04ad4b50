//! ask the machine.
