//! What a probe and a scraper see of a node.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// An answer of the endpoint.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: String,
    /// From the question to the last byte.
    pub took: Duration,
}

/// Asks for `path` at `address`.
pub fn get(address: &str, path: &str) -> Result<Answer> {
    let began = Instant::now();
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: node\r\nconnection: close\r\n\r\n"
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").context("an answer without a body")?;
    let status = head.split(' ').nth(1).context("an answer without a status")?;
    Ok(Answer {
        status: status.parse()?,
        body: body.to_owned(),
        took: began.elapsed(),
    })
}

/// The value of one series of a scrape.
pub fn value(scrape: &str, series: &str) -> Result<f64> {
    let found = scrape
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    Ok(found.with_context(|| format!("no {series}"))?.parse()?)
}

/// How many series a scrape has.
pub fn series(scrape: &str) -> usize {
    let lines = scrape.lines().filter(|line| !line.is_empty());
    lines.filter(|line| !line.starts_with('#')).count()
}

/// Everything that is counted, from a node that is scraped as Prometheus does it.
pub fn scrape(address: &str) -> Result<Answer> {
    let answer = get(address, "/metrics")?;
    ensure!(answer.status == 200, "{}: {}", answer.status, answer.body);
    Ok(answer)
}

/// Whether a node says that it serves; what it says if not.
pub fn ready(address: &str) -> Result<()> {
    let answer = get(address, "/readyz")?;
    ensure!(
        answer.status == 200,
        "{}: {}",
        answer.status,
        answer.body.trim_end()
    );
    Ok(())
}
