//! The small values that name things: ranks, boots, links, channels, exchanges, points in time.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, Sub};

/// A broker's place in the cluster: 0 is the launcher, the tree's root.
pub type Rank = u32;

/// A point in time or a span, in milliseconds. The zero point is the shell's choice (its start on a
/// monotonic clock that runs on while the process is stopped); points of different brokers are
/// never compared.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// So many whole seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds * 1000)
    }

    /// The span from `earlier` to this point; zero when it lies ahead.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Millis {
    type Output = Self;
    fn add(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub for Millis {
    type Output = Self;
    fn sub(self, span: Self) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

/// One life of a broker process: a random UUID drawn by the shell at start. 0 stands for "not
/// known".
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootId(pub u128);

impl BootId {
    /// No boot in particular.
    pub const UNKNOWN: Self = Self(0);

    /// Whether it names a boot.
    pub fn is_known(self) -> bool {
        self.0 != 0
    }
}

impl fmt::Display for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Eight digits tell boots apart in logs.
        write!(f, "boot:{:08x}", self.0 >> 96)
    }
}

/// One connection to a neighbour. The node numbers what it dials (even), the shell what it accepts
/// (odd, by [`LinkId::accepted`]); numbers are not used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

impl LinkId {
    /// The id of the `n`th connection that the shell accepted.
    pub const fn accepted(n: u64) -> Self {
        Self(n * 2 + 1)
    }

    /// The id of the `n`th connection that the node dialled.
    pub(crate) const fn dialled(n: u64) -> Self {
        Self(n * 2)
    }
}

/// A channel as its local end calls it. Ids of channels opened here come from
/// [`crate::Node::new_channel`]; those of channels opened by a peer come with
/// [`crate::Delivery::Opened`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(pub u64);

/// One exchange of blobs between the brokers of a job. The job's launcher chooses the number, every
/// member counts its exchanges from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeKey {
    /// The job.
    pub job: u64,
    /// The exchange's number within the job.
    pub sequence: u32,
}
