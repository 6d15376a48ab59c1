//! Lists of host names in bracket notation (Flux RFC 29): `node[0-3,07],login`.

use crate::{IdSet, MAX_IDS};
use std::fmt;
use std::str::FromStr;

/// An ordered list of host names; repeats are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostList {
    hosts: Vec<String>,
}

/// Why a text is not a host list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostListError {
    /// An opening bracket is not closed, or a closing one was not opened.
    #[error("the brackets of `{text}` do not match")]
    Brackets {
        /// The host expression.
        text: String,
    },
    /// What stands in brackets is not a list of numbers and ranges.
    #[error("`{part}` in `{text}` is not a number or a range such as 0-3")]
    Range {
        /// The part between two commas.
        part: String,
        /// The host expression.
        text: String,
    },
    /// A name is empty or holds a space.
    #[error("`{text}` is not a host name")]
    Name {
        /// The host expression.
        text: String,
    },
    /// The list stands for too many hosts.
    #[error("the host list stands for more than {MAX_IDS} hosts")]
    TooMany,
}

impl HostList {
    /// The empty list.
    pub const fn new() -> Self {
        Self { hosts: Vec::new() }
    }

    /// Adds a host at the end.
    pub fn push(&mut self, host: impl Into<String>) {
        self.hosts.push(host.into());
    }

    /// How many hosts there are.
    pub fn len(&self) -> usize {
        self.hosts.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// The host at a place in the list.
    pub fn get(&self, at: usize) -> Option<&str> {
        self.hosts.get(at).map(String::as_str)
    }

    /// The first place of a host.
    pub fn find(&self, host: &str) -> Option<usize> {
        self.hosts.iter().position(|h| h == host)
    }

    /// All hosts, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.hosts.iter().map(String::as_str)
    }

    /// The hosts at the places of a set, in order; places beyond the end are left out.
    #[must_use]
    pub fn select(&self, places: &IdSet) -> Self {
        places.iter().filter_map(|at| self.get(at as usize)).collect()
    }
}

impl<S: Into<String>> FromIterator<S> for HostList {
    fn from_iter<I: IntoIterator<Item = S>>(hosts: I) -> Self {
        Self { hosts: hosts.into_iter().map(Into::into).collect() }
    }
}

/// A name as prefix, number with its width, and suffix: the last run of digits is the number.
struct Parts<'a> {
    prefix: &'a str,
    number: u64,
    digits: &'a str,
    suffix: &'a str,
}

fn split(host: &str) -> Option<Parts<'_>> {
    let end = host.rfind(|c: char| c.is_ascii_digit())? + 1;
    let start = host[..end]
        .rfind(|c: char| !c.is_ascii_digit())
        .map_or(0, |at| at + host[at..].chars().next().map_or(1, char::len_utf8));
    let digits = &host[start..end];
    // Longer numbers are printed as they are: they cannot be counted on.
    let number = (digits.len() <= 15).then(|| digits.parse().ok()).flatten()?;
    Some(Parts { prefix: &host[..start], number, digits, suffix: &host[end..] })
}

impl Parts<'_> {
    /// Whether `next` is the name that a range would give after this one.
    fn precedes(&self, next: &Parts<'_>) -> bool {
        self.number + 1 == next.number
            && format!("{:0w$}", next.number, w = self.digits.len()) == next.digits
            && (self.digits.len() == next.digits.len()
                || !self.digits.starts_with('0')
                || self.digits == "0")
    }
}

impl fmt::Display for HostList {
    /// Neighbours that differ in their last number share brackets; the order is kept.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut at = 0;
        while at < self.hosts.len() {
            if at > 0 {
                f.write_str(",")?;
            }
            let host = &self.hosts[at];
            let Some(head) = split(host) else {
                f.write_str(host)?;
                at += 1;
                continue;
            };
            // Ranges (first digits, last digits) of the names that share prefix and suffix.
            let mut ranges = vec![(head.digits, head.digits)];
            let mut end = at + 1;
            let (prefix, suffix) = (head.prefix, head.suffix);
            let mut last = head;
            while let Some(next) = self.hosts.get(end).and_then(|h| split(h)) {
                if next.prefix != prefix || next.suffix != suffix {
                    break;
                }
                if last.precedes(&next) {
                    ranges.last_mut().expect("ranges starts with the head").1 = next.digits;
                } else {
                    ranges.push((next.digits, next.digits));
                }
                last = next;
                end += 1;
            }
            if end == at + 1 {
                f.write_str(host)?;
            } else {
                write!(f, "{prefix}[")?;
                for (i, (first, last)) in ranges.iter().enumerate() {
                    let comma = if i == 0 { "" } else { "," };
                    if first == last {
                        write!(f, "{comma}{first}")?;
                    } else {
                        write!(f, "{comma}{first}-{last}")?;
                    }
                }
                write!(f, "]{suffix}")?;
            }
            at = end;
        }
        Ok(())
    }
}

impl FromStr for HostList {
    type Err = HostListError;

    /// Reads names and bracket expressions separated by commas. Several brackets in one name
    /// multiply, the last one running fastest. A range keeps the width of its first number.
    fn from_str(text: &str) -> Result<Self, HostListError> {
        let mut hosts = Vec::new();
        for expression in expressions(text)? {
            expand(expression.trim(), &mut hosts)?;
        }
        Ok(Self { hosts })
    }
}

/// The text cut at the commas outside brackets.
fn expressions(text: &str) -> Result<Vec<&str>, HostListError> {
    let brackets = || HostListError::Brackets { text: text.to_owned() };
    let (mut parts, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match (c, inside) {
            ('[', false) => inside = true,
            (']', true) => inside = false,
            ('[', true) | (']', false) => return Err(brackets()),
            (',', false) => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err(brackets());
    }
    if !text.trim().is_empty() {
        parts.push(&text[start..]);
    }
    Ok(parts)
}

fn expand(expression: &str, hosts: &mut Vec<String>) -> Result<(), HostListError> {
    if expression.is_empty() || expression.contains(char::is_whitespace) {
        return Err(HostListError::Name { text: expression.to_owned() });
    }
    let mut names = vec![String::new()];
    let mut rest = expression;
    while let Some((before, after)) = rest.split_once('[') {
        let (inside, after) = after
            .split_once(']')
            .ok_or_else(|| HostListError::Brackets { text: expression.to_owned() })?;
        let numbers = numbers(inside, expression)?;
        if names.len().saturating_mul(numbers.len()) > MAX_IDS as usize {
            return Err(HostListError::TooMany);
        }
        names = names
            .iter()
            .flat_map(|name| numbers.iter().map(move |n| format!("{name}{before}{n}")))
            .collect();
        rest = after;
    }
    if hosts.len() + names.len() > MAX_IDS as usize {
        return Err(HostListError::TooMany);
    }
    hosts.extend(names.into_iter().map(|name| name + rest));
    Ok(())
}

fn numbers(inside: &str, expression: &str) -> Result<Vec<String>, HostListError> {
    let mut numbers = Vec::new();
    for part in inside.split(',') {
        let wrong = || HostListError::Range { part: part.to_owned(), text: expression.to_owned() };
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let digits = |s: &str| {
            (!s.is_empty() && s.len() <= 15 && s.bytes().all(|b| b.is_ascii_digit()))
                .then(|| s.parse::<u64>().ok())
                .flatten()
        };
        let (from, to) = (digits(first).ok_or_else(wrong)?, digits(last).ok_or_else(wrong)?);
        if from > to {
            return Err(wrong());
        }
        if to - from >= u64::from(MAX_IDS) || numbers.len() as u64 + (to - from) >= MAX_IDS.into() {
            return Err(HostListError::TooMany);
        }
        numbers.extend((from..=to).map(|n| format!("{n:0width$}", width = first.len())));
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_forms() {
        for (text, hosts, printed) in [
            ("", vec![], ""),
            ("login", vec!["login"], "login"),
            ("n[0-2,7]", vec!["n0", "n1", "n2", "n7"], "n[0-2,7]"),
            ("n[08-11]", vec!["n08", "n09", "n10", "n11"], "n[08-11]"),
            ("n[9-10]", vec!["n9", "n10"], "n[9-10]"),
            ("n[0-1,07]", vec!["n0", "n1", "n07"], "n[0-1,07]"),
            ("a3,b3", vec!["a3", "b3"], "a3,b3"),
            (
                "mc-worker-0-[0-1].net",
                vec!["mc-worker-0-0.net", "mc-worker-0-1.net"],
                "mc-worker-0-[0-1].net",
            ),
            ("r[0-1]n[0-1]", vec!["r0n0", "r0n1", "r1n0", "r1n1"], "r0n[0-1],r1n[0-1]"),
            ("n[3,1]", vec!["n3", "n1"], "n[3,1]"),
            ("n1,n1", vec!["n1", "n1"], "n[1,1]"),
        ] {
            let list: HostList = text.parse().unwrap();
            assert_eq!(list.iter().collect::<Vec<_>>(), hosts, "{text}");
            assert_eq!(list.to_string(), printed, "{text}");
        }
    }

    #[test]
    fn wrong_text_is_refused() {
        for text in [
            "n[0-1",
            "n0-1]",
            "n[[0]]",
            "n[1-0]",
            "n[a]",
            "n[]",
            ",",
            "a,,b",
            "a b",
            "n[0-9999999]",
        ] {
            assert!(text.parse::<HostList>().is_err(), "{text}");
        }
    }
}
