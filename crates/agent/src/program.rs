//! What the cluster is for: the program of the configuration, run once on rank 0.
//!
//! Owns: a command's environment and stdio, the output of a parallel program, the proof of
//! placement and the report. Ranks of parallel programs are the job's business.

mod input;
pub mod placement;

use crate::broker::services::BoxFuture;
use crate::broker::{Overlay, ProgramOutcome, Services};
use crate::hosts;
use crate::job::Jobs;
use crate::job::leader::{self, Led};
use crate::job::protocol::{Placed, body, kind, piece, split, taken};
use crate::launch::environment::{self, Variables};
use crate::launch::outcome::{Ended, Judge, Outcome, Session, TaskEnd};
use crate::launch::place::Offer;
use crate::launch::spawn::{self, Start};
use crate::launch::stdio::Merge;
use crate::sys;
use bytes::Bytes;
use placement::{Evidence, Landing, Sighting, Watcher};
use quorate_contract::config::{Parallel, Program};
use quorate_contract::report::{Placement, Reason};
use quorate_contract::status::ProgramStatus;
use quorate_contract::{Report, env as names, exit};
use quorate_pmi::must_not_leak;
use std::ffi::OsString;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// How often the process table is looked at for ranks.
const LOOK: Duration = Duration::from_millis(50);

/// What is observed of a running command.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    evidence: Arc<Mutex<Evidence>>,
}

impl Observed {
    /// Adds the service by which brokers tell of remote commands.
    pub fn register(&self, services: &mut Services) {
        let observed = self.clone();
        services.on_cast(placement::LANDED, move |_, body| {
            if let Ok(landing) = serde_json::from_slice::<Landing>(&body) {
                observed.with(|e| e.landings.push((landing.broker, placement::ticks())));
            }
        });
        let observed = self.clone();
        services.on_cast(placement::SEEN, move |_, body| {
            if let Ok(sighting) = serde_json::from_slice::<Sighting>(&body) {
                observed.with(|evidence| evidence.note(&sighting));
            }
        });
    }

    fn with<T>(&self, action: impl FnOnce(&mut Evidence) -> T) -> T {
        action(&mut self.evidence.lock().expect("the lock holds because nothing panics under it"))
    }
}

/// Runs the program of the configuration to its end.
pub fn run(jobs: Jobs, observed: Observed, overlay: Overlay) -> BoxFuture<ProgramOutcome> {
    Box::pin(async move {
        let report = match overlay.config().program.clone() {
            // Nothing to run: up until told to stop.
            Program::None => std::future::pending().await,
            Program::Command { argv } => {
                let argv = argv.into_iter().map(OsString::from).collect();
                command(&jobs, &observed, &overlay, argv).await
            }
            Program::Parallel(parallel) => self::parallel(jobs, overlay, parallel).await,
            Program::Script { .. } | Program::Jobs { .. } => work(&jobs, &observed, &overlay).await,
        };
        ProgramOutcome { report }
    })
}

/// Runs a command on this pod, with this pod's stdin, stdout and stderr.
async fn command(
    jobs: &Jobs,
    observed: &Observed,
    overlay: &Overlay,
    argv: Vec<OsString>,
) -> Report {
    let settings = overlay.settings();
    if let Err(error) = hosts::write(overlay) {
        let why = format!("the host files cannot be written: {error:#}");
        return Report::new(exit::INTERNAL, Reason::Environment, why);
    }
    let env = command_environment(jobs, overlay);
    let cwd = jobs.pod().cwd.clone();
    let start = Start {
        argv: &argv,
        env: &env,
        cwd: &cwd,
        cpus: None,
        stdin: false,
        keep: None,
        own_session: false,
    };
    let started = Instant::now();
    let end = match spawn::start_inheriting(&start) {
        Ok((pid, process)) => {
            let status = ProgramStatus { tasks: 1, pods: 1, tasks_by_pod: String::from("1x1") };
            let _ = overlay.program_started(status).await;
            let record = jobs.record("program", &[pid]);
            let group = jobs.group(pid);
            // On its own: if the cluster stops before the command ends, somebody must still wait
            // for it.
            let waiting = tokio::spawn(async move {
                let end = process.wait(true).await;
                drop((group, record));
                end
            });
            let watching = tokio::spawn(watch(observed.clone(), overlay.clone()));
            let end = waiting.await.unwrap_or(TaskEnd::NotStarted("nobody waited".into()));
            watching.abort();
            end
        }
        Err(end) => end,
    };
    let mut outcome = outcome_of(end, started.elapsed(), &settings.display_name(), overlay.rank());
    if let Some(failure) = &mut outcome.failure {
        failure.node.clone_from(&settings.node);
    }
    prove(outcome, observed, overlay)
}

/// Has a process of this program's own put the work into the queue and wait for it.
async fn work(jobs: &Jobs, observed: &Observed, overlay: &Overlay) -> Report {
    let dir = &overlay.settings().run_dir;
    let (config, failure) = (dir.join("program.json"), dir.join("program.failure"));
    let agent = match std::env::current_exe() {
        Ok(agent) => agent,
        Err(error) => {
            let why = format!("the agent does not find itself: {error}");
            return Report::new(exit::INTERNAL, Reason::Environment, why);
        }
    };
    let _ = std::fs::remove_file(&failure);
    if let Err(error) = std::fs::write(&config, overlay.config().render()) {
        let why = format!("{} cannot be written: {error}", config.display());
        return Report::new(exit::FAILED, Reason::Environment, why);
    }
    let argv: Vec<OsString> =
        vec![agent.into(), crate::queue::work::VERB.into(), config.into(), failure.clone().into()];
    let mut report = command(jobs, observed, overlay, argv).await;
    // What is known of the job says more than the end of the process that waited for it.
    if report.exit_code != exit::OK
        && let Ok(words) = std::fs::read_to_string(&failure)
    {
        report.message = words;
    }
    report
}

/// The outcome of a command, in words of its own: it is no rank.
fn outcome_of(end: TaskEnd, elapsed: Duration, pod: &str, broker: u32) -> Outcome {
    let mut judge = Judge::new(1, true);
    let task = Ended { rank: 0, end, session: Session::None, stopped: false, log_tail: Vec::new() };
    let _ = judge.task_ended(&task, broker, pod);
    let mut outcome = judge.outcome(elapsed);
    outcome.message = outcome.message.replacen("rank 0", "the command", 1);
    if let Some(failure) = &mut outcome.failure {
        failure.rank = None;
    }
    outcome
}

/// The environment of a command: the pod's, what launchers need to find the other pods, and
/// nothing that would make an MPI library take the script for a rank.
fn command_environment(jobs: &Jobs, overlay: &Overlay) -> Variables {
    let settings = overlay.settings();
    let mut env = jobs.pod().env.clone();
    env.retain(|name, _| !name.to_str().is_some_and(must_not_leak));
    environment::pod(settings, &mut env);
    env.insert(names::MARK.into(), environment::marks(settings, "program").into());
    hosts::add_to(overlay, &mut env);
    env
}

/// Looks for ranks while a command runs, if there is more than one pod to be on.
async fn watch(observed: Observed, overlay: Overlay) {
    if offers(&overlay).iter().filter(|offer| offer.slots > 0).count() < 2 {
        return;
    }
    let mut watcher = Watcher::new(environment::mark(overlay.settings(), ""), overlay.rank());
    let mut interval = tokio::time::interval(LOOK);
    loop {
        interval.tick().await;
        observed.with(|evidence| watcher.look(evidence));
    }
}

/// Tells rank 0 of the ranks that remote commands start in this pod, until none is left and `over`
/// says that no command is either.
pub async fn watch_for_others(overlay: Overlay, over: impl Fn() -> bool) {
    let settings = overlay.settings();
    // Hydra gives all of its ranks the launcher's mark; but pods of a test cluster share their
    // processes, so there each looks for its own alone.
    let prefix = if settings.shared_host {
        environment::mark(settings, "")
    } else {
        environment::cluster_mark(settings)
    };
    let mut watcher = Watcher::new(prefix, overlay.rank());
    let mut evidence = Evidence::default();
    let mut interval = tokio::time::interval(LOOK);
    loop {
        interval.tick().await;
        for sighting in watcher.look(&mut evidence) {
            if let Err(error) = overlay.cast(&[0], placement::SEEN, body(&sighting)).await {
                tracing::warn!(%error, "rank 0 is not told where ranks run");
            }
        }
        if !watcher.sees_ranks() && over() {
            return;
        }
    }
}

fn offers(overlay: &Overlay) -> Vec<Offer> {
    let membership = overlay.membership().borrow().clone();
    membership
        .online
        .iter()
        .map(|(broker, member)| Offer { broker: *broker, slots: member.inventory.slots })
        .collect()
}

/// Turns an outcome into a report, and a success into a failure when ranks were misplaced.
fn prove(outcome: Outcome, observed: &Observed, overlay: &Overlay) -> Report {
    let offers = offers(overlay);
    let evidence = observed.with(|evidence| evidence.clone());
    let Some(misplaced) = evidence.misplaced(overlay.rank(), &offers) else {
        let mut report = outcome.into_report();
        report.placement = evidence.placed(overlay.size()).map(|tasks| {
            let pods = tasks.iter().filter(|tasks| **tasks > 0).count() as u32;
            Placement {
                // Whoever wrote the script planned it; what it came to is all that is known.
                planned_pods: pods,
                actual_pods: pods,
                tasks: tasks.iter().sum(),
                tasks_by_pod: crate::launch::place::runs(tasks),
                wire: std::collections::BTreeMap::new(),
            }
        });
        return report;
    };
    let message = misplaced.message(offers.len() as u32);
    let mut report = if outcome.exit_code == exit::OK {
        Report::new(exit::WRONG_PLACEMENT, Reason::WrongPlacement, message)
    } else {
        // The program's own failure stays the reason; where it ran may explain it.
        let mut report = outcome.into_report();
        report.message = format!("{}; besides, {message}", report.message);
        report
    };
    report.placement = Some(Placement {
        planned_pods: misplaced.planned_pods,
        actual_pods: 1,
        tasks: misplaced.ranks,
        tasks_by_pod: crate::launch::place::runs(
            offers.iter().map(|o| if o.broker == overlay.rank() { misplaced.ranks } else { 0 }),
        ),
        wire: std::collections::BTreeMap::new(),
    });
    report
}

/// Launches a parallel program over all pods; its output is this pod's.
async fn parallel(jobs: Jobs, overlay: Overlay, parallel: Parallel) -> Report {
    let request = leader::program(&parallel);
    let size = overlay.size();
    // On its own, for the same reason as a command.
    let leading = tokio::spawn(async move {
        let (messages, queue) = mpsc::channel::<Bytes>(16);
        let (to_writer, pieces) = mpsc::channel(16);
        let label = parallel.label_io;
        let writer = std::thread::spawn(move || write(pieces, label));
        let window = input::Window::default();
        let telling = tokio::spawn(relay(queue, to_writer, overlay.clone(), window.clone()));
        let led = {
            let (handle, led) = leader::lead_here(&jobs, &overlay, (request, None), messages);
            input::feed(handle, window);
            led.await
        };
        // The leader is gone, and with it the queue's other end: all output is on its way.
        let _ = telling.await;
        let _ = tokio::task::spawn_blocking(move || writer.join()).await;
        led
    });
    match leading.await {
        Ok(led) => report_of(led, size),
        Err(error) => {
            let why = format!("the leader of the program ended early: {error}");
            Report::new(exit::INTERNAL, Reason::Internal, why)
        }
    }
}

fn report_of(led: Led, size: u32) -> Report {
    let Led { finished, placement } = led;
    let Some(planned) = placement else { return finished.outcome.into_report() };
    let placement = Placement {
        planned_pods: planned.pods(),
        actual_pods: finished.started.len() as u32,
        tasks: planned.tasks(),
        tasks_by_pod: planned.tasks_by_pod(size),
        wire: finished.wire,
    };
    let mut report = if finished.outcome.exit_code == exit::OK
        && placement.actual_pods < placement.planned_pods
    {
        Report::new(
            exit::WRONG_PLACEMENT,
            Reason::WrongPlacement,
            format!(
                "the program ran on {} of {} pods",
                placement.actual_pods, placement.planned_pods
            ),
        )
    } else {
        finished.outcome.into_report()
    };
    report.placement = Some(placement);
    report
}

/// Takes a program's messages: output goes to the writer, its placement into the status.
async fn relay(
    mut messages: mpsc::Receiver<Bytes>,
    to_writer: mpsc::Sender<(u8, Bytes)>,
    overlay: Overlay,
    window: input::Window,
) {
    while let Some(received) = messages.recv().await {
        match split(received) {
            Some((kind::PLACED, payload)) => {
                if let Ok(placed) = serde_json::from_slice::<Placed>(&payload) {
                    let status = ProgramStatus {
                        tasks: placed.placement.tasks(),
                        pods: placed.placement.pods(),
                        tasks_by_pod: placed.placement.tasks_by_pod(overlay.size()),
                    };
                    let _ = overlay.program_started(status).await;
                }
            }
            Some((kind::TAKEN, payload)) => {
                window.taken(taken(&payload).unwrap_or(0) as usize);
            }
            Some((kind @ (kind::OUT | kind::ERR | kind::NOTICE), payload)) => {
                // Without a reader of its output the program runs on, as a pod's does.
                let _ = to_writer.send((kind, payload)).await;
            }
            _ => {}
        }
    }
}

/// The writer's thread: a slow log must not hold up the broker.
fn write(mut pieces: mpsc::Receiver<(u8, Bytes)>, label: bool) {
    let (mut out, mut err) = (Merge::new(label), Merge::new(label));
    let mut buffer = Vec::new();
    while let Some((kind, payload)) = pieces.blocking_recv() {
        buffer.clear();
        if kind == kind::NOTICE {
            let _ = writeln!(std::io::stderr(), "quorate: {}", String::from_utf8_lossy(&payload));
            continue;
        }
        let Some((rank, bytes)) = piece(payload) else { continue };
        let (merge, fd) = if kind == kind::OUT {
            (&mut out, libc::STDOUT_FILENO)
        } else {
            (&mut err, libc::STDERR_FILENO)
        };
        merge.piece(rank, &bytes, &mut buffer);
        // A closed stdout is the pod's business, not the program's.
        let _ = sys::write_all(fd, &buffer);
    }
}
