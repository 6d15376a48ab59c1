//! Logs of pods: `quorate logs`, and the launcher's output during `quorate run`.
//!
//! Lines are asked for with their times, which are taken off again: when a connection breaks, what
//! was printed is known, and nothing is lost or printed twice.

use super::gather::{self, container};
use super::refuse::Asked;
use super::session::Session;
use super::target::{self, Found};
use super::words::has_started;
use crate::args::LogsArgs;
use crate::refusal::Refusal;
use futures_util::AsyncReadExt as _;
use k8s_openapi::jiff::Timestamp;
use kube::api::LogParams;
use quorate_api::status::State;
use quorate_observe::PodFacts;
use std::collections::HashSet;
use std::io::{self, Write as _};
use std::time::Duration;
use tokio::task::JoinSet;

/// How often new pods are looked for, and a broken connection is made again.
const LOOK: Duration = Duration::from_secs(1);
/// The most of a line that is held back until its end is known.
const LONGEST: usize = 64 * 1024;

/// Prints what pods have written.
pub fn logs(args: &LogsArgs) -> anyhow::Result<i32> {
    super::block_on(async {
        let session = Session::open(&args.place).await?;
        let found = target::find(&session, args.target.as_deref()).await?;
        let tail = args.tail.map(|lines| i64::try_from(lines).unwrap_or(i64::MAX));
        if let Some(pod) = &found.pod {
            if !has_started(pod) {
                return Err(nothing_yet(&session, &found, &pod.short_name()).into());
            }
            let mut lines = Lines::new(None);
            follow_pod(&session, pod, args.follow, tail, &mut lines, &mut print).await?;
            return Ok(0);
        }
        of_cluster(&session, &found, args.follow, tail).await?;
        Ok(0)
    })
}

fn nothing_yet(session: &Session, found: &Found, who: &str) -> Refusal {
    Refusal::new(format!("{who} has written nothing yet"))
        .hint(format!("`quorate why {}{}` says what it waits for", found.cluster, session.flags))
}

/// The logs of all pods, each line with its pod's name where there are several.
async fn of_cluster(
    session: &Session,
    found: &Found,
    follow: bool,
    tail: Option<i64>,
) -> anyhow::Result<()> {
    // By what the cluster is, not by what is left of it: workers' pods go at its end, and come after
    // the launcher's at its beginning.
    let cluster = session.clusters().get_opt(&found.cluster).await.ok().flatten();
    let label = found.pods.len() > 1 || cluster.and_then(|one| one.status?.size) > Some(1);
    let labelled = |pod: &PodFacts| Lines::new(label.then(|| format!("{}: ", pod.short_name())));
    if !follow {
        let started: Vec<&PodFacts> = found.pods.iter().filter(|pod| has_started(pod)).collect();
        if started.is_empty() {
            return Err(nothing_yet(session, found, &found.cluster).into());
        }
        for pod in started {
            follow_pod(session, pod, false, tail, &mut labelled(pod), &mut print).await?;
        }
        return Ok(());
    }
    let mut known = HashSet::new();
    let mut streams: JoinSet<anyhow::Result<()>> = JoinSet::new();
    loop {
        let cluster = session.clusters().get_opt(&found.cluster).await;
        let cluster = cluster.map_err(|error| session.refuse(&error, &Asked::clusters("get")))?;
        let pods = target::youngest(gather::pods(session, &found.cluster).await?);
        for pod in pods.into_iter().filter(has_started) {
            if !known.insert(pod.uid.clone()) {
                continue;
            }
            let session = session.clone();
            let mut lines = labelled(&pod);
            streams.spawn(async move {
                follow_pod(&session, &pod, true, tail, &mut lines, &mut print).await
            });
        }
        while let Some(ended) = streams.try_join_next() {
            ended??;
        }
        let state = cluster.as_ref().and_then(|one| one.status.as_ref()?.state);
        let over = cluster.is_none() || matches!(state, Some(State::Succeeded | State::Failed));
        if over && streams.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Standard output; a reader that has left is told by an error.
fn print(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush())
}

/// Copies the log of a pod's main container until it ends, or what there is of it now.
pub(super) async fn follow_pod(
    session: &Session,
    pod: &PodFacts,
    follow: bool,
    tail: Option<i64>,
    lines: &mut Lines,
    print: &mut (dyn FnMut(&[u8]) -> io::Result<()> + Send),
) -> anyhow::Result<()> {
    let mut tail = tail;
    loop {
        let how = LogParams {
            container: container(pod),
            follow,
            timestamps: true,
            tail_lines: tail.take(),
            since_time: lines.last,
            ..LogParams::default()
        };
        let mut out = Vec::new();
        match session.pods().log_stream(&pod.name, &how).await {
            Ok(mut stream) => {
                let mut buffer = vec![0; 32 * 1024];
                lines.again();
                // An error of the stream is a connection that broke: it is made again below.
                while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                    out.clear();
                    lines.feed(&buffer[..count], &mut out);
                    match print(&out) {
                        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                        other => other?,
                    }
                }
            }
            Err(kube::Error::Api(status)) if follow && status.code == 404 => return Ok(()),
            Err(kube::Error::Api(status)) if !follow || status.code == 403 => {
                let asked = Asked::pods("get", "pods/log").named(&pod.name);
                return Err(session.refuse(&kube::Error::Api(status), &asked));
            }
            Err(error) if !follow => {
                return Err(session.refuse(&error, &Asked::pods("get", "pods/log")));
            }
            // The API server or the kubelet is away for a moment.
            Err(_) => {}
        }
        if !follow || has_ended(session, pod).await {
            out.clear();
            lines.end(&mut out);
            let _ = print(&out);
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Whether a pod's main container has ended, or the pod is gone. When that cannot be asked, not yet.
async fn has_ended(session: &Session, pod: &PodFacts) -> bool {
    match session.pods().get_opt(&pod.name).await {
        Ok(Some(now)) => {
            let now = PodFacts::from_pod(&now);
            now.uid != pod.uid || now.ended() || super::words::main_ended(&now)
        }
        Ok(None) => true,
        Err(_) => false,
    }
}

/// Turns a log with times into what the pod has written: `TIME line` becomes `line`, or `label:
/// line`. What was seen before a connection broke is left out.
#[derive(Debug)]
pub(super) struct Lines {
    /// Before each line; then lines are printed whole, since others come in between.
    label: Option<String>,
    /// The time of the last whole line that was printed.
    pub(super) last: Option<Timestamp>,
    /// The line that is being printed: its time, and how many of its bytes were.
    open: Option<(Timestamp, usize)>,
    /// Before this connection lines up to this time were printed, and a part of another.
    before: (Option<Timestamp>, Option<(Timestamp, usize)>),
    at: At,
    /// A line whose end has not come, where lines are printed whole.
    held: Vec<u8>,
}

#[derive(Debug)]
enum At {
    /// In the time before a line.
    Time(Vec<u8>),
    /// In a line that is printed from its byte `from` on, or left out.
    Line { from: Option<usize> },
}

impl Lines {
    pub(super) fn new(label: Option<String>) -> Self {
        Self {
            label,
            last: None,
            open: None,
            before: (None, None),
            at: At::Time(Vec::new()),
            held: Vec::new(),
        }
    }

    /// A new connection begins.
    fn again(&mut self) {
        self.before = (self.last, self.open.take());
        self.at = At::Time(Vec::new());
    }

    /// Takes a piece of the log; appends what is to be printed.
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for byte in bytes {
            match &mut self.at {
                At::Time(time) if *byte == b' ' || time.len() > 64 => {
                    let at = std::str::from_utf8(time).ok().and_then(|text| text.parse().ok());
                    let from = self.begin(at);
                    if from == Some(0) {
                        let label = self.label.clone().unwrap_or_default();
                        self.write(label.as_bytes(), out);
                    }
                    self.at = At::Line { from };
                }
                At::Time(time) => time.push(*byte),
                At::Line { from } => {
                    let from = *from;
                    if let Some((_, bytes)) = &mut self.open {
                        *bytes += 1;
                    }
                    let number = self.open.map_or(usize::MAX, |(_, bytes)| bytes);
                    if from.is_some_and(|from| number > from) {
                        self.write(&[*byte], out);
                    }
                    if *byte == b'\n' {
                        self.last = self.open.take().map(|(at, _)| at).max(self.last);
                        self.at = At::Time(Vec::new());
                    }
                }
            }
        }
    }

    /// A line begins: from which of its bytes on it is news, if it is any.
    fn begin(&mut self, at: Option<Timestamp>) -> Option<usize> {
        self.open = at.map(|at| (at, 0));
        match (at, self.before) {
            (Some(at), (_, Some((broken, bytes)))) if at == broken => Some(bytes),
            (Some(at), (Some(printed), _)) if at <= printed => None,
            _ => Some(0),
        }
    }

    fn write(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.label.is_none() {
            out.extend_from_slice(bytes);
            return;
        }
        self.held.extend_from_slice(bytes);
        if self.held.ends_with(b"\n") || self.held.len() >= LONGEST {
            out.append(&mut self.held);
        }
    }

    /// Nothing more comes: a line without an end gets one where others may follow.
    fn end(&mut self, out: &mut Vec<u8>) {
        if !self.held.is_empty() {
            out.append(&mut self.held);
            out.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "2026-01-02T03:04:05.1Z one\n2026-01-02T03:04:05.12Z two words\n";

    fn fed(lines: &mut Lines, pieces: &[&str]) -> String {
        let mut out = Vec::new();
        for piece in pieces {
            lines.feed(piece.as_bytes(), &mut out);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn times_are_taken_off_wherever_pieces_end() {
        for cut in 0..LOG.len() {
            let (a, b) = LOG.split_at(cut);
            assert_eq!(fed(&mut Lines::new(None), &[a, b]), "one\ntwo words\n", "{cut}");
        }
    }

    #[test]
    fn after_a_broken_connection_nothing_comes_twice() {
        let mut lines = Lines::new(None);
        assert_eq!(fed(&mut lines, &[LOG]), "one\ntwo words\n");
        lines.again();
        let more = format!("{LOG}2026-01-02T03:04:06Z three\n");
        assert_eq!(fed(&mut lines, &[&more]), "three\n");
    }

    #[test]
    fn a_connection_that_breaks_within_a_line_loses_none_of_it() {
        let log = format!("{LOG}2026-01-02T03:04:06Z three\n");
        let start = log.find("one").unwrap();
        for cut in start..log.len() {
            let mut lines = Lines::new(None);
            let mut all = fed(&mut lines, &[&log[..cut]]);
            lines.again();
            all += &fed(&mut lines, &[&log]);
            assert_eq!(all, "one\ntwo words\nthree\n", "{cut}");
        }
    }

    #[test]
    fn labelled_lines_come_whole() {
        let mut lines = Lines::new(Some("worker-0-1: ".into()));
        assert_eq!(fed(&mut lines, &["2026-01-02T03:04:05Z ha"]), "");
        assert_eq!(fed(&mut lines, &["lf\n2026-01-02T03:04:06Z end"]), "worker-0-1: half\n");
        let mut out = Vec::new();
        lines.end(&mut out);
        assert_eq!(out, b"worker-0-1: end\n");
    }

    #[test]
    fn empty_lines_and_bytes_that_are_no_text_stay() {
        let mut lines = Lines::new(None);
        let mut out = Vec::new();
        lines.feed(b"2026-01-02T03:04:05Z \n2026-01-02T03:04:05.5Z \xff\xfe\n", &mut out);
        assert_eq!(out, b"\n\xff\xfe\n");
    }
}
