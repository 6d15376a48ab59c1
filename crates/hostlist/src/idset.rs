//! Sets of small numbers, kept and printed as ranges (the notation of Flux RFC 22: `0-3,7`,
//! optionally in brackets).
//!
//! A set is a sorted list of ranges that neither touch nor overlap, so a cluster of 100,000
//! brokers without holes is one range. Set algebra walks the ranges, never the members.

use crate::MAX_IDS;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A set of ids.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct IdSet {
    /// Sorted, with a gap of at least one id between neighbours.
    ranges: Vec<(u32, u32)>,
}

/// Why a text is not an id set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdSetError {
    /// A part is not a number or a range of two numbers.
    #[error("`{part}` is not an id or a range such as 0-3")]
    Part {
        /// The part between two commas.
        part: String,
    },
    /// A range runs backwards.
    #[error("the range `{part}` ends before it starts")]
    Backwards {
        /// The range as written.
        part: String,
    },
    /// A closing bracket without an opening one, or the reverse.
    #[error("the brackets of `{text}` do not match")]
    Brackets {
        /// The whole text.
        text: String,
    },
    /// An id is too large.
    #[error("the id {id} is not below {MAX_IDS}")]
    TooLarge {
        /// The id.
        id: u64,
    },
}

impl IdSet {
    /// The empty set.
    pub const fn new() -> Self {
        Self { ranges: Vec::new() }
    }

    /// The ids `0..count`.
    pub fn first_n(count: u32) -> Self {
        match count.checked_sub(1) {
            Some(last) => Self { ranges: vec![(0, last)] },
            None => Self::new(),
        }
    }

    /// Adds an id; `true` if it was not there.
    pub fn insert(&mut self, id: u32) -> bool {
        let at = self.ranges.partition_point(|&(_, last)| last < id);
        if self.ranges.get(at).is_some_and(|&(first, _)| first <= id) {
            return false;
        }
        let joins_left =
            at.checked_sub(1).is_some_and(|left| self.ranges[left].1.checked_add(1) == Some(id));
        let joins_right =
            self.ranges.get(at).is_some_and(|&(first, _)| id.checked_add(1) == Some(first));
        match (joins_left, joins_right) {
            (true, true) => {
                self.ranges[at - 1].1 = self.ranges[at].1;
                self.ranges.remove(at);
            }
            (true, false) => self.ranges[at - 1].1 = id,
            (false, true) => self.ranges[at].0 = id,
            (false, false) => self.ranges.insert(at, (id, id)),
        }
        true
    }

    /// Takes an id out; `true` if it was there.
    pub fn remove(&mut self, id: u32) -> bool {
        let at = self.ranges.partition_point(|&(_, last)| last < id);
        let Some(&(first, last)) = self.ranges.get(at) else { return false };
        if first > id {
            return false;
        }
        match (first == id, last == id) {
            (true, true) => {
                self.ranges.remove(at);
            }
            (true, false) => self.ranges[at].0 = id + 1,
            (false, true) => self.ranges[at].1 = id - 1,
            (false, false) => {
                self.ranges[at].1 = id - 1;
                self.ranges.insert(at + 1, (id + 1, last));
            }
        }
        true
    }

    /// Whether an id is in the set.
    pub fn contains(&self, id: u32) -> bool {
        let at = self.ranges.partition_point(|&(_, last)| last < id);
        self.ranges.get(at).is_some_and(|&(first, _)| first <= id)
    }

    /// How many ids there are.
    pub fn len(&self) -> usize {
        self.ranges.iter().map(|&(first, last)| (last - first) as usize + 1).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The smallest id.
    pub fn first(&self) -> Option<u32> {
        self.ranges.first().map(|&(first, _)| first)
    }

    /// The largest id.
    pub fn last(&self) -> Option<u32> {
        self.ranges.last().map(|&(_, last)| last)
    }

    /// All ids, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranges.iter().flat_map(|&(first, last)| first..=last)
    }

    /// The ranges, ascending; neighbours have a gap between them.
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = RangeInclusive<u32>> + '_ {
        self.ranges.iter().map(|&(first, last)| first..=last)
    }

    /// The ids that are in one set or the other.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let (mut a, mut b) = (self.ranges.iter().peekable(), other.ranges.iter().peekable());
        let mut ranges: Vec<(u32, u32)> = Vec::with_capacity(self.ranges.len().max(4));
        loop {
            let next = match (a.peek(), b.peek()) {
                (Some(x), Some(y)) if x.0 <= y.0 => a.next(),
                (_, Some(_)) => b.next(),
                (Some(_), None) => a.next(),
                (None, None) => break,
            };
            let Some(&(first, last)) = next else { break };
            match ranges.last_mut() {
                Some(tail) if first <= tail.1.saturating_add(1) => tail.1 = tail.1.max(last),
                _ => ranges.push((first, last)),
            }
        }
        Self { ranges }
    }

    /// The ids that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let (mut i, mut j) = (0, 0);
        let mut ranges = Vec::new();
        while let (Some(&(a_first, a_last)), Some(&(b_first, b_last))) =
            (self.ranges.get(i), other.ranges.get(j))
        {
            let (first, last) = (a_first.max(b_first), a_last.min(b_last));
            if first <= last {
                ranges.push((first, last));
            }
            if a_last <= b_last {
                i += 1;
            } else {
                j += 1;
            }
        }
        Self { ranges }
    }

    /// The ids of this set that are not in the other.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut ranges = Vec::new();
        let mut holes = other.ranges.iter().peekable();
        for &(first, last) in &self.ranges {
            let mut next = Some(first);
            while holes.next_if(|hole| hole.1 < first).is_some() {}
            let mut ahead = holes.clone();
            while let (Some(start), Some(&&(hole_first, hole_last))) = (next, ahead.peek()) {
                if hole_first > last {
                    break;
                }
                if hole_first > start {
                    ranges.push((start, hole_first - 1));
                }
                next = hole_last.checked_add(1).filter(|&after| after <= last);
                ahead.next();
            }
            if let Some(start) = next {
                ranges.push((start, last));
            }
        }
        Self { ranges }
    }

    /// Whether every id of this set is in the other.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.ranges.iter().all(|&(first, last)| {
            let at = other.ranges.partition_point(|&(_, end)| end < first);
            other.ranges.get(at).is_some_and(|&(start, end)| start <= first && last <= end)
        })
    }

    /// Whether the sets have no id in common.
    pub fn is_disjoint(&self, other: &Self) -> bool {
        let (mut i, mut j) = (0, 0);
        while let (Some(a), Some(b)) = (self.ranges.get(i), other.ranges.get(j)) {
            if a.0.max(b.0) <= a.1.min(b.1) {
                return false;
            }
            if a.1 <= b.1 {
                i += 1;
            } else {
                j += 1;
            }
        }
        true
    }
}

impl FromIterator<u32> for IdSet {
    fn from_iter<I: IntoIterator<Item = u32>>(ids: I) -> Self {
        let mut set = Self::new();
        set.extend(ids);
        set
    }
}

impl Extend<u32> for IdSet {
    fn extend<I: IntoIterator<Item = u32>>(&mut self, ids: I) {
        for id in ids {
            // Ascending input, the common case, only touches the last range.
            match self.ranges.last_mut() {
                Some(tail) if tail.1.checked_add(1) == Some(id) => tail.1 = id,
                _ => {
                    self.insert(id);
                }
            }
        }
    }
}

impl From<RangeInclusive<u32>> for IdSet {
    fn from(range: RangeInclusive<u32>) -> Self {
        if range.is_empty() {
            Self::new()
        } else {
            Self { ranges: vec![(*range.start(), *range.end())] }
        }
    }
}

impl fmt::Display for IdSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, &(first, last)) in self.ranges.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for IdSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{self}]")
    }
}

impl FromStr for IdSet {
    type Err = IdSetError;

    /// Reads `0-3,7` or `[0-3,7]`; parts may overlap and come in any order, the empty text is the
    /// empty set.
    fn from_str(text: &str) -> Result<Self, IdSetError> {
        let trimmed = text.trim();
        let inner = match (trimmed.strip_prefix('['), trimmed.ends_with(']')) {
            (Some(rest), true) => &rest[..rest.len() - 1],
            (None, false) => trimmed,
            _ => return Err(IdSetError::Brackets { text: text.to_owned() }),
        };
        let mut ranges = Vec::new();
        if inner.is_empty() {
            return Ok(Self::new());
        }
        for part in inner.split(',') {
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (number(first, part)?, number(last, part)?),
                None => (number(part, part)?, number(part, part)?),
            };
            if first > last {
                return Err(IdSetError::Backwards { part: part.to_owned() });
            }
            ranges.push((first, last));
        }
        ranges.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(tail) if first <= tail.1 + 1 => tail.1 = tail.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Ok(Self { ranges: merged })
    }
}

fn number(digits: &str, part: &str) -> Result<u32, IdSetError> {
    let digits = digits.trim();
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(IdSetError::Part { part: part.to_owned() });
    }
    let id = digits.parse::<u64>().unwrap_or(u64::MAX);
    u32::try_from(id).ok().filter(|&id| id < MAX_IDS).ok_or(IdSetError::TooLarge { id })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> IdSet {
        text.parse().unwrap()
    }

    #[test]
    fn text_forms() {
        for (text, printed) in [
            ("", ""),
            ("[]", ""),
            ("0", "0"),
            ("0-3,7", "0-3,7"),
            ("[0-3,7]", "0-3,7"),
            ("7,3,0-2", "0-3,7"),
            ("0-5,2-9", "0-9"),
        ] {
            assert_eq!(set(text).to_string(), printed, "{text}");
        }
    }

    #[test]
    fn wrong_text_names_its_part() {
        for (text, wanted) in [
            ("1,x", "`x` is not an id"),
            ("1,,2", "`` is not an id"),
            ("3-1", "ends before it starts"),
            ("[1", "brackets"),
            ("1]", "brackets"),
            ("-1", "`-1` is not an id"),
            ("1-2-3", "`1-2-3` is not"),
            ("99999999999999999999", "not below"),
            ("0-4294967295", "not below"),
        ] {
            let error = text.parse::<IdSet>().unwrap_err().to_string();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn a_hundred_thousand_ids_are_one_range() {
        let set: IdSet = (0..100_000).collect();
        assert_eq!(set.len(), 100_000);
        assert_eq!(set.ranges().len(), 1);
    }
}
