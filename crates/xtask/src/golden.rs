//! Rewrites the golden files of the tests, to be read in the diff before they are committed.

use crate::workspace;
use anyhow::{Context, Result};
use serde_json::Value;

/// Runs the tests of every room that has golden files, taking what they give as the new truth.
pub(crate) fn run() -> Result<bool> {
    let metadata = workspace::metadata()?;
    let uses_golden_files = |package: &&Value| {
        let needed = package["dependencies"].as_array();
        package["source"].is_null()
            && needed.is_some_and(|list| list.iter().any(|dep| dep["name"] == "insta"))
    };
    let mut command = workspace::cargo();
    command.args(["test", "--locked", "--no-fail-fast"]).env("INSTA_UPDATE", "always");
    for package in metadata["packages"].as_array().into_iter().flatten().filter(uses_golden_files) {
        command.arg("--package").arg(package["name"].as_str().context("a package has a name")?);
    }
    let status = command.status().context("start cargo test")?;
    Ok(status.success())
}
