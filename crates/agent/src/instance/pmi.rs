//! A client of PMI-1 over the descriptor that a launcher has left open.
//!
//! Owns: the words on the wire, as MPICH's `simple_pmi.c` writes them (no document is normative):
//! one command a line, `key=value` apart by spaces, the value of an answer last. It blocks: nothing
//! else happens in a task that joins an instance.

use crate::sys;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};

/// The longest line that a server may send.
const LONGEST: u64 = 64 * 1024;

/// Why a server could not be talked to.
#[derive(Debug, thiserror::Error)]
pub(super) enum PmiError {
    /// A variable of the launcher is missing or no number.
    #[error("the variable {name} is {}, not a number: start it by a launcher that offers PMI, or take PMI_FD from its environment", value.as_deref().unwrap_or("not set"))]
    Variable {
        /// The variable.
        name: &'static str,
        /// What it holds.
        value: Option<String>,
    },
    /// The descriptor is not open.
    #[error("the descriptor {descriptor} of PMI_FD is not open")]
    NotOpen {
        /// The descriptor.
        descriptor: i32,
        /// The system's word for it.
        #[source]
        source: io::Error,
    },
    /// The server's connection broke.
    #[error("cannot {what} through PMI")]
    Broken {
        /// What was tried.
        what: &'static str,
        /// The system's word for it.
        #[source]
        source: io::Error,
    },
    /// The server answered something else than was asked for, or a failure.
    #[error("cannot {what} through PMI: the server says {answer:?}")]
    Refused {
        /// What was tried.
        what: &'static str,
        /// Its answer.
        answer: String,
    },
}

/// A connection to the server, after the greeting.
#[derive(Debug)]
pub(super) struct Pmi {
    /// This task's rank.
    pub(super) rank: u32,
    /// Tasks of the job.
    pub(super) size: u32,
    name: String,
    server: BufReader<File>,
}

impl Pmi {
    /// Greets the server that the environment names; `None` where there is none.
    pub(super) fn from_environment(
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, PmiError> {
        if variable("PMI_FD").is_none() {
            return Ok(None);
        }
        let number = |name: &'static str| {
            let value = variable(name);
            let number = value.as_deref().and_then(|text| text.parse::<u32>().ok());
            number.ok_or(PmiError::Variable { name, value })
        };
        let (fd, rank, size) = (number("PMI_FD")?, number("PMI_RANK")?, number("PMI_SIZE")?);
        let descriptor = i32::try_from(fd).unwrap_or(-1);
        let owned = sys::adopt(descriptor)
            .map_err(|errno| PmiError::NotOpen { descriptor, source: errno.into() })?;
        Self::greet(owned.into(), rank, size).map(Some)
    }

    fn greet(server: File, rank: u32, size: u32) -> Result<Self, PmiError> {
        let mut pmi = Self { rank, size, name: String::new(), server: BufReader::new(server) };
        pmi.ask("begin", "cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", "rc")?;
        pmi.name = pmi.ask("begin", "cmd=get_my_kvsname", "my_kvsname", "kvsname")?;
        Ok(pmi)
    }

    /// Publishes a value, which must have neither space nor line end in it.
    pub(super) fn put(&mut self, key: &str, value: &str) -> Result<(), PmiError> {
        let line = format!("cmd=put kvsname={} key={key} value={value}", self.name);
        self.ask("publish a value", &line, "put_result", "rc").map(drop)
    }

    /// Waits until all tasks are here.
    pub(super) fn barrier(&mut self) -> Result<(), PmiError> {
        self.ask("wait for the other tasks", "cmd=barrier_in", "barrier_out", "cmd").map(drop)
    }

    /// What was published under a key.
    pub(super) fn get(&mut self, key: &str) -> Result<String, PmiError> {
        let line = format!("cmd=get kvsname={} key={key}", self.name);
        self.ask("read a value", &line, "get_result", "value")
    }

    /// Says goodbye, so that the end of this task is no crash.
    pub(super) fn finalize(&mut self) -> Result<(), PmiError> {
        self.ask("end", "cmd=finalize", "finalize_ack", "cmd").map(drop)
    }

    /// Sends a command and reads the word `wanted` of its answer.
    fn ask(
        &mut self,
        what: &'static str,
        command: &str,
        answer: &str,
        wanted: &str,
    ) -> Result<String, PmiError> {
        let broken = |source| PmiError::Broken { what, source };
        self.server.get_mut().write_all(format!("{command}\n").as_bytes()).map_err(broken)?;
        let mut line = String::new();
        let mut bounded = io::Read::take(&mut self.server, LONGEST);
        if bounded.read_line(&mut line).map_err(broken)? == 0 {
            return Err(broken(io::ErrorKind::UnexpectedEof.into()));
        }
        let line = line.trim_end();
        let word = |key: &str| {
            let mut words = line.split(' ').filter_map(|word| word.split_once('='));
            words.find(|(name, _)| *name == key).map(|(_, value)| value.to_owned())
        };
        let failed = word("rc").is_some_and(|rc| rc != "0");
        match word(wanted) {
            Some(value) if !failed && word("cmd").as_deref() == Some(answer) => Ok(value),
            _ => Err(PmiError::Refused { what, answer: line.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::thread;

    /// A server that says these lines, one after each line that it hears; gives what it heard.
    fn server(answers: &'static [&str]) -> (File, thread::JoinHandle<Vec<String>>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let heard = thread::spawn(move || {
            let mut reader = BufReader::new(theirs.try_clone().unwrap());
            let mut writer = theirs;
            let mut heard = Vec::new();
            for answer in answers {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                heard.push(line.trim_end().to_owned());
                writeln!(writer, "{answer}").unwrap();
            }
            heard
        });
        (OwnedFd::from(ours).into(), heard)
    }

    #[test]
    fn a_task_meets_the_others() {
        let (file, heard) = server(&[
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "cmd=my_kvsname kvsname=kvs_7",
            "cmd=put_result rc=0 msg=success",
            "cmd=barrier_out",
            "cmd=get_result rc=0 msg=success value=a=b,c",
            "cmd=finalize_ack",
        ]);
        let mut pmi = Pmi::greet(file, 1, 2).unwrap();
        pmi.put("k", "v").unwrap();
        pmi.barrier().unwrap();
        assert_eq!(pmi.get("k").unwrap(), "a=b,c");
        pmi.finalize().unwrap();
        assert_eq!(
            heard.join().unwrap()[2..5],
            [
                "cmd=put kvsname=kvs_7 key=k value=v",
                "cmd=barrier_in",
                "cmd=get kvsname=kvs_7 key=k"
            ]
        );
    }

    #[test]
    fn a_refusal_is_told_in_the_servers_words() {
        let (file, _heard) = server(&[
            "cmd=response_to_init rc=0",
            "cmd=my_kvsname kvsname=k",
            "cmd=get_result rc=-1 msg=unknown",
        ]);
        let mut pmi = Pmi::greet(file, 0, 1).unwrap();
        let error = pmi.get("k").unwrap_err();
        assert!(error.to_string().contains("rc=-1 msg=unknown"), "{error}");
        // The server has gone.
        assert!(matches!(pmi.barrier(), Err(PmiError::Broken { .. })));
    }

    #[test]
    fn without_pmi_there_is_none_and_with_half_of_it_an_error() {
        assert!(Pmi::from_environment(&|_| None).unwrap().is_none());
        let half = |name: &str| (name == "PMI_FD").then(|| "3".to_owned());
        let error = Pmi::from_environment(&half).unwrap_err();
        assert!(error.to_string().contains("PMI_RANK is not set"), "{error}");
    }
}
