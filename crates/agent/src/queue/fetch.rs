//! Files of jobs for whoever wants them (`docs/spec/outside.md`): read in the pod where a task runs or ran.
//!
//! Owns: which directory is meant, and the way of what is in it to rank 0, which passes it on. Which files a
//! pattern means, and how they are read, is the business of [`quorate_parcel`].

use super::runner;
use crate::broker::{Channel, Overlay, OverlayError, Services};
use crate::job::{Jobs, kept};
use crate::launch::text;
use crate::logs::chain;
use bytes::Bytes;
use quorate_parcel::{Pattern, choose};
use quorate_queue::Job;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;

/// The channel service of each broker: who opens it says what is wanted, and gets a stream of files.
const SERVICE: &str = "job-files";

/// Pieces that were read and are not sent.
const PIECES: usize = 2;

/// How long it may take until a job that is over has left its directory.
const SETTLES: Duration = Duration::from_secs(10);

/// What is wanted of a broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Order {
    /// The job's number in the queue.
    pub(super) job: u64,
    /// The directory that the job was given, as [`text::encode`] writes it; empty without any.
    pub(super) directory: String,
    /// Patterns.
    pub(super) files: Vec<String>,
    /// The job is over: what is left of it is in its place, or about to be.
    pub(super) over: bool,
    /// What is kept of the job is not needed any more.
    pub(super) release: bool,
}

/// Adds the service.
pub(super) fn register(jobs: &Jobs, overlay: &Overlay, services: &mut Services) {
    let (jobs, overlay) = (jobs.clone(), overlay.clone());
    services.on_channel(SERVICE, move |channel| give(jobs.clone(), overlay.clone(), channel));
}

/// Asks a broker.
pub(super) async fn open(
    overlay: &Overlay,
    broker: u32,
    order: &Order,
) -> Result<Channel, OverlayError> {
    let opening = serde_json::to_vec(order).expect("plain data always serializes");
    overlay.open(broker, SERVICE, Bytes::from(opening)).await
}

async fn give(jobs: Jobs, overlay: Overlay, channel: Channel) {
    let order = serde_json::from_slice::<Order>(channel.first());
    let (sender, _receiver) = channel.split();
    let order = match order {
        Ok(order) => order,
        Err(error) => {
            let _ = sender.finish(Err(format!("an unreadable order: {error}"))).await;
            return;
        }
    };
    if order.over {
        let _ = tokio::time::timeout(SETTLES, jobs.settled(order.job)).await;
    }
    let dir = directory(&jobs, &overlay, &order);
    let (pieces, mut read) = mpsc::channel::<Result<Bytes, String>>(PIECES);
    let files = order.files.clone();
    let reading = tokio::task::spawn_blocking(move || {
        let patterns: Result<Vec<Pattern>, _> =
            files.iter().map(|word| Pattern::read(word)).collect();
        let chosen = patterns
            .map_err(|error| chain(&error))
            .and_then(|patterns| choose(&dir, &patterns).map_err(|error| chain(&error)));
        match chosen {
            Ok(chosen) => {
                for piece in chosen {
                    let piece = piece.map(Bytes::from).map_err(|error| chain(&error));
                    // Nobody listens any more.
                    if pieces.blocking_send(piece).is_err() {
                        return;
                    }
                }
            }
            Err(why) => drop(pieces.blocking_send(Err(why))),
        }
    });
    let mut end = Ok(());
    while let Some(piece) = read.recv().await {
        match piece {
            Ok(piece) => {
                if sender.send(piece).await.is_err() {
                    return;
                }
            }
            Err(why) => end = Err(why),
        }
    }
    if reading.await.is_err() {
        end = Err("reading failed".to_owned());
    }
    if end.is_ok() && order.release {
        kept::forget(&overlay.settings().run_dir, order.job);
    }
    let _ = sender.finish(end).await;
}

/// Where a job's tasks are started here: as [`crate::job::member`] decides it.
fn directory(jobs: &Jobs, overlay: &Overlay, order: &Order) -> PathBuf {
    let named = PathBuf::from(text::decode(&order.directory));
    if !order.directory.is_empty() && named.is_dir() {
        return named;
    }
    jobs.files_of(overlay, order.job).unwrap_or_else(|| jobs.pod().cwd.clone())
}

/// Where the files of a job's output are, all of them on the launcher: patterns that mean just these.
pub(super) fn outputs(job: &Job) -> Result<Vec<String>, String> {
    let streams = &job.spec().streams;
    let templates = [&streams.output, &streams.error].into_iter().flatten();
    let mut words: Vec<String> = Vec::new();
    for template in templates {
        let path = runner::in_directory(job, template);
        let path = std::path::absolute(&path).unwrap_or(path);
        let word: String = path.to_string_lossy().chars().map(literally).collect();
        if !words.contains(&word) {
            words.push(word);
        }
    }
    if words.is_empty() {
        return Err(format!(
            "job {} has no file of its output, which is kept for `attach`; name the files that are wanted",
            job.id
        ));
    }
    Ok(words)
}

fn literally(c: char) -> String {
    if matches!(c, '*' | '?' | '[') { format!("[{c}]") } else { c.to_string() }
}
