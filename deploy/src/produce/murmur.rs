//! The hash by which Kafka's own producer chooses the partition of a key, so that a key lies where it would with any
//! other client of the default partitioner.

const SEED: u32 = 0x9747_b28c;
const M: u32 = 0x5bd1_e995;

/// MurmurHash2, 32 bits, with Kafka's seed.
pub fn murmur2(bytes: &[u8]) -> u32 {
    // The length enters modulo 2³², as it does there.
    let mut hash = SEED ^ (bytes.len() as u32);
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    for (place, byte) in rest.iter().enumerate().rev() {
        hash ^= u32::from(*byte) << (8 * place);
    }
    if !rest.is_empty() {
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// The partition of a key among `count`, which are numbered from 0.
pub fn partition_of(key: &[u8], count: usize) -> usize {
    assert!(0 < count, "a topic has partitions");
    (murmur2(key) & 0x7fff_ffff) as usize % count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_kafkas_producer() {
        let known: [(&str, i32); 4] = [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("abc", 479_470_107),
        ];
        for (key, hash) in known {
            assert_eq!(murmur2(key.as_bytes()) as i32, hash, "{key}");
        }
    }
}
