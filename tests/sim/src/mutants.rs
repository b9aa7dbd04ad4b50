//! Bugs planted in shipped files, to show that the judges see them. Without the cargo feature `mutants` there are none.

/// Plants the bug of this name for the life of the process; false when this build has none of that name.
#[must_use]
pub fn select(name: &str) -> bool {
    #[cfg(feature = "mutants")]
    return [
        controller_core::mutants::select(name),
        broker_core::mutants::select(name),
        partition_log::mutants::select(name),
    ]
    .contains(&true);
    #[cfg(not(feature = "mutants"))]
    {
        let _ = name;
        false
    }
}
