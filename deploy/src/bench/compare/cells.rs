//! The eight cells that are compared, by name.

/// How hard a cluster is driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drive {
    /// As many records as it takes, then read back.
    Full,
    /// Half of what Apache Kafka took at full load, as an open loop, read as it comes.
    Half,
}

/// One comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// What it is called.
    pub name: &'static str,
    /// Replicas, and so brokers and controllers.
    pub replicas: u8,
    /// Bytes of a value.
    pub record_size: usize,
    /// How hard.
    pub drive: Drive,
}

const fn cell(name: &'static str, replicas: u8, record_size: usize, drive: Drive) -> Cell {
    Cell {
        name,
        replicas,
        record_size,
        drive,
    }
}

/// All of them. Names that begin alike stand together.
pub const CELLS: [Cell; 8] = [
    cell("rf1-100b-full", 1, 100, Drive::Full),
    cell("rf1-100b-half", 1, 100, Drive::Half),
    cell("rf1-1k-full", 1, 1024, Drive::Full),
    cell("rf1-1k-half", 1, 1024, Drive::Half),
    cell("rf3-100b-full", 3, 100, Drive::Full),
    cell("rf3-100b-half", 3, 100, Drive::Half),
    cell("rf3-1k-full", 3, 1024, Drive::Full),
    cell("rf3-1k-half", 3, 1024, Drive::Half),
];

/// The cells whose names begin so.
///
/// # Errors
/// A sentence with all names, where none does.
pub fn named(text: &str) -> Result<&'static [Cell], String> {
    const ALL: &[Cell] = &CELLS;
    let fits = |cell: &Cell| cell.name.starts_with(text);
    let first = ALL.iter().position(fits);
    let count = ALL.iter().filter(|cell| fits(cell)).count();
    first.map(|first| &ALL[first..first + count]).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|cell| cell.name).collect();
        format!("one of {}, or how several of them begin", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    #[test]
    fn cells_are_chosen_by_how_their_names_begin() {
        assert_eq!(named("rf3-1k-half").unwrap(), &CELLS[7..]);
        assert_eq!(named("rf1").unwrap(), &CELLS[..4]);
        assert_eq!(named("rf1-100b").unwrap().len(), 2);
        assert!(named("rf2").is_err());
    }
}
