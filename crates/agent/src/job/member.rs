//! A broker's part of a job: it starts the tasks of this pod, serves them and reports their ends.
//!
//! Owns: the tasks, their pipes, their process-management server and what is swept after them. It
//! decides nothing about the job: orders come from the leader. When the leader is lost the tasks
//! end, or go on for a bounded time if the job outlives its leader.

pub(super) mod again;

use super::protocol::{
    Abort, Again, Deserted, EndedTask, Joining, LAUNCH, Launch, MEMBER, Script, Waiting, What,
    kind, message, split,
};
use super::streams::{End, Stream, feed, pump};
use super::uplink::Uplink;
use super::{Jobs, held, protocol};
use crate::broker::{Channel, ChannelError, Overlay, Receiver, Sender};
use crate::files;
use crate::launch::environment::{self, Standing};
use crate::launch::outcome::{Ended, Session, TaskEnd};
use crate::launch::records::Recorded;
use crate::launch::spawn::starter::{Order, Starting};
use crate::launch::spawn::terminal::{self, Size, Terminal};
use crate::launch::spawn::{self, Start};
use crate::launch::stdio::{Slowest, Tail};
use crate::launch::{accelerators, sweep, text};
use crate::process_management::{Event, OverOverlay, Server, Ways};
use crate::sys;
use bytes::Bytes;
use quorate_contract::env as names;
use quorate_hostlist::IdSet;
use quorate_pmi::{Exit, JobSpec, Layout, Offer, RankState, Sequence};
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// In a job's directory: its script.
const SCRIPT: &str = "script";

/// In a job's directory: the files that were sent along with it.
const FILES: &str = "files";

/// Time between SIGTERM and SIGKILL when the leader is lost.
const ORPHAN_GRACE: Duration = Duration::from_secs(1);

/// A task of this pod while it runs.
struct Running {
    rank: u32,
    pid: i32,
    told: Arc<AtomicBool>,
    alive: bool,
    stdin: Option<mpsc::UnboundedSender<Option<Bytes>>>,
    terminal: Option<Terminal>,
}

/// A task that was just started, with what its broker reads of it.
struct Started {
    pid: i32,
    stdin: Option<(pipe::Sender, End)>,
    outputs: Vec<(u8, pipe::Receiver)>,
    terminal: Option<Terminal>,
    exit: spawn::Exit,
}

/// A task that is about to be started.
enum Beginning {
    /// By the thread for it.
    There(Starting),
    /// It was started here.
    Here(Started),
}

impl Beginning {
    /// Waits until it is started.
    async fn begun(self) -> Result<Started, TaskEnd> {
        let starting = match self {
            Self::There(starting) => starting,
            Self::Here(started) => return Ok(started),
        };
        let task = starting.begun().await?;
        Ok(Started {
            pid: task.pid,
            stdin: task.stdin.map(|pipe| (pipe, End::Closed)),
            outputs: vec![(kind::OUT, task.stdout), (kind::ERR, task.stderr)],
            terminal: None,
            exit: task.exit,
        })
    }
}

/// Starts a task of a job that has a terminal, which the first has alone.
fn at_terminal(start: &Start<'_>, rank: u32, size: Size) -> Result<Started, TaskEnd> {
    if rank == 0 {
        let task = terminal::start(start, size)?;
        Ok(Started {
            pid: task.pid,
            stdin: Some((task.input, End::Typed)),
            outputs: vec![(kind::OUT, task.output)],
            terminal: Some(task.terminal),
            exit: task.exit,
        })
    } else {
        let (pid, exit) = spawn::start_silent(start)?;
        Ok(Started { pid, stdin: None, outputs: Vec::new(), terminal: None, exit })
    }
}

/// What happens in this pod.
enum Here {
    Ended(Box<EndedTask>),
    Took { task: usize, bytes: u64 },
}

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
        dir: overlay.settings().run_dir.join(format!("job-{}", launch.job)),
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

/// What the leader is told of an event among the ranks.
fn told(event: Event) -> Bytes {
    match event {
        Event::Abort { rank, code, message } => {
            protocol::json(kind::ABORT, &Abort { rank, code, message })
        }
        Event::Deserted { rank, initialized } => {
            protocol::json(kind::DESERTED, &Deserted { rank, initialized })
        }
        Event::Waiting(Sequence { protocol, number }) => {
            protocol::json(kind::WAITING, &Waiting { protocol: protocol as usize, number })
        }
    }
}

/// The next message of the leader, `None` when it has ended the job; for ever nothing when there is no
/// leader.
async fn down(leader: Option<&mut Receiver>) -> Result<Option<(u8, Bytes)>, ChannelError> {
    let Some(leader) = leader else { return std::future::pending().await };
    let message = leader.recv().await?;
    Ok(message.map(|message| split(message).unwrap_or((0, Bytes::new()))))
}

/// Standard input as it came here.
#[derive(Debug, Default)]
struct Stdin {
    /// Bytes that the tasks were given.
    given: u64,
    ended: bool,
    /// Bytes that come again from another leader.
    skip: u64,
}

impl Stdin {
    /// The next bytes stand there.
    fn goes_on_at(&mut self, at: Option<u64>) {
        self.skip = self.given.saturating_sub(at.unwrap_or(self.given));
    }

    /// What is new of some bytes.
    fn fresh(&mut self, mut bytes: Bytes) -> Bytes {
        let known = self.skip.min(bytes.len() as u64);
        self.skip -= known;
        let fresh = bytes.split_off(known as usize);
        self.given += fresh.len() as u64;
        fresh
    }

    fn again(&self) -> Again {
        Again { stdin: self.given, stdin_ended: self.ended }
    }
}

/// The tasks of one job in this pod.
struct Tasks<'a> {
    jobs: &'a Jobs,
    overlay: &'a Overlay,
    launch: Launch,
    node: u32,
    ranks: Vec<u32>,
    uplink: Uplink,
    here: mpsc::UnboundedSender<Here>,
    pmi_events: mpsc::UnboundedSender<Event>,
    running: Vec<Running>,
    server: Option<Server>,
    taken: Slowest,
    stdin: Stdin,
    since: SystemTime,
    /// Something was killed, or ended badly: look for what is left.
    rough: bool,
    spoke: bool,
    record: Option<Recorded>,
    dir: PathBuf,
}

impl Tasks<'_> {
    /// Starts all tasks; what does not start has ended.
    async fn start_all(&mut self) {
        let pod = self.jobs.pod();
        let mut command = self.launch.command.clone();
        if let Some(script) = command.script.take() {
            match self.write(&script) {
                Ok(words) => command.argv.extend(words),
                Err(end) => {
                    self.none_started(&end);
                    return;
                }
            }
        }
        let argv: Arc<[OsString]> = command.argv.iter().map(|word| text::decode(word)).collect();
        let mut env = command.env.over(&pod.env);
        environment::pod(self.overlay.settings(), &mut env);
        let mark = environment::marks(self.overlay.settings(), &format!("job-{}", self.launch.job));
        env.insert(names::MARK.into(), mark.into());
        if env.contains_key(OsStr::new(names::SLURM)) {
            let socket = self.overlay.settings().socket().into_os_string();
            env.entry(names::SLURM_SOCKET.into()).or_insert(socket);
        }
        if let Some(parcel) = &command.files {
            let into = self.dir.join(FILES);
            let leader = self.launch.leader;
            if let Err(error) = files::fetch(self.overlay, leader, parcel, into).await {
                self.none_started(&TaskEnd::NotStarted(crate::logs::chain(&error)));
                return;
            }
        }
        let cwd: Arc<Path> = match self.directory().await {
            Ok(cwd) => cwd.into(),
            Err(end) => {
                self.none_started(&end);
                return;
            }
        };
        if let Err(end) = self.open_server() {
            self.none_started(&end);
            return;
        }
        if self.launch.one_host {
            // Open MPI 4 names shared memory by host and local rank.
            env.entry("OMPI_MCA_btl_vader_backing_directory".into())
                .or_insert_with(|| self.dir.clone().into_os_string());
        }
        let (tasks, turn) = (self.ranks.len() as u32, self.overlay.rank());
        let share = self.launch.shares.get(self.node as usize);
        let sets = match share.and_then(|share| share.slots.parse::<IdSet>().ok()) {
            Some(slots) => {
                let slots: Vec<u32> = slots.iter().collect();
                env.insert(names::SLOTS.into(), slots.len().to_string().into());
                let asked = command.cpus_per_task.is_some();
                pod.allowance.sets_within(command.binding, &slots, tasks, asked, turn)
            }
            None => pod.allowance.sets(command.binding, tasks, command.cpus_per_task, turn),
        };
        let seen = self.accelerators(tasks);
        let stdin = command.stdin;
        self.taken = Slowest::new(self.ranks.len());
        let mut starting = Vec::with_capacity(self.ranks.len());
        for (local, rank) in self.ranks.clone().into_iter().enumerate() {
            let wants_stdin = stdin.goes_to(rank);
            if !wants_stdin {
                self.taken.gone(local);
            }
            for (name, value) in seen.get(local).into_iter().flatten() {
                env.insert((*name).into(), value.into());
            }
            let order = Order {
                argv: argv.clone(),
                env: env.clone(),
                cwd: cwd.clone(),
                cpus: sets[local].clone(),
                stdin: wants_stdin,
                keep: None,
            };
            starting.push((rank, self.start(order, local as u32, rank)));
        }
        for (rank, beginning) in starting {
            let begun = match beginning {
                Ok(beginning) => beginning.begun().await,
                Err(end) => Err(end),
            };
            match begun {
                Ok(task) => self.runs(rank, task),
                Err(end) => {
                    self.running.push(Running::never(rank));
                    self.ended_unstarted(rank, end);
                }
            }
        }
        let pids: Vec<i32> = self.running.iter().map(|t| t.pid).filter(|pid| *pid > 0).collect();
        self.record = self.jobs.record(&format!("job-{}", self.launch.job), &pids);
    }

    /// Which accelerators each task of this pod is told of: of a job of the queue, its own.
    fn accelerators(&self, tasks: u32) -> Vec<Vec<(&'static str, String)>> {
        let membership = self.overlay.membership().borrow().clone();
        let member = membership.online.get(&self.overlay.rank());
        let share = self.launch.shares.get(self.node as usize);
        let (Some(member), Some(share)) = (member, share) else { return Vec::new() };
        let given = share.gpus.parse().unwrap_or_default();
        let nested = self.overlay.settings().outer_marks.is_some();
        let gpus = &member.inventory.gpus;
        (0..tasks)
            .map(|local| accelerators::visible(gpus, &given, (local, tasks), nested))
            .collect()
    }

    /// Writes a job's script; gives the command that runs it.
    fn write(&self, script: &Script) -> Result<Vec<String>, TaskEnd> {
        let path = self.dir.join(SCRIPT);
        let failed = |error: std::io::Error| {
            TaskEnd::NotStarted(format!("the script cannot be written: {error}"))
        };
        std::fs::create_dir_all(&self.dir).map_err(failed)?;
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o700)
            .open(&path)
            .map_err(failed)?;
        file.write_all(script.text.as_bytes()).map_err(failed)?;
        Ok(script.command(&text::encode(&path)))
    }

    /// The directory of the tasks.
    async fn directory(&self) -> Result<PathBuf, TaskEnd> {
        let own = match &self.launch.command.files {
            Some(_) => self.dir.join(FILES),
            None => self.jobs.pod().cwd.clone(),
        };
        let Some(wanted) = &self.launch.command.cwd else { return Ok(own) };
        let wanted = PathBuf::from(text::decode(wanted));
        if wanted.is_dir() {
            return Ok(wanted);
        }
        let shown = wanted.display();
        if self.launch.command.cwd_required {
            return Err(TaskEnd::NotStarted(format!("the directory {shown} does not exist")));
        }
        if wanted != own {
            let pod = self.overlay.settings().display_name();
            let notice =
                format!("{pod} has no directory {shown}; its tasks start in {}", own.display());
            self.uplink.tell(message(kind::NOTICE, notice.as_bytes())).await;
        }
        Ok(own)
    }

    fn open_server(&mut self) -> Result<(), TaskEnd> {
        let command = &self.launch.command;
        let offer: Offer = command.mpi.parse().unwrap_or_default();
        if offer == Offer::None {
            return Ok(());
        }
        let failed = |why: String| TaskEnd::NotStarted(format!("no way to offer MPI: {why}"));
        let config = self.overlay.config();
        let hosts = self
            .launch
            .placement
            .brokers
            .iter()
            .map(|(broker, _)| {
                config.host_name(*broker).unwrap_or_else(|| format!("rank-{broker}"))
            })
            .collect();
        let spec = JobSpec {
            namespace: self.launch.namespace.clone(),
            id: self.launch.job.to_string(),
            hosts,
            node_of: self.launch.placement.node_of_rank(),
            app: 0,
            universe: self.launch.universe,
        };
        let job = quorate_pmi::Job::new(spec).map_err(|error| failed(error.to_string()))?;
        let layout = Layout::new(job, self.node, self.dir.to_string_lossy())
            .map_err(|error| failed(error.to_string()))?
            .with_topology(self.jobs.topology(&self.overlay.settings().run_dir));
        let exchanger = OverOverlay {
            overlay: self.overlay.clone(),
            job: self.launch.job,
            node: self.node,
            brokers: self.launch.placement.brokers.iter().map(|(broker, _)| *broker).collect(),
        };
        let ways = Ways { offer, pmi_port: command.pmi_port };
        let server = Server::open(layout, ways, Box::new(exchanger), self.pmi_events.clone())
            .map_err(|error| failed(error.to_string()))?;
        self.jobs.serves(self.launch.job, server.clone());
        self.server = Some(server);
        Ok(())
    }

    /// Has a task started, whose order lacks what is its alone.
    fn start(&self, mut order: Order, local: u32, rank: u32) -> Result<Beginning, TaskEnd> {
        let env = &mut order.env;
        let standing = Standing {
            job: &self.launch.queued.unwrap_or(self.launch.job).to_string(),
            rank,
            size: self.launch.placement.tasks(),
            local_rank: local,
            node: self.node,
            beside: &self.ranks,
            cpus_per_task: self.launch.command.cpus_per_task,
            crowded: self.launch.crowded,
        };
        environment::task(&standing, env);
        if let Some(server) = &self.server {
            order.keep = server
                .rank_end(rank)
                .map_err(|error| TaskEnd::NotStarted(format!("no socket for PMI: {error}")))?;
            let fd = order.keep.as_ref().map(AsRawFd::as_raw_fd);
            for (name, value) in server.environment(rank, fd) {
                env.insert(name.into(), value.into());
            }
        }
        Ok(match self.launch.command.terminal {
            None => Beginning::There(self.jobs.starter().start(order)),
            Some(size) => Beginning::Here(at_terminal(&order.as_start(), rank, size)?),
        })
    }

    /// Serves a task that runs, to its end.
    fn runs(&mut self, rank: u32, task: Started) {
        let told = Arc::new(AtomicBool::new(false));
        let index = self.running.len();
        let stdin = task.stdin.map(|(pipe, end)| {
            let here = self.here.clone();
            feed(pipe, end, move |bytes| {
                let took = Here::Took { task: index, bytes: bytes as u64 };
                std::future::ready(here.send(took).is_ok())
            })
        });
        let terminal = task.terminal;
        let (pid, alive) = (task.pid, true);
        self.running.push(Running { rank, pid, told: told.clone(), alive, stdin, terminal });
        // One task's output needs no line ends to stay apart from others'.
        let whole_lines = !self.launch.command.unbuffered && self.launch.placement.tasks() > 1;
        let (over, ended) = watch::channel(false);
        let tail = Arc::new(Mutex::new(Tail::default()));
        let pump = |pipe, kind| {
            let uplink = self.uplink.clone();
            tokio::spawn(pump(
                pipe,
                Stream { kind, rank, whole_lines },
                move |piece| {
                    let uplink = uplink.clone();
                    async move { uplink.piece(piece).await }
                },
                tail.clone(),
                ended.clone(),
            ))
        };
        let outputs = task.outputs.into_iter();
        let pumps: Vec<_> = outputs.map(|(kind, pipe)| pump(pipe, kind)).collect();
        let (server, here) = (self.server.clone(), self.here.clone());
        tokio::spawn(async move {
            let end = task.exit.wait(true).await;
            let stopped = told.load(Ordering::Relaxed);
            let exit = if end == TaskEnd::Exited(0) { Exit::Success } else { Exit::Failure };
            let (state, protocol) = match &server {
                Some(server) => server.rank_exited(rank, exit),
                None => (RankState::default(), None),
            };
            let exchanges = server.as_ref().map(Server::exchanges).unwrap_or_default();
            let _ = over.send(true);
            for pump in pumps {
                let _ = pump.await;
            }
            let session = match (state.initialized, state.finalized) {
                (false, _) => Session::None,
                (true, false) => Session::Open,
                (true, true) => Session::Closed,
            };
            let bad = end != TaskEnd::Exited(0) || session == Session::Open;
            let tail = tail.lock().map(|mut tail| std::mem::take(&mut *tail)).unwrap_or_default();
            let log_tail = if bad && !stopped { tail.into_lines() } else { Vec::new() };
            let ended = Ended { rank, end, session, stopped, log_tail };
            let wire = protocol.map(|protocol| protocol.as_str().to_string());
            let _ = here.send(Here::Ended(Box::new(EndedTask { ended, wire, exchanges })));
        });
    }

    fn none_started(&mut self, end: &TaskEnd) {
        for rank in self.ranks.clone() {
            self.running.push(Running::never(rank));
            self.ended_unstarted(rank, end.clone());
        }
    }

    fn ended_unstarted(&self, rank: u32, end: TaskEnd) {
        let ended =
            Ended { rank, end, session: Session::None, stopped: false, log_tail: Vec::new() };
        let task = EndedTask { ended, wire: None, exchanges: [0; 3] };
        let _ = self.here.send(Here::Ended(Box::new(task)));
    }

    async fn happened(&mut self, happening: Here) {
        match happening {
            Here::Ended(task) => {
                self.rough |=
                    task.ended.end != TaskEnd::Exited(0) || task.ended.session == Session::Open;
                self.spoke |= task.wire.is_some();
                let index = self.running.iter().position(|t| t.rank == task.ended.rank);
                if let Some(index) = index {
                    self.running[index].alive = false;
                    self.running[index].stdin = None;
                    self.running[index].terminal = None;
                    self.taken.gone(index);
                }
                self.uplink.say(protocol::json(kind::ENDED, &*task)).await;
            }
            Here::Took { task, bytes } => {
                let more = self.taken.took(task, bytes);
                if more > 0 {
                    let more = u32::try_from(more).unwrap_or(u32::MAX);
                    self.uplink.tell(message(kind::TAKEN, &more.to_be_bytes())).await;
                }
            }
        }
    }

    /// Passes stdin on to the tasks that get it; `None` is its end.
    fn input(&mut self, bytes: Option<Bytes>) {
        let bytes = bytes.map(|bytes| self.stdin.fresh(bytes));
        self.stdin.ended |= bytes.is_none();
        for task in &mut self.running {
            if let Some(stdin) = &task.stdin {
                let _ = stdin.send(bytes.clone());
                if bytes.is_none() {
                    task.stdin = None;
                }
            }
        }
    }

    fn resize(&self, size: &[u8]) {
        let Some(size) = Size::from_bytes(size) else { return };
        for terminal in self.running.iter().filter_map(|task| task.terminal.as_ref()) {
            terminal.resize(size);
        }
    }

    /// Tells the leader of an event among the ranks.
    async fn tell(&self, event: Event) {
        let lasts = !matches!(event, Event::Waiting(_));
        let message = told(event);
        if lasts {
            self.uplink.say(message).await;
        } else {
            self.uplink.tell(message).await;
        }
    }

    /// What is remembered when all tasks have ended.
    fn ended(&self) -> Option<held::Ended> {
        Some(held::Ended {
            held: held::Held { live: false, ..held::of(&self.launch)? },
            uplink: self.uplink.clone(),
            stdin: (self.stdin.given, self.stdin.ended),
        })
    }

    fn signal(&self, signal: i32) {
        for task in self.running.iter().filter(|task| task.alive && task.pid > 0) {
            if signal == libc::SIGKILL {
                task.told.store(true, Ordering::Relaxed);
            }
            sys::signal_group(task.pid, signal);
        }
    }

    /// Asks all tasks to end; a stopped one must run to hear it.
    fn stop(&self) {
        for task in self.running.iter().filter(|task| task.alive && task.pid > 0) {
            task.told.store(true, Ordering::Relaxed);
            sys::signal_group(task.pid, libc::SIGTERM);
            if task.terminal.is_some() {
                // Shells at a terminal pass over SIGTERM: it is gone when they are to end.
                sys::signal_group(task.pid, libc::SIGHUP);
            }
            sys::signal_group(task.pid, libc::SIGCONT);
        }
    }

    /// Removes what the tasks have left.
    fn clean_up(&mut self) {
        if let Some(server) = &self.server {
            for cleanup in server.close() {
                sweep::registered(&cleanup);
            }
        }
        if self.server.is_some() || self.launch.command.files.is_some() {
            // A rank may have had its session directory removed, which this one is.
            if let Err(error) = std::fs::remove_dir_all(&self.dir)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::warn!(%error, dir = %self.dir.display(), "a job's directory stays");
            }
        }
        if self.rough {
            let mark =
                environment::mark(self.overlay.settings(), &format!("job-{}", self.launch.job));
            sweep::kill_marked(names::MARK, &mark);
            if self.spoke {
                sweep::shared_memory(Path::new("/dev/shm"), self.since);
            }
        }
        self.record = None;
    }
}

impl Running {
    /// A task that did not start; its end is already on the way.
    fn never(rank: u32) -> Self {
        Self {
            rank,
            pid: 0,
            told: Arc::new(AtomicBool::new(false)),
            alive: true,
            stdin: None,
            terminal: None,
        }
    }
}
