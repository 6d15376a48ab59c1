//! Proves that pages of `docs/` name what is there: tests and functions that a page speaks of, in marks of
//! code, stand in the sources.

use crate::workspace;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// Words with so many underscores are names of tests; shorter ones are fields of somebody's format too.
const UNDERSCORES: usize = 3;
/// Metrics are put together from parts; a scrape in the tests proves their page.
const METRICS: [&str; 2] = ["quorate_", "process_"];

/// Prints the names that are nowhere; tells whether there are none.
pub(crate) fn run() -> Result<bool> {
    let root = workspace::root();
    let read = |path: &PathBuf| {
        fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
    };
    let mut known = BTreeSet::new();
    for folder in ["crates", "e2e", "tests"] {
        for path in workspace::files(&root.join(folder), "rs")? {
            known.extend(words(&read(&path)?).map(str::to_owned));
        }
    }
    let mut fine = true;
    for path in workspace::files(&root.join("docs"), "md")? {
        for name in missing(&read(&path)?, &known) {
            let page = path.strip_prefix(root).unwrap_or(&path);
            println!("{}: `{name}` is in no source", page.display());
            fine = false;
        }
    }
    Ok(fine)
}

/// Names in a page's marks of code that no source has.
fn missing<'a>(page: &'a str, known: &BTreeSet<String>) -> Vec<&'a str> {
    let code = page.split('`').skip(1).step_by(2);
    let names = code.flat_map(words).filter(|name| !known.contains(*name));
    names.filter(|name| !METRICS.iter().any(|prefix| name.starts_with(prefix))).collect()
}

/// Words of small letters with underscores between them.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let all = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    all.filter(|word| {
        word.matches('_').count() >= UNDERSCORES
            && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_was_changed_in_the_sources_alone_is_found() {
        let known = words("fn a_name_of_a_test() { A_B_C_D }").map(str::to_owned).collect();
        let page = "see `room::{a_name_of_a_test, its_name_before_that}`, an_open_word_of_text and \
                    `MPIX_A_b_c_d quorate_of_a_metric x_y`";
        assert_eq!(missing(page, &known), ["its_name_before_that"]);
        assert_eq!(missing("``` a_b_c_d ```", &known), ["a_b_c_d"]);
    }
}
