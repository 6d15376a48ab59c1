//! `quorate-agent alloc`.

use super::misused;
use super::submit::SubmitArgs;
use crate::instance::proxy;
use crate::job::client as streams;
use crate::job::protocol::kind as stream;
use crate::local::{self, Connection, End, connect};
use crate::query::block_on;
use crate::queue::client::{self, Own};
use crate::queue::protocol::{Copies, Question, Submit, Submitted, Then, kind};
use anyhow::Context;
use clap::Args;
use quorate_contract::{env, exit};
use quorate_queue::Program;
use std::ffi::OsString;
use std::path::Path;

/// Get nodes as a cluster of one's own, for as long as a command runs here.
///
/// Waits for the nodes, starts brokers over them, and runs the command in this pod; the verbs that it
/// uses go to the nested cluster. Without a command it is a shell. The nodes are given back when
/// the command ends, whose code is this one's.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  quorate-agent alloc -N4 -t 1h
  quorate-agent alloc -N2 -n8 -- make check")]
pub struct AllocArgs {
    #[command(flatten)]
    submit: SubmitArgs,
    /// Keep the nodes until the job is cancelled; prints its number and runs nothing here
    #[arg(long, conflicts_with = "command")]
    bg: bool,
}

impl AllocArgs {
    /// Runs the verb; gives the code to exit with.
    pub fn run(&self) -> anyhow::Result<i32> {
        if self.bg {
            return self.submit.run_as(Program::Instance, "alloc");
        }
        let mut spec = match self.submit.spec(Program::Instance, "alloc") {
            Ok(spec) => spec,
            Err(why) => return Ok(misused(&why)),
        };
        // It is there for as long as this process holds its input open.
        spec.streams.input = Some("-".to_owned());
        let then = Then::Attach { stdin: true, own: true };
        let submit = Submit { spec, copies: Copies::One, then, test: false };
        let own = Own { env: Some(streams::own_environment()), rules: self.submit.env.clone() };
        let hello = client::hello(&Question::Submit(Box::new(submit)), own);
        let socket = self.submit.place.path();
        block_on(async {
            let connection = match connect(&socket, &hello).await {
                Ok(connection) => connection,
                Err(error) => {
                    crate::sys::complain(&format!("{:#}", anyhow::Error::from(error)));
                    return Ok(exit::UNAVAILABLE);
                }
            };
            self.hold(&socket, connection).await
        })?
    }

    /// Runs the command once the instance is there, and then lets it go.
    async fn hold(&self, socket: &Path, mut connection: Connection) -> anyhow::Result<i32> {
        let submitted: Submitted = match next(&mut connection).await? {
            Heard::Answer(answer) => client::read(&answer)?,
            Heard::Over(code) => return Ok(code),
        };
        let id = submitted.first.to_string();
        let pending = std::time::Duration::from_millis(300);
        let there = proxy::await_instance(socket, &id);
        tokio::pin!(there);
        tokio::select! {
            there = &mut there => there?,
            over = over(&mut connection) => return over,
            () = tokio::time::sleep(pending) => {
                crate::sys::complain(&format!("job {id} waits for its nodes"));
                tokio::select! {
                    there = &mut there => there?,
                    over = over(&mut connection) => return over,
                }
            }
        }
        let shell = || std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
        let command = match &self.submit.command[..] {
            [] => vec![shell()],
            command => command.to_vec(),
        };
        let variables: [(&str, OsString); 1] = [(env::JOB_ID, id.clone().into())];
        let run = proxy::run_within(socket.to_owned(), &id, &command, &variables);
        let code = tokio::select! {
            code = run => code?,
            code = over(&mut connection) => {
                // Dropped, the command goes on without its nodes; what it does then is its business.
                let code = code?;
                crate::sys::complain(&format!("job {id} has ended before the command"));
                return Ok(code.max(exit::FAILED));
            }
        };
        // Its end follows from the end of its input, and gives the nodes back.
        connection.send(stream::STDIN_END, &[]).await.context("cannot give the nodes back")?;
        over(&mut connection).await?;
        Ok(code)
    }
}

enum Heard {
    Answer(bytes::Bytes),
    Over(i32),
}

/// The next answer, or the end.
async fn next(connection: &mut Connection) -> anyhow::Result<Heard> {
    while let Some((number, payload)) = connection.recv().await? {
        match number {
            kind::ANSWER => return Ok(Heard::Answer(payload)),
            stream::OUT | stream::ERR => {
                if let Some((_, bytes)) = crate::job::protocol::piece(payload) {
                    // What brokers of the instance log.
                    let _ = crate::sys::write_all(libc::STDERR_FILENO, &bytes);
                }
            }
            local::kind::END => {
                let end: End = serde_json::from_slice(&payload)?;
                if let Some(error) = end.error {
                    crate::sys::complain(&error);
                }
                return Ok(Heard::Over(end.code));
            }
            _ => {}
        }
    }
    Err(local::LocalError::NoEnd.into())
}

/// The job's end.
async fn over(connection: &mut Connection) -> anyhow::Result<i32> {
    loop {
        if let Heard::Over(code) = next(connection).await? {
            return Ok(code);
        }
    }
}
