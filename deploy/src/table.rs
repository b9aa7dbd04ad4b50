//! Rows of text in columns that line up.

use std::fmt::Display;

/// The rows under their heading, two blanks between columns, nothing behind the last.
pub fn table(heading: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let heading: Vec<String> = heading.iter().map(|cell| (*cell).to_owned()).collect();
    let all: Vec<&Vec<String>> = std::iter::once(&heading).chain(rows).collect();
    let width = |column: usize| {
        all.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    all.into_iter().map(line).collect()
}

/// Numbers with commas between them; a dash for none.
pub fn numbers(list: &[i32]) -> String {
    if list.is_empty() {
        return "-".to_owned();
    }
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// So many of something, in words: `1 partition`, `2 partitions`.
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, what: &str) -> String {
    let plural = if count == N::from(1) { "" } else { "s" };
    format!("{count} {what}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_nothing_hangs_behind() {
        let rows = [
            vec!["1".to_owned(), "long cell".to_owned()],
            vec!["12345".to_owned(), String::new()],
        ];
        assert_eq!(
            table(&["id", "what"], &rows),
            ["id     what", "1      long cell", "12345"]
        );
    }

    #[test]
    fn no_numbers_are_a_dash() {
        assert_eq!(
            (numbers(&[]), numbers(&[3, 1])),
            ("-".to_owned(), "3,1".to_owned())
        );
    }

    #[test]
    fn one_is_not_many() {
        let texts = [0_usize, 1, 2].map(|count| counted(count, "partition"));
        assert_eq!(texts, ["0 partitions", "1 partition", "2 partitions"]);
    }
}
