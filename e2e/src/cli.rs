//! `quorate` itself, asked from outside of the cluster as a person would.

use crate::Lab;
use quorate_testbed::build;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// What a call of `quorate` left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The exit code; 128 and the signal after a signal.
    pub code: i32,
    /// Standard output: data.
    pub out: String,
    /// Standard error: status.
    pub err: String,
}

impl Said {
    /// What a command printed.
    pub fn of(output: &Output) -> Self {
        use std::os::unix::process::ExitStatusExt as _;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let status = output.status;
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
        Self { code: code.unwrap(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// Standard output as JSON, of a call that worked.
    pub fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{self:?}");
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Lab {
    /// `quorate VERB --kubeconfig … ARGUMENTS`, not yet started, without input.
    pub fn quorate_command(&self, arguments: &[&str]) -> Command {
        let (verb, rest) = arguments.split_first().unwrap();
        let mut command = quorate();
        command.arg(verb).arg("--kubeconfig").arg(self.cluster.kubeconfig()).args(rest);
        command
    }

    /// Runs `quorate` against this cluster to its end.
    pub fn quorate(&self, arguments: &[&str]) -> Said {
        Said::of(&self.quorate_command(arguments).output().unwrap())
    }
}

/// The program that the tests of the command line run: the one beside the agent in the images, or
/// another by `QUORATE_PROGRAM`.
pub fn program() -> PathBuf {
    std::env::var_os("QUORATE_PROGRAM").map_or_else(
        || {
            let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
            build::workspace_root().join(target).join("dist/quorate")
        },
        PathBuf::from,
    )
}

/// `quorate` without input, and without what this process' environment would choose for it.
pub fn quorate() -> Command {
    let mut command = Command::new(program());
    for variable in ["QUORATE_CONTEXT", "KUBECONFIG", "NO_COLOR", "TERM"] {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null());
    command
}
