//! Keeps the CRD and the other files that are made of the API's types equal to them.

use crate::workspace;
use anyhow::{Context, Result};

/// Writes the files, or with `check` tells whether they are as they should be.
pub(crate) fn run(check: bool) -> Result<bool> {
    let status = workspace::cargo()
        .args(["run", "--quiet", "--locked", "--package", "quorate-api", "--example", "crd", "--"])
        .arg(workspace::root())
        .args(check.then_some("--check"))
        .status()
        .context("start cargo run")?;
    Ok(status.success())
}
