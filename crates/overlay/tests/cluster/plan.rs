//! What happens in a run, drawn from its seed: sizes, start times, traffic and faults. A plan is
//! data, so a failing one can be made smaller and run again.

use crate::random::Random;
use crate::world::Setup;
use quorate_overlay::{Millis, Timing};

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) setup: PlanSetup,
    pub(crate) items: Vec<Item>,
    /// When faults are over: everything heals, what is dead is started.
    pub(crate) calm_at: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanSetup {
    pub(crate) size: u32,
    pub(crate) min_size: u32,
    pub(crate) fanout: u32,
    pub(crate) codec: bool,
    pub(crate) latency: u64,
    /// The last broker starts by then.
    pub(crate) start_spread: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) at: u64,
    pub(crate) what: What,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    // Faults.
    Kill { rank: u32, down: u64 },
    Break { rank: u32 },
    Pause { rank: u32, span: u64 },
    Partition { first: u32, count: u32, span: u64 },
    Straggler { rank: u32 },
    // Traffic.
    Request { from: u32, to: u32, size: u32 },
    Stream { from: u32, to: u32, total: u32, size: u32 },
    Cast { from: u32, salt: u32, size: u32 },
    Publish { from: u32 },
    Job { salt: u32, rounds: u32, size: u32 },
}

impl What {
    pub(crate) fn is_fault(&self) -> bool {
        matches!(
            self,
            Self::Kill { .. }
                | Self::Break { .. }
                | Self::Pause { .. }
                | Self::Partition { .. }
                | Self::Straggler { .. }
        )
    }

    pub(crate) fn fits(&self, size: u32) -> bool {
        match *self {
            Self::Kill { rank, .. }
            | Self::Break { rank }
            | Self::Pause { rank, .. }
            | Self::Straggler { rank } => rank < size,
            Self::Partition { first, count, .. } => first + count <= size,
            Self::Request { from, to, .. } | Self::Stream { from, to, .. } => {
                from < size && to < size
            }
            Self::Cast { from, .. } | Self::Publish { from } => from < size,
            Self::Job { .. } => true,
        }
    }
}

impl Plan {
    pub(crate) fn draw(seed: u64) -> Self {
        let mut r = Random::new(seed);
        // Most runs are small, where most shapes and races are.
        let exponent = r.below(1000);
        let size = (200f64.powf(exponent as f64 / 999.0)).round() as u32;
        let fanout = match r.below(10) {
            0..=1 => 0,
            2..=4 => 2,
            5..=6 => 3,
            7 => 1.max(size / 20),
            8 => 4,
            _ => 8,
        };
        let min_size = if r.chance(70) { size } else { 1 + r.below(u64::from(size)) as u32 };
        let start_spread = [0, 20, 500, 4000, 12_000][r.below(5) as usize];
        let calm_at = start_spread + [300, 2_000, 8_000, 25_000][r.below(4) as usize];
        let setup = PlanSetup {
            size,
            min_size,
            fanout,
            codec: seed.is_multiple_of(8),
            latency: [0, 1, 3, 20][r.below(4) as usize],
            start_spread,
        };
        let mut items = Vec::new();
        let any = |r: &mut Random| r.below(u64::from(size)) as u32;
        if r.chance(85) && size > 1 {
            // Now and then more than anybody deserves.
            let faults = if r.chance(10) { r.between(10, 40) } else { r.between(1, 8) };
            for _ in 0..faults {
                let at = r.below(calm_at);
                // Inner brokers and rank 0 are hit more often than their number.
                let rank = match r.below(10) {
                    0 => 0,
                    1..=4 => any(&mut r).min(fanout),
                    _ => any(&mut r),
                };
                let what = match r.below(12) {
                    0..=3 => What::Kill { rank, down: [50, 300, 1000, 5000][r.below(4) as usize] },
                    4..=6 => What::Break { rank },
                    7..=8 => What::Pause {
                        rank,
                        span: [100, 6_000, 10_000, 14_000, 30_000][r.below(5) as usize],
                    },
                    9..=10 => {
                        let first = any(&mut r);
                        let count = 1 + r.below(u64::from(size - first)) as u32;
                        let span = [200, 3_000, 12_000, 18_000, 40_000][r.below(5) as usize];
                        What::Partition { first, count, span }
                    }
                    _ => What::Straggler { rank: any(&mut r) },
                };
                items.push(Item { at, what });
            }
        }
        for _ in 0..r.between(0, 12) {
            let at = r.below(calm_at + 1000);
            let (from, to) = match r.below(4) {
                0 => (0, any(&mut r)),
                1 => (any(&mut r), 0),
                _ => (any(&mut r), any(&mut r)),
            };
            let small = [16, 100, 2000][r.below(3) as usize];
            let size = if r.chance(5) { 300_000 } else { small };
            let what = match r.below(8) {
                0..=1 => What::Request { from, to, size },
                2..=3 => {
                    What::Stream { from, to, total: r.between(1, 60) as u32, size: size.max(16) }
                }
                4 => What::Cast { from, salt: r.next() as u32, size },
                5 => What::Publish { from },
                _ => What::Job {
                    salt: r.next() as u32,
                    rounds: r.between(1, 3) as u32,
                    size: size.max(24),
                },
            };
            items.push(Item { at, what });
        }
        items.sort_by_key(|item| item.at);
        Self { seed, setup, items, calm_at }
    }

    pub(crate) fn setup(&self, trace: bool) -> Setup {
        Setup {
            size: self.setup.size,
            min_size: self.setup.min_size,
            fanout: self.setup.fanout,
            timing: Timing { bootstrap_timeout: Millis(300_000), ..Timing::default() },
            codec: self.setup.codec,
            latency: self.setup.latency,
            trace,
        }
    }

    /// The plan without some of its items.
    pub(crate) fn without(&self, range: std::ops::Range<usize>) -> Self {
        let mut plan = self.clone();
        plan.items.drain(range);
        plan
    }

    /// The plan with fewer brokers.
    pub(crate) fn smaller(&self, size: u32) -> Self {
        let mut plan = self.clone();
        plan.setup.min_size = plan.setup.min_size.min(size);
        plan.setup.size = size;
        plan.items.retain(|item| item.what.fits(size));
        plan
    }
}
