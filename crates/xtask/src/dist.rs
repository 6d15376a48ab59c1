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

/// Builds what runs without Kubernetes; quick when nothing changed.
pub(crate) fn build() -> Result<Dist> {
    let agent = build_static("quorate-agent", "release")?;
    cargo_build(&["--profile", "tool", "--package", "quorate-cli", "--bin", "quorate"], &flags())?;
    let quorate = place(&workspace::target_dir().join("tool/quorate"))?;
    Ok(Dist { agent, quorate })
}

/// Builds the controller, which nothing but a Kubernetes needs: its client takes minutes to compile.
pub(crate) fn controller() -> Result<PathBuf> {
    build_static("quorate-controller", "controller")
}

/// Builds the agent as it is shipped, but with its symbols, into a directory of its own, and answers
/// where it is; `map` gets the linker's account of what it put where.
pub(crate) fn agent_with_symbols(target_dir: &Path, map: &Path) -> Result<PathBuf> {
    let (name, target) = ("quorate-agent", host_target()?);
    let mut command = workspace::cargo();
    command.args(["rustc", "--locked", "--profile", "release", "--package", name, "--bin", name]);
    command.args(["--target", &target]).arg("--target-dir").arg(target_dir);
    command.args(["--", "-C", &format!("link-arg=-Wl,--no-demangle,-Map={}", map.display())]);
    command.env("RUSTFLAGS", static_flags().trim()).env("CARGO_PROFILE_RELEASE_STRIP", "none");
    let status = command.status().context("start cargo rustc")?;
    ensure!(status.success(), "cargo rustc of {name} ended with {status}");
    Ok(target_dir.join(target).join("release").join(name))
}

/// Builds a binary that needs no library of the image it runs in, and answers where it is.
fn build_static(name: &str, profile: &str) -> Result<PathBuf> {
    let target = host_target()?;
    // A target of its own, so that the flag does not reach build scripts and macros.
    cargo_build(
        &["--profile", profile, "--package", name, "--bin", name, "--target", &target],
        &static_flags(),
    )?;
    place(&workspace::target_dir().join(target).join(profile).join(name))
}

/// Symbols are mangled so that they say all of a function's type: the order of the agent's functions
/// knows them by their names ([`crate::order`]).
fn static_flags() -> String {
    format!("{} -C target-feature=+crt-static -C symbol-mangling-version=v0", flags())
}

fn flags() -> String {
    env::var("RUSTFLAGS").unwrap_or_default()
}

fn cargo_build(arguments: &[&str], flags: &str) -> Result<()> {
    let mut command = workspace::cargo();
    command.args(["build", "--locked"]).args(arguments).env("RUSTFLAGS", flags.trim());
    let status = command.status().context("start cargo build")?;
    ensure!(status.success(), "cargo build {} ended with {status}", arguments.join(" "));
    Ok(())
}

/// Puts a built binary among those that are shipped, in the place of an older one, which may be
/// running.
fn place(from: &Path) -> Result<PathBuf> {
    let folder = workspace::target_dir().join("dist");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let to = folder.join(from.file_name().context("a binary has a name")?);
    let new = to.with_extension("new");
    fs::copy(from, &new)
        .with_context(|| format!("copy {} to {}", from.display(), new.display()))?;
    fs::rename(&new, &to).with_context(|| format!("move to {}", to.display()))?;
    Ok(to)
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
