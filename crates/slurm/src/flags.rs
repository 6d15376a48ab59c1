//! Words of a command line read as getopt_long(3) reads them: long names may be shortened, letters may
//! share a dash.

use crate::options::{Argument, OptionError};

/// An option that a command knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flag {
    /// The long name without dashes.
    pub(crate) name: &'static str,
    /// The short name.
    pub(crate) short: Option<char>,
    /// Whether it has an argument.
    pub(crate) argument: Argument,
}

impl Flag {
    /// An option without an argument; an empty `short` is none.
    pub(crate) const fn plain(name: &'static str, short: &'static str) -> Self {
        Self { name, short: letter(short), argument: Argument::No }
    }

    /// An option with an argument.
    pub(crate) const fn with(name: &'static str, short: &'static str) -> Self {
        Self { name, short: letter(short), argument: Argument::Required }
    }
}

const fn letter(short: &'static str) -> Option<char> {
    match short.as_bytes() {
        [] => None,
        bytes => Some(bytes[0] as char),
    }
}

/// Options with their arguments, and the other words.
pub(crate) type Read = (Vec<(&'static str, Option<String>)>, Vec<String>);

/// Reads words. With `mixed` other words may stand between options, else the first ends them.
pub(crate) fn read(flags: &[Flag], words: &[String], mixed: bool) -> Result<Read, OptionError> {
    let (mut given, mut others) = (Vec::new(), Vec::new());
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if word == "--" {
            others.extend(rest.by_ref().cloned());
        } else if let Some(long) = word.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            let flag = find(flags, name, word)?;
            let value = match (flag.argument, value) {
                (Argument::No, Some(_)) => return Err(OptionError::Surplus { option: flag.name }),
                (Argument::Required, None) => match rest.next() {
                    Some(value) => Some(value.clone()),
                    None => return Err(OptionError::Missing { option: flag.name }),
                },
                (_, value) => value,
            };
            given.push((flag.name, value));
        } else if word.len() > 1 && word.starts_with('-') {
            let mut letters = word[1..].chars();
            while let Some(letter) = letters.next() {
                let flag = flags
                    .iter()
                    .find(|flag| flag.short == Some(letter))
                    .ok_or(OptionError::Letter { letter })?;
                let behind = letters.as_str();
                let value = match flag.argument {
                    Argument::No => None,
                    Argument::Optional => (!behind.is_empty()).then(|| behind.to_owned()),
                    Argument::Required if behind.is_empty() => match rest.next() {
                        Some(value) => Some(value.clone()),
                        None => return Err(OptionError::LetterMissing { letter }),
                    },
                    Argument::Required => Some(behind.to_owned()),
                };
                given.push((flag.name, value));
                if flag.argument != Argument::No {
                    break;
                }
            }
        } else {
            others.push(word.clone());
            if !mixed {
                others.extend(rest.by_ref().cloned());
            }
        }
    }
    Ok((given, others))
}

/// The option of that name, or the only one whose name begins with it.
fn find<'a>(flags: &'a [Flag], name: &str, word: &str) -> Result<&'a Flag, OptionError> {
    if let Some(flag) = flags.iter().find(|flag| flag.name == name) {
        return Ok(flag);
    }
    let candidates: Vec<&Flag> =
        flags.iter().filter(|flag| !name.is_empty() && flag.name.starts_with(name)).collect();
    match candidates.as_slice() {
        [] => Err(OptionError::Unrecognized { option: word.to_owned() }),
        [flag] => Ok(flag),
        several => {
            let names: Vec<String> =
                several.iter().map(|flag| format!("'--{}'", flag.name)).collect();
            Err(OptionError::Ambiguous { option: word.to_owned(), possibilities: names.join(" ") })
        }
    }
}
