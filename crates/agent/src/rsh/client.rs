//! The command that launchers call in place of ssh.
//!
//! Owns: its command line, its call and its exit code: that of the remote command, 255 with one
//! line on stderr when there was none.

use super::VERB;
use super::arguments::Arguments;
use super::session::SEARCH_PATHS;
use crate::job::client::{self, Labels, Options};
use crate::launch::text;
use crate::local::Hello;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::Write;

/// What a caller tells its broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// The host as the launcher names it.
    pub host: String,
    /// What to do there.
    pub session: super::session::Session,
}

/// The code of a remote shell that could not do its work.
pub const FAILED: i32 = 255;

/// Runs a command on another pod: the words after the program's name, as a launcher gives them.
pub fn run(words: impl IntoIterator<Item = OsString>) -> i32 {
    let words: Vec<OsString> = words.into_iter().collect();
    if of_srun(&words) {
        return crate::queue::slurm::run("srun", words.into_iter());
    }
    let arguments = match Arguments::parse(words) {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "quorate rsh: {error}");
            return FAILED;
        }
    };
    let env = SEARCH_PATHS
        .into_iter()
        .filter_map(|name| Some((name.to_string(), text::encode(std::env::var_os(name)?))))
        .collect();
    let request = Request {
        host: text::encode(&arguments.host),
        session: super::session::Session {
            command: arguments.command.as_ref().map(text::encode),
            env,
            no_stdin: arguments.no_stdin,
        },
    };
    let args = serde_json::to_value(&request).expect("plain data always serializes");
    let hello = Hello { verb: VERB.to_string(), args };
    let options = Options {
        labels: Labels::None,
        stdin: !arguments.no_stdin,
        waits_for_placement: false,
        ..Options::default()
    };
    client::conclude(client::call(&client::socket(None), &hello, &options), FAILED)
}

/// Whether Hydra calls for srun: told to start by Slurm (`-bootstrap slurm`), it gives the words of srun to
/// the program that `HYDRA_LAUNCHER_EXEC` names, which is this one.
fn of_srun(words: &[OsString]) -> bool {
    let number = |word: Option<&OsString>| {
        word.and_then(|word| word.to_str()).is_some_and(|word| word.parse::<u32>().is_ok())
    };
    match words.first().and_then(|word| word.to_str()) {
        Some("--nodelist") => true,
        Some("-N") => number(words.get(1)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hydras_words_for_srun_are_told_from_those_for_a_remote_shell() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        for (text, srun) in [
            ("--nodelist a,b -N 2 -n 2 hydra_pmi_proxy --proxy-id -1", true),
            ("-N 2 -n 2 hydra_pmi_proxy", true),
            ("-x worker-0-1 hydra_pmi_proxy --proxy-id 0", false),
            ("-N worker-0-1", false),
            ("worker-0-1 -N 2", false),
        ] {
            assert_eq!(of_srun(&words(text)), srun, "{text}");
        }
    }
}
