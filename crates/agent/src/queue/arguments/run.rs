//! `quorate-agent run` as a job of the queue.

use super::misused;
use super::submit::refused;
use crate::job::client::{self as streams, Options};
use crate::queue::client::{self, Own};
use crate::queue::protocol::{Copies, Question, Submit, Then};
use quorate_contract::exit;
use quorate_queue::Jobspec;
use std::path::Path;

/// How a refusal starts that is about the size of the cluster ([`quorate_queue::QueueError`]).
const TOO_SMALL: &str = "the cluster cannot run it";

/// Submits a job that is there for this process alone, and follows it to its end; gives the code to exit
/// with. `rules` are those of `--env`.
pub fn run_now(socket: &Path, spec: Jobspec, rules: Vec<String>, options: &Options) -> i32 {
    if let Err(error) = spec.check() {
        return misused(&refused(&error));
    }
    let then = Then::Attach { stdin: options.stdin, own: true };
    let submit = Submit { spec, copies: Copies::One, then, test: false };
    let own = Own { env: Some(streams::own_environment()), rules };
    let hello = client::hello(&Question::Submit(Box::new(submit)), own);
    let mut end = streams::call(socket, &hello, options);
    if let Ok(end) = &mut end
        && let Some(error) = &mut end.error
        && error.starts_with(TOO_SMALL)
    {
        error.push_str("; ask for less, or start more tasks than slots with --oversubscribe");
    }
    let failed = match end {
        Err(crate::local::LocalError::Connect { .. }) => exit::UNAVAILABLE,
        _ => exit::BROKER_LOST,
    };
    streams::conclude(end, failed)
}
