//! Errors as people see them: one chain on one line, then what to do.
//!
//! ```text
//! error: no MPI program can start: this machine forbids user namespaces
//!   = run as root, allow them, or use --sandbox none
//! ```

use quorate_api::Finding;
use quorate_contract::exit;
use std::fmt;

/// A failure with its way out and the code to end with. Travels inside of [`anyhow::Error`].
#[derive(Debug)]
pub struct Refusal {
    message: String,
    hints: Vec<String>,
    code: i32,
}

impl Refusal {
    /// A failure of the command.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hints: Vec::new(), code: exit::FAILED }
    }

    /// Wrong usage: flags, files, fields.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { code: exit::USAGE, ..Self::new(message) }
    }

    /// Ends with another code.
    #[must_use]
    pub fn code(mut self, code: i32) -> Self {
        self.code = code;
        self
    }

    /// Adds a way out.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

/// Everything that is wrong with an object, found at once.
#[derive(Debug)]
pub struct Findings {
    /// The file's name as the user gave it; none for what came from flags.
    pub file: Option<String>,
    /// All findings.
    pub findings: Vec<Finding>,
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> =
            self.findings.iter().map(|finding| finding.render(self.file.as_deref())).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Findings {}

/// The lines for standard error and the code to end with.
pub fn render(error: &anyhow::Error) -> (String, i32) {
    if let Some(findings) = error.downcast_ref::<Findings>() {
        return (findings.to_string(), exit::USAGE);
    }
    let mut text = String::from("error: ");
    // A cause that only repeats what was just said is left out.
    let mut last = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if !last.is_empty() {
            if last.ends_with(&cause) {
                continue;
            }
            text += ": ";
        }
        text += &cause;
        last = cause;
    }
    let refusal = error.chain().find_map(|cause| cause.downcast_ref::<Refusal>());
    for hint in refusal.iter().flat_map(|refusal| &refusal.hints) {
        text += &format!("\n  = {hint}");
    }
    (text, refusal.map_or(exit::FAILED, |refusal| refusal.code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn a_chain_is_one_line_and_hints_follow() {
        let error = anyhow::Error::new(Refusal::usage("no such thing").hint("look elsewhere"))
            .context("cannot run it");
        let (text, code) = render(&error);
        assert_eq!(text, "error: cannot run it: no such thing\n  = look elsewhere");
        assert_eq!(code, exit::USAGE);
    }

    #[test]
    fn other_errors_are_failures_without_a_hint() {
        let error = std::fs::read("/no/such/file").context("cannot read it").unwrap_err();
        let (text, code) = render(&error);
        assert!(text.starts_with("error: cannot read it: No such file"), "{text}");
        assert_eq!(code, exit::FAILED);
    }
}
