//! The streams of a started process: what it writes becomes messages, what it is sent becomes its
//! stdin.
//!
//! Owns: reading and writing pipes without holding up anybody else, with bounded memory. It must
//! not know whose process it is.

use super::protocol::output;
use crate::launch::stdio::{Lines, Tail};
use bytes::Bytes;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};

/// Bytes read from a task at once: with a held line and the head of a message it is still one
/// message of a channel.
const READ: usize = 24 * 1024;

/// How long output may still come when the task has ended and somebody else holds its pipe.
const LAST_OUTPUT: Duration = Duration::from_millis(200);

/// What terminals take for the end of what is typed: once at the beginning of a line, twice within one.
const END_OF_FILE: u8 = 4;

/// How a process is told the end of its stdin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Its pipe is closed.
    Closed,
    /// It is typed at its terminal.
    Typed,
}

/// Writes a process's stdin. What it does not want is taken all the same: the client must not wait
/// for a process that has closed its input. `took` is told how much was taken, and says whether to
/// go on. `None` in the queue is the end.
pub(crate) fn feed<F, Fut>(
    mut pipe: pipe::Sender,
    end: End,
    took: F,
) -> mpsc::UnboundedSender<Option<Bytes>>
where
    F: Fn(usize) -> Fut + Send + 'static,
    Fut: Future<Output = bool> + Send,
{
    let (queue, mut pieces) = mpsc::unbounded_channel::<Option<Bytes>>();
    tokio::spawn(async move {
        let mut open = true;
        let mut last = b'\n';
        while let Some(piece) = pieces.recv().await {
            let Some(bytes) = piece else {
                if end == End::Typed && open {
                    let typed = if last == b'\n' { &[END_OF_FILE][..] } else { &[END_OF_FILE; 2] };
                    let _ = pipe.write_all(typed).await;
                }
                return;
            };
            open = open && pipe.write_all(&bytes).await.is_ok();
            last = bytes.last().copied().unwrap_or(last);
            if !took(bytes.len()).await {
                return;
            }
        }
    });
    queue
}

/// A task's stream, for its pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    /// [`super::protocol::kind::OUT`] or [`super::protocol::kind::ERR`].
    pub(crate) kind: u8,
    /// The task's rank.
    pub(crate) rank: u32,
    /// Holds what is not a whole line yet.
    pub(crate) whole_lines: bool,
}

/// Sends a task's output on until it ends, or until the task is over and its pipe silent. `send` takes a
/// message, and tells whether more is wanted.
pub(crate) async fn pump<F, Fut>(
    pipe: pipe::Receiver,
    stream: Stream,
    send: F,
    tail: Arc<Mutex<Tail>>,
    mut over: watch::Receiver<bool>,
) where
    F: Fn(Bytes) -> Fut + Send,
    Fut: Future<Output = bool> + Send,
{
    let mut lines = Lines::default();
    let mut pieces = Vec::new();
    let mut buffer = Vec::new();
    loop {
        let ended = *over.borrow();
        let ready = tokio::select! {
            biased;
            ready = pipe.readable() => ready.is_ok(),
            // Whoever still holds the pipe is not the task.
            () = tokio::time::sleep(LAST_OUTPUT), if ended => false,
            changed = over.changed(), if !ended => {
                // The task is over once its waiter is gone, too.
                if changed.is_err() { false } else { continue }
            }
        };
        if !ready {
            break;
        }
        buffer.resize(READ, 0);
        match pipe.try_read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                let bytes = &buffer[..count];
                if let Ok(mut tail) = tail.lock() {
                    tail.push(bytes);
                }
                if stream.whole_lines {
                    lines.push(bytes, |piece| pieces.push(piece));
                } else {
                    pieces.push(bytes.to_vec());
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                // An idle task holds no buffer.
                buffer = Vec::new();
                continue;
            }
            Err(_) => break,
        }
        for piece in pieces.drain(..) {
            if !send(output(stream.kind, stream.rank, &piece)).await {
                return;
            }
        }
    }
    if let Some(rest) = lines.finish() {
        send(output(stream.kind, stream.rank, &rest)).await;
    }
}
