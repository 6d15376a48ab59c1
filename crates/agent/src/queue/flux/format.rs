//! What flux(1)'s commands print. Pure.
//!
//! Owns: job ids in base 58 (RFC 19), lengths of time (RFC 23), and formats of flux-jobs(1): Python's
//! `{field:>12.10}` with Flux's `!F`, `h`, `+` and `?:`.

use crate::queue::protocol::JobFacts;
use quorate_hostlist::HostList;
use quorate_queue::{JobId, Standing, State, Time};

/// The default format of flux-jobs(1).
pub(super) const JOBS: &str = "{id.f58:>12} ?:{queue:<8.8} {username:<8.8} {name:<10.10+} \
     {status_abbrev:>2.2} {ntasks:>6} {nnodes:>6h} {contextual_time!F:>8h} {contextual_info}";

/// Digits of base 58.
const DIGITS: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/// A job's number as people of Flux see it.
pub(crate) fn f58(id: JobId) -> String {
    let mut digits = Vec::new();
    let mut rest = id.0;
    loop {
        digits.push(char::from(DIGITS[(rest % 58) as usize]));
        rest /= 58;
        if rest == 0 {
            break;
        }
    }
    std::iter::once('ƒ').chain(digits.into_iter().rev()).collect()
}

/// Reads a job's number in any form: `ƒ2x`, `f2x`, `17`, `0x11`.
pub(super) fn job_id(text: &str) -> Result<JobId, String> {
    let wrong = || format!("invalid JOBID argument: {text}");
    if let Some(digits) = text.strip_prefix('ƒ').or_else(|| text.strip_prefix('f')) {
        let mut number: u64 = 0;
        for digit in digits.bytes() {
            let place = DIGITS.iter().position(|known| *known == digit).ok_or_else(wrong)? as u64;
            number = number.checked_mul(58).and_then(|n| n.checked_add(place)).ok_or_else(wrong)?;
        }
        return if number > 0 { Ok(JobId(number)) } else { Err(wrong()) };
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).map(JobId).map_err(|_| wrong());
    }
    text.parse().map_err(|_| wrong())
}

/// A length of time: `0.123s`, `12.34s`, `1.5m`.
pub(super) fn duration(seconds: f64) -> String {
    let significant = |value: f64| {
        let digits = if value < 10.0 { 3 } else { 2 - usize::from(value >= 100.0) };
        let text = format!("{value:.digits$}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match seconds {
        s if s < 0.001 => "0s".to_owned(),
        s if s < 10.0 => format!("{s:.3}s"),
        s if s < 60.0 => format!("{}s", significant(s)),
        s if s < 3600.0 => format!("{}m", significant(s / 60.0)),
        s if s < 86400.0 => format!("{}h", significant(s / 3600.0)),
        s => format!("{}d", significant(s / 86400.0)),
    }
}

/// A job with what a format may ask of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    pub(super) job: &'a JobFacts,
    pub(super) user: &'a str,
    /// The queue of jobs that name none, which is not shown.
    pub(super) first_queue: &'a str,
    pub(super) now: Time,
}

/// A format that was read: texts and fields in turn.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Format(Vec<Piece>);

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Text(String),
    Field(Field),
}

#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one mark of a format")]
struct Field {
    name: &'static str,
    head: &'static str,
    /// Left out where it is empty for all.
    optional: bool,
    /// As a length of time.
    time: bool,
    right: bool,
    width: usize,
    cut: Option<usize>,
    plus: bool,
    hyphen: bool,
}

/// Fields and their headings.
const FIELDS: &[(&str, &str)] = &[
    ("id", "JOBID"),
    ("id.f58", "JOBID"),
    ("id.f58plain", "JOBID"),
    ("id.dec", "JOBID"),
    ("id.hex", "JOBID"),
    ("userid", "UID"),
    ("username", "USER"),
    ("urgency", "URG"),
    ("priority", "PRI"),
    ("state", "STATE"),
    ("state_single", "S"),
    ("status", "STATUS"),
    ("status_abbrev", "ST"),
    ("result", "RESULT"),
    ("result_abbrev", "RS"),
    ("name", "NAME"),
    ("queue", "QUEUE"),
    ("cwd", "CWD"),
    ("ntasks", "NTASKS"),
    ("ncores", "NCORES"),
    ("duration", "DURATION"),
    ("nnodes", "NNODES"),
    ("ranks", "RANKS"),
    ("nodelist", "NODELIST"),
    ("success", "SUCCESS"),
    ("returncode", "RC"),
    ("exception.note", "EXCEPTION-NOTE"),
    ("t_submit", "T_SUBMIT"),
    ("t_run", "T_RUN"),
    ("t_inactive", "T_INACTIVE"),
    ("runtime", "RUNTIME"),
    ("contextual_time", "TIME"),
    ("contextual_info", "INFO"),
    ("dependencies", "DEPENDENCIES"),
];

impl Format {
    /// Reads a format.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let (mut pieces, mut plain) = (Vec::new(), String::new());
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            if let Some(after) = rest.strip_prefix("{{") {
                plain.push('{');
                rest = after;
            } else if let Some(after) = rest.strip_prefix("}}") {
                plain.push('}');
                rest = after;
            } else if next == '{' {
                let (inner, after) =
                    rest[1..].split_once('}').ok_or_else(|| format!("`{rest}` has no end"))?;
                let mut optional = false;
                for (mark, is_optional) in [("?:", true), ("+:", false), ("?+:", true)] {
                    if plain.ends_with(mark) {
                        plain.truncate(plain.len() - mark.len());
                        optional = is_optional;
                        break;
                    }
                }
                if !plain.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                }
                pieces.push(Piece::Field(Field::read(inner, optional)?));
                rest = after;
            } else {
                plain.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Self(pieces))
    }

    /// All rows, under their headings if those are wanted.
    pub(super) fn print(&self, rows: &[Row<'_>], header: bool) -> String {
        let shown = |piece: &&Piece| match piece {
            Piece::Field(field) if field.optional => {
                rows.iter().any(|row| !matches!(field.value(row).as_str(), "" | "0" | "0s"))
            }
            _ => true,
        };
        let mut kept: Vec<&Piece> = Vec::new();
        for (at, piece) in self.0.iter().enumerate() {
            // A blank belongs to the field before it.
            let after_hidden = matches!(piece, Piece::Text(text) if text == " ")
                && at > 0
                && !shown(&&self.0[at - 1]);
            if shown(&piece) && !after_hidden {
                kept.push(piece);
            }
        }
        let line = |of: &dyn Fn(&Field) -> String| {
            let mut line = String::new();
            for piece in &kept {
                match piece {
                    Piece::Text(text) => line.push_str(text),
                    Piece::Field(field) => line.push_str(&field.fit(&of(field))),
                }
            }
            line.push('\n');
            line
        };
        let mut text = String::new();
        if header {
            text.push_str(&line(&|field| field.head.to_owned()));
        }
        for row in rows {
            text.push_str(&line(&|field| field.value(row)));
        }
        text
    }
}

impl Field {
    fn read(text: &str, optional: bool) -> Result<Self, String> {
        let (named, spec) = text.split_once(':').unwrap_or((text, ""));
        let (name, conversion) = named.split_once('!').unwrap_or((named, ""));
        let known = FIELDS.iter().find(|(known, _)| *known == name);
        let (name, head) = *known.ok_or_else(|| format!("Unknown format field: {name}"))?;
        if !matches!(conversion, "" | "F") {
            return Err(format!("Unknown conversion !{conversion}; only !F is known here"));
        }
        let wrong = || format!("Invalid format specifier `{spec}`");
        let hyphen = spec.ends_with('h');
        let rest = spec.trim_end_matches(['h', 's', 'd']);
        let (rest, plus) = rest.strip_suffix('+').map_or((rest, false), |rest| (rest, true));
        let (right, rest) = match rest.split_at_checked(1) {
            Some((">", rest)) => (true, rest),
            Some(("<", rest)) => (false, rest),
            _ => (false, rest),
        };
        let (width, cut) = match rest.split_once('.') {
            Some((width, cut)) => (width, Some(cut.parse().map_err(|_| wrong())?)),
            None => (rest, None),
        };
        let width = if width.is_empty() { 0 } else { width.parse().map_err(|_| wrong())? };
        let time = conversion == "F";
        Ok(Self { name, head, optional, time, right, width, cut, plus, hyphen })
    }

    fn fit(&self, text: &str) -> String {
        let Self { width, .. } = *self;
        let mut text = text.to_owned();
        if let Some(cut) = self.cut
            && text.chars().count() > cut
        {
            let keep = cut - usize::from(self.plus && cut > 0);
            text = text.chars().take(keep).collect();
            if self.plus {
                text.push('+');
            }
        }
        if self.right { format!("{text:>width$}") } else { format!("{text:<width$}") }
    }

    fn value(&self, row: &Row<'_>) -> String {
        let text = value(self.name, row, self.time);
        if self.hyphen && matches!(text.as_str(), "" | "0" | "0s" | "0.0") {
            return "-".to_owned();
        }
        text
    }
}

/// A job's status: what became of it, or where it is.
pub(super) fn status(job: &JobFacts) -> (&'static str, &'static str) {
    match (job.state, job.standing) {
        (State::Depend, _) => ("DEPEND", "D"),
        (State::Priority, _) => ("PRIORITY", "P"),
        (State::Sched, _) => ("SCHED", "S"),
        (State::Run, _) => ("RUN", "R"),
        (State::Cleanup, _) => ("CLEANUP", "C"),
        (State::Inactive, Some(Standing::Completed)) => ("COMPLETED", "CD"),
        (State::Inactive, Some(Standing::Cancelled)) => ("CANCELED", "CA"),
        (State::Inactive, Some(Standing::TimedOut)) => ("TIMEOUT", "TO"),
        (State::Inactive, _) => ("FAILED", "F"),
    }
}

fn value(name: &str, row: &Row<'_>, time: bool) -> String {
    let Row { job, now, .. } = *row;
    let seconds = |ms: u64| ms as f64 / 1000.0;
    let length = |value: f64| if time { duration(value) } else { value.to_string() };
    let moment =
        |at: Option<Time>| at.map_or_else(|| "0.0".to_owned(), |at| seconds(at.0).to_string());
    let (word, short) = status(job);
    let over = job.state == State::Inactive;
    let ran = job
        .started
        .map_or(0.0, |start| seconds(job.ended.unwrap_or(now).0.saturating_sub(start.0)));
    let limit = job.time_limit.map_or(0.0, |limit| limit as f64);
    let nodes = || job.pods.iter().map(String::as_str).collect::<HostList>().to_string();
    match name {
        "id" | "id.dec" => job.id.to_string(),
        "id.f58" => f58(job.id),
        "id.f58plain" => f58(job.id).replacen('ƒ', "f", 1),
        "id.hex" => format!("{:#x}", job.id.0),
        "userid" => job.user.to_string(),
        "username" => row.user.to_owned(),
        "urgency" => job.urgency.to_string(),
        "priority" => job.priority.to_string(),
        "state" if over => "INACTIVE".to_owned(),
        "state_single" if over => "I".to_owned(),
        "state" | "status" => word.to_owned(),
        "state_single" | "status_abbrev" => short.to_owned(),
        "result" if over => word.to_owned(),
        "result_abbrev" if over => short.to_owned(),
        "name" => job.name.clone(),
        "queue" if job.queue == row.first_queue => String::new(),
        "queue" => job.queue.clone(),
        "cwd" => job.directory.clone(),
        "ntasks" => job.tasks.to_string(),
        "ncores" => job.tasks.saturating_mul(job.cores_per_task).to_string(),
        "nnodes" if job.pods.is_empty() => String::new(),
        "nnodes" => job.nodes.to_string(),
        "ranks" => job.ranks.clone(),
        "success" if over => if job.code == Some(0) { "True" } else { "False" }.to_owned(),
        "returncode" => job.code.map_or_else(String::new, |code| code.to_string()),
        "exception.note" if over && job.code != Some(0) => job.why.clone(),
        "t_submit" => moment(Some(job.submitted)),
        "t_run" => moment(job.started),
        "t_inactive" => moment(job.ended),
        "runtime" => length(ran),
        "contextual_time" if job.started.is_some() => length(ran),
        "duration" | "contextual_time" => length(limit),
        "contextual_info" if job.held => "held".to_owned(),
        "contextual_info" if job.state < State::Run => match job.forecast {
            Some(start) => format!("eta:{}", duration(seconds(start.0.saturating_sub(now.0)))),
            None if job.dependencies.is_empty() => String::new(),
            None => format!("depends:{}", dependencies(job)),
        },
        "nodelist" | "contextual_info" => nodes(),
        "dependencies" => dependencies(job),
        _ => String::new(),
    }
}

fn dependencies(job: &JobFacts) -> String {
    use quorate_queue::Condition;
    let one = |dependency: &quorate_queue::Dependency| {
        let on = match dependency.on {
            Condition::AfterStart => "after-start",
            Condition::AfterAny => "after-finish",
            Condition::AfterOk => "after-success",
            Condition::AfterNotOk => "after-failure",
        };
        format!("{on}={}", f58(dependency.job))
    };
    job.dependencies.iter().map(one).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_written() {
        for id in [1, 57, 58, 3364, u64::MAX] {
            assert_eq!(job_id(&f58(JobId(id))), Ok(JobId(id)));
        }
        // As RFC 19 has it.
        assert_eq!(f58(JobId(6_731_191_091_817_518)), "ƒuZZybuNNy");
        assert_eq!(
            (job_id("f2"), job_id("17"), job_id("0x11")),
            (Ok(JobId(1)), Ok(JobId(17)), Ok(JobId(17)))
        );
        for wrong in ["", "ƒ", "f0", "f1", "x", "-1"] {
            assert!(job_id(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lengths_of_time_have_four_digits() {
        let said = [0.0, 0.1234, 12.345, 90.0, 5400.0, 172_800.0].map(duration);
        assert_eq!(said, ["0s", "0.123s", "12.35s", "1.5m", "1.5h", "2d"]);
    }

    fn job() -> JobFacts {
        serde_json::from_value(serde_json::json!({
            "id": 3, "name": "a-long-name-of-a-job", "user": 0, "state": "RUN", "urgency": 16, "held": false,
            "priority": 16, "queue": "default", "tasks": 4, "nodes": 2, "coresPerTask": 1, "gpusPerTask": 0,
            "memoryPerNode": 0, "exclusive": false, "submitted": 0, "started": 1000, "ranks": "1-2",
            "pods": ["worker-0-0", "worker-0-1"], "requeues": 0, "command": ["x"], "directory": "/",
        }))
        .unwrap()
    }

    #[test]
    fn jobs_stand_under_the_default_headings() {
        let job = job();
        let row = Row { job: &job, user: "ada", first_queue: "default", now: Time(13_500) };
        let format = Format::read(JOBS).unwrap();
        let expected = "       JOBID USER     NAME       ST NTASKS NNODES     TIME INFO\n\
                        \u{20}         ƒ4 ada      a-long-na+  R      4      2    12.5s worker-0-[0-1]\n";
        assert_eq!(format.print(&[row], true), expected);
        let queued = Row { first_queue: "other", ..row };
        assert!(format.print(&[queued], true).starts_with("       JOBID QUEUE    USER     NAME"));
        let format = Format::read("{id.dec}: {state} {{{returncode:>3h}}}").unwrap();
        assert_eq!(format.print(&[row], false), "3: RUN {  -}\n");
        assert_eq!(Format::read("{nope}"), Err("Unknown format field: nope".to_owned()));
    }
}
