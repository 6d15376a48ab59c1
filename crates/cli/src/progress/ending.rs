//! The last words: how the program ended, where its ranks ran, and what it cost.

use super::{Line, Progress, placement_words};
use crate::control::Finish;
use crate::terminal::duration;
use quorate_contract::report::{Reason, Report};
use std::time::Duration;

/// What is known at the end.
#[derive(Clone, Copy, Debug)]
pub struct Ending<'a> {
    /// How the cluster ended.
    pub finish: &'a Finish,
    /// What the launcher left behind.
    pub report: Option<&'a Report>,
    /// Where the logs are kept, if they are.
    pub logs: Option<&'a str>,
}

impl Progress {
    /// The lines of the end. A failure is told even to those who want to hear nothing else.
    pub fn ended(&mut self, ending: Ending<'_>, now: Duration) -> Vec<Line> {
        let Ending { finish, report, logs } = ending;
        let mut lines = report.map(|report| self.catch_up(report)).unwrap_or_default();
        let failed = !finish.completed || finish.code != 0;
        let program = report.filter(|_| self.has_program).map(program_words);
        match (failed, program) {
            (false, Some(words)) => lines.push(self.row(self.marks.done, "program", &words)),
            (true, Some(words)) => {
                lines.push(self.row(self.marks.failed, "program", &words));
                lines.extend(report.into_iter().flat_map(last_words));
            }
            (true, None) if !finish.message.is_empty() => {
                lines.push(self.row(self.marks.failed, "cluster", &finish.message));
            }
            _ => {}
        }
        let mut last = if failed {
            format!("{} failed with code {}", self.name, finish.code)
        } else {
            format!("{} succeeded in {}", self.name, duration(now))
        };
        if let Some(logs) = logs {
            last += &format!(" {} kept logs: {logs}", self.marks.dot);
        }
        lines.push(last);
        if failed && self.quiet {
            return lines.into_iter().map(Line::Keep).collect();
        }
        self.keep(lines)
    }
}

/// How the program ended, in one line.
fn program_words(report: &Report) -> String {
    let phases = &report.phases;
    let ran = phases
        .program_started
        .zip(phases.program_ended)
        .map(|(start, end)| Duration::from_millis(end.saturating_sub(start)));
    if report.reason == Reason::Completed {
        let mut words = format!("exit {}", report.exit_code);
        if let Some(ran) = ran {
            words += &format!("  {}", duration(ran));
        }
        if let Some(placement) = report.placement.as_ref().filter(|p| p.tasks > 0) {
            words += &format!("  {}", placement_words(placement));
        }
        return words;
    }
    failure_words(report, ran)
}

/// One sentence about what went wrong first.
fn failure_words(report: &Report, ran: Option<Duration>) -> String {
    let after = ran.map(|ran| format!(" after {}", duration(ran))).unwrap_or_default();
    let failure = report.failure.as_ref();
    let who = failure.and_then(|f| {
        let pod = f.pod.as_ref().map(|pod| format!(" on {pod}")).unwrap_or_default();
        f.rank.map(|rank| format!("rank {rank}{pod}"))
    });
    let how = failure.and_then(|f| match (f.signal, f.exit_code) {
        // The message says why, the signal does not.
        _ if report.reason == Reason::OutOfMemory => None,
        (Some(signal), _) => Some(format!("ended by signal {signal}{}", signal_words(signal))),
        (None, Some(code)) if report.reason == Reason::ProgramFailed => {
            Some(format!("exited with code {code}"))
        }
        _ => None,
    });
    let Some((who, how)) = who.zip(how) else {
        return report.message.clone();
    };
    let others = report.placement.as_ref().map_or(0, |p| p.tasks.saturating_sub(1));
    let others = match others {
        0 => String::new(),
        1 => "; the other rank was stopped".to_owned(),
        n => format!("; the other {n} ranks were stopped"),
    };
    format!("{who} {how}{after}{others}")
}

fn last_words(report: &Report) -> Vec<String> {
    let tail = report.failure.as_ref().map(|f| f.log_tail.as_slice()).unwrap_or_default();
    if tail.is_empty() {
        return Vec::new();
    }
    let indent = " ".repeat(14);
    let mut lines = vec![format!("{indent}its last lines:")];
    lines.extend(tail.iter().map(|line| format!("{indent}| {line}")));
    lines
}

/// What a signal means, in parentheses (signal(7)).
fn signal_words(signal: i32) -> &'static str {
    match signal {
        libc::SIGHUP => " (hangup)",
        libc::SIGINT => " (interrupt)",
        libc::SIGQUIT => " (quit)",
        libc::SIGILL => " (illegal instruction)",
        libc::SIGTRAP => " (trap)",
        libc::SIGABRT => " (aborted)",
        libc::SIGBUS => " (bus error)",
        libc::SIGFPE => " (floating point exception)",
        libc::SIGKILL => " (killed)",
        libc::SIGSEGV => " (segmentation fault)",
        libc::SIGPIPE => " (broken pipe)",
        libc::SIGTERM => " (terminated)",
        libc::SIGXCPU => " (CPU time limit)",
        libc::SIGSYS => " (bad system call)",
        _ => "",
    }
}
