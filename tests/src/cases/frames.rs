//! Frames that no client sends: BC-075, BC-149, BC-150; connections that stay silent or want too much: BC-153.

use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use super::expect;
use crate::ask;
use crate::cluster::{Cluster, NodeId};
use crate::raw::bytes::{Reader, Writer};
use crate::raw::requests::{api_versions, code};
use crate::raw::{Answer, Connection};

/// How much the memory of a broker may grow under hostile frames.
const GROWTH_BYTES_MAX: u64 = 16 << 20;

/// A request frame with header version 1 and no client id.
fn frame(api: i16, version: i16, body: &[u8]) -> Vec<u8> {
    let mut request = Writer::new();
    request.i16(api).i16(version).i32(1).i16(-1).raw(body);
    let mut framed = Writer::new();
    framed.sized(request.bytes());
    framed.bytes().to_vec()
}

fn answer_to(address: &str, bytes: &[u8]) -> Result<Answer> {
    let mut connection = Connection::open(address)?;
    connection.send_bytes(bytes)?;
    connection.answer()
}

/// BC-075: ApiVersions with a version from the future, a bad client name, and unknown keys and versions.
pub fn future_versions(cluster: &Cluster) -> Result<String> {
    let address = cluster.address(cluster.brokers()[0])?;
    let mut connection = Connection::open(&address)?;
    connection.send_bytes(&frame(18, 99, b"\0unknown"))?;
    let Answer::Frame(future) = connection.answer()? else {
        bail!("ApiVersions v99 was not answered")
    };
    let (error, keys) = api_versions(&future[4..])?;
    expect("ApiVersions v99", error, &[code::UNSUPPORTED_VERSION])?;
    ensure!(
        keys.iter().any(|(key, low, high)| *key == 18 && low <= high),
        "it does not list key 18: {keys:?}"
    );
    // The header of version 3 has tagged fields, and its body begins with two compact strings: here empty ones.
    connection.send_bytes(&frame(18, 3, b"\0\x01\x01\0"))?;
    let Answer::Frame(unnamed) = connection.answer()? else {
        bail!("an empty client name was not answered")
    };
    expect(
        "an empty client name",
        Reader::new(&unnamed[4..]).i16()?,
        &[code::INVALID_REQUEST],
    )?;
    let again = Connection::open(&address)?.api_versions()?;
    expect("ApiVersions v0", again.0, &[code::NONE])?;
    for (what, bytes) in [
        ("Metadata v99", frame(3, 99, b"")),
        ("API key 9999", frame(9999, 0, b"")),
    ] {
        let got = answer_to(&address, &bytes)?;
        ensure!(
            got == Answer::Closed,
            "{what}: {got:?} instead of a closed connection"
        );
    }
    ask::brokers(&address)?;
    Ok(format!(
        "v0 answer with {} keys and error 35; unknown ones closed",
        keys.len()
    ))
}

/// BC-149: 18 bytes that ask for 54 million topics.
pub fn huge_counts(cluster: &Cluster) -> Result<String> {
    let id = cluster.brokers()[0];
    let address = cluster.address(id)?;
    let ask_for_many = |connection: &mut Connection| -> Result<Answer> {
        connection.send_bytes(b"\0\0\0\x0e\0\x03\0\0\0\0\0\x01\xff\xff\x03\x3c\x0c\0")?;
        connection.answer()
    };
    ask_for_many(&mut Connection::open(&address)?)?;
    let before = cluster.figures(id)?.resident_bytes;
    let mut closed = 0;
    for _ in 0..1000 {
        match ask_for_many(&mut Connection::open(&address)?)? {
            Answer::Closed => closed += 1,
            Answer::Frame(_) => {}
            Answer::Silence => bail!("silence"),
        }
    }
    let grown = cluster.figures(id)?.resident_bytes.saturating_sub(before);
    ensure!(grown < GROWTH_BYTES_MAX, "memory grew by {} MiB", grown >> 20);
    ask::brokers(&address)?;
    Ok(format!("{closed} of 1000 closed, memory +{} KiB", grown >> 10))
}

/// Every array, string and byte count of many requests set to absurd values: the largest number, −2, one too
/// many. Each frame must be answered or closed, and never cost memory.
pub fn absurd_lengths(cluster: &Cluster) -> Result<String> {
    let id = cluster.brokers()[0];
    let address = cluster.address(id)?;
    let (_, keys) = Connection::open(&address)?.api_versions()?;
    let before = cluster.figures(id)?.resident_bytes;
    let mut frames = 0;
    for (api, low, high) in keys {
        for version in low..=high {
            for body in absurd_bodies() {
                let mut connection = Connection::open(&address)?;
                connection.answers_within(Duration::from_millis(300))?;
                connection.send_bytes(&frame(api, version, &body))?;
                // Some bodies are valid requests that wait; what counts is that the broker lives and stays small.
                connection.answer()?;
                frames += 1;
            }
        }
    }
    let grown = cluster.figures(id)?.resident_bytes.saturating_sub(before);
    ensure!(
        grown < GROWTH_BYTES_MAX,
        "memory grew by {} MiB over {frames} frames",
        grown >> 20
    );
    ask::brokers(&address)?;
    Ok(format!("{frames} frames, memory +{} KiB", grown >> 10))
}

fn absurd_bodies() -> Vec<Vec<u8>> {
    let large = 0x7fff_ffff_i32.to_be_bytes();
    let mut bodies = vec![Vec::new(), large.to_vec(), (-2_i32).to_be_bytes().to_vec()];
    bodies.push([&[0xff, 0xff, 0xff, 0xff, 0x0f][..], &[0; 3]].concat());
    bodies.push([&[0, 0xff, 0xff, 0xff, 0xff, 0x0f][..], &[0; 3]].concat());
    bodies.push([&[0x7f, 0xff][..], b"short"].concat());
    bodies.push([&[0xff, 0xff, 0, 1, 0, 0, 0x27, 0x10][..], &large].concat());
    bodies.push(vec![0xff; 64]);
    bodies.push(vec![0; 64]);
    bodies.push(vec![1; 64]);
    bodies
}

/// BC-150: lengths that a frame may not have, and protocols that are not Kafka's; one at a time, and many at once.
pub fn bad_lengths(cluster: &Cluster) -> Result<String> {
    let address = cluster.address(cluster.brokers()[0])?;
    let hostile: [(&str, &[u8]); 8] = [
        ("2 GiB", &[0x7f, 0xff, 0xff, 0xff]),
        ("a negative length", &[0xff, 0xff, 0xff, 0xff]),
        ("one byte over the limit", &[0x06, 0x40, 0, 1]),
        ("four zero bytes", &[0, 0, 0, 0]),
        ("length 3 and 3 bytes", &[0, 0, 0, 3, 1, 2, 3]),
        ("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        (
            "TLS",
            &[0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03],
        ),
        ("SSH", b"SSH-2.0-OpenSSH_9.2\r\n"),
    ];
    for (what, bytes) in &hostile {
        let got = answer_to(&address, bytes)?;
        ensure!(
            got == Answer::Closed,
            "{what}: {got:?} instead of a closed connection"
        );
    }
    let mut all = Vec::new();
    for (_, bytes) in hostile.iter().cycle().take(AT_ONCE) {
        let mut connection = Connection::open(&address)?;
        connection.send_bytes(bytes)?;
        all.push(connection);
    }
    for mut connection in all {
        let got = connection.answer()?;
        ensure!(got == Answer::Closed, "{got:?} instead of a closed connection");
    }
    ask::brokers(&address)?;
    Ok(format!(
        "{} kinds closed at once, and {AT_ONCE} together",
        hostile.len()
    ))
}

/// Hostile connections at one moment.
const AT_ONCE: usize = 500;

/// BC-153: connections that announce much and send nothing, more of them than one address may have, and one that asks for
/// more than it can be answered. The cluster must have `max.connections.per.ip` and `connections.max.idle.ms` set so.
pub fn greedy_connections(cluster: &Cluster, by_address: usize, idle: Duration) -> Result<String> {
    let id: NodeId = cluster.brokers()[0];
    let address = cluster.address(id)?;
    let mut first = Connection::open(&address)?;
    first.api_versions()?;
    let before = cluster.figures(id)?.resident_bytes;
    let mut greedy = Vec::new();
    for _ in 1..by_address {
        let mut connection = Connection::open(&address)?;
        connection.send_bytes(&[0x06, 0x40, 0, 0, 1])?;
        greedy.push(connection);
    }
    // Connections are taken in the order in which they come: these are one too many, each.
    for _ in 0..by_address {
        let mut surplus = Connection::open(&address)?;
        surplus.answers_within(idle / 2)?;
        // It may be closed before it has said anything.
        let _ = surplus.send_bytes(&[0]);
        let got = surplus.answer()?;
        ensure!(got == Answer::Closed, "{got:?} for one too many");
    }
    let fetch = waiting_fetch();
    for _ in 0..PIPELINED {
        first.send(1, 4, &fetch)?;
    }
    let grown = cluster.figures(id)?.resident_bytes.saturating_sub(before);
    ensure!(grown < GROWTH_BYTES_MAX, "memory grew by {} MiB", grown >> 20);
    for mut connection in greedy {
        connection.answers_within(idle * 4)?;
        let got = connection.answer()?;
        ensure!(got == Answer::Closed, "{got:?} after {idle:?} of silence");
    }
    drop(first);
    crate::wait::until("others are served", idle * 4, || ask::brokers(&address))?;
    Ok(format!(
        "{by_address} of {} let in, closed when idle; memory +{} KiB",
        2 * by_address,
        grown >> 10
    ))
}

/// Requests sent without waiting for an answer.
const PIPELINED: usize = 2_000;

/// The body of a Fetch v4 of nothing, which waits for half a minute.
fn waiting_fetch() -> Vec<u8> {
    let mut body = Writer::new();
    body.i32(-1).i32(30_000).i32(1).i32(1 << 20).i8(0).count(0);
    body.bytes().to_vec()
}

/// So many connections that say nothing, half of a length, or half of a frame, while others are served.
pub fn idle_connections(cluster: &Cluster, count: usize) -> Result<String> {
    let id: NodeId = cluster.brokers()[0];
    let address = cluster.address(id)?;
    let before = cluster.figures(id)?;
    let mut silent = Vec::new();
    for index in 0..count {
        let mut stream = TcpStream::connect(&address)?;
        let part: &[u8] = match index % 3 {
            0 => b"",
            1 => b"\0\0",
            _ => b"\0\0\x10\0\0\x03",
        };
        std::io::Write::write_all(&mut stream, part)?;
        silent.push(stream);
    }
    ask::brokers(&address)?;
    let during = cluster.figures(id)?;
    let each = during.resident_bytes.saturating_sub(before.resident_bytes) / u64::try_from(count.max(1))?;
    ensure!(
        during.threads <= before.threads + 8,
        "{} threads before, {} now",
        before.threads,
        during.threads
    );
    ensure!(each < 32 << 10, "{each} bytes of memory for each idle connection");
    drop(silent);
    crate::wait::until("the descriptors are given back", Duration::from_secs(20), || {
        let now = cluster.figures(id)?.descriptors;
        ensure!(
            now <= before.descriptors + 16,
            "{now} descriptors, {} before",
            before.descriptors
        );
        Ok(())
    })?;
    Ok(format!("{count} silent connections, {each} bytes each"))
}
