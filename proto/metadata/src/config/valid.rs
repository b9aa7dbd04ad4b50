//! Which values of a type a key allows, read from the notation of the tables.

use super::decimal::Decimal;
use super::value::{Value, ValueType};

/// The values that a key allows beside being of its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Valid {
    /// Everything of the type.
    Any,
    /// Whole numbers from `low` to `high`, both allowed, or the number `also`.
    Integers {
        /// The smallest.
        low: i64,
        /// The largest, if there is one.
        high: Option<i64>,
        /// One more outside the range.
        also: Option<i64>,
    },
    /// Numbers from `low` to `high`, both allowed.
    Doubles {
        /// The smallest.
        low: Decimal,
        /// The largest.
        high: Decimal,
    },
    /// One of these words.
    Words {
        /// The words.
        words: Vec<&'static str>,
        /// How they are compared.
        case: Case,
    },
    /// A list whose entries are not empty; of these words, if there are any.
    Items {
        /// The words; none means any.
        words: Vec<&'static str>,
        /// How many entries there are at least.
        fewest: usize,
    },
    /// A text that is not empty.
    Filled,
    /// `*`, or `partition:broker` pairs.
    Replicas,
}

/// How words are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// Letter by letter.
    Exact,
    /// Small and capital letters alike.
    Ignored,
}

impl Valid {
    /// What the notation of the tables says for a value of this type; `None` if it says nothing known.
    pub(super) fn read(notation: &'static str, value_type: ValueType) -> Option<Self> {
        if notation.starts_with("[partitionId]") {
            return Some(Self::Replicas);
        }
        if let Some((range, rest)) = notation.strip_prefix('[').and_then(|rest| rest.split_once(']'))
            && range.contains("...")
        {
            return Self::read_range(range, rest.trim(), value_type);
        }
        let case = if notation.starts_with("(case insensitive)") {
            Case::Ignored
        } else {
            Case::Exact
        };
        let notation = notation.trim_start_matches("(case insensitive)").trim();
        let (words, rest) = match notation.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((words, rest)) => (words.split(',').map(str::trim).collect(), rest.trim()),
            None => (Vec::new(), notation),
        };
        Some(match (value_type, rest) {
            (ValueType::List, "no-duplicates" | "-") => Self::Items { words, fewest: 0 },
            (ValueType::List, "non-empty no-duplicates" | "non-empty list") => {
                Self::Items { words, fewest: 1 }
            }
            (ValueType::Text, "non-empty string") => Self::Filled,
            (_, "") if !words.is_empty() => Self::Words { words, case },
            (_, "-" | "non-null string") => Self::Any,
            _ => return None,
        })
    }

    fn read_range(range: &'static str, rest: &str, value_type: ValueType) -> Option<Self> {
        let (low, high) = range.split_once(",...")?;
        let high = high.strip_prefix(',');
        if value_type == ValueType::Double {
            return Some(Self::Doubles {
                low: Decimal::parse(low)?,
                high: Decimal::parse(high?)?,
            });
        }
        let also = match rest.strip_prefix("or ") {
            Some(number) => Some(number.parse().ok()?),
            None => None,
        };
        let high = match high {
            Some(number) => Some(number.parse().ok()?),
            None => None,
        };
        Some(Self::Integers {
            low: low.parse().ok()?,
            high,
            also,
        })
    }

    /// Whether this value is allowed. A default of nothing always is, so absence is not asked about.
    pub fn allows(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Any, _) | (_, Value::Absent) => true,
            (Self::Integers { low, high, also }, Value::Integer(number)) => {
                *also == Some(*number) || (low <= number && high.is_none_or(|high| *number <= high))
            }
            (Self::Doubles { low, high }, Value::Double(number)) => low <= number && number <= high,
            (
                Self::Words {
                    words,
                    case: Case::Exact,
                },
                Value::Text(text),
            ) => words.contains(&text.as_str()),
            (
                Self::Words {
                    words,
                    case: Case::Ignored,
                },
                Value::Text(text),
            ) => words.iter().any(|word| word.eq_ignore_ascii_case(text)),
            (Self::Items { words, fewest }, Value::List(items)) => {
                *fewest <= items.len()
                    && items
                        .iter()
                        .all(|item| !item.is_empty() && (words.is_empty() || words.contains(&item.as_str())))
            }
            (Self::Filled, Value::Text(text)) => !text.is_empty(),
            (Self::Replicas, Value::List(items)) => {
                items.is_empty() || *items == ["*"] || items.iter().all(|item| is_replica(item))
            }
            _ => false,
        }
    }

    /// What is allowed, as the end of a sentence.
    pub fn sentence(&self, value_type: ValueType) -> String {
        match self {
            Self::Any => value_type.article().to_owned(),
            Self::Integers { low, high, also } => {
                let range = match high {
                    Some(high) => format!("a whole number from {low} to {high}"),
                    None => format!("a whole number of {low} or more"),
                };
                also.map_or(range.clone(), |also| format!("{range}, or {also}"))
            }
            Self::Doubles { low, high } => format!("a number from {} to {}", low.text(), high.text()),
            Self::Words { words, .. } => format!("one of {}", words.join(", ")),
            Self::Items { words, fewest } => {
                let of = if words.is_empty() {
                    String::new()
                } else {
                    format!(" of {}", words.join(", "))
                };
                let many = if *fewest == 0 {
                    "a list"
                } else {
                    "a list of at least one"
                };
                format!("{many}{of}, without empty entries")
            }
            Self::Filled => "a text that is not empty".to_owned(),
            Self::Replicas => "* or a list of partition:broker".to_owned(),
        }
    }
}

fn is_replica(item: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    item.split_once(':')
        .is_some_and(|(partition, broker)| digits(partition) && digits(broker))
}
