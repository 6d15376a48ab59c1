//! The tier `lint`: what can be told without running the products.

use crate::tally::{Clock, Tally};
use crate::{chart, crd, deps, exec, pages, workspace};
use anyhow::Result;
use std::process::Command;
use std::time::Duration;

/// A cold build of all dependencies on two cores fits.
const LIMIT: Duration = Duration::from_mins(30);

/// Format, clippy, docs, structure, pages: one case each.
pub(crate) fn run(clock: Clock) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut check = |name: &str, command: &mut Command| -> Result<()> {
        clock.say(name);
        let done = exec::capture(command, name, LIMIT)?;
        if !done.success() {
            println!("{}\n{name}: {}", done.output.trim_end(), done.how());
        }
        tally.case(done.success());
        Ok(())
    };
    check("cargo fmt", workspace::cargo().args(["fmt", "--all", "--check"]))?;
    check(
        "cargo clippy",
        workspace::cargo().args([
            "clippy",
            "--locked",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]),
    )?;
    check(
        "cargo doc",
        workspace::cargo()
            .args(["doc", "--locked", "--workspace", "--no-deps"])
            // Docs are for readers of the source, who see private items too.
            .env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links"),
    )?;
    clock.say("generated files");
    tally.case(crd::run(true)?);
    clock.say("chart");
    match chart::check(clock) {
        Ok(checked) => tally.add(checked),
        Err(missing) if workspace::in_ci() => {
            clock.say(format!("chart: {missing:#}"));
            tally.case(false);
        }
        Err(missing) => {
            clock.say(format!("chart: not checked: {missing:#}"));
            tally.skipped += 1;
        }
    }
    clock.say("structure");
    tally.case(deps::run()?);
    clock.say("pages");
    tally.case(pages::run()?);
    Ok(tally)
}
