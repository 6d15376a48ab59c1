//! Which of the submitter's variables a job gets.

use super::ValueError;
use std::collections::BTreeMap;

/// What `--export` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// All variables of the submitter.
    pub all: bool,
    /// These, with the submitter's value or with a value of their own.
    pub variables: Vec<(String, Option<String>)>,
}

impl Default for Export {
    fn default() -> Self {
        Self { all: true, variables: Vec::new() }
    }
}

/// Reads `ALL`, `NONE`, `NIL`, `[ALL,]NAME,NAME=value`. A comma within a value stands in quotes.
pub fn export(text: &str) -> Result<Export, ValueError> {
    let mut read = Export { all: false, variables: Vec::new() };
    if ["NONE", "NIL"].iter().any(|word| word.eq_ignore_ascii_case(text)) {
        return Ok(read);
    }
    for part in parts(text).ok_or_else(|| ValueError::form(text, "closed quotes"))? {
        if part.eq_ignore_ascii_case("ALL") {
            read.all = true;
            continue;
        }
        let (name, value) = match part.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (part.as_str(), None),
        };
        if name.is_empty() {
            return Err(ValueError::form(
                text,
                "ALL, NONE, NIL or a list such as ALL,NAME,OTHER=value",
            ));
        }
        read.variables.push((name.to_owned(), value));
    }
    Ok(read)
}

/// The text cut at commas outside of quotes, without the quotes; `None` if one stays open.
fn parts(text: &str) -> Option<Vec<String>> {
    let (mut parts, mut part, mut quote) = (Vec::new(), String::new(), None);
    for c in text.chars() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (',', None) => parts.push(std::mem::take(&mut part)),
            (c, _) => part.push(c),
        }
    }
    parts.push(part);
    quote.is_none().then_some(parts)
}

impl Export {
    /// The variables that a job gets of the submitter's. What begins with `SLURM_` always passes.
    pub fn of(&self, environment: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut given: BTreeMap<String, String> = environment
            .iter()
            .filter(|(name, _)| self.all || name.starts_with("SLURM_"))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        for (name, value) in &self.variables {
            if let Some(value) = value.as_ref().or_else(|| environment.get(name)) {
                given.insert(name.clone(), value.clone());
            }
        }
        given
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_pass_as_said() {
        let environment: BTreeMap<String, String> =
            [("A", "1"), ("B", "2"), ("SLURM_X", "3")].map(|(k, v)| (k.into(), v.into())).into();
        for (text, expected) in [
            ("ALL", "A=1 B=2 SLURM_X=3"),
            ("NONE", "SLURM_X=3"),
            ("nil", "SLURM_X=3"),
            ("A", "A=1 SLURM_X=3"),
            ("A,MISSING", "A=1 SLURM_X=3"),
            ("ALL,B=9,C='x,y'", "A=1 B=9 C=x,y SLURM_X=3"),
            ("C=", "C= SLURM_X=3"),
        ] {
            let given = export(text).unwrap().of(&environment);
            let words: Vec<String> = given.iter().map(|(k, v)| format!("{k}={v}")).collect();
            assert_eq!(words.join(" "), expected, "{text}");
        }
        for text in ["", "A,,B", "=x", "A='x"] {
            assert!(export(text).is_err(), "{text}");
        }
    }
}
