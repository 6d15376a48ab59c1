//! What is wrong with a command line, in Slurm's words where it has some, and the way out.

use super::Tool;
use crate::value::ValueError;
use quorate_queue::JobspecError;

/// Why a command does nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// There is no such long option.
    #[error("unrecognized option '{option}'")]
    Unrecognized {
        /// As it was written.
        option: String,
    },
    /// There is no such short option.
    #[error("invalid option -- '{letter}'")]
    Letter {
        /// The letter.
        letter: char,
    },
    /// A shortened name stands for several options.
    #[error("option '{option}' is ambiguous; possibilities: {possibilities}")]
    Ambiguous {
        /// As it was written.
        option: String,
        /// Those it may be, in quotes.
        possibilities: String,
    },
    /// A long option lacks its argument.
    #[error("option '--{option}' requires an argument")]
    Missing {
        /// Its name.
        option: &'static str,
    },
    /// A short option lacks its argument.
    #[error("option requires an argument -- '{letter}'")]
    LetterMissing {
        /// The letter.
        letter: char,
    },
    /// An option has an argument that it does not take.
    #[error("option '--{option}' doesn't allow an argument")]
    Surplus {
        /// Its name.
        option: &'static str,
    },
    /// An argument is not a number, or out of range.
    #[error("Invalid numeric value \"{value}\" for --{option}.")]
    Number {
        /// The option.
        option: &'static str,
        /// The argument.
        value: String,
    },
    /// An argument is not a number of nodes.
    #[error("\"{value}\" is not a valid node count")]
    Nodes {
        /// The argument.
        value: String,
    },
    /// A range of nodes that is the wrong way round.
    #[error("Maximum node count {most} is less than minimum node count {fewest}")]
    NodeRange {
        /// The first number.
        fewest: u32,
        /// The second number.
        most: u32,
    },
    /// An argument is wrong in another way.
    #[error("Invalid --{option} specification")]
    Value {
        /// The option.
        option: &'static str,
        /// What is wrong.
        #[source]
        source: ValueError,
    },
    /// An option exists in Slurm and is not for this queue.
    #[error("--{option} is not supported here: {reason}")]
    Refused {
        /// The option.
        option: &'static str,
        /// Why, and the way out.
        reason: &'static str,
    },
    /// Options that do not go together.
    #[error("{what}")]
    Conflict {
        /// What does not go together, and the way out.
        what: String,
    },
    /// A directive in a script is wrong.
    #[error("{source}")]
    Directive {
        /// Its line, from 1.
        line: usize,
        /// The line.
        text: String,
        /// What is wrong.
        source: Box<OptionError>,
    },
    /// A directive has a word that is no option.
    #[error("Invalid directive found in batch script: {word}")]
    Operand {
        /// The word.
        word: String,
    },
    /// A directive has a quote that is not closed.
    #[error("{script}: line {line}: Unmatched `{quote}` in [{text}]")]
    Quote {
        /// The script's name.
        script: String,
        /// The line, from 1.
        line: usize,
        /// The quote.
        quote: char,
        /// What is behind the directive's name.
        text: String,
    },
    /// The script has no interpreter line.
    #[error("This does not look like a batch script.  The first")]
    NoInterpreter,
    /// The script is empty.
    #[error("Batch script is empty!")]
    EmptyScript,
    /// The script has zero bytes.
    #[error("The Slurm controller does not allow scripts that")]
    ZeroByte,
    /// The script has line ends of DOS.
    #[error("Batch script contains DOS line breaks (\\r\\n)")]
    DosLines,
    /// Kinds of memory that exclude each other, on one command line.
    #[error("--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.")]
    Memories,
    /// A script, and a command to wrap.
    #[error("Script arguments not permitted with --wrap option")]
    WrapAndScript,
    /// There is nothing to run.
    #[error("No command given to execute.")]
    NoCommand,
    /// The job that comes of it cannot be.
    #[error("the job cannot be taken")]
    Jobspec(#[source] JobspecError),
}

impl OptionError {
    /// The exit code, as Slurm's.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Unrecognized { .. }
            | Self::Letter { .. }
            | Self::Ambiguous { .. }
            | Self::Missing { .. }
            | Self::LetterMissing { .. }
            | Self::Surplus { .. }
            | Self::Operand { .. }
            | Self::Nodes { .. }
            | Self::NodeRange { .. } => 255,
            Self::Value { option, .. } if !matches!(*option, "array" | "dependency" | "gres") => {
                255
            }
            Self::Directive { source, .. } => source.exit_code(),
            _ => 1,
        }
    }

    /// What is said of words that cannot be read.
    pub(crate) fn hint(&self, name: &str) -> Vec<String> {
        vec![format!("{name}: {self}"), format!("Try \"{name} --help\" for more information")]
    }

    /// What standard error says, line by line.
    pub fn lines(&self, tool: Tool) -> Vec<String> {
        let name = tool.name();
        let error = |text: &dyn std::fmt::Display| format!("{name}: error: {text}");
        match self {
            Self::Unrecognized { .. }
            | Self::Letter { .. }
            | Self::Ambiguous { .. }
            | Self::Missing { .. }
            | Self::LetterMissing { .. }
            | Self::Surplus { .. } => self.hint(name),
            Self::Directive { line, text, source } => {
                let mut lines = source.lines(tool);
                lines.push(error(&format_args!("line {line} of the script: {text}")));
                lines
            }
            Self::Value { option, source } => {
                let failed = match tool {
                    Tool::Sbatch => "Batch job submission failed",
                    Tool::Srun => "Unable to allocate resources",
                    Tool::Salloc => "Job submit/allocate failed",
                };
                let first = match *option {
                    "array" => format!("{failed}: Invalid job array specification"),
                    "dependency" => format!("{failed}: Job dependency problem"),
                    "constraint" => format!("{failed}: Invalid feature specification"),
                    "gres" => "Invalid generic resource (gres) specification".to_owned(),
                    _ => self.to_string(),
                };
                let mut lines = vec![error(&first), error(source)];
                if let ("begin", ValueError::Form { text, .. }) = (*option, source) {
                    // What reads times says for itself where it stopped.
                    let read = text.bytes().take_while(u8::is_ascii_digit).count();
                    lines.insert(0, format!("Invalid time specification (pos={read}): {text}"));
                }
                lines
            }
            Self::NoInterpreter => vec![
                error(self),
                error(&"line must start with #! followed by the path to an interpreter."),
                error(&"For instance: #!/bin/sh"),
            ],
            Self::ZeroByte => vec![error(self), error(&"contain a NULL character '\\0'.")],
            Self::DosLines => {
                vec![error(self), error(&"instead of expected UNIX line breaks (\\n).")]
            }
            Self::Quote { .. } | Self::NoCommand | Self::Memories => {
                vec![format!("{name}: fatal: {self}")]
            }
            Self::Jobspec(source) => vec![error(self), error(source)],
            _ => vec![error(self)],
        }
    }
}
