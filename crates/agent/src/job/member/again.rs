//! A member between two leaders: it keeps its tasks, and is led again when it is asked to.
//!
//! Owns: how long nobody may lead it, and the way to the next leader, for tasks that run and for those
//! that have ended meanwhile.

use crate::broker::{Overlay, Receiver};
use crate::job::held::Ended;
use crate::job::protocol::{self, Again, Joining, MEMBER, kind, split};
use crate::job::uplink::Uplink;
use crate::settings::Settings;
use std::time::Duration;

/// How long tasks go on without a leader. The broker gives itself up when there is no rank 0 for the
/// orphan timeout, and the next leader waits for brokers that long and a little more: whoever
/// has heard nothing then is spoken for by nobody.
pub(super) fn patience(settings: &Settings) -> Duration {
    settings.orphan_timeout() * 2 + Duration::from_secs(10)
}

/// Opens the channel to another leader.
pub(super) async fn open(
    overlay: &Overlay,
    (leader, job): (u32, u64),
    again: Again,
) -> Option<(crate::broker::Sender, Receiver)> {
    let opening = protocol::body(&Joining { job, again: Some(again) });
    match overlay.open(leader, MEMBER, opening).await {
        Ok(channel) => Some(channel.split()),
        Err(error) => {
            tracing::warn!(job, %error, "the next leader of a job cannot be reached");
            None
        }
    }
}

/// Tells another leader what is left to say of tasks that have ended.
pub(crate) async fn retell(overlay: &Overlay, leader: u32, ended: Ended) {
    let Ended { held, uplink, stdin: (stdin, stdin_ended) } = ended;
    let again = Again { stdin, stdin_ended };
    let Some((sender, mut receiver)) = open(overlay, (leader, held.number), again).await else {
        return;
    };
    while let Ok(Some(message)) = receiver.recv().await {
        match split(message) {
            Some((kind::RESUME, payload)) => {
                let taken = protocol::number_of(&payload).unwrap_or(0);
                uplink.resume(sender.clone(), taken).await;
                uplink.finish().await;
            }
            Some((kind::ACKNOWLEDGE, payload)) => acknowledged(&uplink, &payload),
            _ => {}
        }
    }
}

/// The leader has written more.
pub(super) fn acknowledged(uplink: &Uplink, payload: &[u8]) {
    if let Some(taken) = protocol::number_of(payload) {
        uplink.acknowledged(taken);
    }
}
