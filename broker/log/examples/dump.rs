//! Prints segment files as Kafka's dump tool does: `dump [--batches|--records|--contents] FILE…`.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use host::OsDisk;
use partition_log::dump::{Detail, dump_segment};

fn main() -> io::Result<()> {
    let mut detail = Detail::Records;
    let mut out = BufWriter::new(io::stdout().lock());
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--batches" => detail = Detail::Batches,
            "--records" => detail = Detail::Records,
            "--contents" => detail = Detail::Contents,
            path => {
                dump_segment(&OsDisk, Path::new(path), detail, &mut out)?;
            }
        }
    }
    out.flush()
}
