//! Builds the Go modules of the test cluster, once for each version, into the user's cache.
//!
//! A module's output lies in `CACHE/kube/NAME-KEY/{bin,share}`; the key is made of all that decides
//! what comes out, so nothing is ever rebuilt in place. Several builds at once, also by other
//! clones, wait for each other.

use crate::modules::{MODULES, Module, module, module_of};
use nix::fcntl::{Flock, FlockArg};
use ring::digest::{Context, SHA256};
use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How often a running build says that it still runs.
const REPORT_EVERY: Duration = Duration::from_secs(15);

/// Why programs could not be built or found.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// No such module.
    #[error("there is no module {name}; there are {}", known())]
    UnknownModule {
        /// What was asked for.
        name: String,
    },
    /// No module builds this program.
    #[error("no module builds a program {name}")]
    UnknownProgram {
        /// What was asked for.
        name: String,
    },
    /// A file or folder could not be used.
    #[error("cannot {doing} {}", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The go program could not be started.
    #[error("cannot run go, which must be in PATH to build the test cluster")]
    Go(#[source] io::Error),
    /// The go program refused.
    #[error("go {doing} failed in {}:\n{output}", folder.display())]
    GoFailed {
        /// What it should do.
        doing: &'static str,
        /// Where.
        folder: PathBuf,
        /// The end of what it said.
        output: String,
    },
}

fn known() -> String {
    MODULES.iter().map(|module| module.name).collect::<Vec<_>>().join(", ")
}

fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BuildError {
    let path = path.to_owned();
    move |source| BuildError::File { doing, path, source }
}

/// The built programs of one module.
#[derive(Clone, Debug)]
pub struct Built {
    folder: PathBuf,
}

impl Built {
    /// Where the programs are.
    pub fn bin(&self) -> PathBuf {
        self.folder.join("bin")
    }

    /// The whole output.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A program.
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }

    /// A file or folder copied from the sources.
    pub fn asset(&self, name: &str) -> PathBuf {
        self.folder.join("share").join(name)
    }
}

/// The path of a program, whose module is built first if it has not been.
pub fn program(name: &str, say: &mut dyn FnMut(&str)) -> Result<PathBuf, BuildError> {
    let module = module_of(name).ok_or_else(|| BuildError::UnknownProgram { name: name.into() })?;
    Ok(ensure(module, say)?.program(name))
}

/// The programs of a module, if they have been built.
pub fn existing(name: &str) -> Option<Built> {
    let module = module(name)?;
    let key = key(module, &source_dir(module.name)).ok()?;
    let folder = cache_dir().join(format!("{}-{key}", module.name));
    folder.is_dir().then_some(Built { folder })
}

/// Builds a module unless that has been done; `say` gets lines for people while it takes long.
pub fn ensure(module: &Module, say: &mut dyn FnMut(&str)) -> Result<Built, BuildError> {
    let source = source_dir(module.name);
    let folder = cache_dir().join(format!("{}-{}", module.name, key(module, &source)?));
    let built = Built { folder: folder.clone() };
    if folder.is_dir() {
        return Ok(built);
    }
    fs::create_dir_all(cache_dir()).map_err(file("create", &cache_dir()))?;
    let lock_path = cache_dir().join(format!("{}.lock", module.name));
    let lock = File::create(&lock_path).map_err(file("create", &lock_path))?;
    let _lock = Flock::lock(lock, FlockArg::LockExclusive)
        .map_err(|(_, errno)| file("lock", &lock_path)(errno.into()))?;
    if folder.is_dir() {
        return Ok(built);
    }
    let scratch = cache_dir().join(format!("{}.new", module.name));
    match fs::remove_dir_all(&scratch) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(file("remove", &scratch)(error));
        }
        _ => {}
    }
    for part in ["bin", "share"] {
        let part = scratch.join(part);
        fs::create_dir_all(&part).map_err(file("create", &part))?;
    }
    compile(module, &source, &scratch, say)?;
    collect(module, &source, &scratch.join("share"))?;
    fs::rename(&scratch, &folder).map_err(file("rename", &scratch))?;
    Ok(built)
}

/// Builds the programs into `scratch/bin`.
fn compile(
    module: &Module,
    source: &Path,
    scratch: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<(), BuildError> {
    let started = Instant::now();
    let bin = scratch.join("bin");
    say(&format!("{}: building {} programs", module.name, module.programs.len()));
    let log_path = scratch.join("build.log");
    let log = File::create(&log_path).map_err(file("create", &log_path))?;
    let mut target = bin.as_os_str().to_owned();
    target.push("/");
    let mut child = go(source)
        .args(["build", "-trimpath", "-ldflags"])
        .arg(module.linker_flags())
        .arg("-o")
        .arg(target)
        .args(module.programs.iter().map(|program| program.package))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .map_err(BuildError::Go)?;
    let mut said = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(BuildError::Go)? {
            break status;
        }
        if said.elapsed() >= REPORT_EVERY {
            said = Instant::now();
            say(&format!(
                "{}: still building, {:.0} s",
                module.name,
                started.elapsed().as_secs_f64()
            ));
        }
        thread::sleep(Duration::from_millis(100));
    };
    if !status.success() {
        let log = fs::read_to_string(&log_path).unwrap_or_default();
        return Err(failed("build", source, &log));
    }
    for program in module.programs {
        let (from, to) = (bin.join(program.built_name()), bin.join(program.name));
        if from != to {
            fs::rename(&from, &to).map_err(file("rename", &from))?;
        }
    }
    say(&format!("{}: built in {:.0} s", module.name, started.elapsed().as_secs_f64()));
    Ok(())
}

/// Copies the assets.
fn collect(module: &Module, source: &Path, share: &Path) -> Result<(), BuildError> {
    for asset in module.assets {
        let output = go(source)
            .args(["list", "-m", "-f", "{{.Dir}}", asset.module])
            .output()
            .map_err(BuildError::Go)?;
        if !output.status.success() {
            return Err(failed("list", source, &String::from_utf8_lossy(&output.stderr)));
        }
        let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        copy(&folder.join(asset.path), &share.join(asset.name))?;
    }
    Ok(())
}

/// Copies a file, or a folder with all below. The module cache is read-only; the copies are not.
fn copy(from: &Path, to: &Path) -> Result<(), BuildError> {
    if !from.is_dir() {
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).map_err(file("create", parent))?;
        }
        let bytes = fs::read(from).map_err(file("read", from))?;
        return fs::write(to, bytes).map_err(file("write", to));
    }
    fs::create_dir_all(to).map_err(file("create", to))?;
    for entry in fs::read_dir(from).map_err(file("list", from))? {
        let entry = entry.map_err(file("list", from))?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

fn go(folder: &Path) -> Command {
    let mut command = Command::new("go");
    // Static programs: they run in namespaces and images that have no C library.
    command.current_dir(folder).env("CGO_ENABLED", "0").env_remove("GOFLAGS");
    command
}

/// The last lines are where go says what is wrong.
fn failed(doing: &'static str, folder: &Path, output: &str) -> BuildError {
    let lines: Vec<&str> = output.lines().collect();
    let output = lines[lines.len().saturating_sub(20)..].join("\n");
    BuildError::GoFailed { doing, folder: folder.to_owned(), output }
}

/// Twelve hexadecimal digits over all that decides what a build yields: the module's files, our row
/// of the table, and the compiler.
pub fn key(module: &Module, source: &Path) -> Result<String, BuildError> {
    let mut hash = Context::new(&SHA256);
    let mut add = |name: &str, bytes: &[u8]| {
        hash.update(format!("{name} {}\n", bytes.len()).as_bytes());
        hash.update(bytes);
    };
    for path in sources(source)? {
        let bytes = fs::read(&path).map_err(file("read", &path))?;
        add(&path.strip_prefix(source).unwrap_or(&path).to_string_lossy(), &bytes);
    }
    add("row", format!("{module:?}").as_bytes());
    let version = go(source).args(["env", "GOVERSION"]).output().map_err(BuildError::Go)?;
    add("go", &version.stdout);
    let digest = hash.finish();
    let (first, _) = digest.as_ref().split_first_chunk().expect("a SHA-256 has 32 bytes");
    Ok(format!("{:012x}", u64::from_be_bytes(*first) >> 16))
}

/// `go.mod`, `go.sum` and all Go files of a folder, in order.
fn sources(folder: &Path) -> Result<Vec<PathBuf>, BuildError> {
    let mut found = Vec::new();
    let mut todo = vec![folder.to_owned()];
    while let Some(folder) = todo.pop() {
        for entry in fs::read_dir(&folder).map_err(file("list", &folder))? {
            let path = entry.map_err(file("list", &folder))?.path();
            let name = path.file_name().unwrap_or_default();
            if path.is_dir() {
                todo.push(path);
            } else if name == "go.mod"
                || name == "go.sum"
                || path.extension().is_some_and(|e| e == "go")
            {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Where a module's `go.mod` is.
pub fn source_dir(name: &str) -> PathBuf {
    workspace_root().join("e2e/kube").join(name)
}

/// The root of the workspace that this was compiled from.
pub fn workspace_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate lies two folders below the root")
}

/// Where built programs are kept for every clone of this user: `kube` in `QUORATE_CACHE`, else in
/// `quorate` below `XDG_CACHE_HOME` or `~/.cache`.
pub fn cache_dir() -> PathBuf {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(dir) = set("QUORATE_CACHE") {
        return workspace_root().join(dir).join("kube");
    }
    let home = || env::home_dir().unwrap_or_else(env::temp_dir).join(".cache");
    set("XDG_CACHE_HOME").unwrap_or_else(home).join("quorate/kube")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::module;

    #[test]
    fn a_key_follows_the_files_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("go.mod", "module x");
        write("go.sum", "");
        let row = module("etcd").unwrap();
        let first = key(row, folder.path()).unwrap();
        write("README.md", "words");
        assert_eq!(key(row, folder.path()).unwrap(), first);
        write("main.go", "package main");
        let second = key(row, folder.path()).unwrap();
        assert_ne!(second, first);
        assert_ne!(key(module("core").unwrap(), folder.path()).unwrap(), second);
    }

    #[test]
    fn assets_may_be_folders() {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("from");
        fs::create_dir_all(from.join("deep")).unwrap();
        fs::write(from.join("deep/crd.yaml"), "a: 1").unwrap();
        copy(&from, &folder.path().join("to")).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("to/deep/crd.yaml")).unwrap(), "a: 1");
    }

    #[test]
    fn kubernetes_is_stamped_with_the_version_that_is_pinned() {
        let pins = fs::read_to_string(source_dir("core").join("go.mod")).unwrap();
        let (_, stamp) = module("core").unwrap().stamps[0];
        assert!(pins.contains(&format!("k8s.io/kubernetes {stamp}")), "{stamp}");
    }

    #[test]
    fn every_module_has_its_pins() {
        for module in MODULES {
            for name in ["go.mod", "go.sum"] {
                let path = source_dir(module.name).join(name);
                assert!(path.is_file(), "{} is missing", path.display());
            }
        }
    }
}
