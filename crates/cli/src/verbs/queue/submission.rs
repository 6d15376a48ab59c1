//! What was typed behind `quorate submit CLUSTER`: options of the agent's verb, files of this machine,
//! and a command of the cluster or a script of this machine.
//!
//! Decides nothing about the cluster. Directives of a script are looked at here as well, so that a
//! wrong one is told before anything is sent.

use crate::refusal::Refusal;
use anyhow::Context as _;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Flags by which files are named.
const FILE: [&str; 2] = ["--file", "--add-file"];

/// A submission.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Submission {
    /// Options of the verb and, without a script, the command with its arguments.
    pub(super) words: Vec<String>,
    /// Files and folders to send along.
    pub(super) files: Vec<String>,
    /// A script of this machine.
    pub(super) script: Option<Script>,
}

/// A script of this machine.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Script {
    /// Its path.
    pub(super) path: String,
    /// Its arguments.
    pub(super) args: Vec<String>,
}

/// Reads the words. The first that is a script of this machine ends the options, as `--` does.
pub(super) fn read(words: &[String]) -> Result<Submission, Refusal> {
    let mut submission = Submission::default();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if word == "--" {
            submission.words.push(word.clone());
            submission.words.extend(rest.cloned());
            return Ok(submission);
        }
        if FILE.contains(&word.as_str()) {
            let Some(file) = rest.next() else {
                return Err(Refusal::usage(format!("{word} needs a file or a folder")));
            };
            submission.files.push(file.clone());
        } else if let Some((_, file)) = word.split_once('=').filter(|(name, _)| FILE.contains(name))
        {
            submission.files.push(file.to_owned());
        } else if !word.starts_with('-') && is_script(word) {
            submission.script = Some(Script { path: word.clone(), args: rest.cloned().collect() });
            return Ok(submission);
        } else {
            submission.words.push(word.clone());
        }
    }
    Ok(submission)
}

impl Script {
    /// The words of the agent's verb for it, which reads the text from standard input.
    pub(super) fn verb(&self, options: &[String]) -> Vec<String> {
        let name = Path::new(&self.path).file_name().unwrap_or_default().to_string_lossy();
        let mut words = vec!["submit-script".to_owned(), format!("--called={name}")];
        words.extend(self.args.iter().map(|word| format!("--argument={word}")));
        // A flag of the verb, in front of those of sbatch.
        let (watch, options): (Vec<_>, Vec<_>) =
            options.iter().cloned().partition(|word| word == "--watch");
        words.extend(watch);
        words.push("--".to_owned());
        words.extend(options);
        words
    }

    /// Makes it this process's standard input, after a look at its directives.
    pub(super) fn open(&self) -> anyhow::Result<()> {
        let path = &self.path;
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
        quorate_slurm::script::options(path, &text).map_err(|error| {
            let lines = error.lines(quorate_slurm::options::Tool::Sbatch);
            Refusal::usage(lines.join("; ")).hint("nothing was sent")
        })?;
        let file = File::open(path).with_context(|| format!("cannot read {path}"))?;
        nix::unistd::dup2_stdin(file).with_context(|| format!("cannot send {path}"))
    }
}

/// Whether a path is a file that begins as a script does.
fn is_script(path: &str) -> bool {
    let mut head = [0; 2];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == *b"#!"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn a_command_is_left_as_it_is() {
        let typed = words(&["--cc", "1-3", "--", "/bin/sh", "--file", "x"]);
        let submission = read(&typed).unwrap();
        assert_eq!(submission, Submission { words: typed, ..Submission::default() });
        // A program is no script, whatever its name.
        assert!(read(&words(&["/proc/self/exe"])).unwrap().script.is_none());
    }

    #[test]
    fn a_script_is_told_from_a_program_by_its_first_line_and_takes_what_follows() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        std::fs::write(path("job.sh"), "#!/bin/sh\n").unwrap();
        std::fs::write(path("data"), "1 2 3\n").unwrap();
        let script = path("job.sh");
        let typed = ["--file", "a", "-n4", "--add-file=b", "--watch", &script, "--watch", "x y"];
        let submission = read(&words(&typed)).unwrap();
        assert_eq!(submission.files, ["a", "b"]);
        assert_eq!(submission.words, ["-n4", "--watch"]);
        let script = submission.script.unwrap();
        assert_eq!(
            script.verb(&submission.words).join("|"),
            "submit-script|--called=job.sh|--argument=--watch|--argument=x y|--watch|--|-n4"
        );
        let data = path("data");
        assert_eq!(read(&words(&[&data])).unwrap().words, [data]);
        assert!(read(&words(&["--file"])).is_err());
    }

    #[test]
    fn a_wrong_directive_is_told_with_its_line_before_anything_is_sent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("job.sh").display().to_string();
        std::fs::write(&path, "#!/bin/sh\n#SBATCH -N2\n#SBATCH --nodez=3\n").unwrap();
        let error = Script { path, args: Vec::new() }.open().unwrap_err().to_string();
        assert!(error.contains("nodez") && error.contains('3'), "{error}");
    }
}
