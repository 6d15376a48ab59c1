//! Features that nodes must have.

use super::ValueError;
use quorate_queue::Constraint;

const EXPECTED: &str = "features such as fast, fast&big, a100|h100 or (a100|h100)&big";
/// The deepest nesting of brackets.
const DEEPEST: usize = 16;

/// Reads `--constraint`: features with `&` and `|`, from left to right as Slurm does, and parentheses.
///
/// A feature is a property of a broker (the name of its group, for one). Counts (`a*2`) and `[a|b]`
/// (all nodes alike) are refused.
pub fn features(text: &str) -> Result<Constraint, ValueError> {
    let unsupported =
        |why, instead| ValueError::Unsupported { text: text.to_owned(), why, instead };
    if text.contains('*') {
        return Err(unsupported(
            "a number of nodes for each feature cannot be asked for",
            "submit one job for each kind of nodes",
        ));
    }
    if text.contains(['[', ']']) {
        return Err(unsupported(
            "that all nodes have the same one of several features cannot be asked for",
            "name one feature, or write (a|b)",
        ));
    }
    let mut rest = text;
    let read = expression(&mut rest, 0).filter(|_| rest.is_empty());
    read.ok_or_else(|| ValueError::form(text, EXPECTED))
}

fn expression(rest: &mut &str, depth: usize) -> Option<Constraint> {
    let mut left = term(rest, depth)?;
    loop {
        let and = match rest.chars().next() {
            Some('&' | ',') => true,
            Some('|') => false,
            _ => return Some(left),
        };
        *rest = &rest[1..];
        let right = term(rest, depth)?;
        left = match (and, left) {
            (true, Constraint::And(mut list)) => {
                list.push(right);
                Constraint::And(list)
            }
            (false, Constraint::Or(mut list)) => {
                list.push(right);
                Constraint::Or(list)
            }
            (true, left) => Constraint::And(vec![left, right]),
            (false, left) => Constraint::Or(vec![left, right]),
        };
    }
}

fn term(rest: &mut &str, depth: usize) -> Option<Constraint> {
    if let Some(inside) = rest.strip_prefix('(') {
        if depth >= DEEPEST {
            return None;
        }
        *rest = inside;
        let read = expression(rest, depth + 1)?;
        *rest = rest.strip_prefix(')')?;
        return Some(read);
    }
    let legal = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let end = rest.find(|c| !legal(c)).unwrap_or(rest.len());
    let (name, behind) = rest.split_at(end);
    *rest = behind;
    (!name.is_empty()).then(|| Constraint::Properties(vec![name.to_owned()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        serde_json::to_string(&features(text).unwrap()).unwrap()
    }

    #[test]
    fn features_combine_from_left_to_right() {
        assert_eq!(json("fast"), r#"{"properties":["fast"]}"#);
        assert_eq!(json("a&b"), r#"{"and":[{"properties":["a"]},{"properties":["b"]}]}"#);
        assert_eq!(
            json("a|b&c"),
            r#"{"and":[{"or":[{"properties":["a"]},{"properties":["b"]}]},{"properties":["c"]}]}"#
        );
        assert_eq!(
            json("a&(b|c)"),
            r#"{"and":[{"properties":["a"]},{"or":[{"properties":["b"]},{"properties":["c"]}]}]}"#
        );
        for text in ["", "&", "a&", "(a", "a)", "a b", "()", "!a"] {
            assert!(matches!(features(text), Err(ValueError::Form { .. })), "{text}");
        }
        for text in ["a*2", "[a|b]"] {
            assert!(matches!(features(text), Err(ValueError::Unsupported { .. })), "{text}");
        }
        assert!(features(&"(".repeat(100_000)).is_err());
    }
}
