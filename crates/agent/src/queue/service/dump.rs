//! A queue that goes to a file, or comes from one.

use super::Over;
use crate::queue::keeper::Keeping;
use crate::queue::protocol::kind;
use crate::queue::talk::{Hear, Say};
use quorate_queue::{Queue, Time, log};

/// Bytes of the dump in one answer.
const PIECE: usize = 1 << 20;

/// The longest dump that is taken: a log may be that long.
const LONGEST: usize = 2 << 30;

/// Tells all of the queue, as pieces of text.
pub(super) async fn dump(keeping: &Keeping, say: &mut Say) -> Over {
    let snapshot = keeping.look(|queue: &Queue| {
        let now = queue.jobs().map(|job| job.submitted).max().unwrap_or(Time(0));
        queue.snapshot(now)
    });
    let snapshot = match snapshot.await {
        Ok(snapshot) => snapshot,
        Err(closed) => return Over::failed(closed.to_string()),
    };
    // Others of this broker go on meanwhile: it may be long.
    let encode = move || {
        let mut text = Vec::new();
        for entry in snapshot.into_dump() {
            log::encode(&entry, &mut text);
        }
        text
    };
    let Ok(text) = tokio::task::spawn_blocking(encode).await else {
        return Over::failed("writing the dump failed");
    };
    for piece in text.chunks(PIECE) {
        if !say.send(kind::ANSWER, piece).await {
            return Over::gone();
        }
    }
    Over::ok()
}

/// Takes a dump piece by piece; an empty one is its end.
pub(super) async fn restore(keeping: &Keeping, hear: &mut Hear, say: &mut Say) -> Over {
    let mut dump = Vec::new();
    loop {
        match hear.recv().await {
            Some((kind::ASK, piece)) if piece.is_empty() => break,
            Some((kind::ASK, piece)) => dump.extend_from_slice(&piece),
            Some(_) => {}
            None => return Over::gone(),
        }
        if dump.len() > LONGEST {
            return Over::failed(format!("a dump of more than {LONGEST} bytes is not taken"));
        }
    }
    match keeping.restore(dump).await {
        Ok(put) if say.answer(&put).await => Over::ok(),
        Ok(_) => Over::gone(),
        Err(error) => Over::failed(error),
    }
}
