//! A verb of the queue as a client: asks the broker of its pod and reads what comes.
//!
//! Owns: the conversation, and the codes for a broker that does not answer. What is printed is the
//! verb's business.

use super::protocol::{QUEUE, Question, Session, Submit, Taken, kind};
use super::talk::{PART, Whole};
use super::verbs::Asked;
use crate::local::blocking::Caller;
use crate::local::{self, Connection, End, Hello, LocalError, connect};
use crate::query::block_on;
use anyhow::Context;
use bytes::Bytes;
use quorate_contract::exit;
use serde::de::DeserializeOwned;
use std::path::Path;

/// What a client tells with a question.
#[derive(Debug, Default)]
pub(super) struct Own {
    /// Its environment.
    pub(super) env: Option<Vec<(String, String)>>,
    /// Rules of `--env`.
    pub(super) rules: Vec<String>,
}

/// The opening of a call.
pub(super) fn hello(question: &Question, own: Own) -> Hello {
    let question = serde_json::to_value(question).expect("plain data always serializes");
    let asked = Asked { question, env: own.env, env_rules: own.rules };
    let args = serde_json::to_value(&asked).expect("plain data always serializes");
    Hello { verb: QUEUE.to_owned(), args }
}

/// Asks, and hands over each answer; gives the code to exit with. What went wrong is said.
pub(super) fn ask(
    socket: &Path,
    hello: &Hello,
    answer: impl FnMut(Bytes) -> anyhow::Result<()>,
) -> anyhow::Result<i32> {
    let end = converse(socket, hello, answer)?;
    if let Some(error) = end.error {
        crate::sys::complain(&error);
    }
    Ok(end.code)
}

/// Asks, and hands over each answer; gives how the conversation ended.
pub(super) fn converse(
    socket: &Path,
    hello: &Hello,
    mut answer: impl FnMut(Bytes) -> anyhow::Result<()>,
) -> anyhow::Result<End> {
    block_on(async {
        let mut connection = match connect(socket, hello).await {
            Ok(connection) => connection,
            Err(error @ LocalError::Connect { .. }) => {
                let error = Some(format!("{:#}", anyhow::Error::from(error)));
                return Ok(End { code: exit::UNAVAILABLE, error });
            }
            Err(error) => return Err(error.into()),
        };
        let mut whole = Whole::default();
        while let Some((kind, payload)) = connection.recv().await? {
            let Some((kind, payload)) = whole.add(kind, payload) else { continue };
            match kind {
                kind::ANSWER => answer(payload)?,
                local::kind::END => {
                    return Ok(serde_json::from_slice::<End>(&payload)?);
                }
                _ => {}
            }
        }
        Err(LocalError::NoEnd.into())
    })?
}

/// Asks, and gives all answers and the end.
pub(super) async fn all(socket: &Path, hello: &Hello) -> anyhow::Result<(Vec<Bytes>, End)> {
    let mut connection = connect(socket, hello).await?;
    let (mut whole, mut answers) = (Whole::default(), Vec::new());
    while let Some((kind, payload)) = connection.recv().await? {
        match whole.add(kind, payload) {
            Some((kind::ANSWER, payload)) => answers.push(payload),
            Some((local::kind::END, payload)) => {
                return Ok((answers, serde_json::from_slice(&payload)?));
            }
            _ => {}
        }
    }
    Err(LocalError::NoEnd.into())
}

/// Sends a question and after it all that there is to read, then an empty message; gives the one answer, or
/// the code and the words of the refusal.
pub(super) fn send<T: DeserializeOwned>(
    socket: &Path,
    question: &Question,
    reader: &mut dyn std::io::Read,
) -> anyhow::Result<Result<T, (i32, String)>> {
    block_on(async {
        let mut connection = connect(socket, &hello(question, Own::default())).await?;
        let mut piece = vec![0; PART];
        loop {
            let count = reader.read(&mut piece).context("the file cannot be read")?;
            connection.send(kind::ASK, &piece[..count]).await?;
            if count == 0 {
                break;
            }
        }
        let (mut whole, mut answer) = (Whole::default(), None);
        while let Some((kind, payload)) = connection.recv().await? {
            match whole.add(kind, payload) {
                Some((kind::ANSWER, payload)) => answer = Some(read(&payload)?),
                Some((local::kind::END, payload)) => {
                    let End { code, error } = serde_json::from_slice(&payload)?;
                    let refused = || (code, error.unwrap_or_else(|| "it was refused".to_owned()));
                    return Ok(answer.ok_or_else(refused));
                }
                _ => {}
            }
        }
        Err(LocalError::NoEnd.into())
    })?
}

/// Files that the launcher keeps for jobs of this client, until this is dropped or a job has them.
#[derive(Debug)]
pub(super) struct KeptFiles {
    call: Caller,
    /// Their name.
    pub(super) name: String,
}

impl KeptFiles {
    /// Sends a parcel; gives what it is kept as, or the code and the words of the refusal.
    pub(super) fn send(socket: &Path, parcel: &[u8]) -> Result<Self, (i32, String)> {
        let failed =
            |error: LocalError| (exit::UNAVAILABLE, format!("{:#}", anyhow::Error::from(error)));
        let hello = hello(&Question::Keep, Own::default());
        let mut call = Caller::connect(socket, &hello).map_err(failed)?;
        for piece in parcel.chunks(PART).chain([&[][..]]) {
            // Why it is not taken is still to be read.
            if call.send(kind::ASK, piece).is_err() {
                break;
            }
        }
        while let Some((kind, payload)) = call.recv().map_err(failed)? {
            match kind {
                kind::ANSWER => {
                    let name = serde_json::from_slice(&payload);
                    let name = name.map_err(|error| (exit::INTERNAL, error.to_string()))?;
                    return Ok(Self { call, name });
                }
                local::kind::END => {
                    let end: Result<End, _> = serde_json::from_slice(&payload);
                    let End { code, error } =
                        end.map_err(|error| (exit::INTERNAL, error.to_string()))?;
                    return Err((code, error.unwrap_or_else(|| "the files were refused".into())));
                }
                _ => {}
            }
        }
        Err(failed(LocalError::NoEnd))
    }

    /// They are kept for the program that this process becomes.
    pub(super) fn outlive_exec(self) -> std::io::Result<String> {
        self.call.outlives_exec()?;
        Ok(self.name)
    }
}

/// A connection on which one submission follows another.
#[derive(Debug)]
pub(super) struct Submissions {
    connection: Connection,
    whole: Whole,
}

impl Submissions {
    /// Opens it.
    pub(super) async fn open(socket: &Path, own: Own) -> Result<Self, LocalError> {
        let hello = hello(&Question::Session(Session::default()), own);
        Ok(Self { connection: connect(socket, &hello).await?, whole: Whole::default() })
    }

    /// Submits, and waits until that is durable.
    pub(super) async fn submit(&mut self, submit: &Submit) -> anyhow::Result<Taken> {
        let body = serde_json::to_vec(submit).expect("plain data always serializes");
        let mut parts = body.chunks(PART).peekable();
        while let Some(part) = parts.next() {
            let kind = if parts.peek().is_some() { kind::PART } else { kind::ASK };
            self.connection.send(kind, part).await?;
        }
        while let Some((kind, payload)) = self.connection.recv().await? {
            match self.whole.add(kind, payload) {
                Some((kind::ANSWER, payload)) => return read(&payload),
                Some((local::kind::END, payload)) => {
                    let end: End = serde_json::from_slice(&payload)?;
                    anyhow::bail!(end.error.unwrap_or_else(|| "the queue ended the call".into()));
                }
                _ => {}
            }
        }
        Err(LocalError::NoEnd.into())
    }
}

/// Asks a question whose answers are lists; gives all of it and the code.
pub(super) fn list<T: DeserializeOwned>(
    socket: &Path,
    question: &Question,
) -> anyhow::Result<(Vec<T>, i32)> {
    let mut all = Vec::new();
    let code = ask(socket, &hello(question, Own::default()), |answer| {
        let some: Vec<T> = read(&answer)?;
        all.extend(some);
        Ok(())
    })?;
    Ok((all, code))
}

/// Asks a question whose answers are lists, and says nothing: what went wrong is the error, unless
/// something came nevertheless.
pub(super) fn quiet_list<T: DeserializeOwned>(
    socket: &Path,
    question: &Question,
) -> anyhow::Result<Vec<T>> {
    let mut all = Vec::new();
    let end = converse(socket, &hello(question, Own::default()), |answer| {
        let some: Vec<T> = read(&answer)?;
        all.extend(some);
        Ok(())
    })?;
    match end.error {
        Some(error) if all.is_empty() => Err(anyhow::Error::msg(error)),
        _ => Ok(all),
    }
}

/// Reads an answer.
pub(super) fn read<T: DeserializeOwned>(answer: &Bytes) -> anyhow::Result<T> {
    serde_json::from_slice(answer).context("the broker's answer is not understood")
}
