//! Where things are: the workspace, its build output, the cache of downloaded test tools.

use anyhow::{Context, Result};
use serde_json::Value;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace's root.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate lies two folders below the root")
}

/// Files below `folder` whose names end with this extension, in order.
pub(crate) fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut todo = vec![folder.to_path_buf()];
    while let Some(folder) = todo.pop() {
        let entries =
            fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))?;
        for entry in entries {
            let path = entry.with_context(|| format!("list {}", folder.display()))?.path();
            if path.is_dir() {
                todo.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Cargo's build output, `CARGO_TARGET_DIR` or `target`.
pub(crate) fn target_dir() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// The cargo that runs this chore, in the workspace's root.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    // What cargo says of this package is not true of those that the chore builds.
    for name in ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "CARGO_PKG_NAME"] {
        command.env_remove(name);
    }
    command
}

/// What `cargo metadata` says of the workspace, with the resolved dependencies.
pub(crate) fn metadata() -> Result<Value> {
    let output = cargo()
        .args(["metadata", "--format-version", "1", "--locked"])
        .output()
        .context("start cargo metadata")?;
    anyhow::ensure!(
        output.status.success(),
        "cargo metadata failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    serde_json::from_slice(&output.stdout).context("read the output of cargo metadata")
}

/// What `cargo tree` says of one package alone: a line for each dependency but those of tests, its
/// depth and name in front. Subtrees that were shown before are left out.
pub(crate) fn tree(package: &str) -> Result<String> {
    let output = cargo()
        .args(["tree", "--locked", "--package", package, "--edges", "normal,build"])
        .args(["--prefix", "depth"])
        .output()
        .context("start cargo tree")?;
    anyhow::ensure!(
        output.status.success(),
        "cargo tree failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    String::from_utf8(output.stdout).context("read the output of cargo tree")
}

/// Whether a continuous integration runs this (`CI=true`).
pub(crate) fn in_ci() -> bool {
    env::var("CI").is_ok_and(|value| !value.is_empty() && value != "false" && value != "0")
}

/// Where downloaded test tools are kept for every clone of this user: `QUORATE_CACHE`, else
/// `quorate` in `XDG_CACHE_HOME` or `~/.cache`.
pub(crate) fn cache_dir() -> PathBuf {
    if let Some(dir) = env::var_os("QUORATE_CACHE").filter(|dir| !dir.is_empty()) {
        return root().join(dir);
    }
    let base = match env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()) {
        Some(dir) => PathBuf::from(dir),
        None => env::home_dir().unwrap_or_else(env::temp_dir).join(".cache"),
    };
    base.join("quorate")
}
