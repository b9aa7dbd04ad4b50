//! Planted defects. A check that cannot fail is a defect itself, so each important check is also run once against a
//! broker that breaks the rule it guards. Without the cargo feature `mutants` nothing can be selected and the
//! questions are constants.

metadata::planted_faults! {
    /// The watermark moves although the in-sync set is below its minimum (breaks F-35).
    WatermarkIgnoresMinIsr = "watermark_ignores_min_isr",
    /// A diverging follower keeps one record too many (breaks F-23).
    TruncateOneTooFew = "truncate_one_too_few",
    /// A follower below the watermark joins the in-sync set (breaks F-31).
    IsrExpandedBelowWatermark = "isr_expanded_below_watermark",
    /// A request behind a Produce starts before that is answered (breaks the ruling on A-12).
    BarrierMissingInPipeline = "barrier_missing_in_pipeline",
    /// A new process acts on images from before its registration (breaks R1.10).
    PublishedBeforeRegistration = "published_before_registration",
    /// The fastest lane's offset is told as applied (breaks R1.11).
    AppliedReportedEarly = "applied_reported_early",
    /// The first half of a batch is published before the rest of it (breaks R5.50).
    ImagePublishedMidBatch = "image_published_mid_batch",
    /// A diverging follower cuts where the leader's epoch ends, even when its own history has another one there (breaks
    /// F-23).
    TruncateToWrongEpoch = "truncate_to_wrong_epoch",
    /// A Produce with acks=all is answered once the leader has appended it (breaks F-41).
    AcknowledgedBeforeReplicated = "acknowledged_before_replicated",
    /// Consumers see what is not committed yet (breaks F-7).
    ReadPastWatermark = "read_past_watermark",
    /// A new group coordinator reads its log only up to its watermark (breaks BC-005).
    OffsetsLoadedToWatermark = "offsets_loaded_to_watermark",
    /// A new group coordinator passes over the committed offsets in its log (breaks BC-005).
    OffsetsNotLoaded = "offsets_not_loaded",
}
