//! A command of another pod's launcher, in this pod.
//!
//! Owns: starting it as a remote shell does (`/bin/sh -c` with the pod's environment and the
//! caller's search paths), its streams and signals, and what stays of it. A command that goes into
//! the background, as `orted --daemonize` does, ends its session and lives on: the mark in its
//! environment is how it is found when the cluster's program ends.

use super::visits::Visits;
use crate::broker::{Channel, Overlay};
use crate::job::Jobs;
use crate::job::protocol::{kind, message, split};
use crate::job::streams::{End, Stream, feed, pump};
use crate::launch::environment;
use crate::launch::outcome::TaskEnd;
use crate::launch::spawn::{self, Start};
use crate::launch::stdio::Tail;
use crate::launch::text;
use crate::sys;
use quorate_contract::{env as names, exit};
use quorate_pmi::must_not_leak;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

/// Channel service: a front brings a [`Session`].
pub const SERVICE: &str = "rsh";

/// Time between SIGTERM and SIGKILL when the caller is gone.
const GRACE: Duration = Duration::from_secs(2);

/// Variables of the caller that decide which programs and libraries the command finds.
pub const SEARCH_PATHS: [&str; 5] =
    ["PATH", "LD_LIBRARY_PATH", "OPAL_PREFIX", "PMIX_PREFIX", "PRTE_PREFIX"];

/// What to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// The words of the command, joined; `None` is a shell that reads stdin.
    #[serde(default)]
    pub command: Option<String>,
    /// The caller's [`SEARCH_PATHS`].
    #[serde(default)]
    pub env: Vec<(String, String)>,
    /// The command gets /dev/null.
    #[serde(default)]
    pub no_stdin: bool,
}

/// The code of a session's last message.
pub(super) fn code(payload: &[u8]) -> Option<i32> {
    Some(i32::from_be_bytes(payload.first_chunk::<4>().copied()?))
}

/// Serves a session to its end.
pub(super) async fn serve(jobs: Jobs, overlay: Overlay, visits: Visits, channel: Channel) {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    let session = match serde_json::from_slice::<Session>(channel.first()) {
        Ok(session) => session,
        Err(error) => {
            let (sender, _receiver) = channel.split();
            let _ = sender.finish(Err(format!("unreadable session: {error}"))).await;
            return;
        }
    };
    let from = channel.peer();
    let (sender, mut receiver) = channel.split();
    let settings = overlay.settings();
    let name = format!("rsh-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let mut env = jobs.pod().env.clone();
    env.retain(|name, _| !name.to_str().is_some_and(must_not_leak));
    environment::pod(settings, &mut env);
    env.insert(names::MARK.into(), environment::marks(settings, &name).into());
    if settings.shared_host {
        // Pods of a test cluster share a host: daemons of one launcher would share directories.
        env.insert("TMPDIR".into(), settings.run_dir.clone().into_os_string());
    }
    for (name, value) in &session.env {
        if SEARCH_PATHS.contains(&name.as_str()) {
            env.insert(name.into(), text::decode(value));
        }
    }
    let mut argv: Vec<OsString> = vec!["/bin/sh".into()];
    if let Some(command) = &session.command {
        argv.extend([OsString::from("-c"), text::decode(command)]);
    }
    let home = env.get(OsStr::new("HOME")).map(OsString::from);
    let cwd = home.filter(|home| Path::new(home).is_dir()).unwrap_or_else(|| "/".into());
    let start = Start {
        argv: &argv,
        env: &env,
        cwd: Path::new(&cwd),
        cpus: None,
        stdin: !session.no_stdin,
        keep: None,
        // Daemons of MPI launchers make process groups themselves, which a leader of a session
        // may not.
        own_session: false,
    };
    let task = match spawn::start(&start) {
        Ok(task) => task,
        Err(end) => {
            let why = match end {
                TaskEnd::NotFound(_) => {
                    let pod = settings.display_name();
                    format!("{pod} has no /bin/sh, which a remote shell needs: use `run` instead")
                }
                TaskEnd::NotExecutable(why) | TaskEnd::NotStarted(why) => why,
                other => format!("{other:?}"),
            };
            let _ = sender.finish(Err(why)).await;
            return;
        }
    };
    let _group = jobs.group(task.pid);
    tracing::info!(from, session = %name, "a remote command starts");
    let record = jobs.record(&name, &[task.pid]);
    super::landed(&overlay).await;
    let _visit = visits.begin(&overlay);
    let (over, ended) = watch::channel(false);
    let tail = Arc::new(Mutex::new(Tail::default()));
    let start_pump = |pipe, kind| {
        let stream = Stream { kind, rank: 0, whole_lines: false };
        let sender = sender.clone();
        let send = move |piece| {
            let sender = sender.clone();
            async move { sender.send(piece).await.is_ok() }
        };
        tokio::spawn(pump(pipe, stream, send, tail.clone(), ended.clone()))
    };
    let pumps = [start_pump(task.stdout, kind::OUT), start_pump(task.stderr, kind::ERR)];
    let mut stdin = task.stdin.map(|pipe| {
        let sender = sender.clone();
        feed(pipe, End::Closed, move |bytes| {
            let (sender, count) = (sender.clone(), u32::try_from(bytes).unwrap_or(u32::MAX));
            async move { sender.send(message(kind::TAKEN, &count.to_be_bytes())).await.is_ok() }
        })
    });
    let pid = task.pid;
    // What the command leaves in its group stays: it may be a daemon that somebody waits for.
    let exit = task.exit.wait(false);
    tokio::pin!(exit);
    let mut kill_at = None;
    let mut gone = false;
    let end = loop {
        let grace = async {
            match kill_at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            end = &mut exit => break end,
            received = receiver.recv(), if !gone => match received.ok().flatten().and_then(split) {
                Some((kind::STDIN, bytes)) => {
                    if let Some(stdin) = &stdin {
                        let _ = stdin.send(Some(bytes));
                    }
                }
                Some((kind::STDIN_END, _)) => stdin = None,
                Some((kind::SIGNAL, payload)) => {
                    if let Some(number) = payload.first() {
                        sys::signal_group(pid, i32::from(*number));
                    }
                }
                Some((kind::KILL, _)) => {
                    sys::signal_group(pid, libc::SIGKILL);
                }
                Some(_) => {}
                None => {
                    gone = true;
                    sys::signal_group(pid, libc::SIGTERM);
                    kill_at = Some(tokio::time::Instant::now() + GRACE);
                }
            },
            () = grace => {
                kill_at = None;
                sys::signal_group(pid, libc::SIGKILL);
            }
        }
    };
    drop(stdin);
    if !gone {
        let _ = over.send(true);
        for pump in pumps {
            let _ = pump.await;
        }
    }
    drop(record);
    let code = match end {
        TaskEnd::Exited(code) => code,
        TaskEnd::Signaled(signal) => exit::signaled(signal),
        TaskEnd::OutOfMemory => exit::signaled(libc::SIGKILL),
        _ => 255,
    };
    let _ = sender.send(message(kind::EXIT, &code.to_be_bytes())).await;
    let _ = sender.finish(Ok(())).await;
}
