//! Clients of the two protocols, as far as one exchange needs them.

use quorate_pmi::{ClientId, JobServer, Protocol};

/// The value that each client publishes: as long as a network address with its decoration.
const VALUE: usize = 128;

/// A client.
pub(crate) trait Wire {
    /// What it speaks.
    const PROTOCOL: Protocol;
    /// A client of `rank` that will read what `other` has published.
    fn new(rank: u32, other: u32, namespace: &str) -> Self;
    /// Its connection to its node's server.
    fn connect(server: &mut JobServer, rank: u32) -> ClientId;
    /// What it says before the exchange.
    fn greeting(&self) -> Vec<u8>;
    /// Publishes its value and enters the fence.
    fn publish_and_fence(&self) -> Vec<u8>;
    /// Takes an answer; true when it held the other's value.
    fn hears(&mut self, words: &[u8]) -> bool;
    /// What it asks next, once it has left the fence.
    fn asks(&mut self) -> Option<Vec<u8>>;
}

/// Where a client is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Fence,
    Left,
    Asked,
    Done,
}

/// The value that a rank publishes.
fn value_of(rank: u32) -> String {
    format!("{rank:0>VALUE$}")
}

/// A client of PMI-1: lines of text.
pub(crate) struct Pmi1 {
    rank: u32,
    other: u32,
    namespace: String,
    stage: Stage,
}

impl Wire for Pmi1 {
    const PROTOCOL: Protocol = Protocol::Pmi1;

    fn new(rank: u32, other: u32, namespace: &str) -> Self {
        Self { rank, other, namespace: namespace.into(), stage: Stage::Fence }
    }

    fn connect(server: &mut JobServer, rank: u32) -> ClientId {
        server.connect_fd(rank)
    }

    fn greeting(&self) -> Vec<u8> {
        b"cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_maxes\n".to_vec()
    }

    fn publish_and_fence(&self) -> Vec<u8> {
        let Self { rank, namespace, .. } = self;
        let value = value_of(*rank);
        format!("cmd=put kvsname={namespace} key=card-{rank} value={value}\ncmd=barrier_in\n")
            .into()
    }

    fn hears(&mut self, words: &[u8]) -> bool {
        let words = String::from_utf8_lossy(words);
        match self.stage {
            Stage::Fence if words.contains("cmd=barrier_out") => self.stage = Stage::Left,
            Stage::Asked => {
                assert!(words.contains(&value_of(self.other)), "rank {}: {words}", self.rank);
                self.stage = Stage::Done;
                return true;
            }
            _ => {}
        }
        false
    }

    fn asks(&mut self) -> Option<Vec<u8>> {
        (self.stage == Stage::Left).then(|| {
            self.stage = Stage::Asked;
            format!("cmd=get kvsname={} key=card-{}\n", self.namespace, self.other).into()
        })
    }
}

/// A client of PMIx: packed messages in the encoding of PMIx 3, whose numbers are of full width.
pub(crate) struct Pmix {
    rank: u32,
    other: u32,
    namespace: String,
    stage: Stage,
}

/// Tags of its requests.
const COMMIT: u32 = 100;
const FENCE: u32 = 101;
const GET: u32 = 102;

/// Stands for all ranks of a namespace.
const ALL_RANKS: u32 = u32::MAX - 1;

impl Wire for Pmix {
    const PROTOCOL: Protocol = Protocol::Pmix;

    fn new(rank: u32, other: u32, namespace: &str) -> Self {
        Self { rank, other, namespace: namespace.into(), stage: Stage::Fence }
    }

    fn connect(server: &mut JobServer, _rank: u32) -> ClientId {
        server.connect_pmix()
    }

    fn greeting(&self) -> Vec<u8> {
        let mut hello = Packed::default();
        hello.raw(b"native\0").number(8).raw(&[0; 8]).raw(&[0]);
        hello.raw(self.namespace.as_bytes()).raw(&[0]).number(self.rank);
        hello.raw(b"3.2.5\0v3\0\x01hash\0");
        hello.message(0)
    }

    fn publish_and_fence(&self) -> Vec<u8> {
        let mut pair = Packed::default();
        // A key, the code of a string, the string.
        pair.number(1).text("card").short(3).text(&value_of(self.rank));
        let mut commit = Packed::default();
        // Command 2; data for other nodes (scope 2) in a buffer without descriptions (1).
        commit.number(1).raw(&[2]).number(1).raw(&[2]).number(1).raw(&[1]);
        commit.size(pair.0.len()).raw(&pair.0);
        let mut fence = Packed::default();
        // Command 3; one process, all ranks; no directives.
        fence.number(1).raw(&[3]).number(1).size(1).number(1);
        fence.text(&self.namespace).number(ALL_RANKS).number(1).size(0);
        [commit.message(COMMIT), fence.message(FENCE)].concat()
    }

    fn hears(&mut self, words: &[u8]) -> bool {
        // Bytes 4 to 8 of a header are the tag; the first answer to a hello has none.
        let tag = words.get(4..8).map(|tag| u32::from_be_bytes([tag[0], tag[1], tag[2], tag[3]]));
        match self.stage {
            Stage::Fence if tag == Some(FENCE) => self.stage = Stage::Left,
            Stage::Asked => {
                let wanted = value_of(self.other);
                let found = words.windows(VALUE).any(|part| part == wanted.as_bytes());
                assert!(found, "rank {} did not get the value of {}", self.rank, self.other);
                self.stage = Stage::Done;
                return true;
            }
            _ => {}
        }
        false
    }

    fn asks(&mut self) -> Option<Vec<u8>> {
        (self.stage == Stage::Left).then(|| {
            self.stage = Stage::Asked;
            let mut get = Packed::default();
            // Command 4: namespace, rank, no directives, key.
            get.number(1).raw(&[4]).number(1).text(&self.namespace).number(1).number(self.other);
            get.number(1).size(0).number(1).text("card");
            get.message(GET)
        })
    }
}

/// Packed bytes of PMIx 3.
#[derive(Default)]
struct Packed(Vec<u8>);

impl Packed {
    fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// A number of 32 bits; also the count before each pack.
    fn number(&mut self, value: u32) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    /// A number of 16 bits.
    fn short(&mut self, value: u16) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    /// A size: the code of its type (15: 64 bits), then the number.
    fn size(&mut self, value: usize) -> &mut Self {
        self.short(15).raw(&(value as u64).to_be_bytes())
    }

    /// A string with its end mark.
    fn text(&mut self, text: &str) -> &mut Self {
        self.number(text.len() as u32 + 1).raw(text.as_bytes()).raw(&[0])
    }

    /// The bytes behind a header of index, tag, length and padding.
    fn message(&self, tag: u32) -> Vec<u8> {
        let mut message = Self::default();
        message.number(0).number(tag).number(self.0.len() as u32).number(0).raw(&self.0);
        message.0
    }
}
