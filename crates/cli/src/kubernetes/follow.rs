//! Following a cluster from its creation to its end: what the API server says, turned into the words
//! of `crate::progress`, with the launcher's output streamed beside them.

use super::gather;
use super::logs::{Lines, follow_pod};
use super::refuse::Asked;
use super::session::Session;
use super::target::youngest;
use super::words::has_started;
use crate::control::Finish;
use crate::progress::{Ending, Line, Progress, Scene};
use crate::terminal::Terminal;
use futures_util::StreamExt as _;
use k8s_openapi::jiff::Timestamp;
use kube::api::{WatchEvent, WatchParams};
use quorate_api::MiniCluster;
use quorate_api::conditions;
use quorate_api::names::LAUNCHER;
use quorate_api::status::State;
use quorate_contract::report::{Failure, Reason, Report};
use quorate_contract::{Report as AgentReport, exit};
use quorate_observe::{Cause, PodFacts};
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// How often a redrawn line turns.
const TURN: Duration = Duration::from_millis(100);
/// How often pods are looked at while the cluster starts, and a broken watch is made again.
const LOOK: Duration = Duration::from_millis(500);
/// After so many looks they become rarer.
const EAGER: u32 = 20;
/// How long the rest of the output may take once the cluster has ended.
const REST: Duration = Duration::from_secs(10);

/// How the following ended.
pub(super) enum Departure {
    /// The cluster has ended.
    Ended { finish: Finish, report: Option<Box<AgentReport>>, wall: Duration },
    /// The user wants it to go, or to stay.
    Left { delete: bool, code: i32 },
    /// It is quorate, which was all that was waited for.
    Quorate,
}

/// A cluster that is followed.
pub(super) struct Following<'a> {
    pub(super) session: &'a Session,
    pub(super) cluster: &'a MiniCluster,
    pub(super) progress: Progress,
    /// A spinner may turn.
    pub(super) redraw: bool,
    /// Columns of the terminal.
    pub(super) width: usize,
    pub(super) started: Instant,
    /// Leave the cluster as soon as it is quorate.
    pub(super) leave: bool,
    /// Ranks in all, if that is known, where the program is a parallel one.
    pub(super) tasks: Option<u32>,
}

impl Following<'_> {
    /// Follows the cluster to its end, or until it is left.
    pub(super) async fn follow(mut self) -> anyhow::Result<Departure> {
        let terminal = Arc::new(Mutex::new(Terminal::new(self.width)));
        show(&terminal, self.progress.header());
        let mut changes = changes(self.session, self.cluster);
        let (scenes, mut looked) = mpsc::channel(1);
        let looking = tokio::spawn(look(self.session.clone(), self.cluster.clone(), scenes));
        let (pods, outputs) = mpsc::channel(4);
        let mut output = tokio::spawn(output(self.session.clone(), outputs, Arc::clone(&terminal)));
        let mut streamed: Option<String> = None;
        let mut interrupts = signal(SignalKind::interrupt())?;
        let mut ends = signal(SignalKind::terminate())?;
        let mut hangups = signal(SignalKind::hangup())?;
        let mut turns = tokio::time::interval(if self.redraw { TURN } else { LOOK });
        let mut answers: Option<mpsc::Receiver<String>> = None;
        let mut attempt = 0;
        let last = loop {
            tokio::select! {
                change = changes.recv() => {
                    let Some(change) = change else { break None };
                    let Some(now) = change? else { break None };
                    let status = now.status.clone().unwrap_or_default();
                    let newer = status.attempt.unwrap_or(0).max(0).cast_unsigned();
                    if newer > attempt {
                        attempt = newer;
                        let most = now.spec.failure_policy.max_restarts.max(0).cast_unsigned();
                        let why = status.failure.as_ref().and_then(|f| f.message.clone());
                        let why = why.or_else(|| status.message.clone()).unwrap_or_default();
                        let lines = self.progress.restarted(newer, most, &why);
                        show(&terminal, lines);
                    }
                    if is_quorate(&now) {
                        let scene = Scene {
                            started: status.size.unwrap_or(1).max(0).cast_unsigned(),
                            online: status.online.unwrap_or(0).max(0).cast_unsigned(),
                            quorate: true,
                            waits: None,
                        };
                        let lines = self.progress.scene(scene, self.started.elapsed());
                        show(&terminal, lines);
                        if status.state == Some(State::Running) {
                            let lines = self.progress.program_seen(self.tasks);
                            show(&terminal, lines);
                        }
                        if self.leave {
                            looking.abort();
                            output.abort();
                            return Ok(Departure::Quorate);
                        }
                    }
                    if let Some(finish) = finish(&now) {
                        break Some((now, finish));
                    }
                }
                Some((scene, launcher)) = looked.recv() => {
                    let mut lines = self.progress.scene(scene, self.started.elapsed());
                    if answers.is_some() {
                        lines.retain(|line| matches!(line, Line::Keep(_)));
                    }
                    show(&terminal, lines);
                    if let Some(pod) = launcher
                        && !self.leave
                        && streamed.as_ref() != Some(&pod.uid)
                    {
                        streamed = Some(pod.uid.clone());
                        let _ = pods.send(*pod).await;
                    }
                }
                // A question stands on the last line.
                _ = turns.tick(), if answers.is_none() => {
                    let lines = self.progress.tick(self.started.elapsed());
                    show(&terminal, lines);
                }
                _ = interrupts.recv() => {
                    if answers.is_some() || !asks() {
                        return Ok(self.left(&terminal, exit::signaled(libc::SIGINT)));
                    }
                    answers = Some(self.ask(&terminal));
                }
                _ = ends.recv() => {
                    return Ok(self.left(&terminal, exit::signaled(libc::SIGTERM)));
                }
                _ = hangups.recv() => {
                    return Ok(self.left(&terminal, exit::signaled(libc::SIGHUP)));
                }
                Some(answer) = async { answers.as_mut()?.recv().await }, if answers.is_some() => {
                    answers = None;
                    match answer.trim() {
                        "d" | "delete" => return Ok(Departure::Left {
                            delete: true,
                            code: exit::signaled(libc::SIGINT),
                        }),
                        "l" | "leave" => {
                            return Ok(self.left(&terminal, exit::signaled(libc::SIGINT)));
                        }
                        _ => {}
                    }
                }
            }
        };
        looking.abort();
        // A program may be over before its pod was seen to run.
        let launcher = self.launcher().await;
        if let Some(pod) = launcher.clone().filter(has_started)
            && streamed.as_ref() != Some(&pod.uid)
        {
            let _ = pods.send(pod).await;
        }
        drop(pods);
        let _ = tokio::time::timeout(REST, &mut output).await;
        output.abort();
        let (finish, report) = match last {
            Some((now, finish)) => {
                let report = launcher.and_then(|pod| pod.report).map(|report| *report);
                (finish, report.or_else(|| report_of(&now)))
            }
            None => (deleted(), None),
        };
        let wall = self.started.elapsed();
        let ending = Ending { finish: &finish, report: report.as_ref(), logs: None };
        let lines = self.progress.ended(ending, wall);
        show(&terminal, lines);
        Ok(Departure::Ended { finish, report: report.map(Box::new), wall })
    }

    async fn launcher(&self) -> Option<PodFacts> {
        let name = self.cluster.metadata.name.as_deref().unwrap_or_default();
        let pods = gather::pods(self.session, name).await.ok()?;
        youngest(pods).into_iter().next().filter(|pod| pod.group == LAUNCHER)
    }

    fn left(&self, terminal: &Mutex<Terminal>, code: i32) -> Departure {
        show(terminal, self.progress.interrupted("the cluster is left running"));
        Departure::Left { delete: false, code }
    }

    /// Asks what shall become of the cluster; the answer comes as a line.
    fn ask(&self, terminal: &Mutex<Terminal>) -> mpsc::Receiver<String> {
        let name = self.cluster.metadata.name.as_deref().unwrap_or_default();
        show(
            terminal,
            self.progress.interrupted(&format!(
                "[d]elete {name}, [l]eave it running, or go on (Enter)? Ctrl-C again leaves it"
            )),
        );
        let (answer, answers) = mpsc::channel(1);
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = io::stdin().lock().read_line(&mut line);
            let _ = answer.blocking_send(line);
        });
        answers
    }
}

/// Whether there is someone to ask.
fn asks() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

fn show(terminal: &Mutex<Terminal>, lines: Vec<Line>) {
    let Ok(mut terminal) = terminal.lock() else { return };
    for line in lines {
        match line {
            Line::Keep(text) => terminal.line(&text),
            Line::Live(text) => terminal.live(&text),
        }
    }
}

/// Each version of a MiniCluster as it comes; `None` when it is gone. The channel closes after that
/// or after an error that time does not mend.
pub(super) fn changes(
    session: &Session,
    cluster: &MiniCluster,
) -> mpsc::Receiver<anyhow::Result<Option<MiniCluster>>> {
    let (tell, changes) = mpsc::channel(16);
    let session = session.clone();
    let name = cluster.metadata.name.clone().unwrap_or_default();
    let uid = cluster.metadata.uid.clone();
    tokio::spawn(async move {
        let same = |now: &MiniCluster| now.metadata.uid == uid;
        loop {
            let version = match session.clusters().get_opt(&name).await {
                Ok(Some(now)) if same(&now) => {
                    let version = now.metadata.resource_version.clone().unwrap_or_default();
                    if tell.send(Ok(Some(now))).await.is_err() {
                        return;
                    }
                    version
                }
                Ok(_) => {
                    let _ = tell.send(Ok(None)).await;
                    return;
                }
                Err(error @ kube::Error::Api(_)) if is_permanent(&error) => {
                    let error = session.refuse(&error, &Asked::clusters("get").named(&name));
                    let _ = tell.send(Err(error)).await;
                    return;
                }
                Err(_) => {
                    tokio::time::sleep(LOOK).await;
                    continue;
                }
            };
            let only = WatchParams::default().fields(&format!("metadata.name={name}"));
            if let Ok(events) = session.clusters().watch(&only, &version).await {
                let mut events = std::pin::pin!(events);
                while let Some(Ok(event)) = events.next().await {
                    let told = match event {
                        WatchEvent::Added(now) | WatchEvent::Modified(now) if same(&now) => {
                            tell.send(Ok(Some(now))).await
                        }
                        WatchEvent::Deleted(now) if same(&now) => {
                            let _ = tell.send(Ok(None)).await;
                            return;
                        }
                        WatchEvent::Error(_) => break,
                        _ => Ok(()),
                    };
                    if told.is_err() {
                        return;
                    }
                }
            }
            // Watches end now and then, and some users may only read: it is read again.
            tokio::time::sleep(LOOK).await;
        }
    });
    changes
}

/// Whether asking again gives the same answer.
fn is_permanent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 400 | 401 | 403 | 404 | 405 | 422))
}

/// Looks at the pods until the cluster has ended, and tells how far they are and what they wait for.
async fn look(
    session: Session,
    cluster: MiniCluster,
    scenes: mpsc::Sender<(Scene, Option<Box<PodFacts>>)>,
) {
    let name = cluster.metadata.name.clone().unwrap_or_default();
    let mut quorate = false;
    for round in 0_u32.. {
        let now = session.clusters().get_opt(&name).await.ok().flatten();
        if let Some(now) = now.filter(|now| now.metadata.uid == cluster.metadata.uid) {
            let said = is_quorate(&now);
            let observed = Box::pin(gather::around(&session, now)).await.observed;
            let why = quorate_observe::why(&observed, Timestamp::now());
            // The owner writes it a moment later than the launcher knows it.
            quorate = said || matches!(why.cause, Cause::ProgramRuns | Cause::Ready);
            let started = observed.own_pods().filter(|pod| has_started(pod)).count() as u32;
            let waits = Some(why.message);
            // What has ended waits for nothing: its last words come from its owner.
            if is_over(why.cause) {
                tokio::time::sleep(LOOK).await;
                continue;
            }
            let scene = Scene { started, online: why.brokers.online, quorate, waits };
            let launcher = observed.launcher().filter(|pod| has_started(pod)).cloned();
            if scenes.send((scene, launcher.map(Box::new))).await.is_err() {
                return;
            }
        }
        // Once it runs, only a restart brings new pods; what takes long does not end soon.
        tokio::time::sleep(if quorate || round > EAGER { LOOK * 4 } else { LOOK }).await;
    }
}

/// Whether a program has ended, though its owner may not have said so yet.
fn is_over(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::Succeeded
            | Cause::ProgramEnded
            | Cause::Reported(_)
            | Cause::RestartsExhausted
            | Cause::DeadlineExceeded
            | Cause::JobSetFailed
    )
}

/// Streams the output of one launcher after the other.
async fn output(
    session: Session,
    mut pods: mpsc::Receiver<PodFacts>,
    terminal: Arc<Mutex<Terminal>>,
) {
    while let Some(pod) = pods.recv().await {
        let mut lines = Lines::new(None);
        let mut first = true;
        let terminal = Arc::clone(&terminal);
        let mut print = move |bytes: &[u8]| {
            if std::mem::take(&mut first)
                && let Ok(mut terminal) = terminal.lock()
            {
                terminal.output_begins();
            }
            let mut out = io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        };
        // What keeps the output from being read is told; the cluster goes on.
        if let Err(error) = follow_pod(&session, &pod, true, None, &mut lines, &mut print).await {
            crate::terminal::write_stderr(&format!(
                "{}\n",
                crate::refusal::render(&error).0.replacen("error", "warning", 1)
            ));
        }
    }
}

/// Whether a cluster is quorate, as its owner has written.
pub(super) fn is_quorate(cluster: &MiniCluster) -> bool {
    let conditions = cluster.status.as_ref().map(|status| status.conditions.as_slice());
    conditions
        .unwrap_or_default()
        .iter()
        .any(|condition| condition.type_ == conditions::QUORATE && condition.status == "True")
}

/// How a cluster ended, if it has, as its owner has written.
pub(super) fn finish(cluster: &MiniCluster) -> Option<Finish> {
    let status = cluster.status.as_ref()?;
    let completed = match status.state? {
        State::Succeeded => true,
        State::Failed => false,
        _ => return None,
    };
    let code = status.exit_code.unwrap_or(if completed { exit::OK } else { exit::FAILED });
    Some(Finish {
        // A failed cluster never ends this program with 0.
        code: if completed || code != exit::OK { code } else { exit::FAILED },
        completed,
        reason: status.reason.clone().unwrap_or_default(),
        message: status.message.clone().unwrap_or_default(),
    })
}

fn deleted() -> Finish {
    Finish {
        code: exit::FAILED,
        completed: false,
        reason: "Deleted".into(),
        message: "it was deleted before its end".into(),
    }
}

/// The launcher's report as far as the status keeps it, for when its pod is gone.
pub(super) fn report_of(cluster: &MiniCluster) -> Option<Report> {
    let status = cluster.status.as_ref()?;
    let failure = status.failure.as_ref();
    let reason =
        failure.and_then(|failure| failure.reason.clone()).or_else(|| status.reason.clone());
    let reason: Reason = serde_json::from_value(reason?.into()).ok()?;
    let message = failure.and_then(|failure| failure.message.clone());
    let message = message.or_else(|| status.message.clone()).unwrap_or_default();
    let mut report = Report::new(finish(cluster)?.code, reason, message);
    report.failure = failure.map(|failure| Failure {
        rank: failure.rank.map(i32::cast_unsigned),
        pod: failure.pod.clone(),
        node: failure.node.clone(),
        exit_code: failure.exit_code,
        signal: failure.signal,
        log_tail: failure.log_tail.clone(),
        ..Failure::default()
    });
    Some(report)
}
