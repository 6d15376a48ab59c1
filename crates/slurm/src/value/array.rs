//! Indices of job arrays.

use super::{ValueError, digits};
use quorate_hostlist::IdSet;

const EXPECTED: &str = "an array such as 0-15, 1,3,7, 0-15:4 or 0-15%4";
/// Slurm's MaxArraySize is 1,001 by default and at most 4,000,001; indices stay below.
const MOST: u64 = 1_000_000;

/// The indices of an array and how many of them may run at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayRange {
    /// The indices.
    pub indices: IdSet,
    /// How many may run at once; `None` as many as fit.
    pub limit: Option<u32>,
}

/// Reads `0-15`, `1,3,7`, `0-15:4`, each with `%limit` behind it. `%0` is no limit.
pub fn array(text: &str) -> Result<ArrayRange, ValueError> {
    let wrong = || ValueError::form(text, EXPECTED);
    let range = || ValueError::Range { text: text.to_owned(), range: "indices are 0 to 999999" };
    let (list, limit) = match text.split_once('%') {
        Some((list, limit)) => (list, digits(limit).ok_or_else(wrong)?),
        None => (text, 0),
    };
    let limit = u32::try_from(limit).map_err(|_| range())?;
    let mut indices = IdSet::new();
    for part in list.split(',') {
        let (span, step) = match part.split_once(':') {
            Some((span, step)) => (span, digits(step).filter(|&step| step > 0).ok_or_else(wrong)?),
            None => (part, 1),
        };
        let (first, last) = match span.split_once('-') {
            Some((first, last)) => (digits(first), digits(last)),
            None if part.contains(':') => return Err(wrong()),
            None => (digits(span), digits(span)),
        };
        let (first, last) = (first.ok_or_else(wrong)?, last.ok_or_else(wrong)?);
        if first > last {
            return Err(wrong());
        }
        if last >= MOST {
            return Err(range());
        }
        let mut index = first;
        while index <= last {
            indices.insert(u32::try_from(index).map_err(|_| range())?);
            index = index.saturating_add(step);
        }
    }
    Ok(ArrayRange { indices, limit: (limit > 0).then_some(limit) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_an_array_is_read() {
        for (text, indices, limit) in [
            ("0-15", "0-15", None),
            ("1,3,7", "1,3,7", None),
            ("0-15:4", "0,4,8,12", None),
            ("1-10:2%4", "1,3,5,7,9", Some(4)),
            ("7", "7", None),
            ("1-3,8%0", "1-3,8", None),
            ("0-7:100", "0", None),
        ] {
            let read = array(text).unwrap();
            assert_eq!((read.indices.to_string().as_str(), read.limit), (indices, limit), "{text}");
        }
        for text in ["", "a", "3-1", "1-", "-1", "1:2", "1-4:0", "1-4%", "1,,2", "%2", "1-4%x"] {
            assert!(matches!(array(text), Err(ValueError::Form { .. })), "{text}");
        }
        for text in ["1000000", "0-99999999999", "1%99999999999"] {
            assert!(matches!(array(text), Err(ValueError::Range { .. })), "{text}");
        }
    }
}
