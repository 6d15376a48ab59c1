//! What batch scripts need to find the pods: host files of each launcher family and the variables
//! that point at them.

pub mod enter;
pub mod environment;
pub mod files;
pub mod verb;

use crate::broker::{Overlay, Services};
use crate::launch::environment::Variables;
use anyhow::Context;
use environment::Launchers;
use files::{Format, Host};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The directory of links to the agent, within the run directory. It comes last on a program's
/// PATH, so that an `ssh` of the image goes first.
const BIN: &str = "bin";

/// The directory of links by Slurm's names, for those who asked for them: it comes first on PATH, since a
/// Slurm of the image has no cluster to talk to.
const SLURM_BIN: &str = "slurm";

/// The name under which launchers call the remote shell. Not `ssh`: some launchers would then
/// look for features of it.
const REMOTE_SHELL: &str = "quorate-rsh";

/// Adds the verbs.
pub fn register(overlay: &Overlay, services: &mut Services) {
    enter::register(overlay, services);
    verb::register(overlay, services);
}

/// Makes the links to this program: launchers in other pods call the remote shell by the path that
/// it has on the first, so every pod has it.
pub fn link(run_dir: &Path) -> std::io::Result<()> {
    let agent = std::env::current_exe()?;
    let bin = run_dir.join(BIN);
    std::fs::create_dir_all(&bin)?;
    link_as(&agent, &bin, &[REMOTE_SHELL, "ssh", "rsh", "quorate-agent"])?;
    names(run_dir, false).map(drop)
}

/// Makes the links by Slurm's names, if they are `wanted` now or this broker's environment asks for them;
/// gives their directory.
fn names(run_dir: &Path, wanted: bool) -> std::io::Result<Option<PathBuf>> {
    if !wanted && std::env::var_os(quorate_contract::env::SLURM).is_none() {
        return Ok(None);
    }
    let bin = run_dir.join(SLURM_BIN);
    std::fs::create_dir_all(&bin)?;
    link_as(&std::env::current_exe()?, &bin, &crate::queue::slurm::NAMES)?;
    Ok(Some(bin))
}

fn link_as(agent: &Path, bin: &Path, names: &[&str]) -> std::io::Result<()> {
    for name in names {
        let link = bin.join(name);
        match std::os::unix::fs::symlink(agent, &link) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                if std::fs::read_link(&link).ok().as_deref() != Some(agent) {
                    std::fs::remove_file(&link)?;
                    std::os::unix::fs::symlink(agent, &link)?;
                }
            }
            done => done?,
        }
    }
    Ok(())
}

/// The connected pods with their slots, in rank order.
pub fn connected(overlay: &Overlay) -> Vec<Host> {
    let membership = overlay.membership().borrow().clone();
    membership
        .online
        .iter()
        .filter_map(|(rank, member)| {
            let name = overlay.config().host_name(*rank)?;
            Some(Host { name, slots: member.inventory.slots })
        })
        .collect()
}

/// Writes the host files of all families into the run directory.
pub fn write(overlay: &Overlay) -> anyhow::Result<()> {
    let hosts = connected(overlay);
    for format in [Format::OpenMpi, Format::Hydra, Format::Plain] {
        let path = overlay.settings().run_dir.join(format.file_name());
        std::fs::write(&path, files::render(format, &hosts))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Adds what launchers read to a program's environment; what the container has set wins.
pub fn add_to(overlay: &Overlay, env: &mut Variables) {
    let per_host = connected(overlay).iter().map(|host| host.slots).max().unwrap_or(1);
    let (variables, bin) = offered(overlay, per_host);
    environment::offer(env, variables.into_iter().map(|(name, value)| (name.into(), value.into())));
    let path = env.get(OsStr::new("PATH")).cloned();
    let mut path = appended(path, bin);
    if env.contains_key(OsStr::new(quorate_contract::env::SLURM)) {
        path = first(overlay.settings().run_dir.join(SLURM_BIN), path);
    }
    env.insert("PATH".into(), path);
}

/// What launchers read, and the directory for the end of PATH. `per_host` is the most slots of any
/// pod.
fn offered(overlay: &Overlay, per_host: u32) -> (Vec<(&'static str, String)>, PathBuf) {
    let settings = overlay.settings();
    let bin = settings.run_dir.join(BIN);
    let remote_shell = bin.join(REMOTE_SHELL).to_string_lossy().into_owned();
    let interface =
        settings.pod_ip.as_deref().and_then(|ip| crate::sys::interface_of(ip.parse().ok()?));
    let launchers = Launchers {
        run_dir: &settings.run_dir,
        remote_shell: &remote_shell,
        interface: interface.as_deref(),
        per_host,
        flavor: overlay.config().mpi,
    };
    (environment::variables(&launchers), bin)
}

/// A directory before all others of a PATH.
fn first(dir: PathBuf, path: OsString) -> OsString {
    let all = std::iter::once(dir).chain(std::env::split_paths(&path));
    std::env::join_paths(all).unwrap_or(path)
}

fn appended(path: Option<OsString>, dir: PathBuf) -> OsString {
    let path = path.unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let all = std::env::split_paths(&path).chain([dir]);
    // A directory with a colon in its name cannot be on a PATH.
    std::env::join_paths(all).unwrap_or(path)
}
