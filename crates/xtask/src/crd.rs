//! Keeps the CRD file equal to what the types give.

use crate::workspace;
use anyhow::{Context, Result, ensure};
use std::fs;

/// The file, from the root.
const FILE: &str = "config/crd/quorate.dev_miniclusters.yaml";

/// Writes the file, or with `check` tells whether it is as it should be.
pub(crate) fn run(check: bool) -> Result<bool> {
    let output = workspace::cargo()
        .args(["run", "--quiet", "--locked", "--package", "quorate-api", "--example", "crd"])
        .output()
        .context("start cargo run")?;
    ensure!(
        output.status.success(),
        "the CRD cannot be rendered: {}",
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    let text = format!(
        "# Made from the types by `cargo xtask crd`; change those instead.\n{}",
        String::from_utf8(output.stdout).context("read the CRD")?
    );
    let path = workspace::root().join(FILE);
    if check {
        let same = fs::read_to_string(&path).is_ok_and(|old| old == text);
        if !same {
            println!("{FILE} differs from the types; run `cargo xtask crd` and commit it");
        }
        return Ok(same);
    }
    let folder = path.parent().context("the file lies in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    println!("written: {FILE}");
    Ok(true)
}
