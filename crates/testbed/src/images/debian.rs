//! An unpacked Debian, from which images pick what they need.
//!
//! Owns: which packages of which release, and their place in the cache. Must not: run a maintainer's
//! script or anything else of it, so that nothing depends on this machine's kernel or
//! configuration.

use super::{ImagesError, archive, run};
use crate::build;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

/// Debian 12.
const RELEASE: &str = "bookworm";
const MIRROR: &str = "http://deb.debian.org/debian";

/// What images pick from. `libopenmpi-dev` is for compiling test programs against this Debian and
/// not against the building machine.
const PACKAGES: &[&str] = &[
    "base-files",
    "bash",
    "busybox-static",
    "coreutils",
    "dash",
    "findutils",
    "grep",
    "hostname",
    "lammps",
    "libopenmpi-dev",
    "mawk",
    "openmpi-bin",
    "procps",
    "sed",
];

/// What no image picks.
const LEFT_OUT: &[&str] = &["/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*"];

/// Changes when another Debian would be unpacked.
pub(super) fn key() -> String {
    let all = format!("{RELEASE} {MIRROR} {PACKAGES:?} {LEFT_OUT:?}");
    archive::sha256(all.as_bytes())[..12].to_owned()
}

/// The root of the unpacked Debian, fetched if it is not there yet: one to two minutes, 740 MB.
pub(super) fn root(say: &mut dyn FnMut(&str)) -> Result<PathBuf, ImagesError> {
    let cache = build::cache_dir();
    let root = cache.join(format!("debian-{}", key()));
    if root.is_dir() {
        return Ok(root);
    }
    let failed = |path: &PathBuf| {
        let path = path.clone();
        move |source| ImagesError::Write { path, source }
    };
    fs::create_dir_all(&cache).map_err(failed(&cache))?;
    let path = cache.join("debian.lock");
    let lock = File::create(&path).map_err(failed(&path))?;
    let _lock = Flock::lock(lock, FlockArg::LockExclusive)
        .map_err(|(_, errno)| failed(&path)(errno.into()))?;
    if root.is_dir() {
        return Ok(root);
    }
    say("unpacking Debian packages (once, one to two minutes)");
    let new = cache.join("debian.new");
    if new.exists() {
        fs::remove_dir_all(&new).map_err(failed(&new))?;
    }
    let mut command = Command::new("mmdebstrap");
    command
        .args(["--quiet", "--mode=root", "--variant=extract"])
        .arg("--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr")
        .arg("--aptopt=APT::Install-Recommends \"false\"")
        .args(LEFT_OUT.iter().map(|path| format!("--dpkgopt=path-exclude={path}")))
        .arg(format!("--include={}", PACKAGES.join(",")))
        .arg(RELEASE)
        .arg(&new)
        .arg(MIRROR);
    run(&mut command, "mmdebstrap", "apt-get install mmdebstrap")?;
    fs::rename(&new, &root).map_err(failed(&new))?;
    Ok(root)
}
