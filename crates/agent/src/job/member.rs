//! A broker's part of a job: it starts the tasks of this pod, serves them and reports their ends.
//!
//! Owns: the tasks, their pipes, their process-management server and what is swept after them. It
//! decides nothing about the job: orders come from the leader. When the leader is lost the tasks
//! end, or go on for a bounded time if the job outlives its leader.

pub(super) mod again;
mod prepare;
mod start;
mod stdin;
mod task;
mod tasks;

use super::protocol::{Joining, LAUNCH, Launch, MEMBER, What, kind, split};
use super::uplink::Uplink;
use super::{Jobs, protocol};
use crate::broker::{Channel, ChannelError, Overlay, Receiver, Sender};
use crate::launch::stdio::Slowest;
use crate::process_management::Event;
use bytes::Bytes;
use std::time::{Duration, SystemTime};
use stdin::Stdin;
use tasks::Tasks;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// In a job's directory: the files that were sent along with it.
pub(super) const FILES: &str = "files";

/// Time between SIGTERM and SIGKILL when the leader is lost.
const ORPHAN_GRACE: Duration = Duration::from_secs(1);

/// Runs this broker's tasks of a job to their end.
pub(super) async fn serve(
    jobs: &Jobs,
    overlay: &Overlay,
    launch: Launch,
    mut orders: mpsc::UnboundedReceiver<What>,
) {
    let me = overlay.rank();
    let Some((node, ranks)) = launch
        .placement
        .ranks()
        .into_iter()
        .enumerate()
        .find_map(|(node, (broker, ranks))| (broker == me).then_some((node as u32, ranks)))
    else {
        tracing::error!(job = launch.job, service = LAUNCH, "an order to launch names no task");
        return;
    };
    let opening = protocol::body(&Joining { job: launch.job, again: None });
    let channel: Channel = match overlay.open(launch.leader, MEMBER, opening).await {
        Ok(channel) => channel,
        Err(error) => {
            tracing::warn!(job = launch.job, %error, "the leader of a job cannot be reached");
            return;
        }
    };
    let (sender, receiver) = channel.split();
    let mut leader = Some(receiver);
    // What rank 0's own broker runs ends with it.
    let keeps = launch.keeps.is_some() && launch.leader != me;
    let uplink = Uplink::new(sender, keeps);
    let (here, mut happenings) = mpsc::unbounded_channel();
    let (pmi_events, mut pmi) = mpsc::unbounded_channel();
    let mut pod = Tasks {
        jobs,
        overlay,
        dir: directory_of(overlay, launch.job),
        launch,
        node,
        ranks,
        uplink: uplink.clone(),
        here,
        pmi_events,
        running: Vec::new(),
        server: None,
        taken: Slowest::new(0),
        stdin: Stdin::default(),
        since: SystemTime::now(),
        rough: false,
        spoke: false,
        record: None,
    };
    pod.start_all().await;

    let mut kill_at: Option<Instant> = None;
    // The channel to another leader, until that has said what it knows.
    let mut next: Option<Sender> = None;
    // While nobody leads the job: until when that is borne.
    let mut alone: Option<Instant> = None;
    let mut resuming: Option<JoinHandle<()>> = None;
    while pod.running.iter().any(|task| task.alive) || next.is_some() {
        tokio::select! {
            Some(happening) = happenings.recv() => pod.happened(happening).await,
            Some(what) = orders.recv() => match what {
                What::Signal(signal) => pod.signal(signal),
                What::Stop { grace_ms } => {
                    pod.stop();
                    let at = Instant::now() + Duration::from_millis(grace_ms);
                    kill_at = Some(kill_at.map_or(at, |before| before.min(at)));
                    if leader.is_none() {
                        uplink.give_up();
                    }
                }
                What::Reattach { leader: rank } => {
                    if let Some((sender, receiver)) =
                        again::open(overlay, (rank, pod.launch.job), pod.stdin.again()).await
                    {
                        (next, leader) = (Some(sender), Some(receiver));
                    }
                }
            },
            Some(event) = pmi.recv() => pod.tell(event).await,
            order = down(leader.as_mut()) => match order {
                Ok(Some((kind::STDIN, bytes))) => pod.input(Some(bytes)),
                Ok(Some((kind::STDIN_END, _))) => pod.input(None),
                Ok(Some((kind::RESIZE, size))) => pod.resize(&size),
                Ok(Some((kind::STDIN_AT, at))) => pod.stdin.goes_on_at(protocol::number_of(&at)),
                Ok(Some((kind::ACKNOWLEDGE, taken))) => again::acknowledged(&uplink, &taken),
                Ok(Some((kind::RESUME, taken))) => if let Some(sender) = next.take() {
                    alone = None;
                    let (uplink, taken) = (uplink.clone(), protocol::number_of(&taken));
                    let resume = async move { uplink.resume(sender, taken.unwrap_or(0)).await };
                    resuming = Some(tokio::spawn(resume));
                },
                Ok(Some(_)) => {}
                Err(_) if keeps && kill_at.is_none() => {
                    (next, leader) = (None, None);
                    uplink.broken().await;
                    alone.get_or_insert(Instant::now() + again::patience(overlay.settings()));
                }
                Ok(None) | Err(_) => {
                    leader = None;
                    pod.stop();
                    kill_at = Some(Instant::now() + ORPHAN_GRACE);
                    uplink.give_up();
                }
            },
            () = at(alone) => {
                tracing::warn!(job = pod.launch.job, "nobody leads a job again: its tasks end");
                (alone, next, leader) = (None, None, None);
                pod.stop();
                kill_at = Some(Instant::now() + ORPHAN_GRACE);
                uplink.give_up();
            }
            () = at(kill_at) => {
                kill_at = None;
                pod.signal(libc::SIGKILL);
            }
        }
    }
    // An abort that came with the last breath still counts.
    while let Ok(event @ Event::Abort { .. }) = pmi.try_recv() {
        pod.tell(event).await;
    }
    pod.clean_up();
    let ended = keeps.then(|| pod.ended()).flatten();
    // From here on who asks is answered from what is remembered.
    jobs.member_ended(pod.launch.job, ended);
    while let Ok(order) = orders.try_recv() {
        jobs.obey(overlay, pod.launch.job, order);
    }
    if let Some(resuming) = resuming {
        let _ = resuming.await;
    }
    uplink.finish().await;
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// The directory of a job that was started under a number.
pub(super) fn directory_of(overlay: &Overlay, job: u64) -> std::path::PathBuf {
    overlay.settings().run_dir.join(format!("job-{job}"))
}

/// The next message of the leader, `None` when it has ended the job; for ever nothing when there is no
/// leader.
async fn down(leader: Option<&mut Receiver>) -> Result<Option<(u8, Bytes)>, ChannelError> {
    let Some(leader) = leader else { return std::future::pending().await };
    let message = leader.recv().await?;
    Ok(message.map(|message| split(message).unwrap_or((0, Bytes::new()))))
}
