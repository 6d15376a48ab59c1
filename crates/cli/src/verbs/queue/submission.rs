//! What was typed behind `quorate submit CLUSTER`: options of the agent's verb, files of this machine,
//! and a command of the cluster or a script of this machine.
//!
//! Decides nothing about the cluster. Directives of a script are looked at here as well, so that a
//! wrong one is told before anything is sent.

use crate::refusal::Refusal;
use anyhow::Context as _;
use quorate_parcel::Pattern;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Flags by which files are named.
const FILE: [&str; 2] = ["--file", "--add-file"];

/// The flag by which files are named that come back.
const FETCH: &str = "--fetch";

/// Flags that make several jobs of one submission.
const MANY: [&str; 4] = ["--cc", "--bcc", "--array", "--lines"];

/// A submission.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Submission {
    /// Options of the verb and, without a script, the command with its arguments.
    pub(super) words: Vec<String>,
    /// Files and folders to send along.
    pub(super) files: Vec<String>,
    /// What is to come back, and whereto.
    pub(super) fetch: Vec<(String, PathBuf)>,
    /// What comes back overwrites.
    pub(super) force: bool,
    /// The job is attached to once its number is known, instead of being watched as it is submitted.
    pub(super) attach: bool,
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
        if word == FETCH {
            let Some(what) = rest.next() else {
                return Err(Refusal::usage(format!("{FETCH} needs a file or a pattern")));
            };
            submission.fetch.push(fetch(what)?);
        } else if let Some(what) = word.strip_prefix("--fetch=") {
            submission.fetch.push(fetch(what)?);
        } else if word == "--force" {
            submission.force = true;
        } else if FILE.contains(&word.as_str()) {
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

impl Submission {
    /// Whether a flag stands among the options of the verb.
    pub(super) fn says(&self, flag: &str) -> bool {
        let mut own = self.words.iter().take_while(|word| *word != "--");
        own.any(|word| word.split_once('=').map_or(word.as_str(), |(name, _)| name) == flag)
    }

    /// Has the job's files kept until they have come, and waits for its end.
    pub(super) fn prepare_fetch(&mut self) -> Result<(), Refusal> {
        if self.fetch.is_empty() {
            if self.force {
                return Err(Refusal::usage("--force goes with --fetch"));
            }
            return Ok(());
        }
        if let Some(flag) = MANY.iter().find(|flag| self.says(flag)) {
            return Err(Refusal::usage(format!(
                "{FETCH} is for one job, and {flag} makes several"
            ))
            .hint("submit them with --keep-files, and get their files by `quorate fetch`"));
        }
        for flag in ["-Q", "--quiet", "--dry-run", "--test-only", "--pty"] {
            if self.says(flag) {
                return Err(Refusal::usage(format!("{FETCH} does not go with {flag}")));
            }
        }
        let mut own = vec!["--keep-files".to_owned()];
        if self.says("--watch") && self.script.is_none() {
            let end = self.words.iter().position(|word| word == "--");
            let end = end.unwrap_or(self.words.len());
            let at = self.words[..end].iter().position(|word| word == "--watch");
            self.words.remove(at.expect("the flag is there because it is said"));
            self.attach = true;
        } else if !self.says("--watch") && !self.says("--wait") {
            own.push("--wait".to_owned());
        }
        self.words.splice(0..0, own);
        Ok(())
    }
}

/// Reads `PATTERN[=DIR]`.
fn fetch(word: &str) -> Result<(String, PathBuf), Refusal> {
    let (pattern, dir) = word.split_once('=').unwrap_or((word, "."));
    if dir.is_empty() {
        return Err(Refusal::usage(format!("{FETCH} {word}: there is no directory behind the =")));
    }
    Pattern::read(pattern).map_err(|error| Refusal::usage(format!("{FETCH}: {error}")))?;
    Ok((pattern.to_owned(), dir.into()))
}

impl Script {
    /// The words of the agent's verb for it, which reads the text from standard input.
    pub(super) fn verb(&self, options: &[String]) -> Vec<String> {
        let name = Path::new(&self.path).file_name().unwrap_or_default().to_string_lossy();
        let mut words = vec!["submit-script".to_owned(), format!("--called={name}")];
        words.extend(self.args.iter().map(|word| format!("--argument={word}")));
        // A flag of the verb, in front of those of sbatch.
        let own = ["--watch", "--wait", "--keep-files"];
        let (watch, options): (Vec<_>, Vec<_>) =
            options.iter().cloned().partition(|word| own.contains(&word.as_str()));
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
    fn what_is_to_come_back_is_kept_and_waited_for() {
        let typed =
            words(&["-n2", "--fetch", "out/*=results", "--fetch=log", "--force", "--", "a"]);
        let mut submission = read(&typed).unwrap();
        submission.prepare_fetch().unwrap();
        let into = |dir: &str| PathBuf::from(dir);
        let fetch = [("out/*".to_owned(), into("results")), ("log".to_owned(), into("."))];
        assert_eq!((&submission.fetch[..], submission.force), (&fetch[..], true));
        assert_eq!(submission.words, ["--keep-files", "--wait", "-n2", "--", "a"]);
        // What is behind the command is its own.
        let mut plain = read(&words(&["--watch", "--", "a", "--fetch", "x", "--cc"])).unwrap();
        plain.prepare_fetch().unwrap();
        assert_eq!(plain.words, ["--watch", "--", "a", "--fetch", "x", "--cc"]);
        let mut watched = read(&words(&["--fetch", "x", "--watch", "--", "a", "--watch"])).unwrap();
        watched.prepare_fetch().unwrap();
        assert!(watched.attach);
        assert_eq!(watched.words, ["--keep-files", "--", "a", "--watch"]);
        for wrong in [
            &["--fetch"][..],
            &["--fetch", ".."],
            &["--fetch", "a="],
            &["--fetch", "a", "--array=0-3", "--", "x"],
            &["--fetch", "a", "--dry-run", "--", "x"],
            &["--force", "--", "x"],
        ] {
            let refused = read(&words(wrong)).and_then(|mut read| read.prepare_fetch());
            assert!(refused.is_err(), "{wrong:?}");
        }
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
