//! What a server asks its shell to do, and the names that both use. Data only.

use std::sync::Arc;
use std::time::Duration;

/// A connection of a rank, known to one [`crate::JobServer`]. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// A language that ranks speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// The simple PMI of MPICH and Intel MPI.
    Pmi1,
    /// Its successor, spoken by Slurm's libpmi2.
    Pmi2,
    /// Open MPI's.
    Pmix,
}

impl Protocol {
    /// All of them, in the order of their codes in a [`Sequence`].
    pub const ALL: [Self; 3] = [Self::Pmi1, Self::Pmi2, Self::Pmix];

    /// The name as reports give it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pmi1 => "PMI-1",
            Self::Pmi2 => "PMI-2",
            Self::Pmix => "PMIx",
        }
    }
}

impl std::fmt::Display for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The name of one exchange between all nodes of a job. Each protocol counts for itself, so that
/// fences of two protocols in one job never answer each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence {
    /// Whose fence it is.
    pub protocol: Protocol,
    /// Its number, from 0.
    pub number: u64,
}

impl Sequence {
    /// One number for frames between nodes: the protocol's place in [`Protocol::ALL`] in the top
    /// byte.
    pub fn to_u64(self) -> u64 {
        (self.protocol as u64) << 56 | self.number & (u64::MAX >> 8)
    }

    /// The reverse of [`Self::to_u64`]; `None` for a protocol that does not exist.
    pub fn from_u64(code: u64) -> Option<Self> {
        let protocol = *Protocol::ALL.get((code >> 56) as usize)?;
        Some(Self { protocol, number: code & (u64::MAX >> 8) })
    }
}

/// Bytes for a client: its own, then bytes that many clients share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// To be written first.
    pub own: Vec<u8>,
    /// To be written next, in order; the same allocations for all clients of a node.
    pub shared: Vec<Arc<[u8]>>,
}

impl Output {
    /// The pieces in the order of writing; none is empty.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let shared = self.shared.iter().map(AsRef::as_ref);
        std::iter::once(self.own.as_slice()).chain(shared).filter(|piece| !piece.is_empty())
    }

    /// Bytes in all.
    pub fn len(&self) -> usize {
        self.slices().map(<[u8]>::len).sum()
    }

    /// Tells whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One piece, copied together.
    pub fn to_vec(&self) -> Vec<u8> {
        self.slices().collect::<Vec<_>>().concat()
    }
}

impl From<Vec<u8>> for Output {
    fn from(own: Vec<u8>) -> Self {
        Self { own, shared: Vec::new() }
    }
}

/// What the shell has to do. Effects are to be carried out in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Write to a client.
    Reply {
        /// The client.
        client: ClientId,
        /// What to write.
        bytes: Output,
    },
    /// Bring this node's blob into the exchange `sequence` of all nodes of the job, and hand back
    /// the blobs of all of them, this node's too or not, by [`crate::JobServer::exchanged`].
    Exchange {
        /// The exchange's name, the same on all nodes.
        sequence: Sequence,
        /// This node's part; may be empty.
        blob: Vec<u8>,
    },
    /// Ask `node` for what `rank` has published ([`crate::JobServer::modex_requested`] there), and
    /// hand the answer to [`crate::JobServer::modex`]. At most one such request is open per rank.
    FetchModex {
        /// The rank's node.
        node: u32,
        /// The rank.
        rank: u32,
    },
    /// Answer a [`Self::FetchModex`] of another node.
    AnswerModex {
        /// The node that asked.
        node: u32,
        /// The rank it asked about.
        rank: u32,
        /// What the rank has published; `None` when it will never publish (it is gone).
        blob: Option<Vec<u8>>,
    },
    /// Call [`crate::JobServer::fired`] with this id after the time given.
    Timer {
        /// The timer's name.
        id: u64,
        /// How long from now.
        after: Duration,
    },
    /// A rank asked for the end of the whole job (MPI_Abort, or a server error that leaves ranks
    /// waiting for ever): stop all ranks; `code` is the job's exit code.
    Abort {
        /// The rank that asked.
        rank: u32,
        /// The exit code that it asked for.
        code: i32,
        /// Its words; may be empty.
        message: String,
    },
    /// A rank has ended with success while others wait for it in a fence: stop all ranks. Comes at
    /// most once.
    Deserted {
        /// The rank that has ended.
        rank: u32,
        /// Whether it had ever been initialised.
        initialized: bool,
    },
    /// Write what is still to be written to the client, then close it.
    Close {
        /// The client.
        client: ClientId,
    },
    /// Remember what to remove when the ranks are gone.
    Cleanup(Cleanup),
    /// A rank was initialised by a protocol (each time it is).
    Wire {
        /// The rank.
        rank: u32,
        /// The protocol.
        protocol: Protocol,
    },
}

/// Files and directories that a rank wants removed when the ranks named by `of` have ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleanup {
    /// The rank that asked. Its user and rights are the bounds of what may be removed.
    pub by: u32,
    /// Whose end it is about.
    pub of: CleanupOf,
    /// Absolute paths of files.
    pub files: Vec<String>,
    /// Absolute paths of directories.
    pub directories: Vec<String>,
    /// Absolute paths of what must stay, even inside of the directories.
    pub ignore: Vec<String>,
    /// Directories are emptied with all that is below them; otherwise only of their own files.
    pub recursive: bool,
    /// Only directories that are empty go, no file. Never with `recursive`.
    pub only_empty: bool,
    /// The directories themselves stay (emptied).
    pub leave_top: bool,
}

/// Whose end a clean-up waits for. To wait for the end of all ranks on the node is always right,
/// and wise: each rank of Open MPI 4 names the session directory that they share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CleanupOf {
    /// All ranks of the job on this node.
    #[default]
    Job,
    /// These ranks, each on this node.
    Ranks(Vec<u32>),
}
