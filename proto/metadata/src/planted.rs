//! How a pure crate declares its planted faults. Must not: plant any; those of this crate stand in `mutants`.

/// Declares the planted faults of a crate: `Mutant`, and the switch that selects one for the whole process.
///
/// Each fault names the rule that it breaks. `select` also knows the faults of this crate.
#[macro_export]
macro_rules! planted_faults {
    ($($(#[$about:meta])* $fault:ident = $name:literal,)+) => {
        /// A rule that can be broken on purpose.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutant {
            $($(#[$about])* $fault,)+
        }

        impl Mutant {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$fault),+];

            /// The name under which it is selected.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$fault => $name,)+
                }
            }
        }

        /// 0 is none, else the place in `Mutant::ALL` plus one.
        #[cfg(feature = "mutants")]
        static SELECTED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

        /// Breaks one rule for the whole process from now on, of this crate or of the metadata it replays. The shell
        /// calls it once, before anything else. False when this build has none of that name.
        #[cfg(feature = "mutants")]
        #[must_use]
        pub fn select(name: &str) -> bool {
            let place = Mutant::ALL.iter().position(|mutant| mutant.name() == name);
            SELECTED.store(place.map_or(0, |at| at + 1), std::sync::atomic::Ordering::Relaxed);
            place.is_some() || $crate::mutants::select(name)
        }

        /// Keeps every rule again.
        #[cfg(feature = "mutants")]
        pub fn deselect() {
            SELECTED.store(0, std::sync::atomic::Ordering::Relaxed);
        }

        /// Whether a rule is to be broken.
        #[must_use]
        pub(crate) fn is_selected(mutant: Mutant) -> bool {
            #[cfg(feature = "mutants")]
            return SELECTED.load(std::sync::atomic::Ordering::Relaxed) == mutant as usize + 1;
            #[cfg(not(feature = "mutants"))]
            {
                let _ = mutant;
                false
            }
        }
    };
}
