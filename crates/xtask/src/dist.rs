//! Builds what is shipped, side by side in `target/dist`: the static agent (profile `release`), the
//! user's binary (profile `tool`), and for Kubernetes the static controller (profile `controller`).

use crate::workspace;
use anyhow::{Context, Result, ensure};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The shipped binaries.
pub(crate) struct Dist {
    /// The static agent.
    pub agent: PathBuf,
    /// The user's binary.
    pub quorate: PathBuf,
}

impl Dist {
    /// The user's binary, told where the agent is, in the workspace's root.
    pub(crate) fn quorate(&self) -> Command {
        let mut command = Command::new(&self.quorate);
        command.current_dir(workspace::root()).env("QUORATE_AGENT", &self.agent);
        command
    }
}

/// Builds both; quick when nothing changed.
pub(crate) fn build() -> Result<Dist> {
    let target = host_target()?;
    let flags = env::var("RUSTFLAGS").unwrap_or_default();
    // A target of its own, so that the flag does not reach build scripts and macros.
    cargo_build(
        &["--release", "--package", "quorate-agent", "--bin", "quorate-agent", "--target", &target],
        &format!("{flags} -C target-feature=+crt-static"),
    )?;
    cargo_build(&["--profile", "tool", "--package", "quorate-cli", "--bin", "quorate"], &flags)?;
    let built = workspace::target_dir();
    let folder = built.join("dist");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let dist = Dist { agent: folder.join("quorate-agent"), quorate: folder.join("quorate") };
    place(&built.join(target).join("release/quorate-agent"), &dist.agent)?;
    place(&built.join("tool/quorate"), &dist.quorate)?;
    Ok(dist)
}

/// Builds the controller, which nothing but a Kubernetes needs: its client takes minutes to compile.
pub(crate) fn build_controller() -> Result<PathBuf> {
    let target = host_target()?;
    let flags = env::var("RUSTFLAGS").unwrap_or_default();
    cargo_build(
        &[
            "--profile",
            "controller",
            "--package",
            "quorate-controller",
            "--bin",
            "quorate-controller",
            "--target",
            &target,
        ],
        &format!("{flags} -C target-feature=+crt-static"),
    )?;
    let built = workspace::target_dir();
    let folder = built.join("dist");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let controller = folder.join("quorate-controller");
    place(&built.join(target).join("controller/quorate-controller"), &controller)?;
    Ok(controller)
}

fn cargo_build(arguments: &[&str], flags: &str) -> Result<()> {
    let mut command = workspace::cargo();
    command.args(["build", "--locked"]).args(arguments).env("RUSTFLAGS", flags.trim());
    let status = command.status().context("start cargo build")?;
    ensure!(status.success(), "cargo build {} ended with {status}", arguments.join(" "));
    Ok(())
}

/// Puts a new file in the place of the old one, which may be running.
fn place(from: &Path, to: &Path) -> Result<()> {
    let new = to.with_extension("new");
    fs::copy(from, &new)
        .with_context(|| format!("copy {} to {}", from.display(), new.display()))?;
    fs::rename(&new, to).with_context(|| format!("move to {}", to.display()))
}

/// The target triple of this machine's compiler.
fn host_target() -> Result<String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().context("start rustc")?;
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .find_map(|line| line.strip_prefix("host: ").map(str::to_owned))
        .context("rustc -vV names no host")
}
