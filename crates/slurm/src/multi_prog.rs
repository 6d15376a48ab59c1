//! `srun --multi-prog`: a file that says which ranks run what.
//!
//! Owns: reading it (srun(1), MULTIPLE PROGRAM CONFIGURATION), and the command of one rank. Who starts
//! it is not its business.

use quorate_hostlist::IdSet;

/// Stands for a `%` that stays.
const KEPT: char = '\u{1}';

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The ranks it is for; `None` are all that no other line names.
    pub ranks: Option<IdSet>,
    /// The program and its arguments, in which `%t` is the rank and `%o` its place among the ranks.
    pub words: Vec<String>,
}

/// What is wrong with a file, in the words of srun.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MultiProgError {
    /// A line cannot be read.
    #[error("Line {line} of configuration file {file} invalid")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// The file.
        file: String,
    },
    /// Two lines name a rank.
    #[error(
        "Duplicate record for task {rank}\nsrun: error: Line {line} of configuration file {file} invalid"
    )]
    Twice {
        /// The line of the second.
        line: usize,
        /// The file.
        file: String,
        /// The rank.
        rank: u32,
    },
    /// No line names a rank.
    #[error("Configuration file {file} invalid, no record for task id {rank}")]
    Missing {
        /// The file.
        file: String,
        /// The rank.
        rank: u32,
    },
}

/// Reads a file. `file` is its name, for errors.
pub fn read(file: &str, text: &str) -> Result<Vec<Line>, MultiProgError> {
    let mut lines: Vec<Line> = Vec::new();
    let mut whole = String::new();
    for (number, line) in text.lines().enumerate() {
        let wrong = || MultiProgError::Line { line: number + 1, file: file.to_owned() };
        // A backslash at the end joins the next line.
        if let Some(part) = line.strip_suffix('\\') {
            whole.push_str(part);
            continue;
        }
        whole.push_str(line);
        let line = std::mem::take(&mut whole);
        let mut words = crate::script::words(&kept(&line)).map_err(|_| wrong())?.into_iter();
        let Some(first) = words.next() else { continue };
        let ranks = match first.as_str() {
            "*" => None,
            set => Some(set.parse::<IdSet>().map_err(|_| wrong())?),
        };
        let words: Vec<String> = words.collect();
        if words.is_empty() {
            return Err(wrong());
        }
        let named = lines.iter().filter_map(|line| line.ranks.as_ref());
        let twice = ranks
            .iter()
            .flat_map(IdSet::iter)
            .find(|rank| named.clone().any(|there| there.contains(*rank)));
        if let Some(rank) = twice {
            return Err(MultiProgError::Twice { line: number + 1, file: file.to_owned(), rank });
        }
        lines.push(Line { ranks, words });
    }
    Ok(lines)
}

/// How many tasks the lines name: one more than the highest rank.
pub fn tasks(lines: &[Line]) -> u32 {
    let ranks = lines.iter().filter_map(|line| line.ranks.as_ref()?.last());
    ranks.max().map_or(1, |last| last.saturating_add(1))
}

/// Whether each of so many tasks has a line; otherwise the first that has none.
pub fn check(file: &str, lines: &[Line], tasks: u32) -> Result<(), MultiProgError> {
    match (0..tasks).find(|rank| command(lines, *rank).is_none()) {
        Some(rank) => Err(MultiProgError::Missing { file: file.to_owned(), rank }),
        None => Ok(()),
    }
}

/// The command of a rank.
pub fn command(lines: &[Line], rank: u32) -> Option<Vec<String>> {
    let of = |line: &&Line| line.ranks.as_ref().is_some_and(|ranks| ranks.contains(rank));
    let line = lines.iter().find(of).or_else(|| lines.iter().find(|line| line.ranks.is_none()))?;
    let place = match &line.ranks {
        Some(ranks) => ranks.iter().take_while(|each| *each < rank).count(),
        None => rank as usize,
    };
    let (rank, place) = (rank.to_string(), place.to_string());
    let filled = |word: &String| word.replace("%t", &rank).replace("%o", &place).replace(KEPT, "%");
    Some(line.words.iter().map(filled).collect())
}

/// A line in which each `%` within quotes is one that stays, as in srun.
fn kept(line: &str) -> String {
    let mut quote = None;
    let mut one = |c: char| {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\'' | '"', None) => quote = Some(c),
            ('%', Some(_)) => return KEPT,
            _ => {}
        }
        c
    };
    line.chars().map(&mut one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# who runs what\n4-6       hostname\n1,7  echo \\\n task:%t\n\
                        0,2-3     echo 'an offset %o' %o\n";

    #[test]
    fn each_rank_has_its_command() {
        let lines = read("f", FILE).unwrap();
        assert_eq!(tasks(&lines), 8);
        assert_eq!(check("f", &lines, 8), Ok(()));
        let of = |rank| command(&lines, rank).unwrap().join("|");
        assert_eq!((of(5), of(7)), ("hostname".to_owned(), "echo|task:7".to_owned()));
        assert_eq!(
            (of(0), of(3)),
            ("echo|an offset %o|0".to_owned(), "echo|an offset %o|2".to_owned())
        );
        let all = read("f", "0 a\n* b %t\n").unwrap();
        assert_eq!(command(&all, 9), Some(vec!["b".to_owned(), "9".to_owned()]));
    }

    #[test]
    fn what_is_wrong_is_said_as_srun_says_it() {
        let wrong = |text: &str| read("f", text).unwrap_err().to_string();
        assert_eq!(wrong("0 a\nx b\n"), "Line 2 of configuration file f invalid");
        assert_eq!(wrong("0\n"), "Line 1 of configuration file f invalid");
        assert!(wrong("0-2 a\n2 b\n").starts_with("Duplicate record for task 2\n"));
        let lines = read("f", "0,2 a\n").unwrap();
        let missing = check("f", &lines, 3).unwrap_err().to_string();
        assert_eq!(missing, "Configuration file f invalid, no record for task id 1");
    }
}
