//! What `quorate run` was asked to run: the MiniCluster of a file or of flags.

use crate::args::{MpiArg, RunArgs};
use crate::identity;
use crate::refusal::{Findings, Refusal};
use anyhow::Context as _;
use k8s_openapi::api::core::v1::EnvVar;
use quorate_api::minicluster::{
    MiniCluster, MiniClusterSpec, MpiStart, Parallel, Program, Variable,
};
use quorate_api::{Target, ValidatedMiniCluster, load, validate};
use std::io::Read as _;

/// What was asked for.
pub(crate) struct Wanted {
    /// The object as the user gave it.
    pub(crate) object: MiniCluster,
    /// The form that the plan takes.
    pub(crate) cluster: ValidatedMiniCluster,
    /// The file's name for people; none for flags.
    pub(crate) file: Option<String>,
}

/// The cluster of a file or of flags.
pub(crate) fn cluster(args: &RunArgs, target: Target) -> anyhow::Result<Wanted> {
    let Some(first) = args.words.first() else {
        return Err(Refusal::usage("there is nothing to run")
            .hint("give a file, `quorate run hello.yaml`, or a command, `quorate run -N 4 -- ./hello`")
            .into());
    };
    if !args.names_a_command() {
        if args.describes_a_cluster() {
            return Err(Refusal::usage(format!(
                "-N, -n, -c, -l, -e, --mpi, --image and --script describe a cluster, and {first} does \
                 so already"
            ))
            .hint("write it into the file, or give a command instead of a file")
            .into());
        }
        return from_file(first, args.name.as_deref(), target);
    }
    if target == Target::Kubernetes && args.image.is_none() {
        return Err(Refusal::usage("--image is missing: pods on Kubernetes are made of one")
            .hint("name the image that has the program, `--image example/app:v1`")
            .into());
    }
    let object = from_flags(args)?;
    let cluster =
        validate(&object, target).map_err(|findings| Findings { file: None, findings })?;
    Ok(Wanted { object, cluster, file: None })
}

/// Whether a word is a file rather than a command.
pub(crate) fn is_file_name(word: &str) -> bool {
    let has = |end: &str| word.len() > end.len() && word.ends_with(end);
    word == "-" || has(".yaml") || has(".yml") || has(".json")
}

fn from_file(file: &str, name: Option<&str>, target: Target) -> anyhow::Result<Wanted> {
    let text = read(file)?;
    let shown = if file == "-" { "standard input" } else { file };
    let refuse = |findings| Findings { file: Some(shown.to_owned()), findings };
    let document = load(&text, target).map_err(refuse)?;
    let mut object = document.object;
    let cluster = match name {
        None => document.validated,
        Some(name) => {
            object.metadata.name = Some(name.to_owned());
            validate(&object, target).map_err(refuse)?
        }
    };
    Ok(Wanted { object, cluster, file: Some(shown.to_owned()) })
}

/// A file's text; `-` is standard input.
pub(crate) fn read(file: &str) -> anyhow::Result<String> {
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
    let mut spec = MiniClusterSpec {
        size: Some(pods),
        image: args.image.clone(),
        ..MiniClusterSpec::default()
    };
    let program = if args.script {
        spec.env = args
            .env
            .iter()
            .map(|(name, value)| EnvVar {
                name: name.clone(),
                value: Some(value.clone()),
                value_from: None,
            })
            .collect();
        Program { command: args.words.clone(), ..Program::default() }
    } else {
        // What the user asks for is what each pod takes, whatever its machine has.
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
