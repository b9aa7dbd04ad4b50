//! Numbers with a fraction, held as their decimal digits: no ratio of a configuration is rounded here, and
//! every node compares them alike.

use std::cmp::Ordering;

/// A decimal number: `0.digits × 10^exponent`, negative or not. Zero has no digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decimal {
    sign: Sign,
    digits: String,
    exponent: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sign {
    Minus,
    Plus,
}

impl Decimal {
    // Java's numbers end near 1.8E308 and lose what is below 1E-323.
    const EXPONENTS: std::ops::RangeInclusive<i32> = -330..=309;

    /// The number that is written: an optional sign, digits with at most one point, and an optional exponent.
    pub fn parse(text: &str) -> Option<Self> {
        let (sign, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (Sign::Minus, rest),
            None => (Sign::Plus, text.strip_prefix('+').unwrap_or(text)),
        };
        let (mantissa, scale) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, scale)) => (mantissa, scale.parse::<i32>().ok()?),
            None => (unsigned, 0),
        };
        let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{part}");
        if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let significant = all.trim_start_matches('0');
        let zeros = i32::try_from(all.len() - significant.len()).ok()?;
        let digits = significant.trim_end_matches('0').to_owned();
        if digits.is_empty() {
            return Some(Self {
                sign: Sign::Plus,
                digits,
                exponent: 0,
            });
        }
        let exponent = i32::try_from(whole.len())
            .ok()?
            .checked_sub(zeros)?
            .checked_add(scale)?;
        Self::EXPONENTS.contains(&exponent).then_some(Self {
            sign,
            digits,
            exponent,
        })
    }

    /// The number as Java prints it: plain between 0.001 and 10,000,000, else with a mantissa and an exponent.
    pub fn text(&self) -> String {
        let sign = if self.sign == Sign::Minus { "-" } else { "" };
        if self.digits.is_empty() {
            return "0.0".to_owned();
        }
        let part = |digits: &str| {
            if digits.is_empty() {
                "0".to_owned()
            } else {
                digits.to_owned()
            }
        };
        match usize::try_from(self.exponent) {
            Ok(whole @ 1..=7) => {
                let padded = format!("{:0<whole$}", self.digits);
                format!("{sign}{}.{}", &padded[..whole], part(&padded[whole..]))
            }
            _ if (-2..=0).contains(&self.exponent) => {
                let zeros = usize::try_from(-self.exponent).expect("not above zero");
                format!("{sign}0.{}{}", "0".repeat(zeros), self.digits)
            }
            _ => format!(
                "{sign}{}.{}E{}",
                &self.digits[..1],
                part(&self.digits[1..]),
                self.exponent - 1
            ),
        }
    }

    fn size(&self) -> (bool, i32, &str) {
        (!self.digits.is_empty(), self.exponent, &self.digits)
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_size = |left: &Self, right: &Self| {
            // Zero is below every positive number, whatever its exponent.
            match (left.digits.is_empty(), right.digits.is_empty()) {
                (false, false) => left.size().cmp(&right.size()),
                (left, right) => right.cmp(&left),
            }
        };
        match (self.sign, other.sign) {
            (Sign::Plus, Sign::Plus) => by_size(self, other),
            (Sign::Minus, Sign::Minus) => by_size(other, self),
            (mine, theirs) => mine.cmp(&theirs),
        }
    }
}
