//! The command line of a remote shell, as launchers write it.
//!
//! Owns: reading `[options] [user@]HOST command...` in the way of ssh(1) and rsh(1). Pure.
//! Options are accepted and have no effect, save those that change stdin: there is one user, one
//! port and no terminal between pods of a cluster.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// What a launcher asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arguments {
    /// The host as given, without `user@`.
    pub host: OsString,
    /// All words after the host joined with blanks, for `/bin/sh -c` over there; `None` asks for
    /// a login shell, which reads commands from stdin.
    pub command: Option<OsString>,
    /// `-n`: stdin is /dev/null.
    pub no_stdin: bool,
}

/// Why a command line is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentsError {
    /// No host among the words.
    #[error("no host given; usage: rsh [options] [user@]host [command...]")]
    NoHost,
    /// An option that needs a value is the last word.
    #[error("option -{0} needs a value")]
    NoValue(char),
    /// A long option, which neither ssh nor rsh has.
    #[error("unknown option {0}; usage: rsh [options] [user@]host [command...]")]
    Unknown(String),
}

/// Options of ssh(1) that take a value.
const WITH_VALUE: &str = "BbcDEeFIiJLlmOoPpQRSWw";

impl Arguments {
    /// Reads the words after the program's name.
    pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Self, ArgumentsError> {
        let mut words = words.into_iter();
        let mut no_stdin = false;
        let mut host = None;
        // Options may stand on both sides of the host, as with ssh; the first word of the command
        // ends them.
        let mut command = Vec::new();
        while let Some(word) = words.next() {
            let bytes = word.as_bytes();
            if bytes == b"--" {
                if host.is_none() {
                    host = words.next();
                }
                command.extend(words.by_ref());
                break;
            }
            if bytes.len() > 1 && bytes[0] == b'-' {
                if bytes[1] == b'-' {
                    return Err(ArgumentsError::Unknown(word.to_string_lossy().into_owned()));
                }
                let mut letters = bytes[1..].iter();
                while let Some(letter) = letters.next() {
                    let letter = char::from(*letter);
                    no_stdin |= letter == 'n' || letter == 'f';
                    if WITH_VALUE.contains(letter) {
                        if letters.as_slice().is_empty() && words.next().is_none() {
                            return Err(ArgumentsError::NoValue(letter));
                        }
                        break;
                    }
                }
                continue;
            }
            if host.is_none() {
                host = Some(word);
                continue;
            }
            command.push(word);
            command.extend(words.by_ref());
            break;
        }
        let host = host.ok_or(ArgumentsError::NoHost)?;
        Ok(Self { host: without_user(&host), command: join(&command), no_stdin })
    }
}

fn without_user(host: &OsStr) -> OsString {
    let bytes = host.as_bytes();
    let start = bytes.iter().rposition(|b| *b == b'@').map_or(0, |at| at + 1);
    OsString::from_vec(bytes[start..].to_vec())
}

fn join(words: &[OsString]) -> Option<OsString> {
    (!words.is_empty()).then(|| words.join(OsStr::new(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Arguments, ArgumentsError> {
        Arguments::parse(words.iter().map(OsString::from))
    }

    fn check(words: &[&str], host: &str, command: Option<&str>) {
        let arguments = parse(words).unwrap();
        assert_eq!(arguments.host, host, "{words:?}");
        assert_eq!(arguments.command, command.map(OsString::from), "{words:?}");
    }

    #[test]
    fn the_ways_of_real_launchers() {
        // Open MPI 4: a leading blank and literal quotes.
        check(
            &["w-0", " orted", "-mca", "ess", "\"env\"", "-mca", "x", "\"1;2\""],
            "w-0",
            Some(" orted -mca ess \"env\" -mca x \"1;2\""),
        );
        // With a prefix the command is one word of shell.
        check(
            &["w-1", "PATH=/o/bin:$PATH;export PATH;/o/bin/prted --prtemca ess \"env\""],
            "w-1",
            Some("PATH=/o/bin:$PATH;export PATH;/o/bin/prted --prtemca ess \"env\""),
        );
        // Hydra and Intel.
        check(
            &["-x", "w-2", "\"/usr/bin/hydra_pmi_proxy\"", "--control-port", "a:1"],
            "w-2",
            Some("\"/usr/bin/hydra_pmi_proxy\" --control-port a:1"),
        );
        check(&["-q", "-x", "w-3", "/p/hydra_bstrap_proxy"], "w-3", Some("/p/hydra_bstrap_proxy"));
    }

    #[test]
    fn options_of_ssh_are_skipped_with_their_values() {
        let words =
            ["-l", "me", "-p", "2222", "-o", "BatchMode=yes", "-oX=y", "-p22", "-tt", "h", "a"];
        check(&words, "h", Some("a"));
        check(&["me@h", "-x", "a", "-b", "--c"], "h", Some("a -b --c"));
        check(&["-xo", "A=b", "h", "a"], "h", Some("a"));
        check(&["--", "h", "-a"], "h", Some("-a"));
        check(&["h"], "h", None);
        assert!(parse(&["-n", "h", "a"]).unwrap().no_stdin);
        assert!(!parse(&["h", "a", "-n"]).unwrap().no_stdin);
    }

    #[test]
    fn wrong_lines_are_refused() {
        assert_eq!(parse(&[]), Err(ArgumentsError::NoHost));
        assert_eq!(parse(&["-x"]), Err(ArgumentsError::NoHost));
        assert_eq!(parse(&["-p"]), Err(ArgumentsError::NoValue('p')));
        assert_eq!(parse(&["--help", "h"]), Err(ArgumentsError::Unknown("--help".into())));
    }
}
