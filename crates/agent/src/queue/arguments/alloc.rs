//! `quorate-agent alloc`.

use super::misused;
use super::submit::SubmitArgs;
use crate::instance::proxy::code_of;
use crate::job::client as streams;
use crate::query::block_on;
use crate::queue::allocate::{self, Asked, Held, Moment};
use crate::queue::client::Own;
use clap::Args;
use quorate_contract::exit;
use quorate_queue::Program;

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
        let spec = match self.submit.spec(Program::Instance, "alloc") {
            Ok(spec) => spec,
            Err(why) => return Ok(misused(&why)),
        };
        let own = Own { env: Some(streams::own_environment()), rules: self.submit.env.clone() };
        let socket = self.submit.place.path();
        let (limit, command) = (None, &self.submit.command[..]);
        let asked = Asked { socket: &socket, spec, own, limit, command };
        let tell = |job, moment| match moment {
            Moment::Pending => crate::sys::complain(&format!("job {job} waits for its nodes")),
            Moment::Revoked => {
                crate::sys::complain(&format!("job {job} has ended before the command"));
            }
            Moment::Granted { .. } => {}
        };
        let held = block_on(allocate::hold(asked, tell, async |_, _| Ok(())))??;
        Ok(match held {
            Held::Unreachable(error) => {
                crate::sys::complain(&format!("{:#}", anyhow::Error::from(error)));
                exit::UNAVAILABLE
            }
            Held::Refused(end) | Held::Ended(_, end) => {
                if let Some(error) = end.error {
                    crate::sys::complain(&error);
                }
                end.code
            }
            Held::TooLate => exit::FAILED,
            Held::Ran { status, kept: true, .. } => code_of(status),
            Held::Ran { status, kept: false, .. } => code_of(status).max(exit::FAILED),
        })
    }
}
