//! `quorate-agent enter`: a command, or a shell, with what batch scripts get.
//!
//! Whoever comes into a pod from outside (`quorate shell`, `quorate exec`, `kubectl exec`) starts
//! without the agent's variables. This verb asks the pod's broker for them, has the host files
//! written anew, and becomes the command.

use super::files::Format;
use crate::broker::{Overlay, Services};
use crate::job::client;
use crate::job::protocol::body;
use crate::launch::environment::{self, Variables};
use crate::launch::text;
use crate::local::{self, Call, Hello};
use anyhow::Context as _;
use clap::Args;
use quorate_contract::{env::HOST_FILES, exit};
use quorate_pmi::must_not_leak;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const VERB: &str = "enter";

/// The argument of the verb that asks for Slurm's names as well.
const SLURM: &str = "slurm";

/// Shells that images have, the most comfortable first.
const SHELLS: [&str; 3] = ["/bin/bash", "/bin/sh", "/bin/busybox"];

/// Run a command, or a shell, with what batch scripts get: host files and launchers' variables.
#[derive(Debug, Args)]
pub struct EnterArgs {
    /// The broker's socket
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
    /// Have Slurm's names, and flux, first on PATH
    #[arg(long)]
    slurm: bool,
    /// The command and its arguments [default: a shell]
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// What a command gets.
#[derive(Debug, Serialize, Deserialize)]
struct Outfit {
    /// Names and values that always hold.
    set: Vec<(String, String)>,
    /// Names and values that give way to what the container has.
    offered: Vec<(String, String)>,
    /// The directory to add to PATH.
    bin: String,
    /// The directory of Slurm's names, which comes first on PATH.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    names: Option<String>,
}

/// Adds the verb.
pub(super) fn register(overlay: &Overlay, services: &mut Services) {
    let node = overlay.clone();
    services.on_verb(VERB, move |call| serve(node.clone(), call));
}

async fn serve(overlay: Overlay, mut call: Call) {
    let slurm = call.hello.args.as_str() == Some(SLURM);
    let end = match outfit(&overlay, slurm).await {
        Ok(outfit) => call.connection.send(1, &body(&outfit)).await.map(|()| (exit::OK, None)),
        Err(error) => Ok((exit::UNAVAILABLE, Some(format!("{error:#}")))),
    };
    if let Ok((code, error)) = end {
        let _ = call.end(code, error).await;
    }
}

/// Writes the host files as rank 0 knows them and gathers the variables.
async fn outfit(overlay: &Overlay, slurm: bool) -> anyhow::Result<Outfit> {
    let settings = overlay.settings();
    let mut per_host = 1;
    for format in [Format::OpenMpi, Format::Hydra, Format::Plain] {
        let text = super::verb::file(overlay, format).await.map_err(anyhow::Error::msg)?;
        if format == Format::Hydra {
            per_host = most_slots(&text);
        }
        let path = settings.run_dir.join(format.file_name());
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let mut set = Variables::new();
    environment::pod(settings, &mut set);
    let encoded = |name: &OsString, value: &OsString| (text::encode(name), text::encode(value));
    let (offered, bin) = super::offered(overlay, per_host);
    Ok(Outfit {
        set: set.iter().map(|(name, value)| encoded(name, value)).collect(),
        offered: offered.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        bin: text::encode(bin),
        names: super::names(&settings.run_dir, slurm)?.map(text::encode),
    })
}

/// The most slots in a host file of Hydra's.
fn most_slots(text: &str) -> u32 {
    let slots = text.lines().filter_map(|line| line.rsplit_once(':')?.1.parse().ok());
    slots.max().unwrap_or(1)
}

impl EnterArgs {
    /// Becomes the command; gives a code only when that fails.
    pub fn run(self) -> i32 {
        let mut env: Variables = std::env::vars_os().collect();
        env.retain(|name, _| !name.to_str().is_some_and(must_not_leak));
        match ask(&client::socket(self.socket), self.slurm) {
            Ok(outfit) => dress(&mut env, &outfit),
            // A broken cluster is a reason to come in, not to stay out.
            Err(error) => {
                let _ = writeln!(
                    std::io::stderr(),
                    "quorate: {error:#}; without it launchers do not find the other pods"
                );
            }
        }
        let Some((program, arguments)) = self.command.split_first() else {
            return shell(&env);
        };
        let error = become_(Command::new(program).args(arguments), &env);
        let _ = writeln!(
            std::io::stderr(),
            "quorate: cannot start {}: {error}",
            program.to_string_lossy()
        );
        code_of(&error)
    }
}

fn ask(socket: &Path, slurm: bool) -> anyhow::Result<Outfit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(asked(socket, slurm))
}

/// The environment of a command that runs here while its nodes are those of an instance: this
/// process's with what launchers need, and the instance's pods in host files that are written into
/// `files`. `outer` is the socket of this pod's broker, `inner` leads to the instance.
pub(crate) async fn for_nodes_of(
    outer: &Path,
    inner: &Path,
    files: &Path,
) -> anyhow::Result<Variables> {
    let mut env: Variables = std::env::vars_os().collect();
    env.retain(|name, _| !name.to_str().is_some_and(must_not_leak));
    let outfit = asked(outer, false).await?;
    dress(&mut env, &outfit);
    for (name, value) in &outfit.offered {
        let value = PathBuf::from(text::decode(value));
        let own = |format: &Format| value.file_name() == Some(OsStr::new(format.file_name()));
        let Some(format) = [Format::OpenMpi, Format::Hydra, Format::Plain].into_iter().find(own)
        else {
            continue;
        };
        let path = files.join(format.file_name());
        if !path.exists() {
            let text = super::verb::ask(inner, format).await?;
            std::fs::write(&path, text)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        env.insert(text::decode(name), path.into());
    }
    env.insert(HOST_FILES.into(), files.into());
    Ok(env)
}

async fn asked(socket: &Path, slurm: bool) -> anyhow::Result<Outfit> {
    let args = if slurm { SLURM.into() } else { serde_json::Value::Null };
    let hello = Hello { verb: VERB.to_string(), args };
    let (payloads, end) = local::connect(socket, &hello).await?.finish().await?;
    match (payloads.first(), end.error) {
        (Some(payload), None) => {
            serde_json::from_slice(payload).context("the broker's answer is unreadable")
        }
        (_, error) => Err(anyhow::anyhow!(error.unwrap_or_else(|| "no answer".to_owned()))),
    }
}

fn dress(env: &mut Variables, outfit: &Outfit) {
    for (name, value) in &outfit.set {
        env.insert(text::decode(name), text::decode(value));
    }
    let decoded = |(name, value): &(String, String)| (text::decode(name), text::decode(value));
    super::environment::offer(env, outfit.offered.iter().map(decoded));
    let path = env.get(OsStr::new("PATH")).cloned();
    let mut path = super::appended(path, PathBuf::from(text::decode(&outfit.bin)));
    if let Some(names) = &outfit.names {
        path = super::first(PathBuf::from(text::decode(names)), path);
    }
    env.insert("PATH".into(), path);
}

/// Becomes the user's shell, or the best that the image has.
fn shell(env: &Variables) -> i32 {
    let own = env.get(OsStr::new("SHELL")).map(PathBuf::from);
    let known = own.into_iter().chain(SHELLS.map(PathBuf::from));
    for shell in known.filter(|shell| shell.is_file()) {
        let mut command = Command::new(&shell);
        if shell.ends_with("busybox") {
            command.arg("sh");
        }
        let error = become_(&mut command, env);
        if error.kind() != ErrorKind::NotFound {
            let _ =
                writeln!(std::io::stderr(), "quorate: cannot start {}: {error}", shell.display());
            return code_of(&error);
        }
    }
    let _ = writeln!(
        std::io::stderr(),
        "quorate: the image has no shell; `quorate exec POD -- CMD` runs what it has, and \
         `kubectl debug` brings a shell along"
    );
    exit::NOT_FOUND
}

/// Becomes a command; the reason if that fails.
fn become_(command: &mut Command, env: &Variables) -> std::io::Error {
    command.env_clear().envs(env).exec()
}

fn code_of(error: &std::io::Error) -> i32 {
    if error.kind() == ErrorKind::NotFound { exit::NOT_FOUND } else { exit::NOT_EXECUTABLE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_container_has_wins_over_what_is_offered() {
        let outfit = Outfit {
            set: vec![("QUORATE_BROKER_RANK".into(), "3".into())],
            offered: vec![("HYDRA_LAUNCHER".into(), "ssh".into()), ("MINE".into(), "no".into())],
            bin: "/quorate/run/bin".into(),
            names: Some("/quorate/run/slurm".into()),
        };
        let mut env: Variables = [("MINE", "yes"), ("PATH", "/bin"), ("QUORATE_BROKER_RANK", "9")]
            .map(|(name, value)| (name.into(), value.into()))
            .into();
        dress(&mut env, &outfit);
        let value = |name: &str| env.get(OsStr::new(name)).unwrap().to_str().unwrap();
        assert_eq!(value("MINE"), "yes");
        assert_eq!(value("HYDRA_LAUNCHER"), "ssh");
        assert_eq!(value("QUORATE_BROKER_RANK"), "3");
        assert_eq!(value("PATH"), "/quorate/run/slurm:/bin:/quorate/run/bin");
    }

    #[test]
    fn the_largest_host_counts() {
        assert_eq!(most_slots("a:2\nb:16\nc:4\n"), 16);
        assert_eq!(most_slots(""), 1);
    }
}
