//! Bytes that are no messages: they are refused without a panic and without more memory than they are worth.

use bytes::Bytes;
use proptest::prelude::*;
use wire::{ApiVersion, DecodeReason, Message, Reader, RequestHeader};

use crate::dice::Dice;
use crate::ledger::peak_of;
use crate::samples;
use crate::schema::Api;

/// Messages per API, version and direction.
const SAMPLES: u64 = 12;

/// The most memory that one byte of input may cost: a struct of a few empty fields is far larger in memory.
const COST_MAX: usize = 160;
/// What a message of no bytes may cost, such as an error.
const COST_BASE: usize = 4096;

/// Lengths that lie, in both notations.
const LIES: [&[u8]; 8] = [
    &[0x7f, 0xff, 0xff, 0xff],
    &[0x80, 0, 0, 0],
    &[0xff, 0xff, 0xff, 0xff],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0x07],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
    &[0, 0, 0xff, 0xff],
    &[0x7f, 0xff],
];

/// What came of the attempts.
#[derive(Default)]
struct Tally {
    read: usize,
    refused: usize,
}

impl Tally {
    fn attempt<M: Message>(&mut self, version: i16, bytes: Vec<u8>) {
        let size = bytes.len();
        let mut reader = Reader::new(Bytes::from(bytes));
        let (result, peak) = peak_of(|| M::decode(ApiVersion(version), &mut reader));
        let most = COST_BASE + COST_MAX * size;
        assert!(
            peak <= most,
            "{} v{version}: {peak} bytes of memory for {size} bytes",
            M::NAME
        );
        match result {
            Ok(_) => self.read += 1,
            Err(_) => self.refused += 1,
        }
    }

    /// A valid message, damaged in every way.
    fn damage<M: Message>(&mut self, message: &crate::schema::Message) {
        for version in message.versions.first..=message.versions.last {
            for seed in 0..SAMPLES {
                let mut dice = Dice::new(seed ^ 0xbad);
                let valid = samples::body(message, version, &mut dice);
                self.attempt::<M>(version, valid[..dice.below(valid.len() + 1)].to_vec());
                self.attempt::<M>(version, flipped(&valid, &mut dice));
                self.attempt::<M>(version, with_a_lie(&valid, &mut dice));
                let size = dice.below(200);
                self.attempt::<M>(version, dice.bytes(size));
                let size = dice.below(3000);
                self.attempt::<M>(version, vec![dice.below(4) as u8; size]);
            }
        }
    }
}

fn flipped(valid: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = valid.to_vec();
    for _ in 0..1 + dice.below(3) {
        if !bytes.is_empty() {
            let at = dice.below(bytes.len());
            bytes[at] ^= 1 << dice.below(8);
        }
    }
    bytes
}

fn with_a_lie(valid: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = valid.to_vec();
    let at = dice.below(bytes.len() + 1);
    let lie = LIES[dice.below(LIES.len())];
    let end = (at + lie.len()).min(bytes.len());
    bytes.splice(at..end, lie.iter().copied());
    bytes
}

fn damage_all(apis: &[Api], tally: &mut Tally) {
    let find = |name: &str| apis.iter().find(|api| api.name == name).unwrap();
    macro_rules! damage {
        ($name:ident, $request:path, $response:path) => {
            tally.damage::<$request>(&find(stringify!($name)).request);
            tally.damage::<$response>(&find(stringify!($name)).response);
        };
    }
    wire::for_each_api!(damage);
}

#[test]
fn damaged_messages_cost_no_panic_and_little_memory_in_every_version() {
    let mut tally = Tally::default();
    damage_all(&samples::apis(), &mut tally);
    assert!(
        tally.read > 2_000,
        "only {} of the damaged messages could still be read",
        tally.read
    );
    assert!(tally.refused > 10_000, "only {} were refused", tally.refused);
}

/// Decodes as whatever the header says, as a broker would.
fn receive(frame: Bytes) {
    let mut reader = Reader::new(frame);
    let Ok(header) = RequestHeader::decode(&mut reader) else {
        return;
    };
    let before = reader;
    macro_rules! decode {
        ($name:ident, $request:path, $response:path) => {
            if header.api_key == wire::ApiKey::$name {
                let _ = <$request>::decode(header.api_version, &mut before.clone());
                let _ = <$response>::decode(header.api_version, &mut before.clone());
            }
        };
    }
    wire::for_each_api!(decode);
}

proptest! {
    #[test]
    fn no_frame_makes_the_decoders_panic(
        key in 0u8..96,
        version in 0u8..20,
        rest in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut frame = vec![0, key, 0, version, 0, 0, 0, 1, 0xff, 0xff, 0];
        frame.extend(rest);
        let size = frame.len();
        let ((), peak) = peak_of(|| receive(Bytes::from(frame)));
        prop_assert!(peak <= COST_BASE + COST_MAX * size, "{peak} bytes of memory for {size}");
    }

    #[test]
    fn no_bytes_make_the_header_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        let _ = RequestHeader::decode(&mut Reader::new(Bytes::from(bytes)));
    }
}

#[test]
fn the_bodies_that_abort_a_careless_decoder_are_refused_cheaply() {
    // An array of 2^31 - 1 elements in Metadata v1, Fetch v4 and Produce v9.
    let mut tally = Tally::default();
    tally.attempt::<wire::messages::MetadataRequest>(1, vec![0x7f, 0xff, 0xff, 0xff]);
    let mut fetch = vec![0; 17];
    fetch.extend([0x7f, 0xff, 0xff, 0xff]);
    tally.attempt::<wire::messages::FetchRequest>(4, fetch);
    let produce = vec![0, 0, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x07];
    tally.attempt::<wire::messages::ProduceRequest>(9, produce);
    assert_eq!((tally.read, tally.refused), (0, 3));
}

#[test]
fn a_frame_full_of_empty_elements_is_refused_before_it_fills_the_memory() {
    // Four million topics without a name, 2 bytes each on the wire and some twenty times that in memory.
    let count = 4 << 20;
    let mut bytes = (count as u32).to_be_bytes().to_vec();
    bytes.resize(bytes.len() + 2 * count, 0);
    let mut reader = Reader::new(Bytes::from(bytes));

    let (result, peak) = peak_of(|| wire::messages::MetadataRequest::decode(ApiVersion(0), &mut reader));

    assert!(matches!(
        result.unwrap_err().reason,
        DecodeReason::OverBudget { .. }
    ));
    assert!(peak < COST_BASE, "{peak}");
}
