//! The verbs of `quorate`: each reads what was typed and drives the rest.

mod delete;
mod doctor;
mod enter;
mod logs;
mod ls;
mod objects;
mod pages;
mod run;
mod targets;

use crate::args::{Cli, Verb};
use crate::registry::Registry;

/// Runs a verb; gives the code to exit with.
pub fn run(cli: Cli) -> anyhow::Result<i32> {
    let Cli { loudness, verb } = cli;
    match verb {
        Verb::Run(args) => run::run(&args, loudness),
        Verb::Ls(args) => ls::run(&args),
        Verb::Shell(args) => enter::shell(&args),
        Verb::Exec(args) => enter::exec(&args),
        Verb::Logs(args) => logs::run(&args),
        Verb::Delete(args) => delete::run(&args, loudness),
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
