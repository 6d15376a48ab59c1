//! Launches a parallel program on this machine and serves it, all in one process: how the crate is
//! meant to be used, and a way to try an MPI against it.
//!
//! ```text
//! loopback [--nodes N [--cyclic]] [--mpi auto|pmi1|pmi2|pmix|none] [--port] [--record FILE] -n RANKS PROGRAM [ARG...]
//! ```
//!
//! Ranks are dealt to the nodes in blocks, or one by one with `--cyclic`; each node has a server of its own, and the exchange
//! between them is a map in memory. One thread owns all servers; a thread per connection reads.
//! `--port` offers PMI by TCP instead of by an inherited descriptor. `--record FILE` writes all
//! conversations in the form of `tests/golden/`.

#![expect(clippy::print_stderr, reason = "an example's status goes to stderr")]

use quorate_pmi::{
    Cleanup, ClientId, Effect, Exit, Job, JobServer, JobSpec, Layout, Offer, Options, Protocol,
    Sequence, Transports, must_not_leak,
};
use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

/// What the command line says.
struct Settings {
    nodes: u32,
    cyclic: bool,
    ranks: u32,
    offer: Offer,
    port: bool,
    record: Option<String>,
    command: Vec<String>,
}

impl Settings {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut settings = Self {
            nodes: 1,
            cyclic: false,
            ranks: 1,
            offer: Offer::Auto,
            port: false,
            record: None,
            command: Vec::new(),
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                "--nodes" => settings.nodes = value()?.parse()?,
                "--mpi" => settings.offer = value()?.parse()?,
                "--cyclic" => settings.cyclic = true,
                "--port" => settings.port = true,
                "--record" => settings.record = Some(value()?),
                "-n" => settings.ranks = value()?.parse()?,
                _ => {
                    settings.command.push(word);
                    settings.command.extend(words.by_ref());
                }
            }
        }
        if settings.command.is_empty() {
            return Err("which program?".into());
        }
        Ok(settings)
    }
}

/// What happens.
enum Event {
    PmiPort(usize, TcpStream),
    PmixPort(usize, TcpStream),
    Bytes(usize, ClientId, Vec<u8>),
    Closed(usize, ClientId),
    Exited(u32, std::io::Result<ExitStatus>),
    Fired(usize, u64),
}

/// The way back to a rank.
enum Stream {
    Pair(UnixStream),
    Port(TcpStream),
}

impl Stream {
    fn reader(&self) -> std::io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::Pair(stream) => Box::new(stream.try_clone()?),
            Self::Port(stream) => Box::new(stream.try_clone()?),
        })
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Self::Pair(stream) => stream.write_all(bytes),
            Self::Port(stream) => stream.write_all(bytes),
        }
    }

    fn close(&self) {
        // The rank may have closed first.
        let _ = match self {
            Self::Pair(stream) => stream.shutdown(std::net::Shutdown::Both),
            Self::Port(stream) => stream.shutdown(std::net::Shutdown::Both),
        };
    }
}

/// Where conversations go.
struct Recorder(Option<File>);

impl Recorder {
    fn note(&mut self, node: usize, client: ClientId, text: std::fmt::Arguments<'_>) {
        if let Some(file) = &mut self.0 {
            writeln!(file, "{node} {} {text}", client.0).expect("the record can be written");
        }
    }

    fn bytes(&mut self, node: usize, client: ClientId, mark: char, bytes: &[u8]) {
        self.note(node, client, format_args!("{mark} {}", bytes.escape_ascii()));
    }
}

/// What nodes have brought into an exchange.
type Blobs = Vec<(u32, Arc<[u8]>)>;

/// The whole launcher.
struct Launcher {
    servers: Vec<JobServer>,
    streams: HashMap<(usize, ClientId), Stream>,
    /// Blobs that have come, by exchange.
    exchanges: BTreeMap<u64, Blobs>,
    events: Sender<Event>,
    recorder: Recorder,
    children: Arc<Mutex<HashMap<u32, Child>>>,
    wires: BTreeMap<Protocol, u32>,
    cleanups: Vec<Cleanup>,
    /// The code of the first failure; the ends that follow are ours.
    failed: Option<i32>,
}

impl Launcher {
    fn connect(&mut self, node: usize, client: ClientId, stream: Stream) -> std::io::Result<()> {
        let mut reader = stream.reader()?;
        self.streams.insert((node, client), stream);
        let events = self.events.clone();
        thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            loop {
                let event = match reader.read(&mut buffer) {
                    Ok(0) | Err(_) => Event::Closed(node, client),
                    Ok(read) => Event::Bytes(node, client, buffer[..read].to_vec()),
                };
                let last = matches!(event, Event::Closed(..));
                if events.send(event).is_err() || last {
                    return;
                }
            }
        });
        Ok(())
    }

    fn carry_out(&mut self, node: usize, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Reply { client, bytes } => {
                    self.recorder.bytes(node, client, '<', &bytes.to_vec());
                    for piece in bytes.slices() {
                        if let Some(stream) = self.streams.get_mut(&(node, client)) {
                            // A rank that is gone shows by its end.
                            let _ = stream.write(piece);
                        }
                    }
                }
                Effect::Exchange { sequence, blob } => self.exchange(node, sequence, blob),
                Effect::FetchModex { node: other, rank } => {
                    let answer = self.servers[other as usize].modex_requested(node as u32, rank);
                    self.carry_out(other as usize, answer);
                }
                Effect::AnswerModex { node: asker, rank, blob } => {
                    let served = self.servers[asker as usize].modex(rank, blob.as_deref());
                    self.carry_out(asker as usize, served);
                }
                Effect::Abort { rank, code, message } => {
                    eprintln!("loopback: rank {rank} aborts with code {code}: {message}");
                    self.failed.get_or_insert(code);
                    self.kill();
                }
                Effect::Deserted { rank, .. } => {
                    eprintln!("loopback: others wait for rank {rank}, which has ended");
                    self.failed.get_or_insert(1);
                    self.kill();
                }
                Effect::Close { client } => {
                    if let Some(stream) = self.streams.get(&(node, client)) {
                        stream.close();
                    }
                }
                Effect::Cleanup(cleanup) => self.cleanups.push(cleanup),
                Effect::Wire { protocol, .. } => *self.wires.entry(protocol).or_default() += 1,
                Effect::Timer { id, after } => {
                    let events = self.events.clone();
                    thread::spawn(move || {
                        thread::sleep(after);
                        // Nobody listens when all is over.
                        let _ = events.send(Event::Fired(node, id));
                    });
                }
            }
        }
    }

    fn exchange(&mut self, node: usize, sequence: Sequence, blob: Vec<u8>) {
        let blobs = self.exchanges.entry(sequence.to_u64()).or_default();
        blobs.push((node as u32, blob.into()));
        if blobs.len() == self.servers.len() {
            let blobs = self.exchanges.remove(&sequence.to_u64()).unwrap_or_default();
            for node in 0..self.servers.len() {
                let effects = self.servers[node].exchanged(sequence, &blobs);
                self.carry_out(node, effects);
            }
        }
    }

    fn kill(&self) {
        let mut children = self.children.lock().expect("no holder of the lock panics");
        for child in children.values_mut() {
            // One that has ended already needs no killing.
            let _ = child.kill();
        }
    }

    fn run(&mut self, events: &Receiver<Event>, ranks: u32) -> Result<i32, Box<dyn Error>> {
        let mut alive = ranks;
        while alive > 0 {
            match events.recv()? {
                Event::PmiPort(node, stream) => {
                    let client = self.servers[node].connect_tcp_pmi();
                    self.recorder.note(node, client, format_args!("port"));
                    self.connect(node, client, Stream::Port(stream))?;
                }
                Event::PmixPort(node, stream) => {
                    let client = self.servers[node].connect_pmix();
                    self.recorder.note(node, client, format_args!("pmix"));
                    self.connect(node, client, Stream::Port(stream))?;
                }
                Event::Bytes(node, client, bytes) => {
                    self.recorder.bytes(node, client, '>', &bytes);
                    let effects = self.servers[node].receive(client, &bytes);
                    self.carry_out(node, effects);
                }
                Event::Closed(node, client) => {
                    self.recorder.note(node, client, format_args!("closed"));
                    self.streams.remove(&(node, client));
                    let effects = self.servers[node].closed(client);
                    self.carry_out(node, effects);
                }
                Event::Fired(node, id) => {
                    let effects = self.servers[node].fired(id);
                    self.carry_out(node, effects);
                }
                Event::Exited(rank, status) => {
                    alive -= 1;
                    let status = status?;
                    let node = self.servers[0].layout().job().node_of(rank).unwrap_or_default();
                    let exit = if status.success() { Exit::Success } else { Exit::Failure };
                    let (state, effects) = self.servers[node as usize].rank_exited(rank, exit);
                    self.carry_out(node as usize, effects);
                    let own = status.code().or(status.signal().map(|s| 128 + s)).unwrap_or(1);
                    let open = own == 0 && state.left_open();
                    if open {
                        eprintln!("loopback: rank {rank} ended without finalizing");
                    }
                    if own != 0 || open {
                        self.failed.get_or_insert(if open { 1 } else { own });
                        self.kill();
                    }
                }
            }
        }
        Ok(self.failed.unwrap_or(0))
    }
}

/// Removes what ranks have registered. Most of it is gone when they end as they should.
fn clean_up(cleanup: &Cleanup) {
    let stays = |path: &String| cleanup.ignore.iter().any(|kept| kept.starts_with(path.as_str()));
    for path in cleanup.files.iter().filter(|path| !stays(path)) {
        let _ = std::fs::remove_file(path);
    }
    for path in cleanup.directories.iter().filter(|path| !stays(path)) {
        // Without `recursive`, only what is empty goes: an example needs no more.
        let _ = if cleanup.recursive && !cleanup.leave_top {
            std::fs::remove_dir_all(path)
        } else {
            std::fs::remove_dir(path)
        };
    }
}

fn listen(
    node: usize,
    events: Sender<Event>,
    event: fn(usize, TcpStream) -> Event,
) -> std::io::Result<std::net::SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            if stream.set_nodelay(true).is_err() || events.send(event(node, stream)).is_err() {
                return;
            }
        }
    });
    Ok(address)
}

/// Where a job's shared memory goes.
fn shared_memory(job: &Job) -> PathBuf {
    Path::new("/dev/shm").join(job.namespace())
}

/// Starts a rank. The shell moves the socket from standard input, where std can put it, to
/// descriptor 7.
fn start(
    settings: &Settings,
    layout: &Layout,
    rank: u32,
    transports: &Transports,
    pair: Option<UnixStream>,
) -> std::io::Result<Child> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "exec 7<&0 </dev/null; exec \"$@\"", "sh"]).args(&settings.command);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(must_not_leak) {
            command.env_remove(name);
        }
    }
    command.envs(layout.environment(rank, transports, settings.offer));
    // Nodes share this machine's memory and name, by which Open MPI 4 tells its files apart.
    let shm = shared_memory(layout.job()).join(layout.host());
    command.env("OMPI_MCA_btl_vader_backing_directory", shm);
    command.stdin(pair.map_or_else(Stdio::null, |stream| Stdio::from(OwnedFd::from(stream))));
    command.spawn()
}

fn launch(settings: &Settings) -> Result<i32, Box<dyn Error>> {
    let nodes = settings.nodes.clamp(1, settings.ranks.max(1));
    let place = |rank| if settings.cyclic { rank % nodes } else { rank * nodes / settings.ranks };
    let node_of: Vec<u32> = (0..settings.ranks).map(place).collect();
    let job = Job::new(JobSpec {
        namespace: format!("loopback-{}", std::process::id()),
        id: "1".into(),
        hosts: (0..nodes).map(|node| format!("node-{node}")).collect(),
        node_of,
        ..JobSpec::default()
    })?;
    let mut record = settings.record.as_ref().map(File::create).transpose()?;
    if let Some(file) = &mut record {
        let nodes: Vec<String> =
            (0..job.size()).filter_map(|rank| job.node_of(rank)).map(|n| n.to_string()).collect();
        writeln!(file, "job {} {} {}", job.namespace(), job.hosts().join(","), nodes.join(","))?;
    }
    let tmp = std::env::temp_dir().join(job.namespace());
    let shm = shared_memory(&job);
    let (events, received) = channel();
    let children = Arc::new(Mutex::new(HashMap::new()));
    let mut launcher = Launcher {
        servers: Vec::new(),
        streams: HashMap::new(),
        exchanges: BTreeMap::new(),
        events: events.clone(),
        recorder: Recorder(record),
        children: children.clone(),
        wires: BTreeMap::new(),
        cleanups: Vec::new(),
        failed: None,
    };
    for node in 0..nodes as usize {
        let own = tmp.join(format!("node-{node}"));
        std::fs::create_dir_all(&own)?;
        let layout = Layout::new(job.clone(), node as u32, own.to_string_lossy())?;
        std::fs::create_dir_all(shm.join(layout.host()))?;
        launcher.servers.push(JobServer::new(layout.clone(), Options::default()));
        let pmi = listen(node, events.clone(), Event::PmiPort)?;
        let pmix = listen(node, events.clone(), Event::PmixPort)?;
        for &rank in layout.local_ranks() {
            let transports = Transports {
                pmi_fd: (!settings.port).then_some(7),
                pmi_port: settings.port.then_some(pmi),
                pmix_port: Some(pmix.port()),
            };
            let (ours, theirs) = UnixStream::pair()?;
            let client = launcher.servers[node].connect_fd(rank);
            launcher.recorder.note(node, client, format_args!("pair {rank}"));
            launcher.connect(node, client, Stream::Pair(ours))?;
            let child = start(settings, &layout, rank, &transports, Some(theirs))?;
            let mut running = children.lock().map_err(|_| "a thread has failed")?;
            running.insert(rank, child);
        }
    }
    for rank in 0..settings.ranks {
        let (events, children) = (events.clone(), children.clone());
        thread::spawn(move || {
            loop {
                let ended = {
                    let mut children = children.lock().expect("no holder of the lock panics");
                    children.get_mut(&rank).map(Child::try_wait)
                };
                let status = match ended {
                    Some(Ok(None)) => {
                        thread::sleep(std::time::Duration::from_millis(5));
                        continue;
                    }
                    Some(Ok(Some(status))) => Ok(status),
                    Some(Err(error)) => Err(error),
                    None => return,
                };
                let _ = events.send(Event::Exited(rank, status));
                return;
            }
        });
    }
    let code = launcher.run(&received, settings.ranks)?;
    launcher.cleanups.iter().for_each(clean_up);
    std::fs::remove_dir_all(&tmp)?;
    std::fs::remove_dir_all(&shm)?;
    let wires: Vec<String> = launcher.wires.iter().map(|(p, n)| format!("{p} {n}")).collect();
    eprintln!("loopback: exit {code}, wires: {}", wires.join(", "));
    Ok(code)
}

fn main() -> ExitCode {
    let settings = Settings::parse(std::env::args().skip(1));
    match settings.and_then(|settings| launch(&settings)) {
        Ok(code) => ExitCode::from(u8::try_from(code & 0xff).unwrap_or(1)),
        Err(error) => {
            eprintln!("loopback: {error}");
            ExitCode::from(2)
        }
    }
}
