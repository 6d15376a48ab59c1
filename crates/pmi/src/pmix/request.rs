//! Requests of PMIx clients taken apart: the command byte and what follows it. Owns the commands'
//! codes and the order of their parts; answers are given by [`super::Pmix`].

use super::cleanup::JobControl;
use super::wire::{Info, Proc, Reader, Value, WireError};

/// Scope of key-values for ranks of the same node, and for those of others.
const LOCAL: u8 = 1;
const REMOTE: u8 = 2;
const GLOBAL: u8 = 3;

/// A request.
#[derive(Clone, Debug)]
pub(crate) enum Request<'a> {
    /// Tell me about my job.
    JobInfo,
    /// End the job with this status.
    Abort {
        /// The exit code.
        code: i32,
        /// Words for people.
        message: &'a [u8],
    },
    /// Publish packed key-values.
    Commit {
        /// Those for this node.
        local: Vec<u8>,
        /// Those for other nodes.
        remote: Vec<u8>,
    },
    /// Wait for others.
    Fence {
        /// Who takes part.
        procs: Vec<Proc<'a>>,
    },
    /// What has a process published?
    Get {
        /// The process.
        proc: Proc<'a>,
        /// The key asked for; empty for all.
        key: &'a [u8],
        /// Answer at once with what is here.
        immediate: bool,
        /// Seconds to wait; 0 for as long as it takes.
        timeout: u32,
    },
    /// I am done.
    Finalize,
    /// An event that others should hear of.
    Notify,
    /// Tell me of events.
    RegisterEvents,
    /// No longer; not to be answered.
    DeregisterEvents,
    /// Control the job.
    Control(JobControl<'a>),
    /// Anything else, known or not.
    Other,
}

impl<'a> Request<'a> {
    /// Reads a request.
    pub(crate) fn parse(reader: &mut Reader<'a>) -> Result<Self, WireError> {
        reader.pack(1)?;
        Ok(match reader.u8()? {
            0 => Self::JobInfo,
            1 => {
                reader.pack(1)?;
                let code = reader.i32()?;
                reader.pack(1)?;
                Self::Abort { code, message: reader.string()? }
            }
            2 => commit(reader)?,
            3 => {
                let procs = reader.list(Reader::process)?;
                reader.list(Reader::info)?;
                Self::Fence { procs }
            }
            4 => get(reader)?,
            5 => Self::Finalize,
            12 => Self::Notify,
            13 => Self::RegisterEvents,
            14 => Self::DeregisterEvents,
            18 => Self::Control(JobControl::parse(reader)?),
            _ => Self::Other,
        })
    }
}

fn commit<'a>(reader: &mut Reader<'a>) -> Result<Request<'a>, WireError> {
    let (mut local, mut remote) = (Vec::new(), Vec::new());
    while !reader.is_done() {
        reader.pack(1)?;
        let scope = reader.u8()?;
        reader.pack(1)?;
        let _kind_of_buffer = reader.u8()?;
        let pairs = reader.object()?;
        if matches!(scope, LOCAL | GLOBAL) {
            local.extend_from_slice(pairs);
        }
        if matches!(scope, REMOTE | GLOBAL) {
            remote.extend_from_slice(pairs);
        }
    }
    Ok(Request::Commit { local, remote })
}

fn get<'a>(reader: &mut Reader<'a>) -> Result<Request<'a>, WireError> {
    reader.pack(1)?;
    let namespace = reader.string()?;
    reader.pack(1)?;
    let rank = reader.u32()?;
    let directives = reader.list(Reader::info)?;
    // Clients before 4.0 may leave the key out.
    let key = if reader.is_done() {
        &[][..]
    } else {
        reader.pack(1)?;
        reader.string()?
    };
    let find = |key: &[u8]| directives.iter().find(|info: &&Info<'_>| info.key == key);
    Ok(Request::Get {
        proc: Proc { namespace, rank },
        key,
        immediate: find(b"pmix.immediate").is_some_and(|info| info.value.is_true()),
        timeout: find(b"pmix.timeout").map_or(0, |info| seconds(info.value)),
    })
}

fn seconds(value: Value<'_>) -> u32 {
    match value {
        Value::Number(seconds) => u32::try_from(seconds).unwrap_or(0),
        _ => 0,
    }
}
