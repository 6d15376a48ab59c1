//! What changed between two statuses: the events that people get, and how soon the new status is to
//! be written.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use quorate_api::conditions::{self, reason};
use quorate_api::status::{MiniClusterStatus, State};

use crate::why::Cause;

/// An event to be published about the MiniCluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventDraft {
    /// Normal or Warning.
    pub kind: EventType,
    /// The machine's word, one of the reasons in `docs/spec/status.md`.
    pub reason: String,
    /// What was done or noticed (`events.k8s.io/v1` wants it): `Start`, `Observe`, ...
    pub action: String,
    /// The sentence; at most 1 KiB, the limit of the API.
    pub note: String,
}

/// The two types that Kubernetes knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// All is well.
    Normal,
    /// Someone should look.
    Warning,
}

/// How soon a new status is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// It says nothing new: no write.
    Nothing,
    /// At once.
    Now,
    /// Within this span. If more happens meanwhile, one write tells all of it.
    Within(Duration),
}

/// The longest note that `events.k8s.io/v1` takes, in bytes.
const LONGEST_NOTE: usize = 1024;

/// What people are told about a change. Each event belongs to a change, so that a caller who has
/// written `new` and sees it again as `old` gets nothing.
pub fn transitions(old: Option<&MiniClusterStatus>, new: &MiniClusterStatus) -> Vec<EventDraft> {
    let empty = MiniClusterStatus::default();
    let old = old.unwrap_or(&empty);
    let mut events = Vec::new();
    for (kind, when, event, action) in TURNS {
        let (before, now) = (reading(old, kind), reading(new, kind));
        let Some(now) = now.filter(|now| now.status == *when) else { continue };
        let same_value = before.is_some_and(|before| before.status == now.status);
        let same_reason = before.is_some_and(|before| before.reason == now.reason);
        if same_value && (same_reason || *event == EventType::Normal) {
            continue;
        }
        let message =
            if now.message.is_empty() { new.message.as_deref() } else { Some(&*now.message) };
        events.push(draft(*event, &now.reason, action, message.unwrap_or_default()));
    }
    let waits =
        |status: &MiniClusterStatus| status.reason.as_deref() == Some(reason::WAITING_FOR_JOBS);
    if waits(new) && !waits(old) {
        let message = new.message.as_deref().unwrap_or_default();
        events.push(draft(EventType::Normal, reason::WAITING_FOR_JOBS, "Scale", message));
    }
    let attempt = |status: &MiniClusterStatus| status.attempt.unwrap_or(0);
    if attempt(new) > attempt(old) && old.start_time == new.start_time {
        let message = new.failure.as_ref().and_then(|failure| failure.message.as_deref());
        let after = message.map(|message| format!(" after this: {message}")).unwrap_or_default();
        let note = format!("attempt {} begins{after}", attempt(new));
        events.push(draft(EventType::Warning, reason::RESTARTING, "Restart", &note));
    } else if let Some(trouble) = trouble(old, new) {
        events.push(trouble);
    }
    events
}

/// Changes of conditions that people are told: the condition, its new value, the event's type and its
/// action. A warning comes again when the reason changes.
const TURNS: &[(&str, &str, EventType, &str)] = &[
    (conditions::ACCEPTED, "False", EventType::Warning, "Accept"),
    (conditions::SUSPENDED, "True", EventType::Normal, "Suspend"),
    (conditions::SUSPENDED, "False", EventType::Normal, "Resume"),
    (conditions::RUNNING, "True", EventType::Normal, "Start"),
    (conditions::SUCCEEDED, "True", EventType::Normal, "Finish"),
    (conditions::FAILED, "True", EventType::Warning, "Finish"),
];

/// Pods or brokers in trouble: told when the trouble is new, and when a quorum is lost.
fn trouble(old: &MiniClusterStatus, new: &MiniClusterStatus) -> Option<EventDraft> {
    let now = reading(new, conditions::QUORATE).filter(|now| now.status == "False")?;
    let before = reading(old, conditions::QUORATE);
    if before.is_some_and(|before| before.reason == now.reason) {
        return None;
    }
    let cause = Cause::of_word(&now.reason)?;
    let lost =
        before.is_some_and(|before| before.status == "True") && cause == Cause::WaitingForBrokers;
    let told_elsewhere = reading(new, conditions::ACCEPTED)
        .is_some_and(|accepted| accepted.status == "False" && accepted.reason == now.reason)
        || reading(new, conditions::SUSPENDED).is_some_and(|one| one.status == "True");
    if told_elsewhere || !(cause.is_trouble() || lost) {
        return None;
    }
    Some(draft(EventType::Warning, &now.reason, "Start", &now.message))
}

/// How soon the step from `old` to `new` is to be written: what programs wait for at once, what
/// people read in a table a little later, so that a cluster of many pods costs few writes.
///
/// `starting` is the number of clusters that are on their way to their quorum. The more there are, the
/// more the pods of all of them need the API server, and the later it is told how far each one is. What
/// is wrong with one of them by itself is told as if it were alone.
pub fn pace(old: Option<&MiniClusterStatus>, new: &MiniClusterStatus, starting: usize) -> Pace {
    let progress = if own_trouble(new) { PROGRESS } else { progress(starting) };
    let quorate = |status| reading(status, conditions::QUORATE).is_some_and(|q| q.status == "True");
    let gathers = quorate(new) && new.online < new.size && progress > PROGRESS;
    let Some(old) = old else {
        let refused = reading(new, conditions::ACCEPTED).is_some_and(|one| one.status == "False");
        return if refused || new.failure.is_some() || progress == PROGRESS {
            Pace::Now
        } else if gathers {
            Pace::Within(LAST_BROKERS)
        } else if quorate(new) {
            Pace::Now
        } else {
            Pace::Within(progress)
        };
    };
    if old == new {
        return Pace::Nothing;
    }
    let values = |status: &MiniClusterStatus| -> Vec<(String, String)> {
        let conditions = status.conditions.iter();
        conditions.map(|one| (one.type_.clone(), one.status.clone())).collect()
    };
    let ended = |status: &MiniClusterStatus| {
        reading(status, conditions::RUNNING)
            .is_some_and(|running| running.reason == reason::PROGRAM_ENDED)
    };
    // The pods of a failed attempt, and what they had to say, are gone within a second.
    if old.failure != new.failure || old.exit_code.unwrap_or(0) != new.exit_code.unwrap_or(0) {
        return Pace::Now;
    }
    if ended(new) && !ended(old) {
        return Pace::Within(JOBSET_ENDS);
    }
    if gathers && !quorate(old) {
        return Pace::Within(LAST_BROKERS);
    }
    if quorate(new) && !quorate(old) && new.state == Some(State::Starting) {
        return Pace::Within(PROGRAM_STARTS);
    }
    if values(old) != values(new) || old.observed_generation != new.observed_generation {
        return Pace::Now;
    }
    if old.attempt != new.attempt || new.online < old.online {
        return Pace::Within(LOSS);
    }
    let counted = MiniClusterStatus { queue: new.queue.clone(), ..old.clone() } == *new;
    Pace::Within(if counted { progress.max(COUNTS) } else { progress })
}

/// How long news of a cluster that is on its way may be gathered before they are looked at, when so many are. One
/// cluster alone is followed at once.
pub fn patience(starting: usize) -> Duration {
    let others = u32::try_from(starting.saturating_sub(1)).unwrap_or(u32::MAX);
    GATHERED_OF_EACH.saturating_mul(others).min(LONGEST_GATHERED)
}

/// Whether the status tells of a trouble that is this cluster's own.
fn own_trouble(status: &MiniClusterStatus) -> bool {
    let quorate = reading(status, conditions::QUORATE).filter(|one| one.status == "False");
    let cause = quorate.and_then(|quorate| Cause::of_word(&quorate.reason));
    cause.is_some_and(Cause::is_own_trouble)
}

/// How soon it is told how far a cluster is, when so many are on their way.
fn progress(starting: usize) -> Duration {
    let starting = u32::try_from(starting).unwrap_or(u32::MAX);
    PROGRESS_OF_EACH.saturating_mul(starting).clamp(PROGRESS, SLOWEST_PROGRESS)
}

/// The last brokers of many clusters are seen a moment after the quorum; then one write tells both.
const LAST_BROKERS: Duration = Duration::from_secs(1);
/// The program starts right after the quorum; one write tells both.
const PROGRAM_STARTS: Duration = Duration::from_millis(200);
/// JobSet completes about 3.5 s after its launcher; then one write tells both.
const JOBSET_ENDS: Duration = Duration::from_secs(5);
/// A lost broker shows within 2 s; when a node goes, several are lost together.
const LOSS: Duration = Duration::from_millis(300);
/// Jobs come and go all the time.
const COUNTS: Duration = Duration::from_secs(5);
/// Pods and brokers on their way up.
const PROGRESS: Duration = Duration::from_secs(2);
/// With many clusters on their way there are no more than five such writes a second in all: ten take a tenth
/// of the processor on which their pods are waited for.
const PROGRESS_OF_EACH: Duration = Duration::from_millis(200);
/// What happens to a cluster's pods, Jobs and JobSet comes in bursts of a dozen; 200 looks a second in all see every
/// one of a few clusters, and one of each burst of a thousand.
const GATHERED_OF_EACH: Duration = Duration::from_millis(5);
/// A pod that fails is told of no later than this.
const LONGEST_GATHERED: Duration = Duration::from_secs(2);
/// Nobody wants to wait longer to see a table move.
const SLOWEST_PROGRESS: Duration = Duration::from_secs(200);

fn reading<'a>(status: &'a MiniClusterStatus, kind: &str) -> Option<&'a Condition> {
    status.conditions.iter().find(|condition| condition.type_ == kind)
}

fn draft(kind: EventType, reason: &str, action: &str, note: &str) -> EventDraft {
    let mut end = note.len().min(LONGEST_NOTE);
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    EventDraft {
        kind,
        reason: reason.to_owned(),
        action: action.to_owned(),
        note: note[..end].to_owned(),
    }
}
