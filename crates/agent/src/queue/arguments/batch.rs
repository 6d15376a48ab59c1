//! `quorate-agent batch`.

use super::misused;
use super::submit::{SubmitArgs, called};
use crate::launch::text;
use clap::{Args, FromArgMatches};
use quorate_queue::Program;
use quorate_slurm::script::Directive;
use std::ffi::OsString;
use std::io::Read;
use std::path::Path;

/// How a line of a script starts that holds options.
const DIRECTIVE: &str = "#QUORATE";

/// The verb's name.
const VERB: &str = "batch";

/// Put a script into the job queue, which gets a cluster of its own.
///
/// When its turn comes the script runs once, on the first of the job's nodes, with brokers over all of
/// them: what it submits and runs goes to this nested cluster and has the job's nodes to itself.
/// The job ends with the script.
///
/// Lines `#QUORATE -N4 -t 2h` before the script's first command are options, too; those that are typed
/// here come before them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  quorate-agent batch -N4 -n16 -t 2h ./many-steps.sh input.dat
  quorate-agent batch -N2 --wrap 'quorate-agent run -n8 ./solver'
  quorate-agent batch -n4 - < script.sh")]
pub struct BatchArgs {
    #[command(flatten)]
    submit: SubmitArgs,
    /// A line for /bin/sh instead of a script
    #[arg(long, value_name = "LINE", conflicts_with = "command")]
    wrap: Option<String>,
}

impl BatchArgs {
    /// Runs the verb; gives the code to exit with.
    pub fn run(&self) -> anyhow::Result<i32> {
        let (text, name) = match self.script() {
            Ok(script) => script,
            Err(why) => return Ok(misused(&why)),
        };
        let submit = match directed(&name, &text, std::env::args_os()) {
            Ok(None) => &self.submit,
            Ok(Some(args)) => &args.submit.clone(),
            Err(why) => return Ok(misused(&why)),
        };
        Self::run_script(submit, text, &name)
    }

    fn run_script(submit: &SubmitArgs, text: String, name: &str) -> anyhow::Result<i32> {
        let args = submit.command.iter().skip(1).map(text::encode).collect();
        submit.run_as(Program::Script { text, args }, name)
    }

    /// Submits a script that was read, whose lines were looked at; gives the code to exit with.
    pub(in crate::queue) fn run_text(&self, text: String, name: &str) -> anyhow::Result<i32> {
        Self::run_script(&self.submit, text, name)
    }

    /// What the job is to be.
    pub(in crate::queue) fn submit_mut(&mut self) -> &mut SubmitArgs {
        &mut self.submit
    }

    /// The script's text and its name.
    pub(in crate::queue) fn script(&self) -> Result<(String, String), String> {
        if let Some(line) = &self.wrap {
            return Ok((format!("#!/bin/sh\n{line}\n"), "wrap".to_owned()));
        }
        let Some(file) = self.submit.command.first() else {
            return Err("name the script, or give a line with --wrap; - reads it from stdin".into());
        };
        let mut bytes = Vec::new();
        let read = if file == "-" {
            std::io::stdin().lock().read_to_end(&mut bytes).map(drop)
        } else {
            std::fs::read(Path::new(file)).map(|read| bytes = read)
        };
        let shown = file.display();
        read.map_err(|error| format!("cannot read the script {shown}: {error}"))?;
        let text = String::from_utf8(bytes).map_err(|_| {
            format!("{shown} is no text: a program is started by submit, not batch")
        })?;
        let name = if file == "-" { "stdin".to_owned() } else { called(&self.submit.command[..1]) };
        Ok((text, name))
    }
}

/// What a script's directives and the words of this process ask for together; `None` without any
/// directive.
fn directed(
    name: &str,
    script: &str,
    typed: impl Iterator<Item = OsString>,
) -> Result<Option<BatchArgs>, String> {
    let found = quorate_slurm::script::directives(name, script);
    let mut found = found.map_err(|error| error.to_string())?;
    found.retain(|directive| directive.text.starts_with(DIRECTIVE));
    if found.is_empty() {
        return Ok(None);
    }
    let mut words = vec![OsString::from(VERB)];
    for Directive { line, words: more, .. } in found {
        let alone = std::iter::once(VERB).chain(more.iter().map(String::as_str));
        let wrong = |why: String| format!("line {line} of {name}: {why}");
        let read = parse(alone).map_err(|error| wrong(first_line(&error)))?;
        if let Some(word) = read.submit.command.first() {
            return Err(wrong(format!("`{}` is no option", word.display())));
        }
        words.extend(more.into_iter().map(OsString::from));
    }
    words.extend(typed.skip_while(|word| word != VERB).skip(1));
    parse(words)
        .map(Some)
        .map_err(|error| format!("with the lines of {name}: {}", first_line(&error)))
}

/// Reads words of which later ones come before earlier ones.
fn parse<W: Into<OsString> + Clone>(
    words: impl IntoIterator<Item = W>,
) -> Result<BatchArgs, clap::Error> {
    let command = BatchArgs::augment_args(clap::Command::new(VERB)).args_override_self(true);
    BatchArgs::from_arg_matches(&command.try_get_matches_from(words)?)
}

/// What is wrong, without usage and hints.
fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(script: &str, typed: &[&str]) -> Result<Option<SubmitArgs>, String> {
        let typed = ["quorate-agent", "batch"].iter().chain(typed).map(OsString::from);
        directed("job.sh", script, typed).map(|read| read.map(|args| args.submit))
    }

    #[test]
    fn lines_of_a_script_are_options_and_what_is_typed_comes_before_them() {
        let script = "#!/bin/sh\n#SBATCH -n 9\n#QUORATE -N2 --name 'a b'\n#QUORATE -n8 --env A=1\n\
                      true\n#QUORATE -N7\n";
        let args = read(script, &["-N4", "--env", "B=2", "job.sh", "-x"]).unwrap().unwrap();
        let spec = args.spec(Program::Instance, "job.sh").unwrap();
        assert_eq!((spec.request.nodes, spec.request.tasks), (Some((4, 4)), 8));
        assert_eq!((spec.name.as_str(), args.env.len()), ("a b", 2));
        assert_eq!(args.command, ["job.sh", "-x"]);
        assert!(read("#!/bin/sh\n#SBATCH -n 9\ntrue\n", &["job.sh"]).unwrap().is_none());
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named() {
        for (line, want) in [
            ("#QUORATE --frobnicate", "line 3 of job.sh: unexpected argument '--frobnicate' found"),
            ("#QUORATE -N2 foo", "line 3 of job.sh: `foo` is no option"),
            ("#QUORATE --name 'a", "line 3"),
        ] {
            let why = read(&format!("#!/bin/sh\n\n{line}\n"), &["job.sh"]).unwrap_err();
            assert!(why.contains(want), "{why}");
        }
    }
}
