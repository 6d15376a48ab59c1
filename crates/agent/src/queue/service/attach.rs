//! Following a job: its output from the beginning, its end, and the way of input and signals to it.
//!
//! Owns: one such conversation. Many may follow one job; who comes first gives it standard input, if it takes
//! any. A job that is a client's own ends with that client.

use super::{Over, facts_of};
use crate::job::protocol::{self, kind as stream};
use crate::queue::facts;
use crate::queue::keeper::Keeping;
use crate::queue::runner::{Running, TERMINAL};
use crate::queue::talk::{Hear, Say};
use bytes::Bytes;
use quorate_contract::exit;
use quorate_queue::{JobId, Queue, State};
use std::sync::Arc;
use std::time::Duration;

/// How long who waits for a job of its own is not told why.
const PATIENCE: Duration = Duration::from_millis(300);

/// The part of a client in a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// It gives standard input.
    pub(super) stdin: bool,
    /// The job is there for it alone.
    pub(super) own: bool,
    /// It has a terminal for it, and wants a job that takes one.
    pub(super) terminal: bool,
}

/// Follows a job's streams. It may not have begun, or be over.
pub(super) async fn follow(
    keeping: &Keeping,
    job: JobId,
    part: Part,
    hear: &mut Hear,
    say: &mut Say,
) -> Over {
    let Seen { input, terminal, state } = match keeping.look(move |queue| look_at(queue, job)).await
    {
        Ok(Ok(seen)) => seen,
        Ok(Err(error)) => return Over::failed(error),
        Err(closed) => return Over::failed(closed.to_string()),
    };
    if part.terminal && !terminal {
        return Over::failed(format!("job {job} has no terminal: it was submitted without --pty"));
    }
    let mut over = match keeping.over(vec![job]).await {
        Ok(over) => over,
        Err(closed) => return Over::failed(closed.to_string()),
    };
    let wants_input = part.stdin && input;
    let mut finished = state == State::Inactive;
    // Until it has tasks there is nothing to read, and signals find nobody.
    let mut early = Vec::new();
    let impatient = tokio::time::sleep(PATIENCE);
    tokio::pin!(impatient);
    let mut told_why = !part.own;
    let running = loop {
        let began = keeping.runner().began();
        if let Some(running) = keeping.runner().running(job) {
            break Some(running);
        }
        if finished {
            break None;
        }
        tokio::select! {
            _ = over.recv() => finished = true,
            () = began => {}
            () = &mut impatient, if !told_why => {
                told_why = true;
                if !tell_why(keeping, job, say).await {
                    return left(keeping, job, part).await;
                }
            }
            heard = hear.recv() => match heard {
                None => return left(keeping, job, part).await,
                // It began in this very moment: they are for its tasks.
                Some(message) if keeping.runner().running(job).is_some() => early.push(message),
                Some((stream::SIGNAL | stream::KILL, payload)) => {
                    cancel(keeping, job, "who waited for it interrupted it").await;
                    if part.own {
                        let signal = payload.first().copied().map_or(libc::SIGINT, i32::from);
                        return Over { code: exit::signaled(signal), error: None };
                    }
                }
                Some(message) => early.push(message),
            },
        }
    };
    let mut reader = keeping.runner().read(job);
    let mut taken = match &running {
        Some(running) if wants_input => running.feed(),
        _ => None,
    };
    let fed = taken.is_some();
    // However this conversation ends: who reads it must not wait for more.
    let _feeding = running.clone().filter(|_| fed).map(Feeding);
    let mut told: u64 = 0;
    if running.is_some() && !say.send(stream::BEGUN, &[]).await {
        return left(keeping, job, part).await;
    }
    if fed && terminal && !say.send(stream::TERMINAL, &[]).await {
        return left(keeping, job, part).await;
    }
    for message in early {
        if let Some(running) = &running {
            heard(keeping, job, running, message, (part.own, fed)).await;
        }
    }
    loop {
        let more = async {
            match &mut taken {
                Some(taken) => taken.changed().await.is_ok().then(|| *taken.borrow_and_update()),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            piece = reader.next() => match piece {
                Some(piece) => {
                    let Some((kind, payload)) = protocol::split(piece) else { continue };
                    if !say.send(kind, &payload).await {
                        return left(keeping, job, part).await;
                    }
                }
                None => break,
            },
            all = more => match all {
                Some(all) => {
                    let count = u32::try_from(all - told).unwrap_or(u32::MAX);
                    told = all;
                    if !say.send(stream::TAKEN, &count.to_be_bytes()).await {
                        return left(keeping, job, part).await;
                    }
                }
                None => taken = None,
            },
            message = hear.recv() => match (message, &running) {
                (None, _) => return left(keeping, job, part).await,
                (Some(message), Some(running)) => {
                    heard(keeping, job, running, message, (part.own, fed)).await;
                }
                (Some(_), None) => {}
            },
        }
    }
    if !finished {
        let _ = over.recv().await;
    }
    if part.own {
        // Its client has read it all.
        keeping.runner().spools().remove(job.0);
    }
    match facts_of(keeping, vec![job]).await.map(|mut facts| facts.pop()) {
        Ok(Some(facts)) => {
            let _ = say.answer(&facts).await;
            let error = (!facts.why.is_empty()).then_some(facts.why);
            Over { code: facts.code.unwrap_or(0).into(), error }
        }
        Ok(None) => Over::ok(),
        Err(error) => Over::failed(error),
    }
}

/// Ends the standard input of a job when it is dropped.
struct Feeding(Arc<Running>);

impl Drop for Feeding {
    fn drop(&mut self) {
        self.0.input(None);
    }
}

/// What is to be known of a job that is followed.
struct Seen {
    /// An attached client gives it its input.
    input: bool,
    /// Its task of rank 0 has a terminal.
    terminal: bool,
    state: State,
}

fn look_at(queue: &Queue, id: JobId) -> Result<Seen, String> {
    let Some(job) = queue.job(id) else { return Err(facts::unknown(queue, id)) };
    let spec = job.spec();
    Ok(Seen {
        input: spec.streams.input.as_deref() == Some("-"),
        terminal: spec.options.contains_key(TERMINAL),
        state: job.state,
    })
}

/// What a client says to a job that runs.
async fn heard(
    keeping: &Keeping,
    job: JobId,
    running: &Running,
    (kind, payload): (u8, Bytes),
    (own, fed): (bool, bool),
) {
    match kind {
        stream::STDIN if fed => running.input(Some(payload)),
        stream::STDIN_END if fed => running.input(None),
        stream::RESIZE if fed => running.resize(payload),
        stream::SIGNAL => {
            if let Some(signal) = payload.first() {
                running.signal(i32::from(*signal));
            }
        }
        stream::KILL | stream::OUTPUT_CLOSED if own => running.client(kind),
        stream::KILL | stream::OUTPUT_CLOSED => {
            cancel(keeping, job, "who was attached to it ended it").await;
        }
        _ => {}
    }
}

/// The client has gone: a job of its own ends.
async fn left(keeping: &Keeping, job: JobId, part: Part) -> Over {
    if part.own {
        cancel(keeping, job, "the client that started the job is gone").await;
    }
    Over::gone()
}

async fn cancel(keeping: &Keeping, job: JobId, note: &'static str) {
    // One that is over needs no end.
    let _ = keeping.change(move |queue: &mut Queue, now| queue.cancel(now, job, note)).await;
}

/// Tells why a job does not start yet; tells whether there is still somebody to hear it.
async fn tell_why(keeping: &Keeping, job: JobId, say: &mut Say) -> bool {
    match facts_of(keeping, vec![job]).await.map(|mut facts| facts.pop()) {
        Ok(Some(facts)) if !facts.why.is_empty() => {
            let text = format!("job {job} {}", facts.why);
            say.send(stream::NOTICE, text.as_bytes()).await
        }
        _ => true,
    }
}
