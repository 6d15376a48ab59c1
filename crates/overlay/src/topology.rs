//! The tree's shape: a pure function of the largest size and the fan-out, the same on all brokers.
//!
//! Ranks fill a k-ary heap: the children of r are k·r+1 ..= k·r+k. A parent's rank is always
//! smaller than its children's, and a broker only ever attaches to one of its ancestors, so no
//! detour can close a cycle.

use crate::Rank;
use quorate_hostlist::IdSet;

/// Up to this size every broker connects to rank 0.
///
/// A flat tree joins in one round trip and has no inner broker to lose; its cost is one TLS
/// handshake and one copy of each broadcast per broker on rank 0, which grows with the size.
pub const FLAT_UP_TO: u32 = 128;

/// The shape of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    size: u32,
    fanout: u32,
}

impl Topology {
    /// The tree of `size` ranks with `fanout` children per inner rank; 0 chooses: flat up to
    /// [`FLAT_UP_TO`], beyond that two levels below the root with equal fan-out, never more than
    /// 128 children (then a third level comes).
    pub fn new(size: u32, fanout: u32) -> Self {
        let size = size.max(1);
        let fanout = match fanout {
            0 if size <= FLAT_UP_TO => size.max(2) - 1,
            0 => {
                // The smallest k with 1 + k + k² ≥ size keeps the depth at two.
                let k = (1..=128).find(|k| 1 + k + k * k >= size).unwrap_or(128);
                k.max(16)
            }
            given => given,
        };
        Self { size, fanout }
    }

    /// Ranks of the tree.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Children of an inner rank.
    pub fn fanout(&self) -> u32 {
        self.fanout
    }

    /// The planned parent; `None` for rank 0 and for ranks beyond the tree.
    pub fn parent(&self, rank: Rank) -> Option<Rank> {
        (rank > 0 && rank < self.size).then(|| (rank - 1) / self.fanout)
    }

    /// The planned children, ascending.
    pub fn children(&self, rank: Rank) -> std::ops::Range<Rank> {
        let first = u64::from(rank) * u64::from(self.fanout) + 1;
        let end = (first + u64::from(self.fanout)).min(u64::from(self.size));
        if first >= end { 0..0 } else { first as Rank..end as Rank }
    }

    /// Parent, grandparent and so on to rank 0.
    pub fn ancestors(&self, rank: Rank) -> impl Iterator<Item = Rank> + use<> {
        let shape = *self;
        std::iter::successors(shape.parent(rank), move |&r| shape.parent(r))
    }

    /// Whether `above` is one of the ancestors of `rank`.
    pub fn is_ancestor(&self, above: Rank, rank: Rank) -> bool {
        above < rank && self.ancestors(rank).any(|r| r == above)
    }

    /// Steps from rank 0.
    pub fn level(&self, rank: Rank) -> u32 {
        self.ancestors(rank).count() as u32
    }

    /// The largest level of any rank.
    pub fn depth(&self) -> u32 {
        self.level(self.size - 1)
    }

    /// The rank itself and everything below it.
    pub fn subtree(&self, rank: Rank) -> IdSet {
        let mut all = IdSet::new();
        let (mut first, mut end) = (rank, (rank + 1).min(self.size));
        while first < end {
            all = all.union(&IdSet::from(first..=end - 1));
            // A level of a subtree is a run of neighbours, so is the next.
            first = self.children(first).start;
            if first == 0 {
                break;
            }
            end = match self.children(end - 1) {
                last if last.is_empty() => self.size,
                last => last.end,
            };
        }
        all
    }

    /// The planned next hop from one rank towards another; `None` when they are the same or one
    /// is not in the tree.
    pub fn route(&self, from: Rank, to: Rank) -> Option<Rank> {
        if from == to || from >= self.size || to >= self.size {
            return None;
        }
        let mut hop = to;
        loop {
            match self.parent(hop) {
                Some(parent) if parent == from => return Some(hop),
                Some(parent) => hop = parent,
                None => return self.parent(from),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_is_flat_when_small_and_two_levels_deep_beyond() {
        for (size, fanout, depth) in [
            (1, 1, 0),
            (2, 1, 1),
            (64, 63, 1),
            (128, 127, 1),
            (129, 16, 2),
            (1_000, 32, 2),
            (4_096, 64, 2),
            (12_736, 113, 2),
            (100_000, 128, 3),
        ] {
            let tree = Topology::new(size, 0);
            assert_eq!((tree.fanout(), tree.depth()), (fanout, depth), "{size}");
        }
    }

    #[test]
    fn every_rank_has_one_parent_a_bounded_depth_and_a_route() {
        for size in [1, 2, 3, 7, 40, 129, 500] {
            for fanout in [0, 1, 2, 3, 16, 600] {
                let tree = Topology::new(size, fanout);
                let mut seen = IdSet::new();
                for rank in 0..size {
                    for child in tree.children(rank) {
                        assert!(seen.insert(child), "{child} has two parents");
                        assert_eq!(tree.parent(child), Some(rank));
                    }
                    let below: IdSet =
                        (0..size).filter(|&r| r == rank || tree.is_ancestor(rank, r)).collect();
                    assert_eq!(
                        tree.subtree(rank),
                        below,
                        "size {size} fanout {fanout} rank {rank}"
                    );
                }
                assert_eq!(seen.len() as u32, size - 1);
                for (from, to) in
                    [(0, size - 1), (size - 1, 0), (size / 2, size - 1), (size - 1, size / 3)]
                {
                    let (mut at, mut steps) = (from, 0);
                    while at != to {
                        at = tree.route(at, to).unwrap();
                        steps += 1;
                        assert!(steps <= 2 * tree.depth(), "route {from}..{to}");
                    }
                }
            }
        }
    }
}
