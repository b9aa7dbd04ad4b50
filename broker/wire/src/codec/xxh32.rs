//! XXH32 with seed 0, the checksum inside LZ4 frames.

const PRIMES: [u32; 5] = [0x9e37_79b1, 0x85eb_ca77, 0xc2b2_ae3d, 0x27d4_eb2f, 0x1656_67b1];

/// The hash of some bytes.
pub(super) fn hash(bytes: &[u8]) -> u32 {
    let [p1, p2, p3, p4, p5] = PRIMES;
    let (stripes, tail) = bytes.as_chunks::<16>();
    let mut hash = if stripes.is_empty() {
        p5
    } else {
        let mut lanes = [p1.wrapping_add(p2), p2, 0, 0u32.wrapping_sub(p1)];
        for stripe in stripes {
            for (lane, word) in lanes.iter_mut().zip(stripe.as_chunks::<4>().0) {
                let mixed = lane.wrapping_add(u32::from_le_bytes(*word).wrapping_mul(p2));
                *lane = mixed.rotate_left(13).wrapping_mul(p1);
            }
        }
        let [a, b, c, d] = lanes;
        let (a, b, c, d) = (
            a.rotate_left(1),
            b.rotate_left(7),
            c.rotate_left(12),
            d.rotate_left(18),
        );
        a.wrapping_add(b).wrapping_add(c).wrapping_add(d)
    };
    hash = hash.wrapping_add(bytes.len() as u32);
    let (words, tail) = tail.as_chunks::<4>();
    for word in words {
        hash = hash.wrapping_add(u32::from_le_bytes(*word).wrapping_mul(p3));
        hash = hash.rotate_left(17).wrapping_mul(p4);
    }
    for byte in tail {
        hash = hash.wrapping_add(u32::from(*byte).wrapping_mul(p5));
        hash = hash.rotate_left(11).wrapping_mul(p1);
    }
    hash = (hash ^ (hash >> 15)).wrapping_mul(p2);
    hash = (hash ^ (hash >> 13)).wrapping_mul(p3);
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hashes_are_the_published_ones() {
        assert_eq!(hash(b""), 0x02cc_5d05);
        assert_eq!(hash(b"a"), 0x550d_7456);
        assert_eq!(hash(b"abc"), 0x32d1_53ff);
        assert_eq!(hash(b"Nobody inspects the spammish repetition"), 0xe229_3b2f);
    }
}
