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
