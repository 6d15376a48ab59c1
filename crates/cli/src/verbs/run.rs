//! `quorate run`: a MiniCluster on this machine, from a file or from flags.

use super::{guest, registry, variable, wanted};
use crate::args::{Loudness, RunArgs, SandboxArg, SummaryFormat};
use crate::control::Channel;
use crate::front::{Departure, Front};
use crate::keeper::{self, KeeperInput, Sandbox};
use crate::player::Player;
use crate::pods::LocalObjects;
use crate::progress::{Marks, Progress, summary};
use crate::refusal::Refusal;
use crate::registry::RegistryError;
use crate::sandbox::{Identity, SandboxError, explain, isolate_signals};
use crate::terminal::{Style, print, write_stderr};
use crate::{agent, identity};
use anyhow::Context as _;
use nix::sys::signal::Signal;
use nix::sys::signalfd::{SfdFlags, SignalFd};
use quorate_api::Target;
use quorate_api::validate::ValidatedProgram;
use quorate_contract::paths;
use quorate_plan::{Context, Delivery, Seed};
use std::fs::File;
use std::io::IsTerminal as _;
use std::os::fd::OwnedFd;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The signals that a user ends a run with.
const SIGNALS: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
/// The domain of the names that pods have here.
const DOMAIN: &str = "cluster.local";

pub(super) fn run(args: &RunArgs, loudness: Loudness) -> anyhow::Result<i32> {
    let started = Instant::now();
    let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    let agent = agent::find(variable, std::env::current_exe().ok().as_deref())?;
    let wanted = wanted::cluster(args, Target::Local)?;
    for warning in &wanted.cluster.warnings {
        if !loudness.quiet {
            write_stderr(&format!("{}\n", warning.render(wanted.file.as_deref())));
        }
    }
    if wanted.cluster.suspend == Some(true) {
        return Err(Refusal::usage("spec.suspend is true: nothing would ever start here")
            .hint("remove it, or set it to false")
            .into());
    }
    let mut cluster = wanted.cluster.with_uid(identity::uid()?);
    // A cluster that stays runs its first program as a guest, so that it outlives it.
    let guest = args.keep.then(|| std::mem::replace(&mut cluster.program, ValidatedProgram::None));
    let has_program = cluster.program != ValidatedProgram::None;
    let name = cluster.name.to_string();
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    let agent_there = match args.sandbox {
        SandboxArg::Namespaces => paths::AGENT.to_owned(),
        SandboxArg::None => agent.display().to_string(),
    };
    let context = Context {
        agent_image: agent.display().to_string(),
        agent_delivery: Delivery::Copy,
        port_forward: true,
        cluster_domain: Some(DOMAIN.into()),
    };
    let plan = quorate_plan::plan(&cluster, &context, &Seed::new(seed));
    let player = Player::new(plan.jobset.spec.clone())?;
    let objects = LocalObjects {
        jobset: plan.jobset,
        secrets: vec![plan.secret],
        node: node_name(),
        environment: environment(loudness),
        working_dir: std::env::current_dir().context("cannot find the current directory")?,
        agent,
    };
    let dir = registry()?.create(&name).map_err(refuse_name)?;
    let sandbox = match args.sandbox {
        SandboxArg::Namespaces => Sandbox::Namespaces,
        SandboxArg::None => {
            warn_of_no_sandbox(loudness);
            Sandbox::None
        }
    };
    let style = Style::detect(variable);
    let marks = Marks::of(&style);
    let size = cluster.size;
    let mut progress = Progress::new(&name, size, marks, style.redraw, loudness.quiet, epoch);
    if !has_program {
        progress = progress.without_program();
    }
    let launcher = objects.hosts().first().map(|h| format!("{}-{}-{}", h.group, h.job, h.index));
    if let (ValidatedProgram::Command { argv }, Some(launcher)) = (&cluster.program, &launcher) {
        let program = argv.first().map_or("", String::as_str);
        progress = progress.with_command(format!("{program} on {launcher}"));
    }
    let (front, channel) = Channel::pair().context("cannot make a socket")?;
    let (stdin, typed) = input(has_program)?;
    let signals = isolate_signals(&SIGNALS)
        .and_then(|set| SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK))
        .context("cannot wait for signals")?;
    let lock = dir.lock.try_clone().context("cannot hold the cluster's lock")?;
    let input = KeeperInput {
        identity: Identity::of_caller(),
        sandbox,
        objects,
        player,
        dir: dir.path.clone(),
        lock: lock.into(),
        front: Some(channel),
        stdin,
        wants_output: has_program,
    };
    let keeper = match keeper::start(input, started) {
        Ok(keeper) => keeper,
        Err(error) => {
            dir.remove();
            return Err(forbidden(&error));
        }
    };
    let front = Front {
        channel: front,
        keeper,
        dir,
        progress,
        redraw: style.redraw && !loudness.quiet,
        launcher: launcher.unwrap_or_default(),
        signals,
        typed,
        leave: args.keep,
        started,
        width: style.width,
    };
    match front.follow()? {
        Departure::Ended { finish, .. } if finish.reason == "Forbidden" => {
            Err(refuse_sandbox(&finish.message))
        }
        Departure::Ended { finish, report, wall } => {
            if let Some(format) = args.output {
                let summary = summary(&name, size, &finish, report.as_deref(), epoch, wall);
                let text = match format {
                    SummaryFormat::Json => serde_json::to_string_pretty(&summary)? + "\n",
                    SummaryFormat::Yaml => serde_saphyr::to_string(&summary)?,
                };
                print(&text)?;
            }
            Ok(finish.code)
        }
        Departure::Left => left(&name, guest.as_ref(), &agent_there, loudness),
    }
}

/// The launcher's standard input: this program's own, unless it is a terminal, which can only be
/// read by processes of its session.
fn input(has_program: bool) -> anyhow::Result<(OwnedFd, Option<OwnedFd>)> {
    let stdin = std::io::stdin();
    if !has_program {
        return Ok((File::open("/dev/null")?.into(), None));
    }
    if stdin.is_terminal() {
        let (read, write) = std::io::pipe().context("cannot make a pipe")?;
        return Ok((read.into(), Some(write.into())));
    }
    let own = std::os::fd::AsFd::as_fd(&stdin).try_clone_to_owned();
    // A caller that closed it wants no input.
    Ok((own.or_else(|_| File::open("/dev/null").map(OwnedFd::from))?, None))
}

/// The caller's environment. Brokers keep their own log to themselves unless it is wanted: what
/// matters of it is in the report.
fn environment(loudness: Loudness) -> Vec<(String, String)> {
    let mut env: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let level = match loudness.verbose {
        0 => "error",
        1 => "info",
        _ => "debug",
    };
    let log = quorate_contract::env::LOG;
    if loudness.verbose > 0 || !env.iter().any(|(name, _)| name == log) {
        env.push((log.to_owned(), level.to_owned()));
    }
    env
}

fn node_name() -> String {
    nix::unistd::gethostname()
        .ok()
        .and_then(|name| name.into_string().ok())
        .unwrap_or_else(|| "localhost".to_owned())
}

fn refuse_name(error: RegistryError) -> anyhow::Error {
    match error {
        RegistryError::Exists { ref name } => {
            let end = format!("end it with `quorate delete {name}`, or choose another --name");
            anyhow::Error::new(Refusal::new(error.to_string()).hint(end))
        }
        other => anyhow::Error::new(other),
    }
}

fn warn_of_no_sandbox(loudness: Loudness) {
    if !loudness.quiet {
        write_stderr(
            "warning: no sandbox: pods share this machine's name, network, processes and /dev/shm; \
             their host names do not resolve for programs, and the volumes and directories of a pod \
             are not mounted\n",
        );
    }
}

fn forbidden(error: &SandboxError) -> anyhow::Error {
    refuse_sandbox(&explain(error).to_string())
}

fn refuse_sandbox(why: &str) -> anyhow::Error {
    Refusal::new(format!("no MPI program can start: {why}"))
        .hint(
            "run as root, allow them, or use --sandbox none (pods share this machine's network and \
             processes)",
        )
        .into()
}

/// The cluster stays: its first program runs in it as any later one would.
fn left(
    name: &str,
    guest: Option<&ValidatedProgram>,
    agent: &str,
    loudness: Loudness,
) -> anyhow::Result<i32> {
    let argv = match guest {
        Some(program) => {
            guest::hand_over(program)?;
            guest::command(program, agent)
        }
        None => Vec::new(),
    };
    let code = if argv.is_empty() { 0 } else { super::enter::run_in_launcher(name, &argv)? };
    if !loudness.quiet {
        write_stderr(&format!(
            "{name} stays up: `quorate shell {name}` enters it, `quorate delete {name}` ends it\n"
        ));
    }
    Ok(code)
}
