//! Counts: of tasks, of CPUs, and ranges of nodes.

use super::{ValueError, digits};

/// A count of at least 1 in 32 bits.
pub fn count(text: &str) -> Result<u32, ValueError> {
    match digits(text) {
        Some(0) => Err(ValueError::Range { text: text.to_owned(), range: "at least 1" }),
        Some(number) => u32::try_from(number)
            .map_err(|_| ValueError::Range { text: text.to_owned(), range: "fewer than 2^32" }),
        None => Err(ValueError::form(text, "a whole number of at least 1")),
    }
}

/// Nodes, fewest and most: `4`, `2-4`; `k` and `m` multiply by 1024 and 1024².
///
/// Lists and steps (`1,2,4`, `2-8:2`, Slurm 23.02) are refused.
pub fn nodes(text: &str) -> Result<(u32, u32), ValueError> {
    if text.contains([',', ':']) {
        return Err(ValueError::Unsupported {
            text: text.to_owned(),
            why: "lists and steps of node counts are not known to this queue",
            instead: "give one number, or the fewest and the most as 2-8",
        });
    }
    let (fewest, most) = text.split_once('-').unwrap_or((text, text));
    let (fewest, most) = (scaled(fewest, text)?, scaled(most, text)?);
    if fewest > most {
        return Err(ValueError::Range {
            text: text.to_owned(),
            range: "the fewest nodes come before the most",
        });
    }
    Ok((fewest, most))
}

fn scaled(part: &str, text: &str) -> Result<u32, ValueError> {
    let (number, factor) = match part.as_bytes().last() {
        Some(b'k' | b'K') => (&part[..part.len() - 1], 1024),
        Some(b'm' | b'M') => (&part[..part.len() - 1], 1024 * 1024),
        _ => (part, 1),
    };
    let number = digits(number).ok_or_else(|| {
        ValueError::form(text, "a number of nodes such as 4, or a range such as 2-4")
    })?;
    match number.checked_mul(factor).and_then(|number| u32::try_from(number).ok()) {
        Some(number) if number > 0 => Ok(number),
        _ => Err(ValueError::Range { text: text.to_owned(), range: "1 to 2^32 nodes" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_ranges_of_nodes() {
        assert_eq!(count("7"), Ok(7));
        assert_eq!(nodes("4"), Ok((4, 4)));
        assert_eq!(nodes("2-4"), Ok((2, 4)));
        assert_eq!(nodes("1k-2k"), Ok((1024, 2048)));
        for text in ["", "0", "-1", "+1", "4294967296", "two", "1.5"] {
            assert!(count(text).is_err(), "{text}");
            assert!(nodes(text).is_err(), "{text}");
        }
        for text in ["4-2", "1-", "0-3", "1,2", "2-8:2", "k", "9999999m"] {
            assert!(nodes(text).is_err(), "{text}");
        }
    }
}
