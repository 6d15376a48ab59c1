//! How a parallel job ended: its exit code, the reason and the first failing rank.
//!
//! Owns: the rules of `docs/spec/exit-codes.md` for jobs. Pure: ends of tasks in, a verdict after
//! each of them and one outcome out. It must not signal anybody: the job's leader does.

use quorate_contract::report::{Failure, Reason};
use quorate_contract::{Report, exit};
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[cfg(test)]
mod tests;

/// How long other ranks may still end by themselves after one ended with a code: ranks that fail
/// together should all be counted, since the highest code is the job's.
pub const LINGER: Duration = Duration::from_millis(100);

/// How one task ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TaskEnd {
    /// It exited by itself.
    Exited(i32),
    /// A signal ended it.
    Signaled(i32),
    /// The kernel killed it because the container's memory was used up.
    OutOfMemory,
    /// The program is not on that pod.
    NotFound(String),
    /// The program is there but cannot be executed; with the reason.
    NotExecutable(String),
    /// It could not be started for another reason.
    NotStarted(String),
}

impl TaskEnd {
    /// Whether there was a process at all.
    pub fn was_started(&self) -> bool {
        matches!(self, Self::Exited(_) | Self::Signaled(_) | Self::OutOfMemory)
    }
}

/// Where a task stood with its process-management server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Session {
    /// It never initialized: no MPI program, as far as we can see.
    #[default]
    None,
    /// It initialized and did not finalize.
    Open,
    /// It finalized.
    Closed,
}

/// The end of a task as its broker reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// The task's rank.
    pub rank: u32,
    /// How it ended.
    pub end: TaskEnd,
    /// Where it stood with MPI.
    #[serde(default)]
    pub session: Session,
    /// Whether the broker had sent it a signal to end before it ended: its code then says nothing.
    #[serde(default)]
    pub stopped: bool,
    /// Its last lines of output; only of a task that failed.
    #[serde(default)]
    pub log_tail: Vec<String>,
}

/// What the leader has to do after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing: the job goes on.
    Continue,
    /// End all other tasks, after this time.
    End(Duration),
}

/// Why a job is ended from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cancel {
    /// The user interrupted it, with the signal that was sent.
    Signal(i32),
    /// The client that started it is gone.
    ClientGone,
    /// The reader of its output is gone, as when `head` has seen enough.
    OutputClosed,
    /// The cluster shuts down.
    Shutdown,
}

/// Collects the ends of a job's tasks.
#[derive(Debug)]
pub struct Judge {
    tasks: u32,
    no_kill: bool,
    /// Of a nested instance: the broker of rank 0. Only that and rank 0 count.
    root: Option<u32>,
    ended: u32,
    code: i32,
    abort: Option<i32>,
    lost: bool,
    cancel: Option<Cancel>,
    asked: Option<i32>,
    first: Option<First>,
}

#[derive(Debug)]
struct First {
    reason: Reason,
    text: String,
    failure: Failure,
    /// Tasks that still ran when it happened.
    others: u32,
}

/// How the job ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The job's exit code.
    pub exit_code: i32,
    /// The machine's word for it.
    pub reason: Reason,
    /// One sentence for people; empty when all went well.
    pub message: String,
    /// The first failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

impl Outcome {
    /// Success.
    pub fn completed() -> Self {
        Self {
            exit_code: exit::OK,
            reason: Reason::Completed,
            message: String::new(),
            failure: None,
        }
    }

    /// A refusal or failure without a failing task.
    pub fn failed(exit_code: i32, reason: Reason, message: impl Into<String>) -> Self {
        Self { exit_code, reason, message: message.into(), failure: None }
    }

    /// The report that carries this outcome.
    pub fn into_report(self) -> Report {
        let message = if self.message.is_empty() {
            "the program ended with code 0".to_string()
        } else {
            self.message
        };
        let mut report = Report::new(self.exit_code, self.reason, message);
        report.failure = self.failure;
        report
    }
}

impl Judge {
    /// A job of so many tasks. With `no_kill` a failing task leaves the others alone.
    pub fn new(tasks: u32, no_kill: bool) -> Self {
        Self {
            tasks,
            no_kill,
            root: None,
            ended: 0,
            code: 0,
            abort: None,
            lost: false,
            cancel: None,
            asked: None,
            first: None,
        }
    }

    /// The same for the brokers of a nested instance: it ends with that of rank 0, and goes on without
    /// any other that has met the rest. `root` is the broker on which rank 0 is.
    pub fn of_instance(tasks: u32, root: u32) -> Self {
        Self { root: Some(root), ..Self::new(tasks, true) }
    }

    /// A task ended on `broker`, which people call `pod`.
    pub fn task_ended(&mut self, task: &Ended, broker: u32, pod: &str) -> Verdict {
        self.ended += 1;
        let (code, reason, what) = judge(task);
        let spare = self.root.is_some() && task.rank > 0 && task.session == Session::Closed;
        if code == 0 || task.stopped || spare {
            return Verdict::Continue;
        }
        self.code = self.code.max(code);
        let signal = match task.end {
            TaskEnd::Signaled(signal) => Some(signal),
            TaskEnd::OutOfMemory => Some(libc::SIGKILL),
            _ => None,
        };
        if let Some(signal) = signal.filter(|signal| self.asked == Some(*signal)) {
            self.cancel.get_or_insert(Cancel::Signal(signal));
        }
        self.fail(First {
            reason,
            text: format!("rank {} on {pod} {what}", task.rank),
            failure: Failure {
                rank: Some(task.rank),
                broker: Some(broker),
                pod: Some(pod.to_string()),
                node: None,
                exit_code: Some(code),
                signal,
                log_tail: task.log_tail.clone(),
            },
            others: 0,
        });
        // Brokers of an instance that have not met wait for each other.
        let missed = match self.root {
            Some(_) => task.session != Session::Closed,
            None => task.session == Session::Open,
        };
        if self.no_kill && !missed {
            return Verdict::Continue;
        }
        match task.end {
            TaskEnd::Exited(_) => Verdict::End(LINGER),
            _ => Verdict::End(Duration::ZERO),
        }
    }

    /// A task called MPI_Abort.
    pub fn aborted(&mut self, rank: u32, broker: u32, pod: &str, code: i32) -> Verdict {
        // An aborted program is never a success, whatever number it gave.
        let code = match code & 0xff {
            0 => exit::FAILED,
            code => code,
        };
        // A rank that died of a signal or left without finalizing makes its peers abort: then the
        // abort is the echo. A plain code seen a moment earlier is the echo of the abort.
        let echo = self.first.as_ref().is_some_and(|first| {
            matches!(first.reason, Reason::Signaled | Reason::NotFinalized | Reason::BrokerLost)
        });
        if self.abort.is_none() && !echo {
            self.abort = Some(code);
            self.first = None;
            self.fail(First {
                reason: Reason::Aborted,
                text: format!("rank {rank} on {pod} called MPI_Abort with code {code}"),
                failure: Failure {
                    rank: Some(rank),
                    broker: Some(broker),
                    pod: Some(pod.to_string()),
                    exit_code: Some(code),
                    ..Failure::default()
                },
                others: 0,
            });
        }
        Verdict::End(Duration::ZERO)
    }

    /// A task ended with code 0 while others wait for it in a fence, for ever.
    pub fn deserted(&mut self, rank: u32, broker: u32, pod: &str, initialized: bool) -> Verdict {
        self.code = self.code.max(exit::FAILED);
        let without = if initialized { "" } else { " without initializing MPI" };
        self.fail(First {
            reason: Reason::Deserted,
            text: format!(
                "rank {rank} on {pod} ended with code 0{without} while other ranks waited for it"
            ),
            failure: Failure {
                rank: Some(rank),
                broker: Some(broker),
                pod: Some(pod.to_string()),
                exit_code: Some(exit::OK),
                ..Failure::default()
            },
            others: 0,
        });
        Verdict::End(Duration::ZERO)
    }

    /// A broker with tasks of this job is gone, and `tasks` of them with it.
    pub fn broker_lost(&mut self, broker: u32, pod: &str, tasks: u32, why: &str) -> Verdict {
        self.ended += tasks;
        if self.root.is_some_and(|root| root != broker) {
            return Verdict::Continue;
        }
        self.lost = true;
        self.fail(First {
            reason: Reason::BrokerLost,
            text: format!("{pod} was lost ({why})"),
            failure: Failure {
                broker: Some(broker),
                pod: Some(pod.to_string()),
                ..Failure::default()
            },
            others: 0,
        });
        Verdict::End(Duration::ZERO)
    }

    /// The user sent a signal: whoever dies of it has not failed.
    pub fn asked(&mut self, signal: i32) {
        self.asked = Some(signal);
    }

    /// The job is ended from outside.
    pub fn canceled(&mut self, cancel: Cancel) -> Verdict {
        self.cancel.get_or_insert(cancel);
        Verdict::End(Duration::ZERO)
    }

    /// Whether every task's end is known.
    pub fn done(&self) -> bool {
        self.ended >= self.tasks
    }

    /// The outcome, after `elapsed`.
    pub fn outcome(self, elapsed: Duration) -> Outcome {
        if let Some(cancel) = self.cancel.filter(|_| self.abort.is_none()) {
            let (code, reason, message) = match cancel {
                Cancel::Signal(signal) => (
                    self.code.max(exit::signaled(signal)),
                    Reason::Canceled,
                    format!("interrupted with signal {signal} ({})", signal_text(signal)),
                ),
                Cancel::ClientGone => (
                    exit::signaled(libc::SIGHUP),
                    Reason::Canceled,
                    "the client that started the job is gone".to_string(),
                ),
                Cancel::OutputClosed => (
                    exit::signaled(libc::SIGPIPE),
                    Reason::Canceled,
                    "the reader of the output is gone".to_string(),
                ),
                Cancel::Shutdown => (
                    exit::TERMINATED,
                    Reason::Terminated,
                    "the cluster was told to stop".to_string(),
                ),
            };
            return Outcome::failed(code, reason, message);
        }
        let Some(first) = self.first else {
            return Outcome::completed();
        };
        let exit_code = match (self.abort, self.lost) {
            (Some(code), _) => code,
            (None, true) if first.reason == Reason::BrokerLost => exit::BROKER_LOST,
            _ => self.code,
        };
        let never_ran = matches!(
            first.reason,
            Reason::CommandNotFound | Reason::NotExecutable | Reason::Environment
        );
        let mut message = first.text;
        if !never_ran {
            message = format!("{message} after {}", seconds(elapsed));
        }
        if first.others > 0 && !(self.no_kill && self.abort.is_none() && !self.lost) {
            let others = match first.others {
                1 => "the other rank was stopped".to_owned(),
                others => format!("the other {others} ranks were stopped"),
            };
            message = format!("{message}; {others}");
        }
        Outcome { exit_code, reason: first.reason, message, failure: Some(first.failure) }
    }

    fn fail(&mut self, mut first: First) {
        if self.first.is_none() {
            first.others = self.tasks.saturating_sub(self.ended.max(1));
            self.first = Some(first);
        }
    }
}

/// Code, reason and words of a task's end; code 0 is success.
fn judge(task: &Ended) -> (i32, Reason, String) {
    match &task.end {
        TaskEnd::Exited(0) if task.session == Session::Open => (
            exit::FAILED,
            Reason::NotFinalized,
            "ended with code 0 without finalizing MPI".to_string(),
        ),
        TaskEnd::Exited(code) => (*code, Reason::ProgramFailed, format!("ended with code {code}")),
        TaskEnd::Signaled(signal) => (
            exit::signaled(*signal),
            Reason::Signaled,
            format!("was ended by signal {signal} ({})", signal_text(*signal)),
        ),
        TaskEnd::OutOfMemory => (
            exit::signaled(libc::SIGKILL),
            Reason::OutOfMemory,
            "ran out of memory and was killed".to_string(),
        ),
        TaskEnd::NotFound(program) => (
            exit::NOT_FOUND,
            Reason::CommandNotFound,
            format!("was not started: there is no command {program}"),
        ),
        TaskEnd::NotExecutable(why) => {
            (exit::NOT_EXECUTABLE, Reason::NotExecutable, format!("was not started: {why}"))
        }
        TaskEnd::NotStarted(why) => {
            (exit::FAILED, Reason::Environment, format!("was not started: {why}"))
        }
    }
}

/// What a signal means to people, as strsignal(3) says it.
pub fn signal_text(signal: i32) -> &'static str {
    match signal {
        libc::SIGHUP => "hangup",
        libc::SIGINT => "interrupt",
        libc::SIGQUIT => "quit",
        libc::SIGILL => "illegal instruction",
        libc::SIGTRAP => "trace trap",
        libc::SIGABRT => "aborted",
        libc::SIGBUS => "bus error",
        libc::SIGFPE => "floating point exception",
        libc::SIGKILL => "killed",
        libc::SIGUSR1 => "user signal 1",
        libc::SIGSEGV => "segmentation fault",
        libc::SIGUSR2 => "user signal 2",
        libc::SIGPIPE => "broken pipe",
        libc::SIGALRM => "alarm clock",
        libc::SIGTERM => "terminated",
        libc::SIGXCPU => "CPU time limit",
        libc::SIGXFSZ => "file size limit",
        libc::SIGSYS => "bad system call",
        _ => "signal",
    }
}

/// A time as people say it: 0.31 s, 12.4 s, 3m10s.
fn seconds(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 10.0 {
        format!("{seconds:.2} s")
    } else if seconds < 60.0 {
        format!("{seconds:.1} s")
    } else {
        format!("{}m{:02}s", time.as_secs() / 60, time.as_secs() % 60)
    }
}
