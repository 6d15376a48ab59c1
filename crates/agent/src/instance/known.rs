//! The instances within a cluster, as its brokers know them.
//!
//! Owns: who is there and where, and the way to the socket of an instance's rank 0. An instance
//! tells the broker of its pod (verb [`HERE`]), which tells rank 0 (channel service of that name);
//! both conversations stay open for as long as the instance is there, so that what dies is forgotten
//! by itself. Verbs reach an instance through its pod's broker (verb and channel service [`REACH`]).
//! It does not look into what goes by.

use crate::broker::{Channel, Membership, Overlay, Services};
use crate::job::front::relay;
use crate::job::protocol::{body, message, split};
use crate::local::Call;
use bytes::Bytes;
use quorate_contract::exit;
use quorate_contract::status::BrokerState;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::Notify;

/// An instance says that it is there: verb, and rank 0's channel service.
pub(super) const HERE: &str = "instance.here";
/// Which instances there are: verb, and rank 0's request service.
pub(super) const LIST: &str = "instance.list";
/// Waits until an instance is there: verb, and rank 0's request service.
pub(super) const AWAIT: &str = "instance.await";
/// A conversation with an instance's rank 0: verb, and channel service of its pod's broker.
pub(super) const REACH: &str = "instance.reach";
/// Where the cluster around this one has its socket in this pod: verb.
pub(super) const OUTER: &str = "instance.outer";

/// Message kinds of [`REACH`].
pub(super) mod kind {
    /// Bytes, either way.
    pub(crate) const BYTES: u8 = 1;
    /// The instance has closed.
    pub(crate) const CLOSED: u8 = 2;
}

/// Bytes that are read at once.
const ROOM: usize = 32 * 1024;

/// An instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// What it is called in paths: the job that it is.
    pub id: String,
    /// The broker in whose pod its rank 0 is.
    pub rank: u32,
    /// How people call that pod.
    pub pod: String,
    /// Its rank 0's socket there.
    pub socket: PathBuf,
    /// Its brokers.
    pub size: u32,
    /// When it said that it is there, in milliseconds since the Unix epoch.
    pub since: u64,
}

/// The argument of the verbs [`REACH`] and [`AWAIT`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ReachArgs {
    /// Which instance.
    pub(super) id: String,
}

/// All that this broker knows. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Known {
    tables: Arc<Mutex<Tables>>,
    /// On rank 0: one more is there.
    news: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Tables {
    /// On rank 0: all instances, by a number of their conversation.
    all: BTreeMap<u64, Instance>,
    /// Sockets in this pod, by a number of their conversation.
    here: BTreeMap<u64, PathBuf>,
    next: u64,
}

/// Why an instance cannot be reached.
#[derive(Debug, thiserror::Error)]
enum ReachError {
    #[error("there is no instance {id} here: quorate-agent tree shows those that there are")]
    Unknown { id: String },
    #[error("rank 0 does not answer: {0}")]
    Silent(String),
    #[error("the broker of {pod} cannot be reached: {why}")]
    Unreachable { pod: String, why: String },
}

impl Known {
    /// Adds verbs and services.
    pub fn register(&self, overlay: &Overlay, services: &mut Services, outer: Option<PathBuf>) {
        let known = self.clone();
        services.on_channel(HERE, move |channel| {
            let known = known.clone();
            async move { known.keep(channel).await }
        });
        let known = self.clone();
        services.on_request(LIST, move |_, _| {
            let all: Vec<Instance> = known.tables().all.values().cloned().collect();
            async move { Ok(body(&all)) }
        });
        let known = self.clone();
        services.on_request(AWAIT, move |_, body| {
            let known = known.clone();
            async move {
                let id: String =
                    serde_json::from_slice(&body).map_err(|error| error.to_string())?;
                loop {
                    let news = known.news.notified();
                    if known.tables().all.values().any(|instance| instance.id == id) {
                        return Ok(Bytes::new());
                    }
                    news.await;
                }
            }
        });
        let own = overlay.clone();
        services.on_verb(AWAIT, move |call| {
            let overlay = own.clone();
            async move { await_one(&overlay, call).await }
        });
        let known = self.clone();
        services.on_channel(REACH, move |channel| {
            let known = known.clone();
            async move { known.reached(channel).await }
        });
        let (known, own) = (self.clone(), overlay.clone());
        services.on_verb(HERE, move |call| {
            let (known, overlay) = (known.clone(), own.clone());
            async move { known.here(&overlay, call).await }
        });
        let own = overlay.clone();
        services.on_verb(LIST, move |call| {
            let overlay = own.clone();
            async move { list(&overlay, call).await }
        });
        let own = overlay.clone();
        services.on_verb(REACH, move |call| {
            let overlay = own.clone();
            async move { reach(&overlay, call).await }
        });
        services.on_verb(OUTER, move |mut call| {
            let outer = outer.clone();
            async move {
                // A client that has gone needs no answer.
                let _ = call.connection.send(kind::BYTES, &body(&outer)).await;
                let _ = call.end(exit::OK, None).await;
            }
        });
    }

    /// On rank 0: an instance is there for as long as the channel is.
    async fn keep(&self, mut channel: Channel) {
        let Ok(instance) = serde_json::from_slice::<Instance>(channel.first()) else { return };
        let number = {
            let mut tables = self.tables();
            tables.next += 1;
            let number = tables.next;
            tables.all.insert(number, instance);
            number
        };
        self.news.notify_waiters();
        while let Ok(Some(_)) = channel.recv().await {}
        self.tables().all.remove(&number);
    }

    /// In the pod of an instance's rank 0: it is there for as long as the call is.
    async fn here(&self, overlay: &Overlay, mut call: Call) {
        let Ok(mut instance) = serde_json::from_value::<Instance>(call.hello.args.take()) else {
            let _ = call.end(exit::USAGE, Some("an unreadable instance".into())).await;
            return;
        };
        instance.rank = overlay.rank();
        instance.pod = overlay.config().display_name(instance.rank);
        let number = {
            let mut tables = self.tables();
            tables.next += 1;
            let number = tables.next;
            tables.here.insert(number, instance.socket.clone());
            number
        };
        if let Ok(mut channel) = overlay.open(0, HERE, body(&instance)).await {
            tokio::select! {
                _ = channel.recv() => {}
                () = async { while let Ok(Some(_)) = call.connection.recv().await {} } => {}
            }
            // Rank 0 may be gone, which ends the channel as well.
            let _ = channel.finish(Ok(())).await;
        }
        self.tables().here.remove(&number);
        // The instance comes again, if it is still there.
        let _ = call.end(exit::OK, None).await;
    }

    /// Whether an instance has its rank 0 in this pod, at this socket.
    pub(super) fn is_here(&self, socket: &Path) -> bool {
        self.tables().here.values().any(|here| here == socket)
    }

    /// In the pod of an instance's rank 0: somebody wants to talk to it.
    async fn reached(&self, channel: Channel) {
        let socket: Option<PathBuf> = serde_json::from_slice(channel.first()).ok();
        // Only what has said that it is an instance: no other socket of this pod is anybody's to reach.
        let socket = socket.filter(|path| self.is_here(path));
        let stream = match &socket {
            Some(path) => UnixStream::connect(path).await.map_err(|error| error.to_string()),
            None => Err("the instance has ended".to_owned()),
        };
        let (sender, mut receiver) = channel.split();
        let stream = match stream {
            Ok(stream) => stream,
            Err(why) => {
                let _ = sender.finish(Err(why)).await;
                return;
            }
        };
        let (mut from, mut to) = stream.into_split();
        let inward = async {
            while let Ok(Some(message)) = receiver.recv().await {
                let Some((kind::BYTES, bytes)) = split(message) else { continue };
                if to.write_all(&bytes).await.is_err() {
                    break;
                }
            }
        };
        let outward = async {
            let mut room = vec![0; ROOM];
            while let Ok(count @ 1..) = from.read(&mut room).await {
                if sender.send(message(kind::BYTES, &room[..count])).await.is_err() {
                    return;
                }
            }
            let _ = sender.send(message(kind::CLOSED, &[])).await;
        };
        tokio::select! {
            () = inward => {}
            () = outward => {}
        }
        let _ = sender.finish(Ok(())).await;
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().expect("the lock holds because nothing panics under it")
    }
}

async fn list(overlay: &Overlay, mut call: Call) {
    let answer = overlay.request(0, LIST, Bytes::new()).await;
    let (code, error) = match answer {
        // A client that has gone needs no answer.
        Ok(all) => match call.connection.send(kind::BYTES, &all).await {
            Ok(()) => (exit::OK, None),
            Err(_) => return,
        },
        Err(error) => (exit::UNAVAILABLE, Some(ReachError::Silent(error.to_string()).to_string())),
    };
    let _ = call.end(code, error).await;
}

async fn await_one(overlay: &Overlay, mut call: Call) {
    let args = serde_json::from_value::<ReachArgs>(call.hello.args.take());
    let Ok(ReachArgs { id }) = args else {
        let _ = call.end(exit::USAGE, Some("an unreadable call".into())).await;
        return;
    };
    let there = tokio::select! {
        there = overlay.request(0, AWAIT, body(&id)) => there,
        // Who asked has gone.
        _ = call.connection.recv() => return,
    };
    let _ = match there {
        Ok(_) => call.end(exit::OK, None).await,
        Err(error) => {
            let why = ReachError::Silent(error.to_string()).to_string();
            call.end(exit::UNAVAILABLE, Some(why)).await
        }
    };
}

async fn reach(overlay: &Overlay, mut call: Call) {
    let args = serde_json::from_value::<ReachArgs>(call.hello.args.take());
    let Ok(ReachArgs { id }) = args else {
        let _ = call.end(exit::USAGE, Some("an unreadable call".into())).await;
        return;
    };
    match way(overlay, id).await {
        Ok(channel) => {
            let closed = |kind: u8, _: &[u8]| (kind == kind::CLOSED).then_some((exit::OK, None));
            relay(call, channel.split(), closed, (exit::UNAVAILABLE, None)).await;
        }
        Err(error) => {
            let _ = call.end(exit::UNAVAILABLE, Some(error.to_string())).await;
        }
    }
}

async fn way(overlay: &Overlay, id: String) -> Result<Channel, ReachError> {
    let silent = |error: &dyn std::fmt::Display| ReachError::Silent(error.to_string());
    let all = overlay.request(0, LIST, Bytes::new()).await.map_err(|error| silent(&error))?;
    let all: Vec<Instance> = serde_json::from_slice(&all).map_err(|error| silent(&error))?;
    // The youngest, where a job that was started again has left one that nobody has missed yet.
    let found = all.into_iter().rev().find(|instance| instance.id == id);
    let Some(instance) = found else { return Err(ReachError::Unknown { id }) };
    overlay.open(instance.rank, REACH, body(&instance.socket)).await.map_err(|error| {
        ReachError::Unreachable { pod: instance.pod.clone(), why: error.to_string() }
    })
}

/// Says to the cluster around this one that it is there, again and again, until this is dropped.
pub(super) async fn announce(overlay: &Overlay, outer: &Path, mut instance: Instance) {
    use crate::local::{Hello, connect};
    use tokio::time::{Duration, sleep};
    /// Between two tries: a broker that was killed is back within a moment.
    const AGAIN: Duration = Duration::from_millis(500);
    let mut membership = overlay.membership();
    // Before that nobody could do anything with it.
    let is_up = |now: &Arc<Membership>| now.state == BrokerState::Run;
    if membership.wait_for(is_up).await.map(drop).is_err() {
        return;
    }
    instance.size = overlay.size();
    loop {
        let args = serde_json::to_value(&instance).expect("plain data always serializes");
        let hello = Hello { verb: HERE.to_owned(), args };
        if let Ok(mut connection) = connect(outer, &hello).await {
            while let Ok(Some(_)) = connection.recv().await {}
        }
        sleep(AGAIN).await;
    }
}
