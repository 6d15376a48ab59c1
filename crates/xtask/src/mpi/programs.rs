//! Compiles the small C programs of the tests, once for each MPI.

use super::{Family, Mpi};
use crate::{exec, workspace};
use anyhow::{Context, Result, bail};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The programs of the tests, by path from the root.
const SOURCES: &[&str] = &[
    "examples/quickstart/hello.c",
    "tests/programs/ring.c",
    "tests/programs/abort.c",
    "tests/programs/nofinalize.c",
    "tests/programs/segv.c",
];

/// Compiles what is new and answers the folder of the programs, each named as its source.
pub(crate) fn build(mpi: &Mpi) -> Result<PathBuf> {
    let folder = workspace::target_dir().join("mpi").join(mpi.name);
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    for source in SOURCES {
        let source = workspace::root().join(source);
        let name = source.file_stem().expect("every source has a name");
        compile(mpi, &source, &folder.join(name))?;
    }
    Ok(folder)
}

/// Compiles one program unless it is newer than its source and its compiler.
pub(crate) fn compile(mpi: &Mpi, source: &Path, program: &Path) -> Result<()> {
    let changed = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified()).ok();
    // The compiler counts too: programs carry the place of its libraries, and another user's cache
    // or another version has them elsewhere.
    if let (Some(source), Some(compiler), Some(program)) =
        (changed(source), changed(&mpi.compiler()), changed(program))
        && program > source
        && program > compiler
    {
        return Ok(());
    }
    let mut command = Command::new(mpi.compiler());
    command.args(["-O1", "-Wall", "-Wextra", "-o"]).arg(program).arg(source);
    if let (Family::Intel, Some(prefix)) = (mpi.family, mpi.prefix()) {
        // The others' compilers say where their libraries are; this one leaves it to the user.
        command.arg(format!("-Wl,-rpath,{}", prefix.join("lib").display()));
    }
    command.envs(mpi.environment(&env::var("PATH").unwrap_or_default()));
    let stem = source.file_stem().unwrap_or_default().display();
    let name = format!("compile-{}-{stem}", mpi.name);
    let done = exec::capture(&mut command, &name, Duration::from_mins(1))?;
    if !done.success() {
        bail!("{} for {}: {}\n{}", source.display(), mpi.name, done.how(), done.output.trim_end());
    }
    Ok(())
}
