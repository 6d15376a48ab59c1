//! Batch scripts: the directives in them, and whether they can be run.
//!
//! `#SBATCH` lines are read as sbatch(1) says: before the first line that is neither empty nor a
//! comment, split at blanks with quotes and backslashes, up to a `#`. `#QUORATE` lines are the same
//! under our name.

use crate::options::{OptionError, Parsed, Tool, parse};

/// A line of options in a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// Its place, from 1.
    pub line: usize,
    /// The whole line.
    pub text: String,
    /// The words on it.
    pub words: Vec<String>,
}

/// Names of directives.
const PREFIXES: &[&str] = &["#SBATCH", "#QUORATE"];

/// Whether a text can be run as a batch script.
pub fn check(text: &str) -> Result<(), OptionError> {
    if text.is_empty() {
        return Err(OptionError::EmptyScript);
    }
    if !text.starts_with("#!") {
        return Err(OptionError::NoInterpreter);
    }
    if text.contains('\0') {
        return Err(OptionError::ZeroByte);
    }
    if text.contains("\r\n") {
        return Err(OptionError::DosLines);
    }
    Ok(())
}

/// The directives of a script; `name` is the script's in errors.
pub fn directives(name: &str, text: &str) -> Result<Vec<Directive>, OptionError> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let behind = PREFIXES.iter().find_map(|prefix| {
            let behind = line.strip_prefix(prefix)?;
            (behind.is_empty() || behind.starts_with(char::is_whitespace)).then_some(behind)
        });
        if let Some(behind) = behind {
            let words = words(behind).map_err(|quote| OptionError::Quote {
                script: name.to_owned(),
                line: at + 1,
                quote,
                text: unread(behind).to_owned(),
            })?;
            found.push(Directive { line: at + 1, text: line.to_owned(), words });
        } else if !line.trim().is_empty() && !line.starts_with('#') {
            break;
        }
    }
    Ok(found)
}

/// The directives of a script with their options read.
pub fn options(name: &str, text: &str) -> Result<Vec<(Directive, Parsed)>, OptionError> {
    directives(name, text)?
        .into_iter()
        .map(|directive| {
            let parsed = parse(Tool::Sbatch, &directive.words).and_then(|parsed| {
                match parsed.operands.first() {
                    None => Ok(parsed),
                    Some(word) => Err(OptionError::Operand { word: word.clone() }),
                }
            });
            match parsed {
                Ok(parsed) => Ok((directive, parsed)),
                Err(error) => Err(OptionError::Directive {
                    line: directive.line,
                    text: directive.text,
                    source: Box::new(error),
                }),
            }
        })
        .collect()
}

/// What is left of words of which the last has an open quote, from the blank before it; of the first word
/// that blank is not left.
fn unread(text: &str) -> &str {
    let text = text.trim_start();
    let mut blanks = text.char_indices().filter(|(_, c)| c.is_whitespace());
    let before = |(at, _): &(usize, char)| words(&text[..*at]).is_ok();
    blanks.rfind(before).map_or(text, |(at, _)| &text[at..])
}

/// Words parted by blanks, without their quotes, up to a `#` at the beginning of a word; fails with
/// the quote that stays open.
pub fn words(text: &str) -> Result<Vec<String>, char> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, quote) {
            // A blank ends a word, with a backslash before it as well.
            ('\\', _) => {
                let next = rest.next_if(|next| quote.is_some() || !next.is_whitespace());
                word.get_or_insert_default().extend(next);
            }
            (c, Some(open)) if c == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            ('#', None) if word.is_none() => break,
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.map_or(Ok(words), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(usize, String)> {
        let found = directives("job.sh", text).unwrap();
        found.into_iter().map(|each| (each.line, each.words.join("|"))).collect()
    }

    #[test]
    fn directives_stand_before_the_first_command() {
        let script = "#!/bin/bash\n#SBATCH -n 4\n\n# words\n##SBATCH -n 5\n#SBATCH\t--mem=1G # so much\n\
                      #QUORATE -J 'a b' --comment=\"x \\\" y\"\n #SBATCH -n 6\n#SBATCH -n 7\necho hi\n#SBATCH -n 8\n";
        assert_eq!(
            read(script),
            [
                (2, "-n|4".to_owned()),
                (6, "--mem=1G".to_owned()),
                (7, "-J|a b|--comment=x \" y".to_owned()),
            ]
        );
        assert_eq!(
            read("#!/bin/sh\n#SBATCHX -n 4\n#SBATCH -n a#b ''"),
            [(3, "-n|a#b|".to_owned())]
        );
    }

    #[test]
    fn a_bad_directive_names_its_line() {
        let error = options("job.sh", "#!/bin/sh\n\n#SBATCH --frobnicate\n").unwrap_err();
        assert_eq!(
            error.lines(Tool::Sbatch),
            [
                "sbatch: unrecognized option '--frobnicate'",
                "Try \"sbatch --help\" for more information",
                "sbatch: error: line 3 of the script: #SBATCH --frobnicate",
            ]
        );
        assert_eq!(error.exit_code(), 255);
        let error = options("bad3.sh", "#!/bin/sh\n#SBATCH -J \"a\ntrue\n").unwrap_err();
        assert_eq!(
            error.lines(Tool::Sbatch),
            ["sbatch: fatal: bad3.sh: line 2: Unmatched `\"` in [ \"a]"]
        );
    }

    #[test]
    fn a_word_that_is_no_option_is_not_passed_over() {
        let error = options("job.sh", "#!/bin/sh\n#SBATCH -N2 foo\n").unwrap_err();
        assert_eq!(
            error.lines(Tool::Sbatch)[0],
            "sbatch: error: Invalid directive found in batch script: foo"
        );
        assert_eq!(error.exit_code(), 255);
    }

    #[test]
    fn what_is_no_script_is_refused_in_slurms_words() {
        for (text, first) in [
            ("", "sbatch: error: Batch script is empty!"),
            ("echo hi\n", "sbatch: error: This does not look like a batch script.  The first"),
            (
                "#!/bin/sh\r\ntrue\r\n",
                "sbatch: error: Batch script contains DOS line breaks (\\r\\n)",
            ),
        ] {
            assert_eq!(check(text).unwrap_err().lines(Tool::Sbatch)[0], first);
        }
        assert_eq!(check("#!/bin/sh\nprintf '\0'\n"), Err(OptionError::ZeroByte));
        assert_eq!(check("#!/bin/sh\ntrue\n"), Ok(()));
    }
}
