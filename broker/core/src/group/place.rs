//! Which partition of an internal topic a key belongs to.

/// The partition of `key` among `count`: Java's `String.hashCode` over UTF-16 units, its absolute value, the rest.
/// Nothing if there are no partitions.
#[must_use]
pub fn partition_of(key: &str, count: i32) -> Option<i32> {
    let hash = key.encode_utf16().fold(0i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    });
    // Java has no absolute value of the least number; Kafka takes 0 for it.
    hash.checked_abs()
        .unwrap_or(0)
        .checked_rem(count)
        .filter(|_| 0 < count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_javas_hash() {
        for (key, hash) in [
            ("", 0),
            ("a", 97),
            ("Aa", 2112),
            ("BB", 2112),
            ("group-1", 293_427_299),
            ("grüße", 98_768_023),
        ] {
            assert_eq!(partition_of(key, i32::MAX), Some(hash), "{key}");
        }
        assert_eq!(
            partition_of("polygenelubricants", 50),
            Some(0),
            "the least number"
        );
        assert_eq!(partition_of("a", 0), None);
    }
}
