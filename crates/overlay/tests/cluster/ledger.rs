//! What all brokers together have seen, and what must hold of it.

use quorate_overlay::{BootId, ExchangeKey, Rank};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// One life of one broker: rank and a count of its starts.
pub(crate) type Life = (Rank, u32);

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Broken invariants.
    pub(crate) broken: Vec<String>,
    /// Events by life of rank 0 and number.
    pub(crate) events: HashMap<(BootId, u64), u64>,
    pub(crate) exchanges: BTreeMap<ExchangeKey, Exchanged>,
    pub(crate) casts: BTreeMap<u64, Casted>,
    pub(crate) channels: BTreeMap<u64, Talk>,
    /// Which receiver has seen which request or stream.
    pub(crate) seen: HashSet<(u64, Life)>,
    pub(crate) deliveries: u64,
}

/// A job's exchange.
#[derive(Debug, Default)]
pub(crate) struct Exchanged {
    pub(crate) members: Vec<Life>,
    pub(crate) root_life: u32,
    pub(crate) contributed: BTreeSet<Rank>,
    /// A digest of all blobs, or what failed.
    pub(crate) outcomes: BTreeMap<Rank, Result<u64, String>>,
    /// The job was ended by rank 0's shell.
    pub(crate) ended: bool,
}

#[derive(Debug)]
pub(crate) struct Casted {
    pub(crate) from: Life,
    pub(crate) root_life: u32,
    pub(crate) members: Vec<Life>,
    pub(crate) got: BTreeSet<Life>,
    pub(crate) failed: BTreeSet<Rank>,
}

/// A channel: a request or a stream.
#[derive(Debug)]
pub(crate) struct Talk {
    pub(crate) from: Life,
    pub(crate) to: Life,
    /// Rank 0 knew the peer when the channel was opened.
    pub(crate) known: bool,
    pub(crate) root_life: u32,
    /// Messages that the opener wants to send, and those that arrived.
    pub(crate) total: u64,
    pub(crate) arrived: u64,
    /// How the opener's end came out.
    pub(crate) opener: Option<Result<(), String>>,
    /// How the other end came out.
    pub(crate) acceptor: Option<Result<(), String>>,
    pub(crate) answered: bool,
}

impl Ledger {
    pub(crate) fn broken(&mut self, what: String) {
        if self.broken.len() < 20 {
            self.broken.push(what);
        }
    }

    /// Whether a live broker still waits for something.
    pub(crate) fn has_open_ends(&self, alive: &BTreeSet<Life>) -> bool {
        self.channels.values().any(|talk| {
            alive.contains(&talk.from)
                && (talk.opener.is_none()
                    || (talk.total > 0 && talk.acceptor.is_none() && alive.contains(&talk.to)))
        }) || self.exchanges.values().any(|exchange| {
            exchange.members.iter().any(|member| {
                alive.contains(member)
                    && exchange.contributed.contains(&member.0)
                    && !exchange.outcomes.contains_key(&member.0)
            })
        }) || self.casts.values().any(|cast| {
            alive.contains(&cast.from)
                && cast.members.iter().any(|member| {
                    alive.contains(member)
                        && !cast.got.contains(member)
                        && !cast.failed.contains(&member.0)
                })
        })
    }

    /// Judges what can only be judged at the end: `alive` are the lives that still are.
    pub(crate) fn judge(&mut self, alive: &BTreeSet<Life>, root_life: u32) {
        let mut broken = Vec::new();
        for (id, talk) in &self.channels {
            let both = alive.contains(&talk.from) && alive.contains(&talk.to);
            let same_root = talk.root_life == root_life;
            if !alive.contains(&talk.from) {
                continue;
            }
            match &talk.opener {
                None => broken.push(format!("channel {id} hangs: {talk:?}")),
                // Too much traffic is refused by name. Where an end, or rank 0, has had a former life,
                // what was said to that life can take what is open now down with it, by name.
                Some(Err(why))
                    if why.starts_with("Limit")
                        || (talk.to.1.max(talk.from.1).max(root_life) > 1
                            && (why.ends_with("started anew")
                                || why.ends_with("gave up")
                                || why.ends_with("is lost"))) => {}
                Some(Err(why)) if both && talk.known && same_root => {
                    broken.push(format!("channel {id} failed ({why}) between live ends: {talk:?}"));
                }
                // Who opens a channel to a broker that is not there and closes it at once does not
                // get to hear of it.
                Some(Ok(())) if both && talk.known && same_root => {
                    if talk.total == 0 && !talk.answered {
                        broken.push(format!("request {id} ended without its answer: {talk:?}"));
                    }
                    if talk.total > 0 && talk.arrived != talk.total {
                        broken.push(format!("stream {id} lost messages: {talk:?}"));
                    }
                }
                Some(_) => {}
            }
        }
        for (id, cast) in &self.casts {
            if !alive.contains(&cast.from) || cast.root_life != root_life {
                continue;
            }
            for member in &cast.members {
                let told = cast.failed.contains(&member.0);
                if alive.contains(member) && !told && !cast.got.contains(member) {
                    broken.push(format!("cast {id} neither reached nor failed for {member:?}"));
                }
            }
        }
        for (key, exchange) in &self.exchanges {
            let live: Vec<_> = exchange.members.iter().filter(|m| alive.contains(m)).collect();
            let outcomes: Vec<_> = live.iter().map(|m| exchange.outcomes.get(&m.0)).collect();
            for (member, outcome) in live.iter().zip(&outcomes) {
                if outcome.is_none() && exchange.contributed.contains(&member.0) {
                    broken.push(format!("{key:?} hangs at {member:?}"));
                }
            }
            let done: BTreeSet<u64> =
                exchange.outcomes.values().filter_map(|o| o.as_ref().ok()).copied().collect();
            if done.len() > 1 {
                broken.push(format!("{key:?} gave different blobs to its members"));
            }
            let failed = outcomes.iter().flatten().any(|o| o.is_err());
            if failed && !done.is_empty() && !exchange.ended && exchange.root_life == root_life {
                broken.push(format!("{key:?} completed for some and failed for others"));
            }
        }
        for what in broken {
            self.broken(what);
        }
    }
}
