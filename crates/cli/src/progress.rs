//! The words of a run: from what happens to the lines that people see. Pure: events and times in,
//! lines out; [`crate::terminal`] draws them.
//!
//! ```text
//! hello · 4 pods on this machine
//!   ✔ pods      4/4    0.04 s
//!   ✔ brokers   4/4    0.09 s  quorate
//!   ▸ program   8 ranks on 4 pods
//!   ✔ program   exit 0  0.31 s  ranks 2 2 2 2, PMI-1
//! hello succeeded in 0.47 s
//! ```

mod ending;
mod marks;
mod summary;
#[cfg(test)]
mod tests;

pub use ending::Ending;
pub use marks::Marks;
pub use summary::summary;

use crate::terminal::duration;
use quorate_contract::report::{Placement, Report};
use quorate_contract::status::{BrokerState, ClusterStatus, Missing};
use std::time::Duration;

/// How often a line about waiting is repeated where nothing can be redrawn.
const PLAIN_INTERVAL: Duration = Duration::from_secs(10);
/// Missing brokers that are named; of more only the number is said.
const NAMED: usize = 3;
/// Pods whose ranks are listed one by one.
const LISTED: usize = 16;

/// What is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// Stays.
    Keep(String),
    /// Is replaced by the next line; only on a terminal.
    Live(String),
}

/// How far a cluster on Kubernetes is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scene {
    /// Pods whose command was started.
    pub started: u32,
    /// Brokers that are connected.
    pub online: u32,
    /// The cluster is quorate.
    pub quorate: bool,
    /// What is waited for, in one sentence.
    pub waits: Option<String>,
}

/// The state of a run, as far as people see it.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each says whether one line was shown")]
pub struct Progress {
    name: String,
    size: u32,
    marks: Marks,
    redraw: bool,
    quiet: bool,
    /// The moment (Unix time, ms) that run times count from.
    epoch: u64,
    started: u32,
    pods_shown: bool,
    brokers_shown: bool,
    program_shown: bool,
    has_program: bool,
    /// What the launcher runs, where the program is a command of its own: `mpirun on launcher-0-0`.
    command: Option<String>,
    /// Where the pods are: `on this machine`.
    place: String,
    status: Option<ClusterStatus>,
    scene: Option<Scene>,
    last_plain: Option<(Duration, u32)>,
    turn: usize,
}

impl Progress {
    /// At the start. `epoch` is that moment in milliseconds of Unix time.
    pub fn new(name: &str, size: u32, marks: Marks, redraw: bool, quiet: bool, epoch: u64) -> Self {
        Self {
            name: name.to_owned(),
            size,
            marks,
            redraw,
            quiet,
            epoch,
            started: 0,
            pods_shown: false,
            brokers_shown: false,
            program_shown: false,
            has_program: true,
            command: None,
            place: "on this machine".to_owned(),
            status: None,
            scene: None,
            last_plain: None,
            turn: 0,
        }
    }

    /// A cluster without a program of its own is done when it is quorate.
    #[must_use]
    pub fn without_program(mut self) -> Self {
        self.has_program = false;
        self
    }

    /// The pods are elsewhere: `in namespace hpc of lab`.
    #[must_use]
    pub fn at(mut self, place: String) -> Self {
        self.place = place;
        self
    }

    /// The program is a command of the launcher, not ranks on all pods.
    #[must_use]
    pub fn with_command(mut self, command: String) -> Self {
        self.command = Some(command);
        self
    }

    /// Whether quorum was seen.
    pub fn is_quorate(&self) -> bool {
        self.brokers_shown
    }

    /// Whether the program's start was seen.
    pub fn program_runs(&self) -> bool {
        self.program_shown
    }

    /// The first line.
    pub fn header(&self) -> Vec<Line> {
        let pods = plural(self.size, "pod");
        self.keep(vec![format!("{} {} {pods} {}", self.name, self.marks.dot, self.place)])
    }

    /// A pod's command runs.
    pub fn pod_started(&mut self, now: Duration) -> Vec<Line> {
        self.started += 1;
        if self.started < self.size || self.pods_shown {
            return self.live(now);
        }
        let line = self.all_pods(now);
        self.keep(vec![line])
    }

    fn all_pods(&mut self, now: Duration) -> String {
        self.pods_shown = true;
        let count = format!("{}/{}", self.size, self.size);
        self.row(self.marks.done, "pods", &format!("{count:<5}  {}", duration(now)))
    }

    /// Kubernetes says how things are.
    pub fn scene(&mut self, scene: Scene, now: Duration) -> Vec<Line> {
        let mut lines = Vec::new();
        // Pods may have been seen to run before their status is.
        self.started = if scene.quorate { self.started.max(scene.started) } else { scene.started };
        if self.started >= self.size && !self.pods_shown {
            lines.push(self.all_pods(now));
        }
        if scene.quorate && !self.brokers_shown {
            lines.extend(self.brokers(scene.online.max(1), now));
        }
        self.scene = Some(scene);
        let mut lines = self.keep(lines);
        lines.extend(self.live(now));
        lines
    }

    /// The program was seen to run, with so many ranks where that is known.
    pub fn program_seen(&mut self, tasks: Option<u32>) -> Vec<Line> {
        if self.program_shown || !self.has_program {
            return Vec::new();
        }
        let lines = match tasks {
            Some(tasks) => self.program(tasks, self.size.min(tasks)),
            // The report will tell how many.
            None if self.command.is_none() => return Vec::new(),
            None => self.program(1, 1),
        };
        self.keep(lines)
    }

    /// The cluster starts again.
    pub fn restarted(&mut self, attempt: u32, max_restarts: u32, why: &str) -> Vec<Line> {
        self.started = 0;
        self.pods_shown = false;
        self.brokers_shown = false;
        self.program_shown = false;
        self.status = None;
        self.scene = None;
        self.last_plain = None;
        let of = if max_restarts > 0 { format!(" of {max_restarts}") } else { String::new() };
        let line = self.row(self.marks.again, "restart", &format!("{attempt}{of}: {why}"));
        self.keep(vec![line])
    }

    /// The user wants the end.
    pub fn interrupted(&self, words: &str) -> Vec<Line> {
        self.keep(vec![self.row(self.marks.runs, "interrupt", words)])
    }

    /// Rank 0 says how things are.
    pub fn status(&mut self, status: ClusterStatus, now: Duration) -> Vec<Line> {
        let mut lines = Vec::new();
        let quorate =
            !matches!(status.state, BrokerState::Join | BrokerState::Init | BrokerState::Quorum);
        if quorate && !self.brokers_shown {
            // The first who are enough count; the others may be on their way.
            lines.extend(self.brokers(status.online.max(status.min_size), now));
        }
        if let Some(program) = &status.program
            && !self.program_shown
        {
            lines.extend(self.program(program.tasks, program.pods));
        }
        self.status = Some(status);
        let mut lines = self.keep(lines);
        if !quorate {
            lines.extend(self.live(now));
        }
        lines
    }

    /// Time passed: the spinner turns, counters run.
    pub fn tick(&mut self, now: Duration) -> Vec<Line> {
        self.turn += 1;
        self.live(now)
    }

    /// What the launcher's report tells of turns that were too quick to be seen.
    pub(crate) fn catch_up(&mut self, report: &Report) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(quorate) = report.phases.quorate
            && !self.brokers_shown
        {
            let at = Duration::from_millis(quorate.saturating_sub(self.epoch));
            let online = self.status.as_ref().map_or(self.size, |s| s.online.max(s.min_size));
            lines.extend(self.brokers(online, at));
        }
        if report.phases.program_started.is_some()
            && !self.program_shown
            && (self.command.is_some() || report.placement.is_some())
        {
            let placement = report.placement.clone().unwrap_or_default();
            lines.extend(self.program(placement.tasks, placement.planned_pods));
        }
        lines
    }

    fn brokers(&mut self, online: u32, at: Duration) -> Vec<String> {
        self.brokers_shown = true;
        let count = format!("{online}/{}", self.size);
        vec![self.row(
            self.marks.done,
            "brokers",
            &format!("{count:<5}  {}  quorate", duration(at)),
        )]
    }

    fn program(&mut self, tasks: u32, pods: u32) -> Vec<String> {
        self.program_shown = true;
        let text = match &self.command {
            Some(command) => command.clone(),
            None => format!("{} on {}", plural(tasks, "rank"), plural(pods, "pod")),
        };
        vec![self.row(self.marks.runs, "program", &text)]
    }

    /// The line that says what is waited for, as far as it is due.
    fn live(&mut self, now: Duration) -> Vec<Line> {
        if self.quiet || self.brokers_shown {
            return Vec::new();
        }
        if let Some(scene) = &self.scene {
            let (what, count) =
                if self.pods_shown { ("brokers", scene.online) } else { ("pods", scene.started) };
            let waits = scene.waits.clone().unwrap_or_default();
            let text = format!("{:<5}  {waits}", format!("{count}/{}", self.size));
            return self.waiting_for(what, count, text.trim_end(), now);
        }
        let Some(status) = &self.status else {
            if !self.redraw || self.pods_shown {
                return Vec::new();
            }
            let count = format!("{}/{}", self.started, self.size);
            return vec![Line::Live(self.row(self.spinner(), "pods", &count))];
        };
        let count = format!("{}/{}", status.online, self.size);
        let text = format!("{count:<5}  {}", waiting(status, self.marks.dot));
        let online = status.online;
        self.waiting_for("brokers", online, text.trim_end(), now)
    }

    /// A line about waiting, drawn or said as far as it is due.
    fn waiting_for(&mut self, what: &str, count: u32, text: &str, now: Duration) -> Vec<Line> {
        if self.redraw {
            return vec![Line::Live(self.row(self.spinner(), what, text))];
        }
        // Without redrawing, a line is worth it when much time has passed.
        let (since, last) = self.last_plain.unwrap_or((Duration::ZERO, u32::MAX));
        let due = now.saturating_sub(since) >= PLAIN_INTERVAL;
        let changed = last != count && now.saturating_sub(since) >= Duration::from_secs(1);
        if !(due || changed) {
            return Vec::new();
        }
        self.last_plain = Some((now, count));
        vec![Line::Keep(self.row(self.marks.waits, what, text))]
    }

    fn spinner(&self) -> &'static str {
        self.marks.spinner[self.turn % self.marks.spinner.len()]
    }

    fn row(&self, mark: &str, what: &str, text: &str) -> String {
        format!("  {} {what:<9} {text}", self.marks.paint(mark))
    }

    fn keep(&self, lines: Vec<String>) -> Vec<Line> {
        if self.quiet { Vec::new() } else { lines.into_iter().map(Line::Keep).collect() }
    }
}

/// Who is missing, why, and how long it may take.
pub(crate) fn waiting(status: &ClusterStatus, dot: &str) -> String {
    let mut text = String::new();
    if !status.missing.is_empty() {
        let named: Vec<String> = status.missing.iter().take(NAMED).map(missing).collect();
        let all = status.size.saturating_sub(status.online) as usize;
        let more = all.max(status.missing.len()) - named.len();
        text = format!("waiting for {}", named.join(", "));
        if more > 0 {
            text += &format!(" and {more} more");
        }
    }
    if let Some(seconds) = status.gives_up_in_seconds {
        let left = Duration::from_secs(seconds);
        let left = if seconds < 60 { format!("{seconds} s") } else { duration(left) };
        let separator = if text.is_empty() { String::new() } else { format!(" {dot} ") };
        text += &format!("{separator}gives up in {left}");
    }
    text
}

fn missing(missing: &Missing) -> String {
    match missing.silent_seconds {
        Some(seconds) => format!("{} ({} for {seconds} s)", missing.pod, missing.why),
        None => format!("{} ({})", missing.pod, missing.why),
    }
}

/// `ranks 2 2 2 2, PMI-1`; for many pods the runs themselves.
fn placement_words(placement: &Placement) -> String {
    let by_pod = ranks_by_pod(&placement.tasks_by_pod).filter(|list| list.len() <= LISTED);
    let ranks = match by_pod {
        Some(list) => list.iter().map(u32::to_string).collect::<Vec<_>>().join(" "),
        None => placement.tasks_by_pod.clone(),
    };
    let wires: Vec<&str> =
        placement.wire.keys().map(String::as_str).filter(|wire| *wire != "none").collect();
    let mut text = format!("ranks {ranks}");
    if !wires.is_empty() {
        text += &format!(", {}", wires.join(" and "));
    }
    text
}

/// The tasks of each pod from runs such as `1x0,3x2`.
fn ranks_by_pod(runs: &str) -> Option<Vec<u32>> {
    let mut list = Vec::new();
    for run in runs.split(',').filter(|run| !run.is_empty()) {
        let (pods, tasks) = run.split_once('x')?;
        let (pods, tasks): (usize, u32) = (pods.parse().ok()?, tasks.parse().ok()?);
        if list.len() + pods > 1 << 20 {
            return None;
        }
        list.resize(list.len() + pods, tasks);
    }
    Some(list)
}

/// `1 pod`, `4 pods`.
fn plural(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
