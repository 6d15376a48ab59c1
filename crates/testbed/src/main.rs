//! `testbed`: a real Kubernetes on this machine, from the command line.
//!
//! Owns the command line alone; what it does is in the library.
#![forbid(unsafe_code)]
// It talks to the person at the terminal: status on stderr, results on stdout.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod show;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use quorate_testbed::addons::Addon;
use quorate_testbed::build::{self, BuildError};
use quorate_testbed::cluster;
use quorate_testbed::control::{self, NodeAction, Request};
use quorate_testbed::images::{self, Binaries, Name};
use quorate_testbed::layout::{Folder, Node, Runtime, Shape, check_name};
use quorate_testbed::modules::{MODULES, module};
use quorate_testbed::plan::Plan;
use quorate_testbed::{enter, guard, keeper, node};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// A real Kubernetes with several nodes in namespaces of this machine.
#[derive(Parser)]
#[command(name = "testbed", disable_version_flag = true)]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

/// Which cluster.
#[derive(clap::Args)]
struct Named {
    /// The cluster's name.
    #[arg(long, default_value = "quorate", global = true)]
    name: String,
}

impl Named {
    fn folder(&self) -> Result<Folder> {
        check_name(&self.name)?;
        Ok(Folder::new(&self.name))
    }
}

#[derive(Subcommand)]
enum Verb {
    /// Builds the programs of a cluster, once for each version of them.
    Build {
        /// Modules of e2e/kube; all by default.
        modules: Vec<String>,
    },
    /// The images that tests run.
    Images {
        #[command(subcommand)]
        verb: ImagesVerb,
    },
    /// Starts a cluster.
    Up {
        #[command(flatten)]
        named: Named,
        /// Nodes with kubelet and containerd; 3 by default, none with --kwok.
        #[arg(long)]
        nodes: Option<u8>,
        /// Nodes that run nothing, for scale.
        #[arg(long, value_name = "COUNT", default_value_t = 0)]
        kwok: u32,
        /// Notices a lost node after 9 s and evicts after 3 s more, instead of 40 s and 300 s.
        #[arg(long)]
        fast_eviction: bool,
        /// The DNS domain of services.
        #[arg(long, value_name = "DOMAIN", default_value = "cluster.local")]
        cluster_domain: String,
        /// The container runtime of the nodes.
        #[arg(long, value_enum, default_value_t, value_name = "RUNTIME")]
        runtime: Runtime,
        /// Controllers beside the core.
        #[arg(long, value_enum, value_delimiter = ',', value_name = "ADDON")]
        with: Vec<Addon>,
        /// Archives of images to load into every node.
        #[arg(long = "image", value_name = "FILE")]
        images: Vec<PathBuf>,
        /// Ends the cluster when this process ends.
        #[arg(long, value_name = "PID")]
        owner: Option<u32>,
        /// Copies the logs into this folder when the cluster ends.
        #[arg(long, value_name = "FOLDER")]
        logs: Option<PathBuf>,
    },
    /// Ends a cluster and proves that nothing of it is left.
    Down {
        #[command(flatten)]
        named: Named,
        /// All clusters of this machine.
        #[arg(long)]
        all: bool,
    },
    /// Shows a cluster.
    Status {
        #[command(flatten)]
        named: Named,
        /// As a table, or all of it as JSON.
        #[arg(short, long, value_enum, default_value_t)]
        output: show::Format,
    },
    /// Prints what a shell must set to use a cluster: `eval "$(testbed env)"`.
    Env {
        #[command(flatten)]
        named: Named,
    },
    /// Runs a command beside the control plane, where pods and services are reached by name.
    Exec {
        #[command(flatten)]
        named: Named,
        /// On this node instead.
        #[arg(long)]
        node: Option<String>,
        /// The command.
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Cuts a node off, or kills it with everything on it.
    Node {
        #[command(flatten)]
        named: Named,
        /// Which, such as n2.
        node: String,
        /// What to do.
        action: NodeAction,
    },
    /// Kills a component of the control plane and starts it again.
    Restart {
        #[command(flatten)]
        named: Named,
        /// Which: etcd, apiserver, kcm, scheduler, coredns, jobset.
        component: String,
    },
    /// Kills a component of the control plane.
    Stop {
        #[command(flatten)]
        named: Named,
        /// Which.
        component: String,
    },
    /// Starts a component that was stopped or has ended.
    Start {
        #[command(flatten)]
        named: Named,
        /// Which.
        component: String,
    },
    /// Loads archives of images into every node.
    Load {
        #[command(flatten)]
        named: Named,
        /// The archives.
        #[arg(required = true)]
        images: Vec<PathBuf>,
    },
    /// The parent of a keeper.
    #[command(hide = true)]
    Guard { cluster: String },
    /// PID 1 of a cluster.
    #[command(hide = true)]
    Keeper { cluster: String },
    /// The outer half of a node.
    #[command(hide = true)]
    NodeRun { cluster: String, node: String },
    /// PID 1 of a node.
    #[command(hide = true)]
    NodeInit { cluster: String, node: String },
    /// Runs a command in the namespaces of a process.
    #[command(hide = true)]
    Enter {
        target: u32,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<OsString>,
    },
    /// Becomes a command that ends with its parent.
    #[command(hide = true)]
    Become {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<OsString>,
    },
}

#[derive(Subcommand)]
enum ImagesVerb {
    /// Writes images into the cache, once for each content of them, and prints their archives.
    Build {
        /// Which; all by default.
        names: Vec<String>,
        /// The static quorate-agent; by default what `cargo xtask dist` built.
        #[arg(long, value_name = "FILE")]
        agent: Option<PathBuf>,
        /// The static quorate-controller; by default what `cargo xtask dist` built.
        #[arg(long, value_name = "FILE")]
        controller: Option<PathBuf>,
    },
    /// What images there are.
    List,
}

fn main() -> ExitCode {
    match run(Args::parse().verb) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(verb: Verb) -> Result<ExitCode> {
    let started = Instant::now();
    match verb {
        Verb::Build { modules } => {
            let all = MODULES.iter().map(|module| module.name.to_owned());
            let names = if modules.is_empty() { all.collect() } else { modules };
            for name in names {
                let row = module(&name).ok_or(BuildError::UnknownModule { name })?;
                let built = build::ensure(row, &mut |line| eprintln!("{line}"))?;
                println!("{}", built.bin().display());
            }
        }
        Verb::Images { verb } => run_images(verb)?,
        Verb::Up {
            named,
            nodes,
            kwok,
            fast_eviction,
            cluster_domain,
            runtime,
            with,
            images,
            owner,
            logs,
        } => {
            let nodes = nodes.unwrap_or(if kwok > 0 { 0 } else { 3 });
            let shape = Shape {
                name: named.name,
                nodes,
                fake_nodes: kwok,
                fast_eviction,
                cluster_domain,
                runtime,
                addons: with.into_iter().collect(),
                images,
                owner,
                logs,
            };
            let folder = cluster::up(shape, &mut |line| eprintln!("{line}"))?;
            eprintln!("cluster {} is up ({:.1} s)", folder.name(), started.elapsed().as_secs_f64());
            println!("{}", folder.outer_kubeconfig().display());
        }
        Verb::Down { named, all } => {
            let names = if all { cluster::names() } else { vec![named.name] };
            for name in names {
                let folder = Named { name }.folder()?;
                let (processes, namespaces) = cluster::down(&folder)?;
                eprintln!(
                    "cluster {} is down, {processes} processes and {namespaces} namespaces are \
                     gone, nothing is left ({:.1} s)",
                    folder.name(),
                    started.elapsed().as_secs_f64()
                );
            }
        }
        Verb::Status { named, output } => {
            show::status(&control::status(&named.folder()?)?, output)?;
        }
        Verb::Env { named } => show::environment(&named.folder()?)?,
        Verb::Exec { named, node, command } => {
            let folder = named.folder()?;
            let node = node.map(|name| parse_node(&name)).transpose()?;
            let target = cluster::process_of(&folder, node)?;
            let mut environment = vec![
                ("KUBECONFIG", folder.kubeconfig("admin").into_os_string()),
                ("KUBECACHEDIR", folder.path("kubectl-cache").into_os_string()),
            ];
            environment.push(("PATH", show::search_path(&Plan::read(&folder)?)?));
            return Ok(exit(enter::run(target, &command, &environment)?));
        }
        Verb::Node { named, node, action } => {
            let node = parse_node(&node)?;
            control::ask(&named.folder()?, &Request::Node { node, action })?;
        }
        Verb::Restart { named, component } => {
            control::ask(&named.folder()?, &Request::Restart { component })?;
        }
        Verb::Stop { named, component } => {
            control::ask(&named.folder()?, &Request::Stop { component })?;
        }
        Verb::Start { named, component } => {
            control::ask(&named.folder()?, &Request::Start { component })?;
        }
        Verb::Load { named, images } => {
            for image in images {
                let image = std::fs::canonicalize(&image)
                    .with_context(|| format!("open {}", image.display()))?;
                control::ask(&named.folder()?, &Request::Load { image })?;
            }
        }
        Verb::Guard { cluster } => guard::run(&Folder::new(&cluster))?,
        Verb::Keeper { cluster } => {
            let Err(error) = keeper::run(Folder::new(&cluster));
            keeper::report_failure(&error);
        }
        Verb::NodeRun { cluster, node } => {
            let outcome = node::run(&Folder::new(&cluster), parse_node(&node)?);
            return Ok(tell(outcome));
        }
        Verb::NodeInit { cluster, node } => {
            let outcome = node::init(&Folder::new(&cluster), parse_node(&node)?);
            return Ok(tell(outcome));
        }
        Verb::Enter { target, command } => return Ok(exit(enter::run(target, &command, &[])?)),
        Verb::Become { command } => {
            let Err(error) = enter::execute(&command);
            return Err(error.into());
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn parse_node(name: &str) -> Result<Node> {
    Node::parse(name).with_context(|| format!("{name} is no node; nodes are n1, n2 and so on"))
}

fn exit(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

/// Tells the keeper why half a node ended.
fn tell(outcome: Result<(), node::NodeError>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            node::say(&node::Word::Failed(format!("{:#}", anyhow::Error::from(error))));
            ExitCode::FAILURE
        }
    }
}

fn run_images(verb: ImagesVerb) -> Result<()> {
    match verb {
        ImagesVerb::List => {
            for name in images::ALL {
                println!("{:<32} {}", name.full(), name.about());
            }
        }
        ImagesVerb::Build { names, agent, controller } => {
            let named: Result<Vec<Name>, _> = names.iter().map(|name| Name::parse(name)).collect();
            let names = if names.is_empty() { images::ALL.to_vec() } else { named? };
            let mut binaries = Binaries::default();
            binaries.agent = agent.unwrap_or(binaries.agent);
            binaries.controller = controller.unwrap_or(binaries.controller);
            for path in images::build(&names, &binaries, &mut |line| eprintln!("{line}"))? {
                println!("{}", path.display());
            }
        }
    }
    Ok(())
}
