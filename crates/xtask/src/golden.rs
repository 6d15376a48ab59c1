//! Rewrites the golden files of the tests, to be read in the diff before they are committed.

use crate::workspace;
use anyhow::{Context, Result};
use serde_json::Value;

/// Has golden files in its unit tests only; its other tests start clusters.
const UNIT_ONLY: &str = "quorate-testbed";

/// Runs the tests of every room that has golden files, taking what they give as the new truth.
pub(crate) fn run() -> Result<bool> {
    let metadata = workspace::metadata()?;
    let uses_golden_files = |package: &&Value| {
        let needed = package["dependencies"].as_array();
        package["source"].is_null()
            && needed.is_some_and(|list| list.iter().any(|dep| dep["name"] == "insta"))
    };
    let test = || {
        let mut command = workspace::cargo();
        command.args(["test", "--locked", "--no-fail-fast"]).env("INSTA_UPDATE", "always");
        command
    };
    let mut all = test();
    let mut units = test();
    units.arg("--lib");
    for package in metadata["packages"].as_array().into_iter().flatten().filter(uses_golden_files) {
        let name = package["name"].as_str().context("a package has a name")?;
        let command = if name == UNIT_ONLY { &mut units } else { &mut all };
        command.arg("--package").arg(name);
    }
    let good = [all.status(), units.status()]
        .into_iter()
        .map(|status| Ok::<_, anyhow::Error>(status.context("start cargo test")?.success()));
    Ok(good.collect::<Result<Vec<_>>>()?.iter().all(|good| *good))
}
