//! Which nodes a job takes: the JSON form of Flux RFC 31, over properties, host names and ranks.

mod syntax;

use quorate_hostlist::{HostList, IdSet};
use serde::{Deserialize, Serialize};

/// The most operators and values of one constraint.
const MAX_PARTS: usize = 10_000;
/// The deepest nesting.
const MAX_DEPTH: usize = 32;

/// A condition on a node. As JSON an object with one operator: `{"and": [{"properties": ["fast"]},
/// {"not": [{"ranks": ["0"]}]}]}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Constraint {
    /// Every one holds; holds when there is none.
    And(Vec<Constraint>),
    /// At least one holds; holds when there is none (RFC 31).
    Or(Vec<Constraint>),
    /// None of them holds together: the negation of [`Constraint::And`].
    Not(Vec<Constraint>),
    /// The node has each of these; `^fast` means that it must not have `fast`.
    Properties(Vec<String>),
    /// The node's host name is in one of these host lists.
    Hostlist(Vec<String>),
    /// The node's rank is in one of these id sets.
    Ranks(Vec<String>),
}

/// Why a constraint cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConstraintError {
    /// A property's name is not one.
    #[error("`{name}` is not a property: letters, digits, `-`, `_`, `.` and a leading `^`")]
    Property {
        /// The name.
        name: String,
    },
    /// A host list is not one.
    #[error("`{text}` is not a host list: {reason}")]
    Hosts {
        /// The text.
        text: String,
        /// What is wrong.
        reason: String,
    },
    /// An id set is not one.
    #[error("`{text}` is not a set of ranks: {reason}")]
    Ranks {
        /// The text.
        text: String,
        /// What is wrong.
        reason: String,
    },
    /// The text is no constraint.
    #[error(
        "`{text}` is not a constraint: {what}; write `fast & -gpu`, `host:a[0-3]` or `rank:0-3`"
    )]
    Syntax {
        /// The text.
        text: String,
        /// What is wrong.
        what: String,
    },
    /// More than the log should carry for one job.
    #[error("a constraint has at most {MAX_PARTS} parts, nested at most {MAX_DEPTH} deep")]
    TooLarge,
}

/// A node as constraints see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) rank: u32,
    pub(crate) host: &'a str,
    pub(crate) properties: &'a [String],
}

/// A constraint with its texts read.
#[derive(Clone, Debug)]
pub(crate) enum Compiled {
    And(Vec<Compiled>),
    Or(Vec<Compiled>),
    Not(Vec<Compiled>),
    /// Wanted, and the property.
    Properties(Vec<(bool, String)>),
    /// Sorted, for a search.
    Hosts(Vec<String>),
    Ranks(IdSet),
}

impl Constraint {
    /// Reads the texts in it.
    pub(crate) fn compile(&self) -> Result<Compiled, ConstraintError> {
        let mut parts = 0;
        self.compile_at(0, &mut parts)
    }

    fn compile_at(&self, depth: usize, parts: &mut usize) -> Result<Compiled, ConstraintError> {
        *parts += self.width() + 1;
        if *parts > MAX_PARTS || depth >= MAX_DEPTH {
            return Err(ConstraintError::TooLarge);
        }
        let mut all = |list: &[Self]| {
            list.iter().map(|part| part.compile_at(depth + 1, parts)).collect::<Result<Vec<_>, _>>()
        };
        Ok(match self {
            Self::And(list) => Compiled::And(all(list)?),
            Self::Or(list) => Compiled::Or(all(list)?),
            Self::Not(list) => Compiled::Not(all(list)?),
            Self::Properties(names) => Compiled::Properties(
                names.iter().map(|name| property(name)).collect::<Result<_, _>>()?,
            ),
            Self::Hostlist(texts) => Compiled::Hosts(hosts(texts)?),
            Self::Ranks(texts) => Compiled::Ranks(ranks(texts)?),
        })
    }

    fn width(&self) -> usize {
        match self {
            Self::And(list) | Self::Or(list) | Self::Not(list) => list.len(),
            Self::Properties(list) | Self::Hostlist(list) | Self::Ranks(list) => list.len(),
        }
    }
}

impl Compiled {
    /// Whether a node fulfils it.
    pub(crate) fn holds(&self, node: Subject<'_>) -> bool {
        match self {
            Self::And(list) => list.iter().all(|part| part.holds(node)),
            Self::Or(list) => list.is_empty() || list.iter().any(|part| part.holds(node)),
            Self::Not(list) => !list.iter().all(|part| part.holds(node)),
            Self::Properties(names) => {
                names.iter().all(|(wanted, name)| node.properties.contains(name) == *wanted)
            }
            Self::Hosts(names) => {
                names.binary_search_by(|name| name.as_str().cmp(node.host)).is_ok()
            }
            Self::Ranks(ranks) => ranks.contains(node.rank),
        }
    }
}

fn property(name: &str) -> Result<(bool, String), ConstraintError> {
    let (wanted, bare) = match name.strip_prefix('^') {
        Some(bare) => (false, bare),
        None => (true, name),
    };
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    if bare.is_empty() || !bare.bytes().all(legal) {
        return Err(ConstraintError::Property { name: name.to_owned() });
    }
    Ok((wanted, bare.to_owned()))
}

fn hosts(texts: &[String]) -> Result<Vec<String>, ConstraintError> {
    let mut names = Vec::new();
    for text in texts {
        let list: HostList = text.parse().map_err(|error| ConstraintError::Hosts {
            text: text.clone(),
            reason: format!("{error}"),
        })?;
        names.extend(list.iter().map(str::to_owned));
    }
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

fn ranks(texts: &[String]) -> Result<IdSet, ConstraintError> {
    let mut all = IdSet::new();
    for text in texts {
        let set: IdSet = text.parse().map_err(|error| ConstraintError::Ranks {
            text: text.clone(),
            reason: format!("{error}"),
        })?;
        all = all.union(&set);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(constraint: &str) -> bool {
        let constraint: Constraint = serde_json::from_str(constraint).unwrap();
        let properties = ["fast".to_owned(), "rack.1".to_owned()];
        let node = Subject { rank: 3, host: "worker-0-2", properties: &properties };
        constraint.compile().unwrap().holds(node)
    }

    #[test]
    fn operators_mean_what_rfc_31_says() {
        for (constraint, expected) in [
            (r#"{"properties": ["fast"]}"#, true),
            (r#"{"properties": ["fast", "slow"]}"#, false),
            (r#"{"properties": ["^slow", "rack.1"]}"#, true),
            (r#"{"properties": []}"#, true),
            (r#"{"hostlist": ["worker-0-[0-2]"]}"#, true),
            (r#"{"hostlist": ["worker-0-[0-1]", "launcher"]}"#, false),
            (r#"{"ranks": ["0-1", "3"]}"#, true),
            (r#"{"ranks": []}"#, false),
            (r#"{"not": [{"ranks": ["3"]}]}"#, false),
            (r#"{"not": [{"ranks": ["3"]}, {"ranks": ["4"]}]}"#, true),
            (r#"{"or": [{"ranks": ["4"]}, {"properties": ["fast"]}]}"#, true),
            (r#"{"or": []}"#, true),
            (r#"{"and": []}"#, true),
            (r#"{"and": [{"ranks": ["3"]}, {"or": [{"ranks": ["9"]}]}]}"#, false),
        ] {
            assert_eq!(holds(constraint), expected, "{constraint}");
        }
    }

    #[test]
    fn a_malformed_constraint_is_refused_with_the_part_that_is_wrong() {
        for (constraint, words) in [
            (r#"{"properties": ["a b"]}"#, "`a b` is not a property"),
            (r#"{"properties": ["^"]}"#, "`^` is not a property"),
            (r#"{"hostlist": ["n[2-1"]}"#, "`n[2-1` is not a host list"),
            (r#"{"ranks": ["5-1"]}"#, "`5-1` is not a set of ranks: the range"),
        ] {
            let constraint: Constraint = serde_json::from_str(constraint).unwrap();
            let error = constraint.compile().unwrap_err().to_string();
            assert!(error.starts_with(words), "{error}");
        }
        let unknown = serde_json::from_str::<Constraint>(r#"{"xor": []}"#).unwrap_err();
        assert!(unknown.to_string().contains("`and`, `or`, `not`"), "{unknown}");
    }

    #[test]
    fn depth_and_width_are_bounded() {
        let deep = (0..40).fold(Constraint::And(vec![]), |inner, _| Constraint::Not(vec![inner]));
        assert_eq!(deep.compile().unwrap_err(), ConstraintError::TooLarge);
        let wide = Constraint::Ranks(vec!["1".into(); MAX_PARTS + 1]);
        assert_eq!(wide.compile().unwrap_err(), ConstraintError::TooLarge);
    }
}
