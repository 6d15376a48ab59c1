//! Options from all sources in one place: the command line before variables before directives.

use super::command_line::Parsed;
use super::error::OptionError;
use super::table::{Argument, Opt, TABLE, Tool, Treatment};
use crate::script::Directive;
use std::collections::BTreeMap;

/// Where a setting is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A line of the script.
    Directive {
        /// From 1.
        line: usize,
        /// The line itself.
        text: String,
    },
    /// A variable of the environment.
    Variable(String),
    /// The command line.
    CommandLine,
}

/// An option that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its row in the table.
    pub option: &'static Opt,
    /// Its argument.
    pub value: Option<String>,
    /// How often it was given.
    pub times: u32,
    /// Where it was given last.
    pub source: Source,
}

/// All options that were given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    tool: Tool,
    given: BTreeMap<&'static str, Setting>,
}

/// Kinds of memory; two on one command line are an error.
const MEMORIES: [&str; 3] = ["mem", "mem-per-cpu", "mem-per-gpu"];

/// Options of which the last one given counts.
const RIVALS: &[&[&str]] = &[
    &MEMORIES,
    &["requeue", "no-requeue"],
    &["cpus-per-task", "cpus-per-gpu"],
    &["ntasks-per-node", "tasks-per-node"],
];

impl Settings {
    /// Merges directives, variables and the command line, the last one winning.
    pub fn merge(
        tool: Tool,
        directives: &[(Directive, Parsed)],
        environment: &BTreeMap<String, String>,
        command_line: &Parsed,
    ) -> Result<Self, OptionError> {
        let on_line = |name: &&str| command_line.options.iter().any(|(o, _)| o.name == *name);
        if MEMORIES.iter().filter(|name| on_line(name)).count() > 1 {
            return Err(OptionError::Memories);
        }
        let mut merged = Self { tool, given: BTreeMap::new() };
        for (directive, parsed) in directives {
            for (option, value) in &parsed.options {
                let source =
                    Source::Directive { line: directive.line, text: directive.text.clone() };
                merged.set(option, value.clone(), source);
            }
        }
        for option in TABLE.iter().filter(|option| option.of(tool)) {
            for name in option.variables(tool) {
                let Some(value) = environment.get(&name) else { continue };
                let value =
                    (option.argument != Argument::No && !value.is_empty()).then(|| value.clone());
                if value.is_some() || option.argument != Argument::Required {
                    merged.set(option, value, Source::Variable(name));
                    break;
                }
            }
        }
        for (option, value) in &command_line.options {
            merged.set(option, value.clone(), Source::CommandLine);
        }
        Ok(merged)
    }

    fn set(&mut self, option: &'static Opt, value: Option<String>, source: Source) {
        for rivals in RIVALS.iter().filter(|rivals| rivals.contains(&option.name)) {
            for rival in rivals.iter().filter(|rival| **rival != option.name) {
                self.given.remove(rival);
            }
        }
        let times = self.given.get(option.name).map_or(0, |old| old.times) + 1;
        self.given.insert(option.name, Setting { option, value, times, source });
    }

    /// The command.
    pub fn tool(&self) -> Tool {
        self.tool
    }

    /// An option that was given.
    pub fn get(&self, name: &str) -> Option<&Setting> {
        self.given.get(name)
    }

    /// Whether an option was given.
    pub fn has(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// The argument of an option that was given.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.given.get(name)?.value.as_deref()
    }

    /// All that was given, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Setting> {
        self.given.values()
    }

    /// An error about an option, with the line of the script if it is from there.
    pub(super) fn blame(&self, name: &str, error: OptionError) -> OptionError {
        match self.given.get(name).map(|setting| &setting.source) {
            Some(Source::Directive { line, text }) => {
                OptionError::Directive { line: *line, text: text.clone(), source: Box::new(error) }
            }
            _ => error,
        }
    }

    /// The first option that cannot be obeyed.
    pub(super) fn refused(&self) -> Result<(), OptionError> {
        for setting in self.given.values() {
            let Treatment::Refused(reason) = setting.option.treatment else { continue };
            let option = setting.option.name;
            return Err(self.blame(option, OptionError::Refused { option, reason }));
        }
        Ok(())
    }
}
