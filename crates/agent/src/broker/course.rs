//! What a broker does in each state: runs the program (rank 0), stops tasks, answers signals, and
//! turns the node's last word into the pod's report.
//!
//! ```text
//!   RUN ─▶ program ─▶ Finish ─▶ CLEANUP ─▶ stop tasks ─▶ Cleaned ─▶ SHUTDOWN ─▶ EXIT
//!   SIGTERM ─▶ stop tasks ─▶ Leave (worker) or Finish (launcher with a program)
//! ```
//!
//! States change by the node's decision alone.

use super::ending;
use super::handle::{Overlay, ToNode};
use super::life::unix_millis;
use super::services::{Launching, ProgramOutcome, StopReason};
use super::shell::LifeEvent;
use super::verbs;
use crate::sys;
use quorate_contract::config::Program;
use quorate_contract::exit;
use quorate_contract::report::{Phases, Reason, Report};
use quorate_overlay::{Command, ExitReason, State};
use std::fs;
use std::future::poll_fn;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long tasks have between SIGTERM and SIGKILL.
const TASK_GRACE: Duration = Duration::from_secs(5);
/// The same for a broker that was cut off: others may already run its tasks anew.
const FENCE_GRACE: Duration = Duration::from_secs(1);
/// How long rank 0 has to take note that this broker leaves.
const DRAIN_WAIT: Duration = Duration::from_millis(500);
/// In the run directory from the program's start on, for a broker that comes after a crash.
const STARTED_MARK: &str = "program.started";
/// In the run directory from the program's end on: its report.
const ENDED_MARK: &str = "program.ended";

const SIGTERM: i32 = 15;
const SIGINT: i32 = 2;
const SIGQUIT: i32 = 3;

/// One broker's course through its states.
pub(super) struct Course {
    overlay: Overlay,
    launching: Arc<dyn Launching>,
    signals: Signals,
    /// The program, on rank 0 in RUN.
    program: Option<JoinHandle<ProgramOutcome>>,
    /// How the program ended, or why it did not run.
    outcome: Option<Report>,
    /// Tasks that are being stopped, and what the node is told when they are gone.
    stopping: Option<(JoinHandle<()>, Option<Command>)>,
    /// All tasks have been stopped, and nothing new is started.
    stopped: bool,
    terminated: bool,
    phases: Phases,
    /// The phases that the status shows.
    shown: Phases,
}

enum Next {
    Life(LifeEvent),
    Program(Box<ProgramOutcome>),
    Stopped,
    Signal(i32),
}

impl Course {
    /// At the start. Signals are watched from here on.
    pub(super) fn new(
        overlay: Overlay,
        launching: Arc<dyn Launching>,
        started: u64,
    ) -> io::Result<Self> {
        Ok(Self {
            overlay,
            launching,
            signals: Signals::new()?,
            program: None,
            outcome: None,
            stopping: None,
            stopped: false,
            terminated: false,
            phases: Phases { agent_started: Some(started), ..Phases::default() },
            shown: Phases::default(),
        })
    }

    /// Goes through all states; gives what to leave behind.
    pub(super) async fn run(mut self, mut life: mpsc::UnboundedReceiver<LifeEvent>) -> Report {
        self.outcome = self.earlier_outcome();
        if self.outcome.is_some() {
            self.finish().await;
        }
        loop {
            match self.next(&mut life).await {
                Next::Life(LifeEvent::Exit(exit)) => return self.exit(exit).await,
                Next::Life(event) => {
                    self.life(event).await;
                    self.show().await;
                }
                Next::Program(outcome) => self.program_ended(*outcome).await,
                Next::Stopped => {
                    self.stopped = true;
                    if let Some((_, Some(command))) = self.stopping.take() {
                        self.tell(command).await;
                    }
                }
                Next::Signal(number @ (SIGTERM | SIGINT | SIGQUIT)) => {
                    if self.terminated {
                        let message = "the pod was told to stop, twice";
                        let report =
                            Report::new(exit::signaled(number), Reason::Terminated, message);
                        return self.with_phases(report);
                    }
                    self.terminate(number).await;
                }
                Next::Signal(number) => self.launching.signal(&self.overlay, number),
            }
        }
    }

    async fn next(&mut self, life: &mut mpsc::UnboundedReceiver<LifeEvent>) -> Next {
        let (program, stopping) = (&mut self.program, &mut self.stopping);
        let program_end = async {
            match program {
                Some(running) => running.await,
                None => std::future::pending().await,
            }
        };
        let stopped = async {
            match stopping {
                Some((stop, _)) => stop.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // What the node said first counts first.
            biased;
            Some(event) = life.recv() => Next::Life(event),
            number = self.signals.next() => Next::Signal(number),
            ended = program_end => {
                self.program = None;
                let outcome = ended.unwrap_or_else(|_| ProgramOutcome {
                    report: Report::new(
                        exit::INTERNAL,
                        Reason::Internal,
                        "the program's runner failed",
                    ),
                });
                Next::Program(Box::new(outcome))
            }
            result = stopped => {
                if result.is_err() {
                    tracing::error!("stopping the tasks failed");
                }
                Next::Stopped
            }
        }
    }

    async fn life(&mut self, event: LifeEvent) {
        let now = unix_millis();
        match event {
            LifeEvent::FirstMember => {
                self.phases.connected.get_or_insert(now);
            }
            LifeEvent::State(State::Quorum) => {
                if self.overlay.rank() != 0 {
                    self.phases.connected.get_or_insert(now);
                }
            }
            LifeEvent::State(State::Run) => {
                self.phases.connected.get_or_insert(now);
                self.phases.quorate.get_or_insert(now);
                self.start_program().await;
            }
            LifeEvent::State(State::Cleanup) => self.clean_up(),
            LifeEvent::State(_) | LifeEvent::Exit(_) => {}
            LifeEvent::Fence => {
                self.drop_program();
                self.stop(StopReason::Orphaned, FENCE_GRACE, None);
            }
            LifeEvent::RootReplaced => {
                let stop = self.launching.stop_tasks(
                    self.overlay.clone(),
                    StopReason::RootReplaced,
                    TASK_GRACE,
                );
                tokio::spawn(stop);
            }
        }
    }

    /// In RUN, on rank 0: runs the program, unless an earlier broker has done so.
    async fn start_program(&mut self) {
        if self.overlay.rank() != 0 || self.program.is_some() || self.terminated {
            return;
        }
        if self.outcome.is_some() {
            return self.finish().await;
        }
        if self.overlay.config().program == Program::None {
            return;
        }
        let mark = self.mark(STARTED_MARK);
        let run = if mark.exists() {
            tracing::warn!("an earlier broker died while the program ran");
            self.launching.resume_program(self.overlay.clone())
        } else {
            if let Err(error) = fs::write(&mark, "") {
                tracing::warn!(%error, "cannot mark the program's start");
            }
            self.launching.run_program(self.overlay.clone())
        };
        self.phases.program_started.get_or_insert(unix_millis());
        self.program = Some(tokio::spawn(run));
    }

    async fn program_ended(&mut self, outcome: ProgramOutcome) {
        self.phases.program_ended = Some(unix_millis());
        let report = self.with_phases(outcome.report);
        tracing::info!(code = report.exit_code, message = report.message, "program ended");
        // Renamed into place: a broker that dies while it writes must not leave half a mark.
        let (mark, draft) = (self.mark(ENDED_MARK), self.mark("program.ended.draft"));
        let marked = fs::write(&draft, report.render()).and_then(|()| fs::rename(&draft, &mark));
        if let Err(error) = marked {
            tracing::warn!(%error, "cannot mark the program's end");
        }
        self.outcome = Some(report);
        self.show().await;
        self.finish().await;
    }

    /// Tells how far the broker has come, for the status.
    async fn show(&mut self) {
        if self.shown != self.phases || self.outcome.is_some() {
            self.shown = self.phases.clone();
            let report = self.outcome.clone().map(|report| Box::new(self.with_phases(report)));
            let progress = ToNode::Progress { phases: self.phases.clone(), report };
            let _ = self.overlay.tell(progress).await;
        }
    }

    /// The work is over, however it ended: workers may call it done.
    async fn finish(&mut self) {
        let reason =
            self.outcome.as_ref().map_or_else(String::new, |report| report.message.clone());
        self.tell(Command::Finish { done: true, reason }).await;
    }

    fn clean_up(&mut self) {
        self.drop_program();
        let reason = if self.terminated { StopReason::Terminated } else { StopReason::Done };
        match &mut self.stopping {
            // Tasks are already being stopped: only what comes after that changes.
            Some((_, then)) => *then = Some(Command::Cleaned),
            None => self.stop(reason, TASK_GRACE, Some(Command::Cleaned)),
        }
    }

    /// Told to stop from outside.
    async fn terminate(&mut self, number: i32) {
        tracing::warn!(signal = number, "told to stop");
        self.terminated = true;
        let reason = "the pod was told to stop".to_owned();
        let running = self.program.is_some();
        self.drop_program();
        if running || (self.overlay.rank() == 0 && self.overlay.config().program != Program::None) {
            self.outcome.get_or_insert_with(|| {
                Report::new(exit::signaled(number), Reason::Terminated, reason.clone())
            });
            let reason = "the launcher was told to stop".to_owned();
            return self.tell(Command::Finish { done: false, reason }).await;
        }
        if self.stopping.is_none() {
            self.drain(reason);
        }
    }

    /// Leaves the running cluster: rank 0 starts nothing more here, tasks end, then the farewell.
    fn drain(&mut self, reason: String) {
        let overlay = self.overlay.clone();
        let launching = self.launching.clone();
        let stop = async move {
            if overlay.rank() == 0 {
                // What waits in the queue waits for the next launcher.
                overlay.drain_itself().await;
            // Who cannot tell rank 0 is away anyway.
            } else if let Ok(Err(error)) = timeout(DRAIN_WAIT, verbs::drain(&overlay)).await {
                tracing::debug!(%error, "rank 0 does not know that this broker leaves");
            }
            launching.stop_tasks(overlay, StopReason::Terminated, TASK_GRACE).await;
        };
        let then = Some(Command::Leave { reason });
        if let Some((earlier, _)) = self.stopping.replace((tokio::spawn(stop), then)) {
            earlier.abort();
        }
    }

    fn stop(&mut self, reason: StopReason, grace: Duration, then: Option<Command>) {
        let stop = self.launching.stop_tasks(self.overlay.clone(), reason, grace);
        if let Some((earlier, _)) = self.stopping.replace((tokio::spawn(stop), then)) {
            earlier.abort();
        }
    }

    fn drop_program(&mut self) {
        if let Some(program) = self.program.take() {
            program.abort();
        }
    }

    async fn exit(mut self, exit: ExitReason) -> Report {
        self.drop_program();
        if let Some((stop, _)) = self.stopping.take() {
            let _ = stop.await;
        } else if !self.stopped {
            // Nothing may run on in a pod whose broker is gone.
            let stop =
                self.launching.stop_tasks(self.overlay.clone(), StopReason::Failed, FENCE_GRACE);
            stop.await;
        }
        let settings = self.overlay.settings().clone();
        if let ExitReason::BootstrapTimeout { missing } = &exit
            && settings.rank == 0
        {
            for line in ending::table(&settings, missing) {
                sys::complain(&line);
            }
        }
        let online = self.overlay.membership().borrow().online.len() as u32;
        let report = ending::report(&exit, self.outcome.take(), &settings, online);
        self.with_phases(report)
    }

    /// How the program ended under an earlier broker of this pod.
    fn earlier_outcome(&self) -> Option<Report> {
        if self.overlay.rank() != 0 {
            return None;
        }
        let text = fs::read_to_string(self.mark(ENDED_MARK)).ok()?;
        Report::parse(&text).ok()
    }

    fn with_phases(&self, mut report: Report) -> Report {
        let (own, told) = (&self.phases, &mut report.phases);
        told.agent_started = told.agent_started.or(own.agent_started);
        told.connected = told.connected.or(own.connected);
        told.quorate = told.quorate.or(own.quorate);
        told.program_started = told.program_started.or(own.program_started);
        told.program_ended = told.program_ended.or(own.program_ended);
        report
    }

    fn mark(&self, name: &str) -> PathBuf {
        self.overlay.settings().run_dir.join(name)
    }

    async fn tell(&self, command: Command) {
        // Fails when the node task is gone; its last word is then on its way.
        let _ = self.overlay.tell(ToNode::Life(command)).await;
    }
}

/// The signals that a broker hears.
struct Signals(Vec<(i32, Signal)>);

impl Signals {
    fn new() -> io::Result<Self> {
        let kinds = [
            SignalKind::terminate(),
            SignalKind::interrupt(),
            SignalKind::quit(),
            SignalKind::hangup(),
            SignalKind::user_defined1(),
            SignalKind::user_defined2(),
            SignalKind::from_raw(18), // SIGCONT
            SignalKind::from_raw(20), // SIGTSTP
            SignalKind::window_change(),
        ];
        let watched = kinds.map(|kind| Ok((kind.as_raw_value(), signal(kind)?)));
        watched.into_iter().collect::<io::Result<_>>().map(Self)
    }

    async fn next(&mut self) -> i32 {
        poll_fn(|context| {
            for (number, signal) in &mut self.0 {
                if let Poll::Ready(Some(())) = signal.poll_recv(context) {
                    return Poll::Ready(*number);
                }
            }
            Poll::Pending
        })
        .await
    }
}
