//! The images that test clusters run, written by this program itself.
//!
//! Owns: which images there are, what is in them, and their archives in the cache. Must not: need a
//! daemon or a registry, or take anything from this machine that another machine would not have.
//!
//! An archive's name ends with a key made of all that decides its content, so nothing is built twice
//! and nothing stale is used. Images are tagged `v1`: a pod whose image is tagged `latest` asks a
//! registry for it.

mod archive;
mod debian;
mod layer;
mod mpi;
mod pick;
mod programs;
mod scratch;

pub use archive::{Config, Image};
pub use layer::{Layer, Owner, ROOT};

use crate::build;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// Archives that nobody has asked for in this time are removed when a newer one of their name is
/// written; younger ones may be in use by another clone.
const KEEP: Duration = Duration::from_hours(24);

/// Why an image could not be built.
#[derive(Debug, thiserror::Error)]
pub enum ImagesError {
    /// No such image.
    #[error("there is no image {name}; there are {}", known())]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// A file that goes into a layer could not be read.
    #[error("cannot take {} into a layer", path.display())]
    Layer {
        /// Which.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A program is no ELF file that can be read.
    #[error("cannot read what {} needs: {reason}", path.display())]
    Elf {
        /// Which.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A layer could not be compressed.
    #[error("cannot compress a layer")]
    Compress(#[source] io::Error),
    /// A file of the cache could not be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A binary of this workspace has not been built.
    #[error("{} is missing; build it with `{remedy}`", path.display())]
    Missing {
        /// Which.
        path: PathBuf,
        /// How to get it.
        remedy: &'static str,
    },
    /// A binary cannot run in an image that has no libraries.
    #[error("{} is linked dynamically; the one of `cargo xtask dist` is static", path.display())]
    Dynamic {
        /// Which.
        path: PathBuf,
    },
    /// A tool could not be started.
    #[error("cannot start {tool}; as root: {remedy}")]
    Tool {
        /// Which.
        tool: &'static str,
        /// How to get it.
        remedy: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A tool refused.
    #[error("{tool} failed:\n{output}")]
    ToolFailed {
        /// Which.
        tool: &'static str,
        /// The end of what it said.
        output: String,
    },
}

impl ImagesError {
    /// A stable word for the kind of failure.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "UnknownImage",
            Self::Layer { .. } | Self::Elf { .. } | Self::Compress(_) => "LayerFailed",
            Self::Write { .. } => "WriteFailed",
            Self::Missing { .. } => "BinaryMissing",
            Self::Dynamic { .. } => "BinaryDynamic",
            Self::Tool { .. } => "ToolMissing",
            Self::ToolFailed { .. } => "ToolFailed",
        }
    }
}

/// Where the workspace's own static binaries are.
#[derive(Clone, Debug)]
pub struct Binaries {
    /// `quorate-agent`.
    pub agent: PathBuf,
    /// `quorate-controller`.
    pub controller: PathBuf,
}

impl Default for Binaries {
    /// What `cargo xtask dist` builds in this workspace.
    fn default() -> Self {
        let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        let dist = build::workspace_root().join(target).join("dist");
        Self { agent: dist.join("quorate-agent"), controller: dist.join("quorate-controller") }
    }
}

/// The images of the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// `/quorate-agent` alone; the init container of every pod.
    Agent,
    /// `/quorate-controller` alone.
    Controller,
    /// Debian with Open MPI, MPICH, LAMMPS and the test programs; no sshd, no ssh.
    MpiDebian,
    /// Shell and tools, for pods that stand for anything else.
    Busybox,
    /// One program that needs nothing: no shell, no library.
    StaticProgram,
}

/// All images.
pub const ALL: [Name; 5] =
    [Name::Agent, Name::Controller, Name::MpiDebian, Name::Busybox, Name::StaticProgram];

impl Name {
    /// The image of that name.
    pub fn parse(name: &str) -> Result<Self, ImagesError> {
        ALL.into_iter()
            .find(|image| image.short() == name)
            .ok_or_else(|| ImagesError::Unknown { name: name.to_owned() })
    }

    /// The name without registry and tag.
    pub fn short(self) -> &'static str {
        match self {
            Self::Agent => "quorate-agent",
            Self::Controller => "quorate-controller",
            Self::MpiDebian => "mpi-debian",
            Self::Busybox => "busybox",
            Self::StaticProgram => "static-program",
        }
    }

    /// As a pod names it.
    pub fn full(self) -> String {
        format!("localhost/{}:v1", self.short())
    }

    /// What is in it, in one line.
    pub fn about(self) -> &'static str {
        match self {
            Self::Agent => "the static agent alone, for the init container of every pod",
            Self::Controller => "the static controller alone",
            Self::MpiDebian => "Debian 12, Open MPI, MPICH, LAMMPS and the test programs; no ssh",
            Self::Busybox => "a shell and tools",
            Self::StaticProgram => "one static program; no shell, no library",
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.short())
    }
}

fn known() -> String {
    ALL.map(Name::short).join(", ")
}

/// Makes an image, telling people what takes long.
type Work<'a> = dyn FnOnce(&mut dyn FnMut(&str)) -> Result<Image, ImagesError> + 'a;

/// What an image is made of, before the work: its key, and the work.
struct Recipe<'a> {
    key: String,
    make: Box<Work<'a>>,
}

/// Builds what is not in the cache yet and answers the archives, in the order of the names; `say`
/// gets lines for people while it takes long.
pub fn build(
    names: &[Name],
    binaries: &Binaries,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<PathBuf>, ImagesError> {
    names.iter().map(|name| ensure(*name, binaries, say)).collect()
}

fn ensure(
    name: Name,
    binaries: &Binaries,
    say: &mut dyn FnMut(&str),
) -> Result<PathBuf, ImagesError> {
    let recipe = match name {
        Name::Agent => scratch::program(name, &binaries.agent)?,
        Name::Controller => scratch::program(name, &binaries.controller)?,
        Name::StaticProgram => scratch::static_program()?,
        Name::Busybox => scratch::busybox(),
        Name::MpiDebian => mpi::recipe()?,
    };
    let folder = build::cache_dir().join("images");
    let path = folder.join(format!("{name}-{}.tar", recipe.key));
    if path.is_file() {
        return Ok(path);
    }
    let started = Instant::now();
    let image = (recipe.make)(say)?;
    let digest = image.write(&path)?;
    let size = fs::metadata(&path).map_or(0, |meta| meta.len());
    say(&format!(
        "{name}: {:.1} MB, {digest}, built in {:.1} s",
        size as f64 / 1e6,
        started.elapsed().as_secs_f64()
    ));
    forget(&folder, name, &path);
    Ok(path)
}

/// Removes old archives of an image. What cannot be removed costs room, nothing else.
fn forget(folder: &Path, name: Name, current: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let old = |path: &Path| {
        let age = fs::metadata(path)
            .and_then(|meta| meta.modified())
            .map(|at| SystemTime::now().duration_since(at).unwrap_or_default());
        age.is_ok_and(|age| age > KEEP)
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        if file.starts_with(&format!("{name}-")) && path != current && old(&path) {
            let _ = fs::remove_file(&path);
        }
    }
}

/// The key over parts, in order.
fn key(parts: &[&[u8]]) -> String {
    let mut all = Vec::new();
    for part in parts {
        all.extend_from_slice(&(part.len() as u64).to_le_bytes());
        all.extend_from_slice(part);
    }
    archive::sha256(&all)[..12].to_owned()
}

fn read(path: &Path) -> Result<Vec<u8>, ImagesError> {
    fs::read(path).map_err(|source| ImagesError::Layer { path: path.to_path_buf(), source })
}

/// Runs a tool to its end; `remedy` gets it where it is missing.
fn run(command: &mut Command, tool: &'static str, remedy: &'static str) -> Result<(), ImagesError> {
    let output = command.stdin(Stdio::null()).output().map_err(|source| ImagesError::Tool {
        tool,
        remedy,
        source,
    })?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().collect();
    // The last lines are where tools say what is wrong.
    let output = lines[lines.len().saturating_sub(20)..].join("\n");
    Err(ImagesError::ToolFailed { tool, output })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways_and_a_wrong_one_is_answered_with_all() {
        for name in ALL {
            assert_eq!(Name::parse(name.short()).unwrap(), name);
            assert_eq!(name.full(), format!("localhost/{name}:v1"));
        }
        let error = Name::parse("agent").unwrap_err().to_string();
        assert!(error.contains("quorate-agent") && error.contains("static-program"), "{error}");
    }

    #[test]
    fn keys_tell_apart_what_is_only_cut_differently() {
        assert_ne!(key(&[b"ab", b"c"]), key(&[b"a", b"bc"]));
        assert_eq!(key(&[b"ab"]).len(), 12);
    }

    #[test]
    fn old_archives_of_the_same_image_go_and_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let past = SystemTime::now() - KEEP - Duration::from_mins(1);
        let make = |name: &str, old: bool| {
            let path = folder.path().join(name);
            let file = fs::File::create(&path).unwrap();
            if old {
                file.set_modified(past).unwrap();
            }
            path
        };
        let current = make("busybox-new.tar", true);
        let (old, young) = (make("busybox-old.tar", true), make("busybox-young.tar", false));
        let other = make("mpi-debian-old.tar", true);
        forget(folder.path(), Name::Busybox, &current);
        assert!(!old.exists());
        assert!(current.exists() && young.exists() && other.exists());
    }

    #[test]
    fn a_missing_binary_is_answered_with_how_to_build_it() {
        let binaries = Binaries { agent: "/nowhere/a".into(), controller: "/nowhere/c".into() };
        let error = build(&[Name::Agent], &binaries, &mut |_| {}).unwrap_err();
        assert_eq!(error.reason(), "BinaryMissing");
        assert!(error.to_string().contains("cargo xtask dist"), "{error}");
    }
}
