//! Compiles the programs of the tests for the images they go into.
//!
//! Owns: compiler flags for each MPI and for programs without any library. Must not: link against
//! libraries of the building machine, which may be another distribution.

use super::{ImagesError, run};
use std::path::Path;
use std::process::Command;

/// The sources, by path from the workspace's root; a program is called as its source.
pub(super) const SOURCES: &[&str] = &[
    "examples/quickstart/hello.c",
    "tests/programs/ring.c",
    "tests/programs/abort.c",
    "tests/programs/nofinalize.c",
    "tests/programs/segv.c",
];

/// An MPI to compile for.
pub(super) enum Mpi<'a> {
    /// The distribution's Open MPI in its unpacked root.
    OpenMpi { root: &'a Path },
    /// MPICH unpacked at `prefix`, to be found at `place` in the image; the C library is the root's.
    Mpich { root: &'a Path, prefix: &'a Path, place: &'a str },
}

/// Compiles `source` into `program`.
pub(super) fn compile(mpi: &Mpi<'_>, source: &Path, program: &Path) -> Result<(), ImagesError> {
    let mut command = compiler();
    match mpi {
        Mpi::OpenMpi { root } => {
            let folder = format!("usr/lib/{}-linux-gnu/openmpi", std::env::consts::ARCH);
            command
                .arg(format!("--sysroot={}", root.display()))
                .arg("-I")
                .arg(root.join(&folder).join("include"))
                .arg("-L")
                .arg(root.join(&folder).join("lib"));
        }
        Mpi::Mpich { root, prefix, place } => {
            command
                .arg(format!("--sysroot={}", root.display()))
                .arg("-I")
                .arg(prefix.join("include"))
                .arg("-L")
                .arg(prefix.join("lib"))
                .arg(format!("-Wl,-rpath,{place}/lib"))
                // Its own libraries are next to it at run time; they are not the program's concern.
                .arg("-Wl,--allow-shlib-undefined");
        }
    }
    command.arg("-o").arg(program).arg(source).arg("-lmpi");
    run(&mut command, "gcc", "apt-get install gcc libc6-dev")
}

/// Compiles `source` into a program that needs nothing at run time but a kernel.
pub(super) fn compile_static(source: &Path, program: &Path) -> Result<(), ImagesError> {
    let mut command = compiler();
    command.args(["-static", "-s", "-o"]).arg(program).arg(source);
    run(&mut command, "gcc", "apt-get install gcc libc6-dev")
}

/// No build identity, which would be made from paths of this machine.
fn compiler() -> Command {
    let mut command = Command::new("gcc");
    command.args(["-O1", "-Wall", "-Wextra", "-Wl,--build-id=none"]);
    command
}
