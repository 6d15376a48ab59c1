//! The jobs that this broker leads or is a member of, and what it knows of its pod.
//!
//! Owns: the tables by which channels, casts and questions find their job. It must not decide
//! anything about a job.

use super::{front, held, kept, leader, member, protocol};
use crate::broker::{Channel, Overlay, Services};
use crate::launch::affinity::Allowance;
use crate::launch::environment::Variables;
use crate::launch::records::{Recorded, Records};
use crate::launch::spawn::starter::Starter;
use crate::launch::topology;
use crate::process_management::Server;
use bytes::Bytes;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use tokio::sync::{mpsc, watch};

/// The topology in the run directory.
const TOPOLOGY: &str = "topology.xml";

/// Numbers of jobs that may be given in a millisecond, as a power of two: another life of the broker begins
/// above all of this one's. What JSON readers take for a number (53 bits) holds them until 2039.
const NUMBERS_A_MILLISECOND: u32 = 12;

/// What a broker knows of its pod from its start on.
#[derive(Clone, Debug)]
pub struct Pod {
    /// The environment that the container was given.
    pub env: Variables,
    /// Its directory.
    pub cwd: PathBuf,
    /// Its CPUs.
    pub allowance: Allowance,
}

impl Pod {
    /// This process's own.
    pub fn of_this_process() -> Self {
        let affinity = crate::sys::allowed_cpus().unwrap_or_default();
        Self {
            env: std::env::vars_os().collect(),
            cwd: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            allowance: Allowance::read(Path::new("/"), &affinity),
        }
    }
}

/// All jobs of a broker. Clones share them.
#[derive(Clone, Debug)]
pub struct Jobs {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    pod: Pod,
    tables: Mutex<Tables>,
    /// Members and sessions that still have processes.
    busy: watch::Sender<usize>,
    /// The last number that was given.
    next: OnceLock<AtomicU64>,
    records: OnceLock<Records>,
    topology: OnceLock<Option<PathBuf>>,
    starter: Starter,
}

#[derive(Debug, Default)]
struct Tables {
    led: HashMap<u64, mpsc::UnboundedSender<leader::Event>>,
    members: HashMap<u64, Member>,
    /// Members that outlive their leader and have ended.
    past: held::Past,
    /// Process groups of the program and of sessions.
    groups: Vec<i32>,
    had_groups: bool,
}

struct Member {
    orders: mpsc::UnboundedSender<protocol::What>,
    server: Option<Server>,
    /// Its job's number in the queue.
    queued: Option<u64>,
    /// What the next leader is told of it, if there may be one.
    held: Option<held::Held>,
    /// Closed when nothing of it is left.
    here: watch::Sender<()>,
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member").finish_non_exhaustive()
    }
}

/// Counts something that has processes, until it is dropped.
#[derive(Debug)]
pub struct Busy {
    shared: Arc<Shared>,
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.shared.busy.send_modify(|count| *count -= 1);
    }
}

/// A process group outside of jobs, until it is dropped.
#[derive(Debug)]
pub struct Group {
    group: i32,
    busy: Busy,
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Ok(mut tables) = self.busy.shared.tables.lock() {
            tables.groups.retain(|group| *group != self.group);
        }
    }
}

impl Jobs {
    /// No jobs yet.
    pub fn new(pod: Pod) -> Self {
        Self {
            shared: Arc::new(Shared {
                pod,
                tables: Mutex::new(Tables::default()),
                busy: watch::Sender::new(0),
                next: OnceLock::new(),
                records: OnceLock::new(),
                topology: OnceLock::new(),
                starter: Starter::default(),
            }),
        }
    }

    /// The pod.
    pub fn pod(&self) -> &Pod {
        &self.shared.pod
    }

    /// Who starts tasks.
    pub(super) fn starter(&self) -> &Starter {
        &self.shared.starter
    }

    /// The file in the run directory that says what CPUs the pod has; written once. `None` where
    /// there is nothing to say.
    pub(super) fn topology(&self, run_dir: &Path) -> Option<String> {
        let write = || {
            let xml = topology::xml(Path::new("/"), &self.shared.pod.allowance.cpus)?;
            let path = run_dir.join(TOPOLOGY);
            match std::fs::write(&path, xml) {
                Ok(()) => Some(path),
                Err(error) => {
                    tracing::warn!(%error, "the run directory takes no topology");
                    None
                }
            }
        };
        let path = self.shared.topology.get_or_init(write).as_ref()?;
        path.to_str().map(str::to_owned)
    }

    /// Writes down what runs from now on.
    pub fn record_in(&self, records: Records) {
        // A broker registers once.
        let _ = self.shared.records.set(records);
    }

    /// Writes process groups down, for the broker that comes after a crash. Without a writable
    /// run directory there is no record, and the cluster goes on.
    pub fn record(&self, name: &str, pids: &[i32]) -> Option<Recorded> {
        match self.shared.records.get()?.write(name, pids) {
            Ok(recorded) => Some(recorded),
            Err(error) => {
                tracing::warn!(%error, "the run directory takes no task record");
                None
            }
        }
    }

    /// Adds the services of leader, member and front.
    pub fn register(&self, overlay: &Overlay, services: &mut Services) {
        kept::look_after(&overlay.settings().run_dir);
        let (jobs, node) = (self.clone(), overlay.clone());
        services.on_channel(protocol::RUN, move |channel| {
            leader::serve(jobs.clone(), node.clone(), channel)
        });
        let jobs = self.clone();
        services.on_channel(protocol::MEMBER, move |channel| {
            let jobs = jobs.clone();
            async move { jobs.joined(channel) }
        });
        let jobs = self.clone();
        services.on_request(protocol::HELD, move |_, _| {
            let held = jobs.held();
            async move { Ok(protocol::body(&held)) }
        });
        let (jobs, node) = (self.clone(), overlay.clone());
        services.on_cast(protocol::LAUNCH, move |from, body| jobs.launch(&node, from, &body));
        let (jobs, node) = (self.clone(), overlay.clone());
        services.on_cast(protocol::ORDER, move |_, body| jobs.order(&node, &body));
        let jobs = self.clone();
        services.on_request(protocol::MODEX, move |_, body| {
            let jobs = jobs.clone();
            async move { jobs.modex(&body).await }
        });
        let jobs = self.clone();
        services.on_request(protocol::GONE, move |_, body| {
            let jobs = jobs.clone();
            async move {
                let queued: u64 =
                    serde_json::from_slice(&body).map_err(|error| error.to_string())?;
                jobs.gone(queued).await;
                Ok(Bytes::new())
            }
        });
        let (jobs, node) = (self.clone(), overlay.clone());
        services.on_verb(front::RUN_VERB, move |call| front::run(jobs.clone(), node.clone(), call));
    }

    /// A new job's number.
    pub fn number(&self) -> u64 {
        // Numbers go on after a restart of the broker: no two jobs of a cluster's life share one. They count
        // from the first that this process gives, not from when its supervisor began, which starts one
        // broker after another.
        let next = self.shared.next.get_or_init(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            let millis = now.map_or(0, |time| time.as_millis() as u64);
            AtomicU64::new(millis << NUMBERS_A_MILLISECOND)
        });
        next.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Says that something with processes begins.
    pub fn busy(&self) -> Busy {
        self.shared.busy.send_modify(|count| *count += 1);
        Busy { shared: self.shared.clone() }
    }

    /// Says that a process group outside of jobs has begun.
    pub fn group(&self, group: i32) -> Group {
        let mut tables = self.tables();
        tables.groups.push(group);
        tables.had_groups = true;
        drop(tables);
        Group { group, busy: self.busy() }
    }

    /// Sends a signal to all groups outside of jobs.
    pub fn signal_groups(&self, signal: i32) {
        for group in &self.tables().groups {
            crate::sys::signal_group(*group, signal);
        }
    }

    /// Sends a signal to the first process of each of these groups: to a script, and not to what it has
    /// started, which may pass it on.
    pub fn signal_leaders(&self, signal: i32) {
        for group in &self.tables().groups {
            crate::sys::signal_process(*group, signal);
        }
    }

    /// Passes a signal on to all tasks of the jobs that are led here.
    pub fn signal_led(&self, signal: i32) {
        let Ok(signal) = u8::try_from(signal) else { return };
        for events in self.tables().led.values() {
            let payload = Bytes::from(vec![signal]);
            let _ = events.send(leader::Event::Client { kind: protocol::kind::SIGNAL, payload });
        }
    }

    /// Whether there ever was such a group.
    pub fn had_groups(&self) -> bool {
        self.tables().had_groups
    }

    /// Waits until nothing has processes any more.
    pub async fn idle(&self) {
        // The sender lives as long as this.
        let _ = self.shared.busy.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Whether any job is led here.
    pub fn leads(&self) -> bool {
        !self.tables().led.is_empty()
    }

    /// Gives an order to all members of this broker.
    pub fn order_all(&self, what: protocol::What) {
        for member in self.tables().members.values() {
            let _ = member.orders.send(what);
        }
    }

    /// Tells a new life of rank 0 what this broker has of jobs that outlive their leader.
    pub async fn claim(&self, overlay: &Overlay) {
        let held = self.held();
        if held.iter().any(|held| held.live)
            && let Err(error) = overlay.request(0, protocol::CLAIM, protocol::body(&held)).await
        {
            tracing::warn!(%error, "rank 0 does not know of the jobs that go on here");
        }
    }

    /// As [`Jobs::order_all`], for members that do not outlive their leader.
    pub fn order_bound(&self, what: protocol::What) {
        for member in self.tables().members.values().filter(|member| member.held.is_none()) {
            let _ = member.orders.send(what);
        }
    }

    pub(super) fn lead(&self, job: u64, events: mpsc::UnboundedSender<leader::Event>) {
        self.tables().led.insert(job, events);
    }

    pub(super) fn led(&self, job: u64) {
        self.tables().led.remove(&job);
    }

    pub(super) fn serves(&self, job: u64, server: Server) {
        if let Some(member) = self.tables().members.get_mut(&job) {
            member.server = Some(server);
        }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.shared.tables.lock().expect("the lock holds because nothing panics under it")
    }

    fn joined(&self, channel: Channel) {
        let broker = channel.peer();
        let Ok(joining) = serde_json::from_slice::<protocol::Joining>(channel.first()) else {
            tracing::warn!(broker, "a member sent an unreadable opening");
            return;
        };
        if let Some(events) = self.tables().led.get(&joining.job) {
            let again = joining.again;
            let _ = events.send(leader::Event::Joined { broker, channel, again });
            return;
        }
        // An unknown job has ended, and the member is told so: it must not wait for another leader.
        let (sender, _) = channel.split();
        tokio::spawn(async move { sender.finish(Ok(())).await });
    }

    /// Called by the node task: notes the job at once, so that orders that follow find it.
    fn launch(&self, overlay: &Overlay, from: u32, body: &Bytes) {
        let launch: protocol::Launch = match serde_json::from_slice(body) {
            Ok(launch) => launch,
            Err(error) => {
                tracing::error!(from, %error, "unreadable order to launch");
                return;
            }
        };
        let (orders, receiver) = mpsc::unbounded_channel();
        let job = launch.job;
        let here = watch::Sender::new(());
        let held = held::of(&launch).filter(|_| launch.leader != overlay.rank());
        let member = Member { orders, server: None, queued: launch.queued, held, here };
        self.tables().members.insert(job, member);
        let busy = self.busy();
        let (jobs, overlay) = (self.clone(), overlay.clone());
        tokio::spawn(async move {
            member::serve(&jobs, &overlay, launch, receiver).await;
            jobs.member_ended(job, None);
            drop(busy);
        });
    }

    fn order(&self, overlay: &Overlay, body: &Bytes) {
        let Ok(order) = serde_json::from_slice::<protocol::Order>(body) else { return };
        self.obey(overlay, order.job, order.what);
    }

    /// Does what a leader asks for.
    pub(super) fn obey(&self, overlay: &Overlay, job: u64, what: protocol::What) {
        let tables = self.tables();
        if let Some(member) = tables.members.get(&job) {
            let _ = member.orders.send(what);
        } else if let protocol::What::Reattach { leader } = what
            && let Some(ended) = tables.past.iter().find(|ended| ended.held.number == job)
        {
            let (overlay, ended) = (overlay.clone(), ended.clone());
            tokio::spawn(async move { member::again::retell(&overlay, leader, ended).await });
        }
    }

    /// A member's tasks are gone; what it still knows is remembered for the next leader.
    pub(super) fn member_ended(&self, job: u64, ended: Option<held::Ended>) {
        let mut tables = self.tables();
        tables.members.remove(&job);
        if let Some(ended) = ended {
            tables.past.push(ended);
        }
    }

    /// Waits until nothing of a job of the queue runs here.
    pub async fn settled(&self, queued: u64) {
        let here: Vec<watch::Receiver<()>> = {
            let tables = self.tables();
            let of_it = tables.members.values().filter(|member| member.queued == Some(queued));
            of_it.map(|member| member.here.subscribe()).collect()
        };
        for mut member in here {
            while member.changed().await.is_ok() {}
        }
    }

    /// The directory here with the files that were sent along with a job of the queue, while it runs or as
    /// long as they are kept.
    pub fn files_of(&self, overlay: &Overlay, queued: u64) -> Option<PathBuf> {
        let runs = {
            let tables = self.tables();
            let of_it = tables.members.iter().filter(|(_, member)| member.queued == Some(queued));
            of_it.map(|(number, _)| *number).max()
        };
        let running = runs.map(|number| member::directory_of(overlay, number).join(member::FILES));
        let kept = kept::directory(&overlay.settings().run_dir, queued);
        running.into_iter().chain([kept]).find(|dir| dir.is_dir())
    }

    /// What this broker has of jobs that outlive their leader.
    fn held(&self) -> Vec<held::Held> {
        let tables = self.tables();
        let run = tables.members.values().filter_map(|member| {
            let mut held = member.held.clone()?;
            held.met = member.server.as_ref().is_some_and(Server::has_met);
            if member.server.as_ref().is_some_and(Server::in_exchange) {
                held.broken = Some("its ranks were about to meet each other (PMI)".to_owned());
            }
            Some(held)
        });
        run.chain(tables.past.iter().map(|ended| ended.held.clone())).collect()
    }

    /// Ends what this broker has of a job of the queue, and waits until that is gone.
    async fn gone(&self, queued: u64) {
        let here: Vec<watch::Receiver<()>> = {
            let tables = self.tables();
            let of_it = tables.members.values().filter(|member| member.queued == Some(queued));
            let end = |member: &Member| {
                let grace_ms = leader::KILL_GRACE.as_millis() as u64;
                let _ = member.orders.send(protocol::What::Stop { grace_ms });
                member.here.subscribe()
            };
            of_it.map(end).collect()
        };
        for mut member in here {
            while member.changed().await.is_ok() {}
        }
    }

    async fn modex(&self, body: &Bytes) -> Result<Bytes, String> {
        let question: protocol::Modex =
            serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let server = self.tables().members.get(&question.job).and_then(|m| m.server.clone());
        let Some(server) = server else {
            return Err(format!("job {} has no server here", question.job));
        };
        Ok(match server.question(question.node, question.rank).await {
            Some(blob) => [&[1][..], &blob].concat().into(),
            None => Bytes::from_static(&[0]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    /// A supervisor makes the table, and starts one broker after another that has a copy of it.
    #[test]
    fn brokers_of_one_supervisor_give_no_number_twice() {
        let table = || Jobs::new(Pod::of_this_process());
        let (first, second) = (table(), table());
        let last = (0..10_000).map(|_| first.number()).max().unwrap();
        std::thread::sleep(Duration::from_millis(5));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
        let next = second.number();
        assert!(next > last && next > now << NUMBERS_A_MILLISECOND, "{last} {next}");
        assert!(next < 1 << 53);
    }
}
