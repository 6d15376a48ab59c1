//! What `top` shows, and what keys do to it. Pure.
//!
//! Owns: the lines of a frame for a given size, which job is marked, and the question before a job is
//! changed. Who asks the queue and who draws is not its business.

use crate::launch::spawn::terminal::Size;
use crate::queue::protocol::{JobFacts, LaneFacts, NodeFacts};
use crate::queue::table::{self, Paint};
use quorate_queue::{JobId, Time};
use std::fmt::Write as _;

/// What is known at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) lanes: Vec<LaneFacts>,
    pub(super) nodes: Vec<NodeFacts>,
    /// Jobs that are not over: those that run, then those that wait.
    pub(super) jobs: Vec<JobFacts>,
    pub(super) now: Time,
    /// Why nothing is known.
    pub(super) error: Option<String>,
}

/// A change of a job that is asked about first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Cancel,
    Hold,
    Release,
}

/// What a key leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// The end.
    Leave,
    /// A look at the queue.
    Look,
    /// A change, and then a look.
    Do(Change, JobId),
}

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Up,
    Down,
    Letter(u8),
}

/// Reads keys from what a terminal sends.
pub(super) fn keys(bytes: &[u8]) -> Vec<Key> {
    let (mut keys, mut rest) = (Vec::new(), bytes);
    while let Some((first, after)) = rest.split_first() {
        (rest, keys) = match rest {
            [0x1b, b'[' | b'O', b'A', after @ ..] => (after, [keys, vec![Key::Up]].concat()),
            [0x1b, b'[' | b'O', b'B', after @ ..] => (after, [keys, vec![Key::Down]].concat()),
            // Other keys of their own are passed over whole.
            [0x1b, b'[' | b'O', after @ ..] => {
                let end = after.iter().position(|byte| (0x40..0x7f).contains(byte));
                (&after[end.map_or(after.len(), |end| end + 1)..], keys)
            }
            _ => (after, [keys, vec![Key::Letter(*first)]].concat()),
        };
    }
    keys
}

/// Who sits before it: the mark, the question, and the last words.
#[derive(Clone, Debug, Default)]
pub(super) struct Desk {
    /// The marked job, kept by its number while lines move.
    marked: Option<JobId>,
    question: Option<(Change, JobId)>,
    /// What the last change came to.
    pub(super) note: String,
}

impl Desk {
    /// A key was hit.
    pub(super) fn hit(&mut self, key: Key, seen: &Seen) -> Option<Act> {
        if let Some((change, job)) = self.question.take() {
            return matches!(key, Key::Letter(b'y' | b'Y')).then_some(Act::Do(change, job));
        }
        self.note.clear();
        match key {
            Key::Letter(b'q' | b'Q' | 3 | 4) => return Some(Act::Leave),
            Key::Letter(b' ' | 12) => return Some(Act::Look),
            Key::Up | Key::Letter(b'k') => self.mark(seen, |at| at.saturating_sub(1)),
            Key::Down | Key::Letter(b'j') => self.mark(seen, |at| at + 1),
            Key::Letter(letter @ (b'c' | b'h' | b'r')) => {
                let change = match letter {
                    b'c' => Change::Cancel,
                    b'h' => Change::Hold,
                    _ => Change::Release,
                };
                let job = seen.jobs.get(self.place(seen)).map(|job| job.id);
                self.question = job.map(|job| (change, job));
            }
            Key::Letter(_) => {}
        }
        None
    }

    fn mark(&mut self, seen: &Seen, step: impl Fn(usize) -> usize) {
        let at = step(self.place(seen)).min(seen.jobs.len().saturating_sub(1));
        self.marked = seen.jobs.get(at).map(|job| job.id);
    }

    /// The line of the marked job; the first if it is gone.
    fn place(&self, seen: &Seen) -> usize {
        let marked = |job: &JobFacts| Some(job.id) == self.marked;
        seen.jobs.iter().position(marked).unwrap_or(0)
    }

    fn last_line(&self, seen: &Seen) -> String {
        let Some((change, job)) = self.question else {
            let keys = "q leave  c cancel  h hold  r release  arrows choose  space look again";
            return if self.note.is_empty() { keys.to_owned() } else { self.note.clone() };
        };
        let verb = match change {
            Change::Cancel => "cancel",
            Change::Hold => "hold",
            Change::Release => "release",
        };
        let facts = seen.jobs.iter().find(|facts| facts.id == job);
        let name = facts.map_or(String::new(), |facts| format!(" ({})", facts.name));
        format!("{verb} job {job}{name}? y or n")
    }
}

/// A frame for a terminal of this size: exactly so many lines, none longer. The marked job is shown in
/// reverse.
pub(super) fn frame(seen: &Seen, desk: &Desk, size: Size) -> Vec<String> {
    let (rows, columns) = (usize::from(size.rows), usize::from(size.columns));
    let mut lines = head(seen);
    let room = rows.saturating_sub(lines.len() + 2);
    let nodes: Vec<String> = table::nodes(&seen.nodes).lines().map(str::to_owned).collect();
    // Nodes have a third of what is left, jobs the rest.
    let most = (room / 3).max(2);
    let more = nodes.len().saturating_sub(most);
    lines.extend(nodes.into_iter().take(most));
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines.push(String::new());
    let table = table::jobs(&seen.jobs, seen.now, Paint::Plain);
    let mut jobs = table.lines();
    lines.extend(jobs.next().map(str::to_owned));
    let room = rows.saturating_sub(lines.len() + 1);
    let place = desk.place(seen);
    // The marked one is always seen.
    let first = place.saturating_sub(room.saturating_sub(1));
    let begin = lines.len();
    lines.extend(jobs.skip(first).take(room).map(str::to_owned));
    if seen.jobs.is_empty() {
        lines.push("no jobs wait or run".to_owned());
    }
    lines.truncate(rows.saturating_sub(1));
    while lines.len() + 1 < rows {
        lines.push(String::new());
    }
    lines.push(desk.last_line(seen));
    let marked = begin + place - first;
    let cut = |(at, line): (usize, String)| {
        let line: String = line.chars().filter(|c| !c.is_control()).take(columns).collect();
        if at == marked && !seen.jobs.is_empty() {
            format!("\x1b[7m{line:<columns$}\x1b[0m")
        } else {
            line
        }
    };
    lines.into_iter().enumerate().map(cut).collect()
}

/// All of it once, for what is no terminal.
pub(super) fn once(seen: &Seen) -> String {
    let mut text = head(seen).join("\n") + "\n";
    text.push_str(&table::nodes(&seen.nodes));
    text.push('\n');
    if seen.jobs.is_empty() {
        text.push_str("no jobs wait or run\n");
    } else {
        text.push_str(&table::jobs(&seen.jobs, seen.now, Paint::Plain));
    }
    text
}

/// Counts of all, then a line for each queue.
fn head(seen: &Seen) -> Vec<String> {
    if let Some(error) = &seen.error {
        return vec![error.clone(), String::new()];
    }
    let up = seen.nodes.iter().filter(|node| node.up);
    let drained = seen.nodes.iter().filter(|node| node.drained.is_some()).count();
    let sum =
        |of: fn(&NodeFacts) -> u32| seen.nodes.iter().filter(|node| node.up).map(of).sum::<u32>();
    let (cores, free) = (sum(|node| node.cores), sum(|node| node.free_cores));
    let (gpus, free_gpus) = (sum(|node| node.gpus), sum(|node| node.free_gpus));
    let mut text = format!("brokers {} of {}", up.count(), seen.nodes.len());
    if drained > 0 {
        let _ = write!(text, ", {drained} drained");
    }
    let used = cores.saturating_sub(free);
    let _ = write!(text, "   cores {} {used} of {cores}", bar(used, cores));
    if gpus > 0 {
        let used = gpus.saturating_sub(free_gpus);
        let _ = write!(text, "   accelerators {} {used} of {gpus}", bar(used, gpus));
    }
    let _ = write!(text, "   {}", table::stamp(seen.now));
    let mut lines = vec![text];
    for LaneFacts { lane, pending, running, completed, failed, .. } in &seen.lanes {
        let mut text = format!(
            "queue {}: {running} running, {pending} waiting, {completed} completed, {failed} failed",
            lane.name
        );
        for (off, what) in [(!lane.enabled, "takes no jobs"), (!lane.started, "starts no jobs")] {
            if off {
                let _ = write!(text, ", {what}");
            }
        }
        lines.push(text);
    }
    lines.push(String::new());
    lines
}

/// How much of all is used, in ten places.
fn bar(used: u32, all: u32) -> String {
    let full = if all == 0 { 0 } else { (u64::from(used) * 10).div_ceil(u64::from(all)) as usize };
    format!("[{}{}]", "#".repeat(full), ".".repeat(10 - full.min(10)))
}

#[cfg(test)]
mod tests;
