//! A launching side that can run the launcher's command and nothing else.

use super::handle::Overlay;
use super::services::{BoxFuture, Launching, ProgramOutcome, Services, StopReason};
use crate::sys;
use quorate_contract::config::Program;
use quorate_contract::exit;
use quorate_contract::report::{Failure, Reason, Report};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::sync::Mutex;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

/// See the module.
#[derive(Debug, Default)]
pub struct Plain {
    /// The process group of the running command.
    group: std::sync::Arc<Mutex<Option<i32>>>,
}

impl Launching for Plain {
    fn register(&self, _: &Overlay, _: &mut Services) {}

    fn run_program(&self, overlay: Overlay) -> BoxFuture<ProgramOutcome> {
        let group = self.group.clone();
        Box::pin(async move {
            let report = match &overlay.config().program {
                Program::Command { argv } => run(argv, &group).await,
                Program::None | Program::Parallel(_) => Report::new(
                    exit::USAGE,
                    Reason::Infeasible,
                    "this agent cannot run parallel programs",
                ),
            };
            ProgramOutcome { report }
        })
    }

    fn stop_tasks(&self, _: Overlay, _: StopReason, grace: Duration) -> BoxFuture<()> {
        let group = self.group.clone();
        Box::pin(async move {
            let Some(pid) = *group.lock().expect("no holder panics") else { return };
            let deadline = Instant::now() + grace;
            sys::signal_group(pid, 15);
            while sys::signal_group(pid, 0) && Instant::now() < deadline {
                sleep(Duration::from_millis(10)).await;
            }
            sys::signal_group(pid, 9);
        })
    }
}

async fn run(argv: &[String], group: &Mutex<Option<i32>>) -> Report {
    let Some((program, arguments)) = argv.split_first() else {
        return Report::new(exit::USAGE, Reason::Infeasible, "the program has no command");
    };
    let spawned = Command::new(program).args(arguments).process_group(0).spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let message = format!("{program}: not found");
            return Report::new(exit::NOT_FOUND, Reason::CommandNotFound, message);
        }
        Err(error) => {
            let message = format!("{program}: cannot be executed: {error}");
            return Report::new(exit::NOT_EXECUTABLE, Reason::NotExecutable, message);
        }
    };
    *group.lock().expect("no holder panics") = child.id().map(u32::cast_signed);
    let status = match child.wait().await {
        Ok(status) => status,
        Err(error) => {
            return Report::new(exit::INTERNAL, Reason::Internal, format!("cannot wait: {error}"));
        }
    };
    match (status.code(), status.signal()) {
        (Some(0), _) => Report::new(exit::OK, Reason::Completed, "the program ended with code 0"),
        (Some(code), _) => {
            let message = format!("the program ended with code {code}");
            let mut report = Report::new(code, Reason::ProgramFailed, message);
            report.failure = Some(Failure { exit_code: Some(code), ..Failure::default() });
            report
        }
        (None, signal) => {
            let signal = signal.unwrap_or_default();
            let message = format!("the program was ended by signal {signal}");
            let mut report = Report::new(exit::signaled(signal), Reason::Signaled, message);
            report.failure = Some(Failure { signal: Some(signal), ..Failure::default() });
            report
        }
    }
}
