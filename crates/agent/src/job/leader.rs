//! The leader of a job, on rank 0: places it, launches it, judges it.
//!
//! Owns: one job from request to outcome. Members do the work, [`Judge`] knows the rules; here
//! events are brought together. A job always ends: a lost broker counts its tasks as ended, a
//! member that does not come or does not end in time is given up.

mod again;
mod choice;
mod course;
mod desertion;
mod events;
mod leaving;
mod members;

pub use again::Resumption;
pub use choice::program;
pub(super) use events::Event;
pub use events::{Handle, Sink};

use super::Jobs;
use super::protocol::{
    Finished, LAUNCH, Launch, ORDER, Order, Placed, Request, What, Where, body, json, kind, split,
};
use crate::broker::{Channel, Overlay};
use crate::launch::outcome::{Judge, Outcome};
use crate::launch::place::Placement;
use crate::launch::stdio::Slowest;
use again::Input;
use bytes::Bytes;
use choice::{choose, crowded, namespace, one_host};
use course::{Job, Losses};
use desertion::Desertion;
use leaving::Leaving;
use quorate_contract::exit;
use quorate_contract::report::Reason;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Time between SIGTERM and SIGKILL when a job is ended.
pub const KILL_GRACE: Duration = Duration::from_secs(3);

/// How long a member may take to say that it has begun.
const START_LIMIT: Duration = Duration::from_mins(1);

/// The protocol of tasks that spoke none.
const NO_WIRE: &str = "none";

/// A job that has ended.
#[derive(Clone, Debug)]
pub struct Led {
    /// How.
    pub finished: Finished,
    /// Where it was placed; `None` when it was refused.
    pub placement: Option<Placement>,
}

/// Serves a front: leads its job and tells it the end.
pub(super) async fn serve(jobs: Jobs, overlay: Overlay, channel: Channel) {
    let request = serde_json::from_slice::<Request>(channel.first());
    let (sender, mut receiver) = channel.split();
    let request = match request {
        Ok(request) => request,
        Err(error) => {
            let _ = sender.finish(Err(format!("unreadable request: {error}"))).await;
            return;
        }
    };
    let (events, queue) = mpsc::unbounded_channel();
    let client = events.clone();
    let reader = tokio::spawn(async move {
        while let Ok(Some(received)) = receiver.recv().await {
            if let Some((kind, payload)) = split(received)
                && client.send(Event::Client { kind, payload }).is_err()
            {
                return;
            }
        }
        let _ = client.send(Event::ClientGone);
    });
    let sink = Sink::Front(sender.clone());
    let led = lead(&jobs, &overlay, (request, None), sink, events, queue).await;
    let _ = sender.send(json(kind::FINISHED, &led.finished)).await;
    let _ = sender.finish(Ok(())).await;
    reader.abort();
}

/// Starts a job whose messages stay in this process, or leads one again. The future leads it.
pub fn lead_here<'a>(
    jobs: &'a Jobs,
    overlay: &'a Overlay,
    asked: (Request, Option<Resumption>),
    messages: mpsc::Sender<Bytes>,
) -> (Handle, impl Future<Output = Led> + 'a) {
    let (events, queue) = mpsc::unbounded_channel();
    let handle = Handle { events: events.clone() };
    (handle, lead(jobs, overlay, asked, Sink::Here(messages), events, queue))
}

async fn lead(
    jobs: &Jobs,
    overlay: &Overlay,
    (request, again): (Request, Option<Resumption>),
    sink: Sink,
    events: mpsc::UnboundedSender<Event>,
    mut queue: mpsc::UnboundedReceiver<Event>,
) -> Led {
    let membership = overlay.membership().borrow().clone();
    let whole = again.is_none();
    let placement = match choose(&membership, &request, whole, overlay) {
        Ok(placement) => placement,
        Err(why) => {
            let outcome = Outcome::failed(exit::FAILED, Reason::Infeasible, why);
            return refused(outcome);
        }
    };
    let namespace = match namespace() {
        Ok(namespace) => namespace,
        Err(error) => {
            let why = format!("the system has no random numbers: {error}");
            return refused(Outcome::failed(exit::INTERNAL, Reason::Internal, why));
        }
    };
    let age = again.as_ref().map(|again| again.age).unwrap_or_default();
    let number = again.as_ref().map_or_else(|| jobs.number(), |again| again.number);
    let brokers: Vec<u32> = placement.brokers.iter().map(|(broker, _)| *broker).collect();
    let stdin_goes_to: Vec<usize> = {
        let stdin = request.command.stdin;
        let ranks = placement.ranks();
        (0..ranks.len()).filter(|i| ranks[*i].1.iter().any(|rank| stdin.goes_to(*rank))).collect()
    };
    let kept = request.keeps.is_some();
    let launch = Launch {
        job: number,
        namespace,
        leader: overlay.rank(),
        command: request.command,
        crowded: crowded(&membership, &placement),
        one_host: one_host(&membership, &placement),
        universe: membership.online.values().map(|member| member.inventory.slots).sum(),
        placement: placement.clone(),
        queued: request.queued,
        keeps: request.keeps,
        shares: match request.place {
            Where::Allotted(shares) => shares,
            Where::Slots(_) | Where::Brokers(_) => Vec::new(),
        },
    };
    let mut taken = Slowest::new(brokers.len());
    for node in 0..brokers.len() {
        if !stdin_goes_to.contains(&node) {
            taken.gone(node);
        }
    }
    // From here on no loss is missed: the subscription is older than the launch.
    let losses = Losses { offline: overlay.offline(), unreached: overlay.cast_failures() };
    let exchanges = placement.pods() > 1;
    jobs.lead(number, events.clone());
    let leaving = Leaving::new(jobs, overlay, kept && !brokers.contains(&overlay.rank()));
    let placed = Placed { job: number, placement: placement.clone() };
    let _ = sink.send(json(kind::PLACED, &placed)).await;
    let mut job = Job {
        overlay,
        number,
        kept,
        began: Instant::now(),
        age,
        sink,
        events,
        judge: match placement.brokers.first() {
            Some((root, _)) if request.instance => Judge::of_instance(placement.tasks(), *root),
            _ => Judge::new(placement.tasks(), request.no_kill),
        },
        desertion: Desertion::default(),
        left: placement.brokers.iter().copied().collect(),
        nodes: brokers.iter().enumerate().map(|(node, broker)| (*broker, node)).collect(),
        rereads: Input::awaiting(match &again {
            Some(again) if again.rereads => stdin_goes_to.iter().map(|n| brokers[*n]).collect(),
            _ => Vec::new(),
        }),
        taken_before: again.as_ref().map(|again| again.taken.clone()).unwrap_or_default(),
        stdin: stdin_goes_to.into_iter().map(|node| (brokers[node], Vec::new())).collect(),
        lines: HashMap::new(),
        taken,
        channels: 0,
        joined: BTreeSet::new(),
        begun: Vec::new(),
        wire: BTreeMap::new(),
        end_at: None,
        give_up_at: None,
    };
    let (service, order) = if again.is_some() {
        for broker in again.iter().flat_map(|again| &again.gone) {
            job.lost(*broker, "it was lost before");
        }
        // Who was lost since it spoke for the job.
        job.look_for_lost();
        let what = What::Reattach { leader: overlay.rank() };
        (ORDER, body(&Order { job: number, what }))
    } else {
        (LAUNCH, body(&launch))
    };
    if let Err(error) = overlay.cast(&brokers, service, order).await {
        let why = format!("the order to launch cannot be sent: {error}");
        job.judge = Judge::new(0, false);
        jobs.led(number);
        return refused(Outcome::failed(exit::BROKER_LOST, Reason::BrokerLost, why));
    }
    let mut led = job.run(&mut queue, losses, leaving).await;
    jobs.led(number);
    if let Some(failure) = &mut led.finished.outcome.failure {
        // As it was at the launch: a broker that was lost is no member any more.
        let member = failure.broker.and_then(|broker| membership.online.get(&broker));
        failure.node = member.and_then(|member| member.inventory.node.clone());
    }
    if exchanges && led.finished.wire.keys().any(|wire| wire != NO_WIRE) {
        // Fails only when this broker is leaving, and its memory with it.
        let _ = overlay.end_job(number).await;
    }
    Led { placement: Some(placement), ..led }
}

fn refused(outcome: Outcome) -> Led {
    Led {
        finished: Finished { outcome, started: Vec::new(), wire: BTreeMap::new() },
        placement: None,
    }
}
