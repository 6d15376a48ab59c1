//! The forms that arguments of Slurm's options have: times, memory, counts, lists, patterns.
//!
//! Each is parsed from text to data, without any I/O; the clock is passed in. What a value means for a
//! job is said by [`crate::options`].

mod array;
mod begin;
mod constraint;
mod count;
mod dependency;
mod duration;
mod export;
mod gres;
mod memory;
mod pattern;
mod signal;

pub use array::{ArrayRange, array};
pub use begin::begin;
pub use constraint::features;
pub use count::{count, nodes};
pub use dependency::{Dependencies, JobRef, dependencies, job_ref};
pub use duration::{elapsed, limit_text, time_limit};
pub use export::{Export, export};
pub use gres::{Gpus, gpus, gres};
pub use memory::{memory, memory_text};
pub use pattern::{Pattern, PatternFacts};
pub use signal::{EarlySignal, early_signal, signal_name, signal_number};

/// Why a value cannot be used; who reports it says of which option.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// It does not have the form.
    #[error("`{text}` is not {expected}")]
    Form {
        /// The text.
        text: String,
        /// What it should be, with an example.
        expected: &'static str,
    },
    /// It has a form that Slurm knows and this queue cannot do.
    #[error("`{text}`: {why}; {instead}")]
    Unsupported {
        /// The text.
        text: String,
        /// Why not.
        why: &'static str,
        /// The way out.
        instead: &'static str,
    },
    /// It is too large or too small.
    #[error("`{text}` is out of range: {range}")]
    Range {
        /// The text.
        text: String,
        /// What it may be.
        range: &'static str,
    },
}

impl ValueError {
    fn form(text: &str, expected: &'static str) -> Self {
        Self::Form { text: text.to_owned(), expected }
    }
}

/// A whole number without a sign, nothing before or behind it.
fn digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}
