//! `quorate-agent broker`: one broker from its settings to its exit code.
//!
//! ```text
//!   flags ─▶ supervisor ─▶ settings, keys, sockets ─▶ node task ─▶ course ─▶ report, exit code
//! ```
//!
//! This module puts a broker together; what it does in each state is in [`super::course`].

use super::course::Course;
use super::inventory::Inventory;
use super::link::{self, Dialer};
use super::observe::Observers;
use super::services::{Launching, Services};
use super::shell::{Ends, Shell};
use super::verbs;
use crate::local::server;
use crate::net::resolve::{Pace, Resolver};
use crate::net::tls::Tls;
use crate::report::leave_report;
use crate::settings::{Flags, Settings, termination_log};
use crate::supervisor::supervise;
use crate::sys;
use anyhow::Context;
use quorate_contract::exit;
use quorate_contract::keys::{Keyring, Seed};
use quorate_contract::report::{Reason, Report};
use quorate_overlay::{BootId, Config, Millis, Timing};
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::net::TcpListener;

/// In the run directory: the broker's process id.
pub(crate) const PID_FILE: &str = "broker.pid";

/// How long an address that somebody has is waited for.
const ADDRESS_WAIT: Duration = Duration::from_secs(3);
/// The pause between two tries.
const ADDRESS_STEP: Duration = Duration::from_millis(5);
/// The longest wait between two tries to find a parent in a small cluster.
const SHORTEST_LIMIT: Millis = Millis(300);
/// The shortest between two questions for its name.
const SOONEST: Millis = Millis(20);
/// A dial waits so long for the name of a parent before it says that there is none.
const NAME_WAIT: Millis = Millis(1_000);

/// Be this pod's broker: the command of the pod's main container
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub(crate) flags: Flags,
    /// A listening socket that was left open for this process
    #[arg(long, value_name = "FD", hide = true)]
    pub(crate) listen_fd: Option<i32>,
    /// A descriptor to hold open for as long as this pod lives
    #[arg(long, value_name = "FD", hide = true)]
    pub(crate) hold_fd: Option<i32>,
    /// Stop when the process that started this one ends
    #[arg(long, hide = true)]
    pub(crate) with_parent: bool,
}

/// Runs the verb.
pub fn run(args: &Args, launching: &Arc<dyn Launching>) -> anyhow::Result<i32> {
    if args.with_parent {
        sys::die_with_parent(nix::sys::signal::Signal::SIGTERM)
            .context("cannot watch the parent")?;
    }
    let _held = args.hold_fd.map(sys::adopt).transpose().context("--hold-fd is not open")?;
    let listener = args.listen_fd.map(sys::adopt).transpose().context("--listen-fd is not open")?;
    let flags = &args.flags;
    let code = supervise(&termination_log(flags), &|| broker(flags, listener.as_ref(), launching));
    // Without a process to be had there is no broker, but still somebody who asks why.
    Ok(code.unwrap_or_else(|error| give_up(flags, exit::FAILED, &error.into())))
}

/// The broker process: its settings, its runtime, its life.
fn broker(flags: &Flags, listener: Option<&OwnedFd>, launching: &Arc<dyn Launching>) -> i32 {
    crate::logs::start();
    let started = unix_millis();
    let variable = |name: &str| std::env::var(name).ok();
    let settings = match Settings::read(flags, &variable) {
        Ok(settings) => settings,
        Err(error) => {
            let error = anyhow::Error::from(error);
            return give_up(flags, exit::USAGE, &error);
        }
    };
    let (settings, seed) = settings;
    let live = || -> anyhow::Result<i32> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the broker's runtime")?;
        let code = runtime.block_on(live(settings, seed, listener, launching, started))?;
        // Handlers of calls that still wait for something must not hold up the end.
        runtime.shutdown_background();
        Ok(code)
    };
    live().unwrap_or_else(|error| give_up(flags, exit::FAILED, &error))
}

/// Ends a broker that cannot begin.
fn give_up(flags: &Flags, code: i32, error: &anyhow::Error) -> i32 {
    let message = format!("{error:#}");
    sys::complain(&message);
    leave_report(&termination_log(flags), &Report::new(code, Reason::Environment, message));
    code
}

async fn live(
    settings: Settings,
    seed: Seed,
    listener: Option<&OwnedFd>,
    launching: &Arc<dyn Launching>,
    started: u64,
) -> anyhow::Result<i32> {
    let settings = Arc::new(settings);
    let writable = || format!("the run directory {} must be writable", settings.run_dir.display());
    fs::create_dir_all(settings.run_dir.join("tasks")).with_context(writable)?;
    fs::write(settings.run_dir.join(PID_FILE), std::process::id().to_string())
        .with_context(writable)?;
    let inventory = Arc::new(Inventory::detect(&settings));
    let keyring = Keyring::new(&seed, &settings.config.cluster.uid);
    // Wiped: from here on there are only keys.
    drop(seed);
    let tls = Arc::new(Tls::new(keyring, settings.rank, settings.attempt));
    let book = settings.book.clone();
    let own = book.as_ref().and_then(|book| book.get(&settings.rank).copied());
    let listener = listen(&settings, listener, own)?;
    let config = node_config(&settings, &inventory)?;
    let pace = pace(config.size, &config.timing);
    let dialer = Dialer { tls: tls.clone(), resolver: Resolver::default(), pace, book };
    tracing::info!(
        rank = settings.rank,
        attempt = settings.attempt,
        boot = %config.boot,
        name = settings.display_name(),
        "broker started"
    );

    let (shell, Ends { overlay, services, to_node, counters, life }) =
        Shell::new(settings.clone(), config, &inventory, dialer);
    let mut table = Services::default();
    verbs::register(&overlay, &mut table);
    launching.register(&overlay, &mut table);
    services.set(table).expect("the table is set once, here");
    let socket = settings.socket();
    let local = server::bind(&socket)
        .with_context(|| format!("cannot make the local socket {}", socket.display()))?;
    let observers = Observers::new(overlay.clone(), counters);
    let course = Course::new(overlay, launching.clone(), started);
    let course = course.context("cannot watch signals")?;
    tokio::spawn(link::accept(listener, tls, to_node, observers, services.clone()));
    tokio::spawn(server::serve(local, services));
    let node = tokio::spawn(shell.run());

    let report = course.run(life).await;
    // The node's last words, to neighbours that wait for them.
    let _ = node.await;
    let _ = fs::remove_file(&socket);
    tracing::info!(code = report.exit_code, reason = report.reason.as_str(), "broker ended");
    leave_report(&settings.termination_log, &report);
    Ok(report.exit_code)
}

/// The socket that other brokers connect to: one that was handed over, the address book's, or the
/// configured port on all addresses.
fn listen(
    settings: &Settings,
    handed_over: Option<&OwnedFd>,
    own: Option<SocketAddr>,
) -> anyhow::Result<TcpListener> {
    if let Some(descriptor) = handed_over {
        let listener = std::net::TcpListener::from(descriptor.try_clone()?);
        listener.set_nonblocking(true)?;
        return TcpListener::from_std(listener).context("cannot use the inherited socket");
    }
    let port = settings.config.port(settings.rank);
    let any: [SocketAddr; 2] =
        [(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()];
    let candidates = own.map_or(any.to_vec(), |address| vec![address]);
    let mut last = None;
    for address in candidates {
        match bind_when_free(address) {
            Ok(listener) => return Ok(listener),
            // Without IPv6 the first cannot be had, with it the second is not needed.
            Err(error) => last = last.or(Some((address, error))),
        }
    }
    let (address, error) = last.expect("there is at least one candidate");
    Err(error).with_context(|| {
        format!(
            "cannot listen on port {}: if another program has it, set bootstrap.port to a free one",
            address.port()
        )
    })
}

/// Binds, and waits a while for who has the address. When the broker before this one was killed while it
/// started a task, that child has its socket until it becomes the task; only then can it be found and
/// ended.
fn bind_when_free(address: SocketAddr) -> std::io::Result<TcpListener> {
    let deadline = std::time::Instant::now() + ADDRESS_WAIT;
    loop {
        match bind(address) {
            Err(error)
                if error.kind() == std::io::ErrorKind::AddrInUse
                    && std::time::Instant::now() < deadline =>
            {
                // Nothing else runs in this process yet.
                std::thread::sleep(ADDRESS_STEP);
            }
            outcome => return outcome,
        }
    }
}

fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => tokio::net::TcpSocket::new_v4()?,
        SocketAddr::V6(_) => tokio::net::TcpSocket::new_v6()?,
    };
    // A broker that is started again must not wait for connections of its former life.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(1024)
}

/// What the node is told.
fn node_config(settings: &Settings, inventory: &Inventory) -> anyhow::Result<Config> {
    let mut random = [0; 24];
    getrandom::fill(&mut random).map_err(std::io::Error::other).context("no random numbers")?;
    let (boot, seed) = random.split_at(16);
    let boot = u128::from_be_bytes(boot.try_into().expect("the first part has 16 bytes"));
    let seed = u64::from_be_bytes(seed.try_into().expect("the second part has 8 bytes"));
    let config = &settings.config;
    Ok(Config {
        rank: settings.rank,
        size: config.size,
        min_size: config.min_size,
        max_size: config.max_size,
        fanout: config.bootstrap.fanout,
        cluster: config.cluster.uid.clone(),
        attempt: settings.attempt,
        boot: BootId(boot.max(1)),
        inventory: inventory.to_wire(),
        timing: timing(settings)?,
        seed,
    })
}

fn timing(settings: &Settings) -> anyhow::Result<Timing> {
    let bootstrap = &settings.config.bootstrap;
    let orphan = Millis(u64::from(bootstrap.orphan_timeout_seconds) * 1000);
    let usual = Timing::default();
    let patience = Timing {
        orphan_timeout: orphan,
        // A broker gives itself up before its parent gives it up.
        lost_after: usual.lost_after.max(Millis(orphan.0 + orphan.0 / 3)),
        dial_backoff_max: longest_wait(settings.config.size, &usual),
        ..usual
    };
    let timing = Timing {
        bootstrap_timeout: Millis(u64::from(bootstrap.timeout_seconds) * 1000),
        ..patience.scaled(1000 / u64::from(settings.haste).min(1000))
    };
    timing.check().context("bootstrap.orphanTimeoutSeconds of the configuration is too short")?;
    Ok(timing)
}

/// The longest wait between two tries to find a parent: what a small cluster's start is late by at the
/// most. All brokers of a large one together ask name servers some thousand times a second.
fn longest_wait(size: u32, usual: &Timing) -> Millis {
    Millis(u64::from(size).clamp(SHORTEST_LIMIT.0, usual.dial_backoff_max.0))
}

/// How the name of a parent is waited for. All brokers of a cluster together ask a name server a thousand
/// times a second at the most, and less and less often.
fn pace(size: u32, timing: &Timing) -> Pace {
    let span = |millis: Millis| Duration::from_millis(millis.0);
    Pace {
        shortest: span(
            Millis(u64::from(size)).clamp(SOONEST, timing.dial_backoff_max.max(SOONEST)),
        ),
        longest: span(timing.dial_backoff_max),
        patience: span(NAME_WAIT.min(Millis(timing.dial_timeout.0 / 2))),
    }
}

/// Milliseconds since the Unix epoch, for reports.
pub(crate) fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |span| span.as_millis() as u64)
}
