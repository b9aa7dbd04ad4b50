//! data-plane decisions.
