//! `quorate-agent batch`.

use super::misused;
use super::submit::{SubmitArgs, called};
use crate::launch::text;
use clap::Args;
use quorate_queue::Program;
use std::io::Read;
use std::path::Path;

/// Put a script into the job queue, which gets a cluster of its own.
///
/// When its turn comes the script runs once, on the first of the job's nodes, with brokers over all of
/// them: what it submits and runs goes to this nested cluster and has the job's nodes to itself.
/// The job ends with the script.
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
        match self.script() {
            Ok((text, name)) => {
                let args = self.submit.command.iter().skip(1).map(text::encode).collect();
                self.submit.run_as(Program::Script { text, args }, &name)
            }
            Err(why) => Ok(misused(&why)),
        }
    }

    /// The script's text and its name.
    fn script(&self) -> Result<(String, String), String> {
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
