//! Laws that a planted fault must break. With the cargo feature `mutants`, `MILLRACE_MUTANT` names the fault.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use metadata::batch::{MetadataBatch, Provenance};
use metadata::ids::{MetadataOffset, Term};
use metadata::image::Image;
use metadata::record::Record;
use metadata::replay::Application;

/// Plants the fault that the environment names, if any.
fn plant() {
    #[cfg(feature = "mutants")]
    if let Ok(name) = std::env::var("MILLRACE_MUTANT") {
        assert!(metadata::mutants::select(&name), "there is no mutant {name}");
    }
}

fn batch(term: u64, base_offset: i64) -> MetadataBatch {
    MetadataBatch {
        decided_in_term: Term(term),
        base_offset: MetadataOffset(base_offset),
        provenance: Provenance::default(),
        records: vec![Record::NoOp],
    }
}

/// A leader of term 1 decided two batches, one on the other, and lost its term when only the second was accepted by
/// its successor's log. Applied all the same, it would stand on a state that never was.
#[test]
fn a_batch_never_applies_without_the_one_that_it_was_decided_on() {
    plant();
    let mut image = Image::default();
    assert!(matches!(
        image.apply(&batch(1, 0), Term(1)).unwrap(),
        Application::Applied
    ));
    let before = image.clone();

    let orphan = image.apply(&batch(1, 2), Term(1)).unwrap();
    let deposed = image.apply(&batch(1, 1), Term(2)).unwrap();

    assert!(matches!(orphan, Application::Skipped(_)), "{orphan:?}");
    assert!(matches!(deposed, Application::Skipped(_)), "{deposed:?}");
    assert_eq!(image, before);
}
