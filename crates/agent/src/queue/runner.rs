//! Carries out what the queue decided: starts the tasks of a job on what it has, ends them, and tells
//! the keeper what became of them.
//!
//! Owns: the way from a job to a request for its leader, and the table of jobs that run. It decides
//! nothing about a job.

mod again;

pub(super) use again::{answer, patience};

use super::keeper::{Command, OWN};
use super::output::{self, Files, Output, Reader, spool_path};
use super::slurm;
use super::spools::Spools;
use crate::broker::Overlay;
use crate::instance::UNTIL_INPUT_ENDS;
use crate::instance::signal::{self, Delivery};
use crate::job::Jobs;
use crate::job::leader::{self, Handle, Led, Resumption};
use crate::job::protocol::{
    self, Request, STDIN_WINDOW, Script, Share, Stamp, Stdin, Where, kind, split,
};
use crate::job::uplink::ACKNOWLEDGE;
use crate::launch::affinity::Binding;
use crate::launch::environment::Difference;
use crate::launch::place::{Distribution, Placement};
use crate::launch::text;
use bytes::Bytes;
use quorate_contract::AgentConfig;
use quorate_queue::{Job, JobId, Outcome, Part, Program};
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot, watch};

/// Messages of a job that wait to be written.
const MESSAGES: usize = 16;

/// The option of a job that has files of its own: the name of their parcel.
pub(super) const FILES: &str = "files";

/// The option of a job whose own directory is kept for a while when it has ended.
pub(super) const KEEP_FILES: &str = "keep-files";

/// The option of a job that takes so many milliseconds and starts nothing.
const SIMULATE: &str = "simulate";

/// The option of a job whose task of rank 0 has a terminal: its size, such as `24x80`.
pub(crate) const TERMINAL: &str = "pty";

/// Bytes of an input file that are read at once.
const BLOCK: usize = 16 * 1024;

/// Carries jobs out. Clones share the table.
#[derive(Clone, Debug)]
pub(super) struct Runner {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    jobs: Jobs,
    overlay: Overlay,
    keeper: mpsc::Sender<Command>,
    dir: PathBuf,
    spools: Spools,
    running: Mutex<HashMap<JobId, Arc<Running>>>,
    /// Jobs that take their time with no task, and what ends them early.
    simulated: Mutex<HashMap<JobId, oneshot::Sender<()>>>,
    /// Some job has begun.
    begun: Notify,
}

/// A job that runs.
#[derive(Debug)]
pub(super) struct Running {
    handle: Handle,
    output: Arc<Output>,
    /// Bytes of standard input that its tasks have taken.
    taken: watch::Sender<u64>,
    /// Whether somebody gives it standard input already.
    fed: Mutex<bool>,
    /// It was told to end.
    stopped: Mutex<bool>,
}

/// What a job is led with.
struct Prepared {
    request: Request,
    /// Its tasks run already.
    again: Option<Resumption>,
    output: Arc<Output>,
    input: Option<File>,
}

impl Running {
    /// Sends a signal to its tasks.
    pub(super) fn signal(&self, signal: i32) {
        self.handle.signal(signal);
    }

    /// Makes the caller the one who gives it standard input, if there is none yet.
    pub(super) fn feed(&self) -> Option<watch::Receiver<u64>> {
        let mut fed = self.fed.lock().expect("the lock holds because nothing panics under it");
        (!std::mem::replace(&mut *fed, true)).then(|| self.taken.subscribe())
    }

    /// Gives its tasks a piece of standard input; `None` is the end.
    pub(super) fn input(&self, piece: Option<Bytes>) {
        self.handle.input(piece);
    }

    /// Says how large the terminal is that its client has.
    pub(super) fn resize(&self, size: Bytes) {
        self.handle.resize(size);
    }

    /// Says what a client says that the job is there for, by its kind.
    pub(super) fn client(&self, kind: u8) {
        self.handle.client(kind);
    }

    /// Reads its output from the beginning.
    pub(super) fn read(&self) -> Reader {
        self.output.read()
    }
}

impl Runner {
    /// Runs nothing yet.
    pub(super) fn new(
        jobs: Jobs,
        overlay: Overlay,
        keeper: mpsc::Sender<Command>,
        dir: PathBuf,
    ) -> Self {
        let (running, simulated) = (Mutex::new(HashMap::new()), Mutex::new(HashMap::new()));
        let (spools, begun) = (Spools::new(dir.clone()), Notify::new());
        let shared = Shared { jobs, overlay, keeper, dir, spools, running, simulated, begun };
        Self { shared: Arc::new(shared) }
    }

    /// What jobs have left.
    pub(super) fn spools(&self) -> &Spools {
        &self.shared.spools
    }

    /// The broker.
    pub(super) fn overlay(&self) -> &Overlay {
        &self.shared.overlay
    }

    /// A job that runs.
    pub(super) fn running(&self, job: JobId) -> Option<Arc<Running>> {
        self.table().get(&job).cloned()
    }

    /// The next time that a job begins, as seen from the call on.
    pub(super) fn began(&self) -> impl Future<Output = ()> + '_ {
        self.shared.begun.notified()
    }

    /// What a job has written, whether it runs or is over.
    pub(super) fn read(&self, job: JobId) -> Reader {
        match self.running(job) {
            Some(running) => running.read(),
            None => Reader::of_spool(spool_path(&self.shared.dir, job.0)),
        }
    }

    /// Starts a job's tasks.
    pub(super) fn launch(&self, job: &Job) {
        let id = job.id;
        if let Some(millis) = job.spec().options.get(SIMULATE) {
            self.simulate(id, millis);
            return;
        }
        let config = self.shared.overlay.config();
        let prepared = request(job, config).and_then(|request| {
            let output = self.output(job, false, &request)?;
            let input = job.spec().streams.input.as_deref().filter(|input| *input != "-");
            let input = input.map(|input| open_input(&in_directory(job, input))).transpose()?;
            Ok(Prepared { request, again: None, output, input })
        });
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(why) => {
                let keeper = self.shared.keeper.clone();
                tokio::spawn(async move {
                    let outcome = Outcome { code: 1, rank: None, message: why };
                    let _ = keeper.send(Command::NotStarted(id, Box::new(outcome))).await;
                });
                return;
            }
        };
        let runner = self.clone();
        tokio::spawn(async move { runner.lead(id, prepared).await });
    }

    /// Lets a job take its time with no task at all: it measures the queue, not the starting of
    /// programs.
    fn simulate(&self, id: JobId, millis: &str) {
        let keeper = self.shared.keeper.clone();
        let time = Duration::from_millis(millis.parse().unwrap_or(0));
        let (stop, stopped) = oneshot::channel::<()>();
        self.simulated().insert(id, stop);
        let runner = self.clone();
        tokio::spawn(async move {
            let _ = keeper.send(Command::Started(id)).await;
            let mut code = 0;
            if !time.is_zero() {
                tokio::select! {
                    () = tokio::time::sleep(time) => {}
                    _ = stopped => code = 143,
                }
            }
            runner.simulated().remove(&id);
            let outcome = Outcome { code, ..Outcome::default() };
            let _ = keeper.send(Command::Finished(id, Box::new(outcome))).await;
        });
    }

    async fn lead(&self, id: JobId, prepared: Prepared) {
        let Prepared { request, again, output, mut input } = prepared;
        let shared = &self.shared;
        // Until its end is told: this broker does not leave while it has tasks of its own.
        let here = match &request.place {
            Where::Allotted(shares) => {
                shares.iter().any(|share| share.broker == shared.overlay.rank())
            }
            Where::Slots(_) | Where::Brokers(_) => true,
        };
        let busy = here.then(|| shared.jobs.busy());
        let (messages, mut queue) = mpsc::channel::<Bytes>(MESSAGES);
        let led_again = again.is_some();
        let (handle, led) =
            leader::lead_here(&shared.jobs, &shared.overlay, (request, again), messages);
        let running = Arc::new(Running {
            handle: handle.clone(),
            output: output.clone(),
            taken: watch::Sender::new(0),
            fed: Mutex::new(input.is_some()),
            stopped: Mutex::new(false),
        });
        self.table().insert(id, running.clone());
        shared.begun.notify_waiters();
        let feed = |file: File, from: u64| {
            let (running, taken) = (running.clone(), running.taken.subscribe());
            tokio::task::spawn_blocking(move || feed_file(&running, taken, file, from));
        };
        if let Some(file) = input.take_if(|_| !led_again) {
            feed(file, 0);
        }
        let listening = async {
            while let Some(received) = queue.recv().await {
                match received.first().copied() {
                    Some(kind::PLACED) => {
                        let _ = shared.keeper.send(Command::Started(id)).await;
                    }
                    Some(kind::OUT | kind::ERR | kind::NOTICE) => {
                        if let Some((broker, pieces)) = output.take(received).await
                            && pieces % ACKNOWLEDGE == 0
                        {
                            handle.written(broker, pieces);
                        }
                    }
                    Some(kind::STDIN_AT) => {
                        let at = split(received).and_then(|(_, at)| protocol::number_of(&at));
                        if let (Some(file), Some(at)) = (input.take(), at) {
                            feed(file, at);
                        }
                    }
                    Some(kind::TAKEN) => {
                        let more =
                            split(received).and_then(|(_, payload)| protocol::taken(&payload));
                        running.taken.send_modify(|all| *all += u64::from(more.unwrap_or(0)));
                    }
                    _ => {}
                }
            }
        };
        let (led, ()) = tokio::join!(led, listening);
        if output.end() {
            shared.spools.left_by(id.0);
        }
        self.table().remove(&id);
        let _ = shared.keeper.send(ended(id, led)).await;
        drop(busy);
    }

    /// Sends a signal to what a job runs: to its tasks, or, if it is a nested instance, to its script and
    /// the tasks of its jobs. Tells whether it runs at all.
    pub(super) fn signal(&self, job: &Job, to: Delivery) -> bool {
        let Some(running) = self.running(job.id) else { return false };
        if matches!(job.spec().program, Program::Command(_)) {
            running.signal(to.signal.into());
            return true;
        }
        let (runner, id) = (self.clone(), job.id);
        tokio::spawn(async move {
            if let Err(why) = signal::send(runner.overlay(), &id.to_string(), to).await {
                tracing::warn!(job = %id, signal = to.signal, why, "a signal did not reach a job");
            }
        });
        true
    }

    /// Ends a job's tasks; asked for again, at once.
    pub(super) fn stop(&self, id: JobId) {
        if let Some(stop) = self.simulated().remove(&id) {
            let _ = stop.send(());
            return;
        }
        let Some(running) = self.running(id) else { return };
        let mut stopped =
            running.stopped.lock().expect("the lock holds because nothing panics under it");
        running.handle.stop(std::mem::replace(&mut *stopped, true));
    }

    fn output(&self, job: &Job, again: bool, request: &Request) -> Result<Arc<Output>, String> {
        let streams = &job.spec().streams;
        let path = |template: &Option<String>| {
            template.as_deref().map(|template| in_directory(job, template))
        };
        let (output, error) = (path(&streams.output), path(&streams.error));
        let files = Files {
            output: output.as_deref(),
            error: error.as_deref(),
            append: streams.append || job.requeues > 0,
            label: streams.label,
            by_rank: by_rank(request),
            again,
        };
        if !again && job.requeues > 0 {
            // What an earlier attempt has written is not this one's.
            output::forget(&self.shared.dir, job.id.0);
        }
        Output::open(spool_path(&self.shared.dir, job.id.0), &files)
    }

    fn simulated(&self) -> MutexGuard<'_, HashMap<JobId, oneshot::Sender<()>>> {
        self.shared.simulated.lock().expect("the lock holds because nothing panics under it")
    }

    fn table(&self) -> MutexGuard<'_, HashMap<JobId, Arc<Running>>> {
        self.shared.running.lock().expect("the lock holds because nothing panics under it")
    }
}

/// A file of a job, relative to its directory.
pub(super) fn in_directory(job: &Job, template: &str) -> PathBuf {
    let directory = PathBuf::from(text::decode(&job.spec().directory));
    directory.join(text::decode(&job.filled(template)))
}

fn open_input(path: &Path) -> Result<File, String> {
    File::open(path)
        .map_err(|error| format!("the input file {} cannot be opened: {error}", path.display()))
}

/// What the keeper is told of a job that was led.
fn ended(id: JobId, led: Led) -> Command {
    let Led { finished, placement } = led;
    let outcome = finished.outcome;
    let rank = outcome.failure.as_ref().and_then(|failure| failure.rank);
    let code = u8::try_from(outcome.exit_code).unwrap_or(u8::MAX);
    let told = Box::new(Outcome { code, rank, message: outcome.message });
    // It was refused, or nobody could be told to start it.
    if placement.is_none() { Command::NotStarted(id, told) } else { Command::Finished(id, told) }
}

/// What the leader is asked for.
fn request(job: &Job, config: &AgentConfig) -> Result<Request, String> {
    let spec = job.spec();
    let argv = match (&spec.program, job.submission.cc) {
        (Program::Command(command), Some(_)) => {
            command.iter().map(|word| job.filled(word).into_owned()).collect()
        }
        (Program::Command(command), None) => command.clone(),
        (Program::Script { .. } | Program::Instance, _) => return instance(job, config),
    };
    let option = |name: &str| spec.options.get(name).map(String::as_str);
    let cores = spec.request.cores_per_task;
    Ok(Request {
        command: protocol::Command {
            argv,
            env: environment(job, config),
            cwd: (!spec.directory.is_empty()).then(|| spec.directory.clone()),
            cwd_required: option("cwd") == Some("required"),
            mpi: option("mpi").unwrap_or("auto").to_owned(),
            pmi_port: option("pmi-port").is_some(),
            stdin: match (spec.streams.input.is_some(), option("stdin")) {
                (false, _) => Stdin::None,
                (true, Some("all")) => Stdin::All,
                (true, _) => Stdin::First,
            },
            cpus_per_task: (cores > 1 || option("cpu-bind") == Some("task")).then_some(cores),
            binding: match option("cpu-bind") {
                Some("none") => Binding::None,
                _ => Binding::Auto,
            },
            unbuffered: option("unbuffered").is_some(),
            distribution: match option("distribution") {
                Some("cyclic") => Distribution::Cyclic,
                _ => Distribution::Block,
            },
            terminal: option(TERMINAL).and_then(|size| size.parse().ok()),
            script: None,
            files: option(FILES).map(str::to_owned),
            keep_files: option(KEEP_FILES).is_some(),
        },
        place: Where::Allotted(shares(job, |part| part.tasks)),
        no_kill: option("no-kill").is_some(),
        instance: false,
        queued: Some(job.id.0),
        keeps: keeps(job),
    })
}

/// What the leader is asked for by a job that is a nested instance: a broker on each of its nodes, with
/// all that the job has there. It ends with its script; the one of an interactive allocation when who
/// asked for it closes the input; any other when it is cancelled.
fn instance(job: &Job, config: &AgentConfig) -> Result<Request, String> {
    let spec = job.spec();
    let agent = std::env::current_exe()
        .map_err(|error| format!("this broker does not know where its program is: {error}"))?;
    let agent = text::encode(&agent);
    let mut argv = vec![agent.clone(), "start".to_owned()];
    let attached = spec.streams.input.as_deref() == Some("-");
    let script = match &spec.program {
        Program::Script { text, args } => {
            argv.push("--".to_owned());
            Some(Script { text: text.clone(), args: args.clone() })
        }
        _ if attached => {
            argv.extend(["--".to_owned(), agent, UNTIL_INPUT_ENDS.to_owned()]);
            None
        }
        _ => None,
    };
    Ok(Request {
        command: protocol::Command {
            argv,
            script,
            env: environment(job, config),
            cwd: (!spec.directory.is_empty()).then(|| spec.directory.clone()),
            cwd_required: spec.options.get("cwd").map(String::as_str) == Some("required"),
            mpi: "pmi1".to_owned(),
            files: spec.options.get(FILES).cloned(),
            keep_files: spec.options.contains_key(KEEP_FILES),
            stdin: if spec.streams.input.is_some() { Stdin::First } else { Stdin::None },
            ..protocol::Command::default()
        },
        place: Where::Allotted(shares(job, |_| 1)),
        no_kill: true,
        instance: true,
        queued: Some(job.id.0),
        keeps: keeps(job),
    })
}

/// Which start of a job it is, if its tasks outlive this broker: if it is there for nobody who goes.
fn keeps(job: &Job) -> Option<Stamp> {
    let outlives = !job.spec().options.contains_key(OWN);
    outlives
        .then(|| Stamp { attempt: job.requeues, allocated: job.allocated.unwrap_or_default().0 })
}

/// The broker of each rank of a job that outlives this one.
fn by_rank(request: &Request) -> Vec<u32> {
    if request.keeps.is_some() { brokers(request) } else { Vec::new() }
}

/// The broker of each task of a job: of each node, if it is a nested instance. None before it has nodes.
pub(super) fn brokers_of(job: &Job, config: &AgentConfig) -> Result<Vec<u32>, String> {
    request(job, config).map(|request| brokers(&request))
}

fn brokers(request: &Request) -> Vec<u32> {
    let Where::Allotted(shares) = &request.place else { return Vec::new() };
    let brokers = shares.iter().map(|share| (share.broker, share.tasks)).collect();
    let placement = Placement { brokers, distribution: request.command.distribution };
    let mut by_rank = vec![0; placement.tasks() as usize];
    for (broker, ranks) in placement.ranks() {
        for rank in ranks {
            by_rank[rank as usize] = broker;
        }
    }
    by_rank
}

/// A job's environment, as it differs from that of the pods.
fn environment(job: &Job, config: &AgentConfig) -> Difference {
    let spec = job.spec();
    let mut set: Vec<(String, String)> =
        spec.environment.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    if let Some(cc) = job.submission.cc {
        set.push(("QUORATE_JOB_CC".to_owned(), cc.to_string()));
    }
    if let Some(element) = job.submission.element {
        set.push(("QUORATE_ARRAY_JOB_ID".to_owned(), element.array.to_string()));
        set.push(("QUORATE_ARRAY_TASK_ID".to_owned(), element.index.to_string()));
    }
    let partition = spec.queue.as_deref().unwrap_or("default");
    set.extend(slurm::variables(job, config, partition));
    Difference { set, unset: spec.unset.clone() }
}

/// What a job was given of each broker, with as many tasks there as `tasks` says. Brokers that it has
/// lost since are among them: its tasks keep their numbers.
fn shares(job: &Job, tasks: impl Fn(&Part) -> u32) -> Vec<Share> {
    let parts = job.allotted().into_iter().flat_map(|allocation| &allocation.parts);
    let share = |part: &Part| Share {
        broker: part.rank,
        tasks: tasks(part),
        slots: part.cores.to_string(),
        gpus: part.gpus.to_string(),
    };
    parts.map(share).collect()
}

/// Gives a job a file as its standard input, from a place on, no faster than it is read.
fn feed_file(running: &Running, mut taken: watch::Receiver<u64>, mut file: File, from: u64) {
    let runtime = tokio::runtime::Handle::current();
    if from > 0 && file.seek(SeekFrom::Start(from)).is_err() {
        running.input(None);
        return;
    }
    let mut sent: u64 = 0;
    let mut block = vec![0; BLOCK];
    loop {
        match file.read(&mut block) {
            Ok(0) | Err(_) => break,
            Ok(count) => {
                sent += count as u64;
                running.input(Some(Bytes::copy_from_slice(&block[..count])));
                let room = taken.wait_for(|taken| sent < taken + STDIN_WINDOW as u64);
                if runtime.block_on(room).is_err() {
                    return;
                }
            }
        }
    }
    running.input(None);
}
