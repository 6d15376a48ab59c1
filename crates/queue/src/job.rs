//! One job: its state is a replay of its events (states of Flux RFC 21).
//!
//! [`Job::apply`] is the only thing that changes a job. What it refuses can never have happened:
//! in a log it is damage, in the queue a fault of this crate.

use crate::event::{Event, Outcome, Severity, Submission};
use crate::id::JobId;
use crate::jobspec::{Jobspec, Program};
use crate::pool::Allocation;
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The option of a job whose tasks are left alone when others fail, and of an instance that goes on
/// without lost nodes whatever else it asked for.
const NO_KILL: &str = "no-kill";

/// Where a job is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum State {
    /// Waits for other jobs or for a moment.
    Depend,
    /// Waits for its place in the order; held jobs stay here.
    Priority,
    /// Waits for nodes.
    Sched,
    /// Has nodes.
    Run,
    /// Its tasks are being ended and its nodes freed.
    Cleanup,
    /// Over.
    Inactive,
}

/// States as users speak of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Has no nodes yet.
    Pending,
    /// Has or had nodes and is not over.
    Running,
    /// Over.
    Inactive,
}

/// What became of a job that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Standing {
    /// Every task ended with code 0.
    Completed,
    /// A task failed, or the job could not run.
    Failed,
    /// Somebody cancelled it.
    Cancelled,
    /// Its time limit was reached.
    TimedOut,
}

/// The exception that ended a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// One word, as in [`Event::Exception`].
    pub kind: Box<str>,
    /// For people.
    pub note: Box<str>,
}

/// An event that a job in this state cannot have had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("job {job} in state {state:?} cannot have had the event `{event}`")]
pub struct Illegal {
    /// The job.
    pub job: JobId,
    /// Its state.
    pub state: State,
    /// The event's name.
    pub event: &'static str,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// Who submitted it, what it is, and its array.
    pub submission: Arc<Submission>,
    /// Where it is on its way.
    pub state: State,
    /// Its urgency, 0 to 31.
    pub urgency: u8,
    /// Must not be started until released.
    pub held: bool,
    /// Its place in the order, once it has one.
    pub priority: u32,
    /// Its time limit in seconds.
    pub time_limit: Option<u64>,
    /// When it was submitted.
    pub submitted: Time,
    /// When it got its nodes, in this attempt.
    pub allocated: Option<Time>,
    /// When its tasks ran, in this attempt.
    pub started: Option<Time>,
    /// When its tasks were gone, or when it ended without any.
    pub ended: Option<Time>,
    /// Its nodes, kept after the end for those who ask where it ran.
    pub allocation: Option<Arc<Allocation>>,
    /// Its nodes are with others again.
    pub freed: bool,
    /// It got the signal before its end, in this attempt.
    pub warned: bool,
    /// How its tasks ended.
    pub outcome: Option<Arc<Outcome>>,
    /// The first fatal exception.
    pub cause: Option<Box<Cause>>,
    /// How often it went back to the beginning.
    pub requeues: u32,
    /// All that happened to it, in order.
    pub history: Vec<(Time, Event)>,
}

impl Job {
    /// A job at its beginning.
    pub fn new(id: JobId, time: Time, submission: Arc<Submission>) -> Self {
        // As many as a job has that comes and goes without more ado: to grow would cost more than it saves.
        let mut history = Vec::with_capacity(8);
        history.push((time, Event::Submit(Arc::clone(&submission))));
        Self {
            id,
            state: State::Depend,
            urgency: submission.spec.urgency,
            held: submission.spec.urgency == 0,
            priority: 0,
            time_limit: submission.spec.time_limit,
            submitted: time,
            allocated: None,
            started: None,
            ended: None,
            allocation: None,
            freed: false,
            warned: false,
            outcome: None,
            cause: None,
            requeues: 0,
            history,
            submission,
        }
    }

    /// What it is.
    pub fn spec(&self) -> &Jobspec {
        &self.submission.spec
    }

    /// A text of its specification with what is known of the job in it: `{{id}}`, `{{name}}`,
    /// `{{array}}`, `{{index}}`, and `{cc}` or `{{cc}}` for carbon copies. What has no value stays.
    pub fn filled<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if !text.contains('{') {
            return Cow::Borrowed(text);
        }
        let mut filled = text.to_owned();
        let mut fill = |place: &str, value: &dyn fmt::Display| {
            if filled.contains(place) {
                filled = filled.replace(place, &value.to_string());
            }
        };
        if let Some(cc) = self.submission.cc {
            fill("{{cc}}", &cc);
            fill("{cc}", &cc);
        }
        if let Some(element) = self.submission.element {
            fill("{{array}}", &element.array);
            fill("{{index}}", &element.index);
        }
        fill("{{id}}", &self.id);
        if filled.contains("{{name}}") {
            let name = self.name().into_owned();
            filled = filled.replace("{{name}}", &name);
        }
        Cow::Owned(filled)
    }

    /// What people call it.
    pub fn name(&self) -> Cow<'_, str> {
        let name = &self.spec().name;
        match self.submission.cc {
            Some(cc) if name.contains("{cc}") => {
                let cc = cc.to_string();
                Cow::Owned(name.replace("{{cc}}", &cc).replace("{cc}", &cc))
            }
            _ => Cow::Borrowed(name),
        }
    }

    /// Its state as users speak of it.
    pub fn phase(&self) -> Phase {
        match self.state {
            State::Run => Phase::Running,
            State::Cleanup if self.allocation.is_some() => Phase::Running,
            // A job that ends without ever having had nodes is in CLEANUP for an instant only.
            State::Depend | State::Priority | State::Sched | State::Cleanup => Phase::Pending,
            State::Inactive => Phase::Inactive,
        }
    }

    /// Whether it holds nodes.
    pub fn holds_nodes(&self) -> bool {
        self.allocation.is_some() && !self.freed
    }

    /// What was noted of it under a key, in this attempt; the last of several.
    pub fn memo(&self, key: &str) -> Option<&str> {
        let attempt = self.history.iter().rev().map(|(_, event)| event);
        attempt.take_while(|event| !matches!(event, Event::Requeue { .. })).find_map(|event| {
            match event {
                Event::Memo { key: its, value } if **its == *key => Some(&**value),
                _ => None,
            }
        })
    }

    /// Whether it goes back to the beginning once its tasks are gone.
    pub fn begins_again(&self) -> bool {
        match self.cause.as_ref().map(|cause| &*cause.kind) {
            Some("requeue") => true,
            Some("node-lost") => self.spec().requeue,
            _ => false,
        }
    }

    /// Whether it can go on without a node: it is a nested instance, whose other brokers do, and its
    /// first node, where its script and its queue are, is another.
    pub fn outlives(&self, rank: u32) -> bool {
        let instance = matches!(self.spec().program, Program::Script { .. } | Program::Instance);
        let mut parts = self.allocation.iter().flat_map(|allocation| &allocation.parts);
        let first = parts.next().is_some_and(|part| part.rank != rank);
        instance && first && parts.any(|part| part.rank == rank)
    }

    /// What it was given in this attempt, lost nodes too: tasks are numbered over all of that.
    pub fn allotted(&self) -> Option<&Arc<Allocation>> {
        let given = self.history.iter().rev().find_map(|(_, event)| match event {
            Event::Alloc(allocation) => Some(allocation),
            _ => None,
        });
        given.filter(|_| self.allocation.is_some())
    }

    /// Nodes that it was given in this attempt and has lost since.
    pub fn lost_ranks(&self) -> Vec<u32> {
        let parts = |of: Option<&Arc<Allocation>>| -> Vec<u32> {
            of.iter().flat_map(|all| &all.parts).map(|part| part.rank).collect()
        };
        let has = parts(self.allocation.as_ref());
        parts(self.allotted()).into_iter().filter(|rank| !has.contains(rank)).collect()
    }

    /// Whether it goes on without a node that is lost. Who asked to begin again does not, unless it
    /// asked for that as well (the option `no-kill`); nor does one whose brokers were not started yet, since
    /// they meet once, and all of them.
    pub fn shrinks_without(&self, rank: u32) -> bool {
        let spec = self.spec();
        self.outlives(rank)
            && self.state == State::Run
            && self.started.is_some()
            && (!spec.requeue || spec.options.contains_key(NO_KILL))
    }

    /// When its nodes are free at the latest.
    pub fn end_at_latest(&self) -> Time {
        match (self.allocated, self.time_limit) {
            (Some(from), Some(seconds)) => from.after_seconds(seconds),
            _ => Time::NEVER,
        }
    }

    /// When it is to get the signal before its end: not before its tasks run, and once.
    pub fn warn_at(&self) -> Option<Time> {
        let signal = self.spec().signal.filter(|_| self.state == State::Run && !self.warned)?;
        let (started, end) = (self.started?, self.end_at_latest());
        let at = Time(end.0.saturating_sub(u64::from(signal.seconds) * 1000)).max(started);
        (at < end && end != Time::NEVER).then_some(at)
    }

    /// When it was over, once it is.
    pub(crate) fn over_at(&self) -> Time {
        self.ended.unwrap_or(self.submitted)
    }

    /// What became of it; `None` while it is not over.
    pub fn standing(&self) -> Option<Standing> {
        (self.state == State::Inactive).then(|| match &self.cause {
            Some(cause) if &*cause.kind == "cancel" => Standing::Cancelled,
            Some(cause) if &*cause.kind == "timeout" => Standing::TimedOut,
            Some(_) => Standing::Failed,
            None => match &self.outcome {
                Some(outcome) if outcome.code == 0 => Standing::Completed,
                _ => Standing::Failed,
            },
        })
    }

    /// The exit code that waiting for it gives: that of its tasks; 69 when a broker was lost, 142 after
    /// its time limit, 143 when cancelled with tasks running, 1 when it ended without any.
    pub fn exit_code(&self) -> Option<u8> {
        Some(match self.standing()? {
            Standing::Completed => 0,
            _ if self.started.is_none() => 1,
            Standing::Failed
                if self.cause.as_ref().is_some_and(|cause| &*cause.kind == "node-lost") =>
            {
                69
            }
            Standing::TimedOut => 142,
            Standing::Cancelled => 143,
            Standing::Failed => match &self.outcome {
                Some(outcome) if outcome.code != 0 => outcome.code,
                _ => 1,
            },
        })
    }

    /// Lets an event happen to the job.
    pub fn apply(&mut self, time: Time, event: Event) -> Result<(), Illegal> {
        use State::{Cleanup, Depend, Inactive, Priority, Run, Sched};
        match (&event, self.state) {
            (Event::Depend {}, Depend) => self.state = Priority,
            (Event::Priority { priority }, Priority | Sched) if !self.held => {
                self.priority = *priority;
                self.state = Sched;
            }
            (Event::Urgency { urgency }, Depend | Priority | Sched) => {
                self.urgency = *urgency;
                self.held = *urgency == 0;
                self.back_to_priority();
            }
            (Event::Hold {}, Depend | Priority | Sched) => {
                self.held = true;
                self.back_to_priority();
            }
            (Event::Release {}, Depend | Priority | Sched) => {
                self.held = false;
                if self.urgency == 0 {
                    self.urgency = crate::jobspec::URGENCY;
                }
            }
            (Event::Limit { seconds }, Depend | Priority | Sched | Run) => {
                self.time_limit = *seconds;
            }
            (Event::Throttle { limit }, Depend | Priority | Sched | Run) => {
                if let Some(element) = &mut Arc::make_mut(&mut self.submission).element {
                    element.limit = *limit;
                }
            }
            (Event::Alloc(allocation), Sched) => {
                self.allocation = Some(Arc::clone(allocation));
                self.allocated = Some(time);
                self.state = Run;
            }
            (Event::Shrink { rank, .. }, Run) if self.outlives(*rank) => {
                self.allocation = self.allocation.take().map(|had| Arc::new(had.without(*rank)));
            }
            (Event::Start {}, Run) if self.started.is_none() => self.started = Some(time),
            (Event::Finish(outcome), Run | Cleanup)
                if self.holds_nodes() && self.outcome.is_none() =>
            {
                self.outcome = Some(Arc::clone(outcome));
                self.ended = Some(time);
                self.state = Cleanup;
            }
            (Event::Free {}, Cleanup) if self.holds_nodes() && self.outcome.is_some() => {
                self.freed = true;
            }
            (Event::Exception { severity: Severity::Note, kind, .. }, _) => {
                self.warned |= &**kind == "signal";
            }
            (Event::Memo { .. }, _) | (Event::Reattach {}, Run) => {}
            (
                Event::Exception { severity: Severity::Fatal, kind, note },
                Depend | Priority | Sched | Run | Cleanup,
            ) => {
                // Who wants a job gone does not want it to begin again.
                if self.cause.is_none() || (self.begins_again() && &**kind == "cancel") {
                    self.cause = Some(Box::new(Cause { kind: kind.clone(), note: note.clone() }));
                }
                if self.state < Run {
                    self.ended = Some(time);
                }
                self.state = Cleanup;
            }
            (Event::Requeue { .. }, Cleanup) if !self.holds_nodes() => self.begin_again(),
            (Event::Clean {}, Cleanup) if !self.holds_nodes() => self.state = Inactive,
            _ => {
                return Err(Illegal { job: self.id, state: self.state, event: event.name() });
            }
        }
        self.history.push((time, event));
        Ok(())
    }

    fn back_to_priority(&mut self) {
        if self.state == State::Sched {
            self.state = State::Priority;
        }
    }

    fn begin_again(&mut self) {
        self.requeues += 1;
        self.state = State::Depend;
        self.priority = 0;
        self.allocated = None;
        self.started = None;
        self.ended = None;
        self.allocation = None;
        self.freed = false;
        self.warned = false;
        self.outcome = None;
        self.cause = None;
    }
}

impl Event {
    /// Its name in the log.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Submit(_) => "submit",
            Self::Copy(_) => "copy",
            Self::Depend {} => "depend",
            Self::Priority { .. } => "priority",
            Self::Urgency { .. } => "urgency",
            Self::Hold {} => "hold",
            Self::Release {} => "release",
            Self::Limit { .. } => "limit",
            Self::Throttle { .. } => "throttle",
            Self::Alloc(_) => "alloc",
            Self::Shrink { .. } => "shrink",
            Self::Start {} => "start",
            Self::Reattach {} => "reattach",
            Self::Finish(_) => "finish",
            Self::Free {} => "free",
            Self::Exception { .. } => "exception",
            Self::Requeue { .. } => "requeue",
            Self::Memo { .. } => "memo",
            Self::Clean {} => "clean",
            Self::Restart {} => "restart",
            Self::Ids { .. } => "ids",
            Self::Reserve { .. } => "reserve",
            Self::Purge { .. } => "purge",
            Self::Drain { .. } => "drain",
            Self::Undrain { .. } => "undrain",
            Self::Lane(_) => "lane",
        }
    }
}
