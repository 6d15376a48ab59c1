//! Files of jobs: those that come back, and those that will travel along.

use super::Over;
use crate::broker::ChannelError;
use crate::logs::chain;
use crate::queue::fetch::{self, Order};
use crate::queue::keeper::Keeping;
use crate::queue::protocol::{FilesWanted, kind};
use crate::queue::talk::{Hear, Say};
use crate::queue::{facts, parcels, runner};
use quorate_contract::exit;
use quorate_contract::parcel::{LIMIT, ParcelError};
use quorate_queue::{Queue, State};

/// Passes files of a job on, as they come from the broker that has them.
pub(super) async fn give(keeping: &Keeping, wanted: FilesWanted, say: &mut Say) -> Over {
    let overlay = keeping.runner().overlay();
    let FilesWanted { job, rank, files, release } = wanted;
    let config = overlay.config().clone();
    let look = move |queue: &Queue| -> Result<(u32, Order), String> {
        let Some(job) = queue.job(job) else { return Err(facts::unknown(queue, job)) };
        let directory = job.spec().directory.clone();
        let (id, over) = (job.id.0, job.state == State::Inactive);
        if files.is_empty() {
            let files = fetch::outputs(job)?;
            return Ok((0, Order { job: id, directory, files, over, release }));
        }
        let brokers = runner::brokers_of(job, &config)?;
        let Some(broker) = brokers.get(rank as usize) else {
            return Err(match brokers.len() {
                0 => format!("job {id} has not had nodes yet, so that there are no files of it"),
                count => format!("job {id} has no rank {rank}: it has {count}, from 0 on"),
            });
        };
        Ok((*broker, Order { job: id, directory, files, over, release }))
    };
    let (broker, order) = match keeping.look(look).await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => return Over::failed(error),
        Err(closed) => return Over::failed(closed.to_string()),
    };
    let pod = overlay.config().display_name(broker);
    let failed = |error: ChannelError| match error {
        ChannelError::Failed { reason, .. } => Over::failed(format!("{pod}: {reason}")),
        ChannelError::Lost { .. } | ChannelError::Closed { .. } => Over {
            code: exit::BROKER_LOST,
            error: Some(format!("{pod} was lost, and with it what was to come")),
        },
    };
    let channel = match fetch::open(overlay, broker, &order).await {
        Ok(channel) => channel,
        Err(error) => {
            let error = Some(format!("{pod} cannot be reached: {error}"));
            return Over { code: exit::BROKER_LOST, error };
        }
    };
    let (_sender, mut receiver) = channel.split();
    loop {
        match receiver.recv().await {
            Ok(Some(piece)) => {
                if !say.send(kind::ANSWER, &piece).await {
                    return Over::gone();
                }
            }
            Ok(None) => return Over::ok(),
            Err(error) => return failed(error),
        }
    }
}

/// Keeps a parcel for as long as its client is there, or a job has it.
pub(super) async fn keep(keeping: &Keeping, hear: &mut Hear, say: &mut Say) -> Over {
    let mut bytes = Vec::new();
    loop {
        match hear.recv().await {
            Some((kind::ASK, piece)) if piece.is_empty() => break,
            Some((kind::ASK, piece)) => bytes.extend_from_slice(&piece),
            Some(_) => {}
            None => return Over::gone(),
        }
        if bytes.len() as u64 > LIMIT {
            return Over::failed(ParcelError::TooLarge.to_string());
        }
    }
    let parcels = parcels(keeping.runner().overlay());
    let (keeper, kept) = (parcels.clone(), move |bytes: Vec<u8>| parcels.keep(&bytes));
    let name = match tokio::task::spawn_blocking(move || kept(bytes)).await {
        Ok(Ok(name)) => name,
        Ok(Err(error)) => return Over::failed(chain(&error)),
        Err(error) => return Over::failed(error.to_string()),
    };
    if say.answer(&name).await {
        while hear.recv().await.is_some() {}
    }
    keeper.give_up(&name);
    Over::gone()
}
