//! `quorate run`: a MiniCluster on this machine, from a file or from flags.

use super::{registry, variable};
use crate::args::{Loudness, MpiArg, RunArgs, SandboxArg, SummaryFormat};
use crate::control::Channel;
use crate::front::{Departure, Front};
use crate::keeper::{self, KeeperInput, Sandbox};
use crate::player::Player;
use crate::pods::LocalObjects;
use crate::progress::{Marks, Progress, summary};
use crate::refusal::{Findings, Refusal};
use crate::registry::RegistryError;
use crate::sandbox::{Identity, SandboxError, explain, isolate_signals};
use crate::terminal::{Style, print, write_stderr};
use crate::{agent, identity};
use anyhow::Context as _;
use nix::sys::signal::Signal;
use nix::sys::signalfd::{SfdFlags, SignalFd};
use quorate_api::minicluster::{
    MiniCluster, MiniClusterSpec, MpiStart, Parallel, Program, Variable,
};
use quorate_api::validate::ValidatedProgram;
use quorate_api::{Target, ValidatedMiniCluster, load, validate};
use quorate_plan::{Context, Seed};
use std::fs::File;
use std::io::{IsTerminal as _, Read as _};
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
    let wanted = cluster(args)?;
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
    let context =
        Context { agent_image: agent.display().to_string(), cluster_domain: Some(DOMAIN.into()) };
    let plan = quorate_plan::plan(&cluster, &context, &Seed::new(seed));
    let player = Player::new(plan.jobset.spec.clone())?;
    let objects = LocalObjects {
        jobset: plan.jobset,
        config_maps: vec![plan.config_map],
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
        Departure::Left => left(&name, guest, loudness),
    }
}

struct Wanted {
    cluster: ValidatedMiniCluster,
    file: Option<String>,
}

/// The cluster of a file or of flags.
fn cluster(args: &RunArgs) -> anyhow::Result<Wanted> {
    let flags = args.nodes.is_some()
        || args.ntasks.is_some()
        || args.cpus_per_task.is_some()
        || args.label_io
        || args.mpi.is_some()
        || args.script
        || !args.env.is_empty();
    let Some(first) = args.words.first() else {
        return Err(Refusal::usage("there is nothing to run")
            .hint("give a file, `quorate run hello.yaml`, or a command, `quorate run -N 4 -- ./hello`")
            .into());
    };
    if args.words.len() == 1 && is_file_name(first) {
        if flags {
            return Err(Refusal::usage(format!(
                "-N, -n, -c, -l, -e, --mpi and --script describe a cluster, and {first} does so already"
            ))
            .hint("write it into the file, or give a command instead of a file")
            .into());
        }
        return from_file(first, args.name.as_deref());
    }
    let object = from_flags(args)?;
    let cluster =
        validate(&object, Target::Local).map_err(|findings| Findings { file: None, findings })?;
    Ok(Wanted { cluster, file: None })
}

fn is_file_name(word: &str) -> bool {
    let has = |end: &str| word.len() > end.len() && word.ends_with(end);
    word == "-" || has(".yaml") || has(".yml") || has(".json")
}

fn from_file(file: &str, name: Option<&str>) -> anyhow::Result<Wanted> {
    let text = read(file)?;
    let shown = if file == "-" { "standard input" } else { file };
    let refuse = |findings| Findings { file: Some(shown.to_owned()), findings };
    let document = load(&text, Target::Local).map_err(refuse)?;
    let cluster = match name {
        None => document.validated,
        Some(name) => {
            let mut object = document.object;
            object.metadata.name = Some(name.to_owned());
            validate(&object, Target::Local).map_err(refuse)?
        }
    };
    Ok(Wanted { cluster, file: Some(shown.to_owned()) })
}

/// A file's text; `-` is standard input.
pub(super) fn read(file: &str) -> anyhow::Result<String> {
    if file == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        return Ok(text);
    }
    std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))
}

/// A MiniCluster from `-N`, `-n` and the rest.
fn from_flags(args: &RunArgs) -> anyhow::Result<MiniCluster> {
    let pods = args.nodes.unwrap_or(1);
    let name = match &args.name {
        Some(name) => name.clone(),
        None => identity::cluster_name(args.words.first().map_or("", String::as_str))?,
    };
    let mut spec = MiniClusterSpec { size: Some(pods), ..MiniClusterSpec::default() };
    let program = if args.script {
        Program { command: args.words.clone(), ..Program::default() }
    } else {
        // What the user asks for is what each pod takes, whatever this machine has.
        if let Some(tasks) = args.ntasks {
            spec.slots =
                Some((tasks.saturating_add(pods - 1) / pods) * args.cpus_per_task.unwrap_or(1));
        }
        let parallel = Parallel {
            command: args.words.clone(),
            tasks: args.ntasks,
            tasks_per_node: args.ntasks.is_none().then_some(1),
            cpus_per_task: args.cpus_per_task,
            label_io: args.label_io,
            mpi: args.mpi.map_or(MpiStart::Auto, way),
            env: args
                .env
                .iter()
                .map(|(name, value)| Variable { name: name.clone(), value: value.clone() })
                .collect(),
            ..Parallel::default()
        };
        Program { parallel: Some(parallel), ..Program::default() }
    };
    if args.script {
        spec.env = args
            .env
            .iter()
            .map(|(name, value)| k8s_openapi::api::core::v1::EnvVar {
                name: name.clone(),
                value: Some(value.clone()),
                value_from: None,
            })
            .collect();
    }
    spec.program = Some(program);
    Ok(MiniCluster::new(&name, spec))
}

fn way(mpi: MpiArg) -> MpiStart {
    match mpi {
        MpiArg::Auto => MpiStart::Auto,
        MpiArg::Pmi1 => MpiStart::Pmi1,
        MpiArg::Pmi2 => MpiStart::Pmi2,
        MpiArg::Pmix => MpiStart::Pmix,
        MpiArg::None => MpiStart::None,
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
fn left(name: &str, guest: Option<ValidatedProgram>, loudness: Loudness) -> anyhow::Result<i32> {
    let code = match guest {
        None | Some(ValidatedProgram::None) => 0,
        Some(ValidatedProgram::Command { argv }) => super::enter::run_in_launcher(name, &argv)?,
        Some(ValidatedProgram::Parallel(parallel)) => {
            let mut argv: Vec<String> = vec![quorate_contract::paths::AGENT.into(), "run".into()];
            let mut flag = |name: &str, value: Option<u32>| {
                argv.extend(value.map(|value| format!("{name}={value}")));
            };
            flag("--ntasks", parallel.tasks);
            flag("--tasks-per-node", parallel.tasks_per_node);
            flag("--cpus-per-task", parallel.cpus_per_task);
            if parallel.oversubscribe {
                argv.push("--oversubscribe".into());
            }
            if parallel.label_io {
                argv.push("--label-io".into());
            }
            for (name, value) in &parallel.env {
                argv.push(format!("--env={name}={value}"));
            }
            if let Some(dir) = &parallel.working_dir {
                argv.push(format!("--cwd={dir}"));
            }
            argv.push("--".into());
            argv.extend(parallel.argv);
            super::enter::run_in_launcher(name, &argv)?
        }
    };
    if !loudness.quiet {
        write_stderr(&format!(
            "{name} stays up: `quorate shell {name}` enters it, `quorate delete {name}` ends it\n"
        ));
    }
    Ok(code)
}
