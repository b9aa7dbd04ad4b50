//! The numbers of a partition log, each with its own type.
//!
//! Must not: hold a sentinel. What Kafka writes as −1 is `None` here; only the file formats know better.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// The place of a record in its partition. Never negative in a log; a request may ask for anything.
    Offset(i64)
);
number!(
    /// How often the partition's leadership was decided.
    LeaderEpoch(i32)
);
number!(
    /// The id that a producer got from its cluster.
    ProducerId(i64)
);
number!(
    /// Which incarnation of a producer id wrote.
    ProducerEpoch(i16)
);
number!(
    /// Which incarnation of the transaction coordinator wrote a marker.
    CoordinatorEpoch(i32)
);

impl Offset {
    /// The offset of an empty log's first record.
    pub const ZERO: Offset = Offset(0);

    /// The offset behind this one.
    pub fn next(self) -> Offset {
        Offset(self.0.saturating_add(1))
    }
}

/// The id of a topic: 16 bytes, the same on every broker, never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(pub [u8; 16]);

/// The id of a log directory, made once and kept in its `meta.properties`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirectoryId(pub [u8; 16]);

/// The id of a broker process: 16 bytes, made anew at each start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IncarnationId(pub [u8; 16]);

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&base64(&self.0))
    }
}

impl fmt::Display for DirectoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&base64(&self.0))
    }
}

impl fmt::Display for IncarnationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&base64(&self.0))
    }
}

impl TopicId {
    /// Reads the 22 characters that [`TopicId`]'s `Display` writes.
    pub fn parse(text: &str) -> Option<TopicId> {
        unbase64(text).map(TopicId)
    }
}

impl DirectoryId {
    /// Reads the 22 characters that [`DirectoryId`]'s `Display` writes.
    pub fn parse(text: &str) -> Option<DirectoryId> {
        unbase64(text).map(DirectoryId)
    }
}

impl IncarnationId {
    /// Reads the 22 characters that [`IncarnationId`]'s `Display` writes.
    pub fn parse(text: &str) -> Option<IncarnationId> {
        unbase64(text).map(IncarnationId)
    }
}

/// A partition by name: `<topic>-<partition>` is its directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic's name.
    pub topic: String,
    /// The partition's number.
    pub partition: i32,
}

impl TopicPartition {
    /// The partition whose directory has this name; `None` for directories that are no partition, such as those
    /// being deleted or set aside.
    pub fn parse(name: &str) -> Option<TopicPartition> {
        let (topic, number) = name.rsplit_once('-')?;
        let partition: i32 = number.parse().ok()?;
        // One spelling only: `orders-007` beside `orders-7` would be one partition in two places.
        let is_canonical = 0 <= partition && number == partition.to_string();
        (!topic.is_empty() && is_canonical).then(|| TopicPartition {
            topic: topic.to_owned(),
            partition,
        })
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Base 64 with the URL alphabet and without padding, as Kafka writes ids.
fn base64(id: &[u8; 16]) -> String {
    let bits = u128::from_be_bytes(*id);
    let digit = |shift: i32| {
        // The last digit has only two bits left, so it is filled up with zeros on the right.
        let six = if 0 <= shift { bits >> shift } else { bits << -shift };
        char::from(ALPHABET[(six & 63) as usize])
    };
    (0..22).map(|place| digit(122 - 6 * place)).collect()
}

fn unbase64(text: &str) -> Option<[u8; 16]> {
    if text.len() != 22 {
        return None;
    }
    let mut bits = 0_u128;
    for (place, byte) in text.bytes().enumerate() {
        let six = ALPHABET.iter().position(|b| *b == byte)? as u128;
        if place < 21 {
            bits = (bits << 6) | six;
        } else {
            if six & 15 != 0 {
                return None;
            }
            bits = (bits << 2) | (six >> 4);
        }
    }
    Some(bits.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_written_as_kafka_writes_them() {
        assert_eq!(TopicId([0; 16]).to_string(), "AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(TopicId([0xff; 16]).to_string(), "_____________________w");
        let id = TopicId(*b"\x01\x23\x45\x67\x89\xab\xcd\xef\xfe\xdc\xba\x98\x76\x54\x32\x10");
        assert_eq!(id.to_string(), "ASNFZ4mrze_-3LqYdlQyEA");
        assert_eq!(TopicId::parse("ASNFZ4mrze_-3LqYdlQyEA"), Some(id));
        assert_eq!(TopicId::parse("ASNFZ4mrze_-3LqYdlQyEB"), None);
        assert_eq!(TopicId::parse("short"), None);
    }

    #[test]
    fn a_partition_directory_is_told_from_others() {
        let orders = TopicPartition {
            topic: "my-orders".into(),
            partition: 12,
        };
        assert_eq!(TopicPartition::parse("my-orders-12"), Some(orders.clone()));
        assert_eq!(orders.to_string(), "my-orders-12");
        for other in [
            "my-orders-12.0a.-delete",
            "orders",
            "-3",
            "a--x",
            "a-",
            "a-12.x-stray",
            "my-orders-012",
            "my-orders-00",
            "my-orders-+12",
            "my-orders-2147483648",
        ] {
            assert_eq!(TopicPartition::parse(other), None, "{other}");
        }
    }
}
