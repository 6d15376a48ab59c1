//! The output of jobs on this process's own: a thread writes it, so that nobody waits for a slow reader.
//!
//! Owns: labels, the order of pieces, and that all is written before the client ends. What comes from
//! where is the business of the conversations.

use super::Labels;
use crate::job::protocol::{Placed, kind, piece};
use crate::launch::stdio::Merge;
use bytes::Bytes;
use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;

/// What a line is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// A rank, and how wide its number is made.
    Task(u32, usize),
    Job(u64),
    TaskOf(u64, u32),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task(rank, width) => write!(f, "{rank:>width$}"),
            Self::Job(job) => write!(f, "{job}"),
            Self::TaskOf(job, rank) => write!(f, "{job}.{rank}"),
        }
    }
}

/// Something to write.
#[derive(Debug)]
enum Piece {
    Out(Option<Origin>, Bytes),
    Err(Option<Origin>, Bytes),
    /// A line for people; at a terminal in raw mode lines end otherwise.
    Notice(Bytes, bool),
}

/// The thread and the way to it.
type Writer = (mpsc::Sender<Piece>, std::thread::JoinHandle<()>);

/// Writes for all conversations of this process. The thread starts with the first piece.
#[derive(Debug, Default)]
pub(super) struct Printer {
    writer: Mutex<Option<Writer>>,
}

impl Printer {
    /// Hands a piece over. An error says that nobody reads stdout any more.
    async fn send(&self, piece: Piece) -> Result<(), ()> {
        let queue = {
            let mut writer =
                self.writer.lock().expect("the lock holds because nothing panics under it");
            let (queue, _) = writer.get_or_insert_with(|| {
                let (queue, pieces) = mpsc::channel(16);
                (queue, std::thread::spawn(move || write(pieces)))
            });
            queue.clone()
        };
        queue.send(piece).await.map_err(|_| ())
    }

    /// Waits until all is written.
    pub(super) async fn finish(&self) {
        let writer = {
            let mut writer =
                self.writer.lock().expect("the lock holds because nothing panics under it");
            writer.take()
        };
        if let Some((queue, thread)) = writer {
            drop(queue);
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

/// The output of one conversation.
pub(super) struct Output {
    labels: Labels,
    /// One of several jobs whose output is shown together.
    job: Option<u64>,
    brokers: HashMap<u32, u32>,
    printer: Arc<Printer>,
}

impl Output {
    pub(super) fn new(labels: Labels, job: Option<u64>, printer: Arc<Printer>) -> Self {
        Self { labels, job, brokers: HashMap::new(), printer }
    }

    /// Tasks are where they are.
    pub(super) fn placed(&mut self, placed: &Placed) {
        if self.labels != Labels::Broker {
            return;
        }
        if placed.placement.pods() < 2 {
            self.labels = Labels::None;
            return;
        }
        for (broker, ranks) in placed.placement.ranks() {
            self.brokers.extend(ranks.into_iter().map(|rank| (rank, broker)));
        }
    }

    /// Hands a message over; `raw` while the terminal is in raw mode. An error says that nobody reads
    /// stdout any more.
    pub(super) async fn send(&self, kind: u8, payload: Bytes, raw: bool) -> Result<(), ()> {
        if kind == kind::NOTICE {
            return self.printer.send(Piece::Notice(payload, raw)).await;
        }
        let Some((rank, bytes)) = piece(payload) else { return Ok(()) };
        let rank = self.brokers.get(&rank).copied().unwrap_or(rank);
        let origin = match (self.job, self.labels) {
            (None, Labels::None) => None,
            (None, Labels::Task | Labels::Broker) => Some(Origin::Task(rank, 0)),
            (None, Labels::Padded(width)) => Some(Origin::Task(rank, width)),
            (Some(job), Labels::None) => Some(Origin::Job(job)),
            (Some(job), _) => Some(Origin::TaskOf(job, rank)),
        };
        let piece =
            if kind == kind::OUT { Piece::Out(origin, bytes) } else { Piece::Err(origin, bytes) };
        self.printer.send(piece).await
    }
}

/// The writer's thread: ends when stdout is closed by its reader.
fn write(mut pieces: mpsc::Receiver<Piece>) {
    let (mut out, mut err) = (Merge::new(true), Merge::new(true));
    let mut buffer = Vec::new();
    let mut lay = |merge: &mut Merge<Origin>, origin: Option<Origin>, bytes: &Bytes, fd: i32| {
        let Some(origin) = origin else { return crate::sys::write_all(fd, bytes) };
        buffer.clear();
        merge.piece(origin, bytes, &mut buffer);
        // Straight to the descriptor: Rust's own buffer would hold lines back.
        crate::sys::write_all(fd, &buffer)
    };
    while let Some(piece) = pieces.blocking_recv() {
        match piece {
            Piece::Notice(text, raw) => {
                let end = if raw { "\r\n" } else { "\n" };
                let _ = write!(io::stderr(), "quorate: {}{end}", String::from_utf8_lossy(&text));
            }
            Piece::Out(origin, bytes) => {
                if lay(&mut out, origin, &bytes, libc::STDOUT_FILENO).is_err() {
                    return;
                }
            }
            Piece::Err(origin, bytes) => {
                // A closed stderr is no reason to stop.
                let _ = lay(&mut err, origin, &bytes, libc::STDERR_FILENO);
            }
        }
    }
}
