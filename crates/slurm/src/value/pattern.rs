//! Names of output files with `%j` and its kin (sbatch(1), "filename pattern").

use std::fmt::Write as _;

/// The most zeros that `%10j` may fill up with.
const WIDEST: usize = 10;

/// A name of a file with places to fill in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Place { letter: char, width: usize },
}

/// What is filled in. What is unknown where it is filled in is left at its default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatternFacts<'a> {
    /// The job's number.
    pub job: u64,
    /// The array's number and the index in it.
    pub array: Option<(u64, u32)>,
    /// The job's name.
    pub name: &'a str,
    /// The user's name.
    pub user: &'a str,
    /// The step's number; `None` is the batch script.
    pub step: Option<u32>,
    /// The short name of the node.
    pub node: &'a str,
    /// The place of the node in the job.
    pub node_index: u32,
    /// The rank of the task.
    pub task: u32,
    /// How often the job began again.
    pub restarts: u32,
}

impl Pattern {
    /// Reads a name; every text is one. A letter that stands for nothing is kept as it is, and a
    /// backslash anywhere turns all replacement off.
    pub fn parse(text: &str) -> Self {
        if text.contains('\\') {
            return Self { parts: vec![Part::Text(text.replace('\\', ""))] };
        }
        let (mut parts, mut plain) = (Vec::new(), String::new());
        let mut rest = text;
        while let Some(at) = rest.find('%') {
            plain.push_str(&rest[..at]);
            let behind = &rest[at + 1..];
            let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
            let letter = behind[digits..].chars().next();
            match letter {
                Some('%') if digits == 0 => plain.push('%'),
                Some(letter) if "AabJjNnstuxr".contains(letter) => {
                    if !plain.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut plain)));
                    }
                    let width = behind[..digits].parse().unwrap_or(WIDEST).min(WIDEST);
                    let width = if digits == 0 { 0 } else { width };
                    parts.push(Part::Place { letter, width });
                }
                _ => {
                    plain.push('%');
                    plain.push_str(&behind[..digits]);
                    plain.extend(letter);
                }
            }
            rest = &behind[digits + letter.map_or(0, char::len_utf8)..];
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Self { parts }
    }

    /// Whether every node or task has a file of its own.
    pub fn per_task_or_node(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Place { letter: 'N' | 'n' | 't', .. }))
    }

    /// The name as the queue's own template (docs/spec/jobspec.md), and the places that it has no word
    /// for, which stay as they are. `array` is whether the job is one.
    pub fn template(&self, array: bool, user: &str, batch: bool) -> (String, Vec<String>) {
        let (mut text, mut left) = (String::new(), Vec::new());
        for part in &self.parts {
            let (letter, width) = match part {
                Part::Text(plain) => {
                    text.push_str(plain);
                    continue;
                }
                Part::Place { letter, width } => (*letter, *width),
            };
            let word = match letter {
                'A' if array => "{{array}}",
                'j' | 'J' | 'A' => "{{id}}",
                'a' if array => "{{index}}",
                'x' => "{{name}}",
                'u' => user,
                // The script is task 0 on node 0.
                'n' | 't' if batch => "0",
                's' if batch => "batch",
                _ => "",
            };
            if word.is_empty() || width > 0 && letter != 'x' && letter != 'u' {
                let digits = if width > 0 { width.to_string() } else { String::new() };
                let place = format!("%{digits}{letter}");
                text.push_str(&place);
                left.push(place);
            } else {
                text.push_str(word);
            }
        }
        (text, left)
    }

    /// The name with everything filled in.
    pub fn expand(&self, facts: &PatternFacts<'_>) -> String {
        let mut name = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => name.push_str(text),
                Part::Place { letter, width } => place(&mut name, *letter, *width, facts),
            }
        }
        name
    }
}

fn place(name: &mut String, letter: char, width: usize, facts: &PatternFacts<'_>) {
    let step = facts.step.map_or_else(|| "batch".to_owned(), |step| step.to_string());
    let number = match letter {
        // Outside of an array Slurm has the number of the job, and the largest index.
        'A' => facts.array.map_or(facts.job, |(array, _)| array),
        'a' => facts.array.map_or(u64::from(u32::MAX - 1), |(_, index)| index.into()),
        'b' => facts.array.map_or(u64::from(u32::MAX - 1), |(_, index)| index.into()) % 10,
        'j' => facts.job,
        'n' => facts.node_index.into(),
        't' => facts.task.into(),
        'r' => facts.restarts.into(),
        's' => {
            name.push_str(&step);
            return;
        }
        'J' => {
            let job = facts.job;
            let _ = match facts.step {
                Some(step) => write!(name, "{job:0width$}.{step}"),
                None => write!(name, "{job:0width$}"),
            };
            return;
        }
        'N' => {
            name.push_str(facts.node);
            return;
        }
        'u' => {
            name.push_str(facts.user);
            return;
        }
        _ => {
            name.push_str(facts.name);
            return;
        }
    };
    let _ = write!(name, "{number:0width$}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_filled_in() {
        let facts = PatternFacts {
            job: 18,
            array: Some((17, 1)),
            name: "relax",
            user: "ada",
            step: Some(2),
            node: "worker-0-3",
            node_index: 3,
            task: 7,
            restarts: 0,
        };
        for (text, name) in [
            ("slurm-%j.out", "slurm-18.out"),
            ("slurm-%A_%a.out", "slurm-17_1.out"),
            ("%x-%u-%N-%n-%t", "relax-ada-worker-0-3-3-7"),
            ("%4j/%03t.%s", "0018/007.2"),
            ("%J %99j", "18.2 0000000018"),
            ("100%%", "100%"),
            ("%q %", "%q %"),
            ("\\%j", "%j"),
            ("é%jé", "é18é"),
        ] {
            assert_eq!(Pattern::parse(text).expand(&facts), name, "{text}");
        }
        assert_eq!(
            Pattern::parse("%x-%A_%a.%u.%t").template(true, "ada", true),
            ("{{name}}-{{array}}_{{index}}.ada.0".to_owned(), vec![])
        );
        assert_eq!(
            Pattern::parse("%A-%4j-%N").template(false, "ada", true),
            ("{{id}}-%4j-%N".to_owned(), vec!["%4j".to_owned(), "%N".to_owned()])
        );
        assert!(Pattern::parse("out.%t").per_task_or_node());
        assert!(!Pattern::parse("out.%j").per_task_or_node());
    }
}
