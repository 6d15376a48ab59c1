//! What a member says to its leader, also over the death of one leader to the next.
//!
//! Owns: the output that the leader has not said to have written, and how tasks ended. A leader
//! that is gone holds tasks up as a reader does that does not read; the next one says what the former
//! had written, and gets the rest. For jobs that end with their leader nothing is kept.

use crate::broker::Sender;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::{Mutex as Line, Notify};

/// Pieces of output that a member keeps at most.
pub(super) const KEPT: usize = 32;

/// A leader says after so many pieces that it has written them.
pub(crate) const ACKNOWLEDGE: u64 = 8;

/// The way to the leader. Clones share it.
#[derive(Clone, Debug)]
pub(super) enum Uplink {
    /// To the only one that the job ever has.
    Only(Sender),
    /// To whoever leads the job.
    Kept(Arc<Shared>),
}

#[derive(Debug)]
pub(super) struct Shared {
    /// `None` while nobody leads the job. Held while a message is sent, so that all are in order.
    line: Line<Option<Sender>>,
    kept: Mutex<Kept>,
    /// There is room again, or another leader, or an end to it.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Kept {
    /// The last pieces of output.
    pieces: VecDeque<Bytes>,
    /// How many there were in all.
    sent: u64,
    /// Everything else that the next leader must know, in order.
    ends: Vec<Bytes>,
    /// Nobody will lead the job again.
    over: bool,
}

impl Kept {
    /// The first pieces of all, so many, need not be kept any more.
    fn forget(&mut self, taken: u64) {
        while self.sent - (self.pieces.len() as u64) < taken && self.pieces.pop_front().is_some() {}
    }
}

impl Uplink {
    /// To a leader; `keeps` when there may be another after it.
    pub(super) fn new(sender: Sender, keeps: bool) -> Self {
        if !keeps {
            return Self::Only(sender);
        }
        Self::Kept(Arc::new(Shared {
            line: Line::new(Some(sender)),
            kept: Mutex::default(),
            changed: Notify::new(),
        }))
    }

    /// Sends a piece of output, when there is somebody who takes it. Tells whether more is wanted.
    pub(super) async fn piece(&self, message: Bytes) -> bool {
        let shared = match self {
            Self::Only(sender) => return sender.send(message).await.is_ok(),
            Self::Kept(shared) => shared,
        };
        loop {
            let changed = shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let mut line = shared.line.lock().await;
                let room = {
                    let kept = shared.kept();
                    if kept.over {
                        return false;
                    }
                    kept.pieces.len() < KEPT
                };
                if let Some(sender) = line.as_ref().filter(|_| room) {
                    let sender = sender.clone();
                    {
                        let mut kept = shared.kept();
                        kept.pieces.push_back(message.clone());
                        kept.sent += 1;
                    }
                    if sender.send(message).await.is_err() {
                        *line = None;
                    }
                    return true;
                }
            }
            changed.await;
        }
    }

    /// Says what every leader must know: an end, or an abort.
    pub(super) async fn say(&self, message: Bytes) {
        match self {
            Self::Only(sender) => drop(sender.send(message).await),
            Self::Kept(shared) => {
                let line = shared.line.lock().await;
                shared.kept().ends.push(message.clone());
                if let Some(sender) = line.as_ref() {
                    let _ = sender.send(message).await;
                }
            }
        }
    }

    /// Tells the present leader something, if there is one.
    pub(super) async fn tell(&self, message: Bytes) {
        match self {
            Self::Only(sender) => drop(sender.send(message).await),
            Self::Kept(shared) => {
                if let Some(sender) = shared.line.lock().await.as_ref() {
                    let _ = sender.send(message).await;
                }
            }
        }
    }

    /// Nothing more comes: the present leader may close the channel.
    pub(super) async fn finish(&self) {
        match self {
            Self::Only(sender) => drop(sender.finish(Ok(())).await),
            Self::Kept(shared) => {
                if let Some(sender) = shared.line.lock().await.take() {
                    let _ = sender.finish(Ok(())).await;
                }
            }
        }
    }

    /// The leader is gone.
    pub(super) async fn broken(&self) {
        if let Self::Kept(shared) = self {
            *shared.line.lock().await = None;
        }
    }

    /// The leader has written so many pieces of all.
    pub(super) fn acknowledged(&self, taken: u64) {
        if let Self::Kept(shared) = self {
            shared.kept().forget(taken);
            shared.changed.notify_waiters();
        }
    }

    /// Another leader is there, whose predecessor had written so many pieces: it gets the rest, and all
    /// ends.
    pub(super) async fn resume(&self, sender: Sender, taken: u64) {
        let Self::Kept(shared) = self else { return };
        let mut line = shared.line.lock().await;
        let messages: Vec<Bytes> = {
            let mut kept = shared.kept();
            kept.forget(taken);
            kept.pieces.iter().chain(&kept.ends).cloned().collect()
        };
        for message in messages {
            if sender.send(message).await.is_err() {
                return;
            }
        }
        *line = Some(sender);
        drop(line);
        shared.changed.notify_waiters();
    }

    /// Nobody will lead the job again: what is not sent is dropped.
    pub(super) fn give_up(&self) {
        if let Self::Kept(shared) = self {
            shared.kept().over = true;
            shared.changed.notify_waiters();
        }
    }

    /// Bytes that it keeps.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Only(_) => 0,
            Self::Kept(shared) => {
                let kept = shared.kept();
                kept.pieces.iter().chain(&kept.ends).map(Bytes::len).sum()
            }
        }
    }
}

impl Shared {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().expect("the lock holds because nothing panics under it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_forgotten_and_no_more() {
        let mut kept = Kept::default();
        for piece in 1..=5_u8 {
            kept.pieces.push_back(Bytes::from(vec![piece]));
            kept.sent += 1;
        }
        kept.forget(2);
        assert_eq!(kept.pieces.front().map(|piece| piece[0]), Some(3));
        kept.forget(1);
        assert_eq!(kept.pieces.len(), 3, "an older word changes nothing");
        kept.forget(u64::MAX);
        assert!(kept.pieces.is_empty());
    }
}
