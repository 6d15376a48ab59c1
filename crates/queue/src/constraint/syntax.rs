//! Constraints as people write them: `fast & -gpu`, `host:worker-0-[0-3] | rank:7`.
//!
//! Owns: the syntax, which is that of Flux RFC 35 with the operators that there are. A word alone is a
//! property; `host:` takes a host list, `rank:` a set of ranks. Words next to each other and `&` mean
//! both, `|` either, `-` before a word or a bracket the opposite.

use super::{Constraint, ConstraintError, MAX_DEPTH};
use std::str::FromStr;

impl FromStr for Constraint {
    type Err = ConstraintError;

    fn from_str(text: &str) -> Result<Self, ConstraintError> {
        let mut reader = Reader { text, words: words(text), at: 0 };
        let constraint = reader.either(0)?;
        if let Some(word) = reader.words.get(reader.at) {
            return Err(reader.wrong(&format!("nothing is expected before `{word}`")));
        }
        constraint.compile()?;
        Ok(constraint)
    }
}

/// Brackets and operators by themselves, all else as words. Brackets of a host list stay in it.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut start = None;
    for (at, c) in text.char_indices() {
        let operator = matches!(c, '(' | ')' | '&' | '|') || (c == '-' && start.is_none());
        if operator || c.is_whitespace() {
            if let Some(start) = start.take() {
                words.push(&text[start..at]);
            }
            if operator {
                words.push(&text[at..at + c.len_utf8()]);
            }
        } else if start.is_none() {
            start = Some(at);
        }
    }
    if let Some(start) = start {
        words.push(&text[start..]);
    }
    words
}

struct Reader<'a> {
    text: &'a str,
    words: Vec<&'a str>,
    at: usize,
}

impl<'a> Reader<'a> {
    fn wrong(&self, what: &str) -> ConstraintError {
        ConstraintError::Syntax { text: self.text.to_owned(), what: what.to_owned() }
    }

    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    fn either(&mut self, depth: usize) -> Result<Constraint, ConstraintError> {
        let mut parts = vec![self.both(depth)?];
        while matches!(self.peek(), Some("|" | "or")) {
            while matches!(self.peek(), Some("|" | "or")) {
                self.at += 1;
            }
            parts.push(self.both(depth)?);
        }
        Ok(one_or(parts, Constraint::Or))
    }

    fn both(&mut self, depth: usize) -> Result<Constraint, ConstraintError> {
        let mut parts = vec![self.term(depth)?];
        loop {
            match self.peek() {
                Some("&" | "and") => {
                    while matches!(self.peek(), Some("&" | "and")) {
                        self.at += 1;
                    }
                    parts.push(self.term(depth)?);
                }
                None | Some("|" | "or" | ")") => return Ok(one_or(parts, Constraint::And)),
                Some(_) => parts.push(self.term(depth)?),
            }
        }
    }

    fn term(&mut self, depth: usize) -> Result<Constraint, ConstraintError> {
        if depth >= MAX_DEPTH {
            return Err(ConstraintError::TooLarge);
        }
        let Some(word) = self.peek() else {
            return Err(self.wrong("a word is missing at the end"));
        };
        self.at += 1;
        match word {
            "-" | "not" => Ok(Constraint::Not(vec![self.term(depth + 1)?])),
            "(" => {
                let inner = self.either(depth + 1)?;
                if self.peek() != Some(")") {
                    return Err(self.wrong("a bracket is not closed"));
                }
                self.at += 1;
                Ok(inner)
            }
            ")" | "&" | "|" | "and" | "or" => {
                Err(self.wrong(&format!("a word is missing before `{word}`")))
            }
            word => self.named(word),
        }
    }

    fn named(&self, word: &str) -> Result<Constraint, ConstraintError> {
        let Some((operator, value)) = word.split_once(':') else {
            return Ok(Constraint::Properties(vec![word.to_owned()]));
        };
        let value = vec![value.to_owned()];
        match operator {
            "host" | "hosts" | "hostlist" => Ok(Constraint::Hostlist(value)),
            "rank" | "ranks" => Ok(Constraint::Ranks(value)),
            "property" | "properties" => Ok(Constraint::Properties(value)),
            other => {
                Err(self
                    .wrong(&format!("`{other}:` is unknown; there are host:, rank: and property:")))
            }
        }
    }
}

fn one_or(mut parts: Vec<Constraint>, many: fn(Vec<Constraint>) -> Constraint) -> Constraint {
    if parts.len() > 1 {
        return many(parts);
    }
    parts.pop().expect("at least one part was read")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        match text.parse::<Constraint>() {
            Ok(constraint) => serde_json::to_string(&constraint).unwrap(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn words_operators_and_brackets() {
        for (text, expected) in [
            ("fast", r#"{"properties":["fast"]}"#),
            ("^slow", r#"{"properties":["^slow"]}"#),
            ("fast rack-1", r#"{"and":[{"properties":["fast"]},{"properties":["rack-1"]}]}"#),
            (
                "a & b | c",
                r#"{"or":[{"and":[{"properties":["a"]},{"properties":["b"]}]},{"properties":["c"]}]}"#,
            ),
            ("-a", r#"{"not":[{"properties":["a"]}]}"#),
            (
                "not (a or rank:0-3,7)",
                r#"{"not":[{"or":[{"properties":["a"]},{"ranks":["0-3,7"]}]}]}"#,
            ),
            ("host:w-[0-2]", r#"{"hostlist":["w-[0-2]"]}"#),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, says) in [
            ("", "a word is missing at the end"),
            ("a |", "a word is missing at the end"),
            ("a &", "a word is missing at the end"),
            ("| a", "a word is missing before `|`"),
            ("(a", "a bracket is not closed"),
            ("a)", "nothing is expected before `)`"),
            ("node:x", "`node:` is unknown"),
            ("rank:x", "`x` is not a set of ranks"),
            (&"(".repeat(50), "nested at most 32 deep"),
        ] {
            assert!(read(text).contains(says), "{text}: {}", read(text));
        }
    }
}
