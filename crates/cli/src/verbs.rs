//! The verbs of `quorate`: each reads what was typed and drives the rest.

mod delete;
mod doctor;
mod enter;
pub(crate) mod guest;
mod logs;
mod ls;
mod objects;
mod pages;
mod queue;
mod run;
pub(crate) mod state;
pub(crate) mod targets;
pub(crate) mod wanted;

use crate::args::{Cli, Place, Verb, called_as_plugin};
use crate::kubernetes;
use crate::registry::Registry;

/// Runs a verb; gives the code to exit with.
pub fn run(cli: Cli) -> anyhow::Result<i32> {
    let Cli { loudness, verb } = cli;
    let as_plugin = called_as_plugin(std::env::args_os().next().as_deref());
    let on_kubernetes = |place: &Place| place.is_kubernetes(as_plugin);
    match verb {
        Verb::Run(args) => {
            let (args, place) = args.settle()?;
            if on_kubernetes(&place) {
                kubernetes::run(&args, &place, loudness)
            } else {
                run::run(&args, loudness)
            }
        }
        Verb::Ls(args) if on_kubernetes(&args.place) => kubernetes::ls(&args),
        Verb::Ls(args) => ls::run(&args),
        Verb::Shell(args) if on_kubernetes(&args.place) => kubernetes::shell(&args),
        Verb::Shell(args) => enter::shell(&args),
        Verb::Exec(args) if on_kubernetes(&args.place) => kubernetes::exec(&args),
        Verb::Exec(args) => enter::exec(&args),
        Verb::Logs(args) if on_kubernetes(&args.place) => kubernetes::logs(&args),
        Verb::Logs(args) => logs::run(&args),
        Verb::Status(args) if on_kubernetes(&args.place) => kubernetes::status(&args),
        Verb::Status(args) => state::status(&args),
        Verb::Why(args) if on_kubernetes(&args.place) => kubernetes::why(&args),
        Verb::Why(args) => state::why(&args),
        Verb::Wait(args) if !args.jobs.is_empty() => {
            queue::wait(&args, on_kubernetes(&args.place), loudness)
        }
        Verb::Wait(args) if on_kubernetes(&args.place) => kubernetes::wait(&args),
        Verb::Wait(args) => state::wait(&args),
        Verb::Delete(args) if on_kubernetes(&args.place) => kubernetes::delete(&args, loudness),
        Verb::Delete(args) => delete::run(&args, loudness),
        Verb::Queue(verb) => queue::run(&verb, on_kubernetes(verb.place()), loudness),
        Verb::Validate(args) => objects::validate(&args, loudness),
        Verb::Plan(args) => objects::plan(&args),
        Verb::Doctor(args) => doctor::run(&args),
        Verb::Completions { shell } => pages::completions(shell),
        Verb::Man { dir } => pages::manual(&dir),
    }
}

/// The registry of the calling user.
fn registry() -> anyhow::Result<Registry> {
    Ok(Registry::of_user(|name| std::env::var_os(name).map(Into::into))?)
}

/// A variable of the environment; one that is not text is as good as none here.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
