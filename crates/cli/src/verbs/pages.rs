//! Completion scripts and manual pages, both from the command line's own description.

use crate::args::Cli;
use crate::terminal::print;
use anyhow::Context as _;
use clap::CommandFactory as _;
use std::path::Path;

pub(super) fn completions(shell: clap_complete::Shell) -> anyhow::Result<i32> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "quorate", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(0)
}

pub(super) fn manual(dir: &Path) -> anyhow::Result<i32> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    clap_mangen::generate_to(Cli::command(), dir)
        .with_context(|| format!("cannot write the pages into {}", dir.display()))?;
    Ok(0)
}
