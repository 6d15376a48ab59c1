//! What is measured of the overlay on rank 0: bytes of its links, and how long brokers take to
//! answer. Nothing is asked of brokers while nobody observes.

use crate::broker::handle::Overlay;
use crate::broker::verbs;
use quorate_contract::observe::REFRESH;
use quorate_contract::status::{Figures, RoundTrip};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Brokers that are asked at once. More would say no more about the median.
const SAMPLE: usize = 16;
/// A broker that has not answered by then counts as this slow.
const PATIENCE: Duration = Duration::from_secs(1);
/// Measured at most so often, however many observe.
const APART: Duration = REFRESH.saturating_sub(Duration::from_secs(1));

/// Bytes of all links of a broker, in frames: what TLS adds is not counted.
#[derive(Debug, Default)]
pub(in crate::broker) struct Counters {
    came_in: AtomicU64,
    went_out: AtomicU64,
}

impl Counters {
    pub(in crate::broker) fn came_in(&self, bytes: usize) {
        self.came_in.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(in crate::broker) fn went_out(&self, bytes: usize) {
        self.went_out.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Measures.
#[derive(Debug)]
pub(super) struct Prober {
    overlay: Overlay,
    counters: Arc<Counters>,
    last: Mutex<Last>,
}

#[derive(Clone, Debug, Default)]
struct Last {
    at: Option<Instant>,
    /// The rank after which the next sample starts.
    turn: u32,
    round_trip: Option<RoundTrip>,
}

impl Prober {
    pub(super) fn new(overlay: Overlay, counters: Arc<Counters>) -> Self {
        Self { overlay, counters, last: Mutex::default() }
    }

    /// The latest figures.
    pub(super) fn figures(&self) -> Figures {
        Figures {
            bytes_in: self.counters.came_in.load(Ordering::Relaxed),
            bytes_out: self.counters.went_out.load(Ordering::Relaxed),
            round_trip: self.with(|last| last.round_trip.clone()),
        }
    }

    /// Asks some brokers, unless that was done just now.
    pub(super) async fn measure(&self) {
        let now = Instant::now();
        let due = self.with(|last| {
            let due = last.at.is_none_or(|at| now.duration_since(at) >= APART);
            if due {
                last.at = Some(now);
            }
            due.then_some(last.turn)
        });
        let Some(turn) = due else { return };
        let ranks = {
            let members = self.overlay.membership().borrow().clone();
            let others: Vec<u32> =
                members.online.keys().copied().filter(|&rank| rank != 0).collect();
            sample(&others, turn)
        };
        let mut answers = JoinSet::new();
        for &rank in &ranks {
            let overlay = self.overlay.clone();
            answers.spawn(async move {
                let start = Instant::now();
                let answer = verbs::hop(&overlay, rank, 0);
                let answered = tokio::time::timeout(PATIENCE, answer).await;
                // Lost in the meantime: says nothing about the others.
                let fails = matches!(answered, Ok(Err(_)));
                (!fails).then(|| start.elapsed().min(PATIENCE).as_micros() as u64)
            });
        }
        let micros: Vec<u64> = answers.join_all().await.into_iter().flatten().collect();
        self.with(|last| {
            last.turn = ranks.last().copied().unwrap_or(0);
            last.round_trip = round_trip(micros);
        });
    }

    fn with<T>(&self, action: impl FnOnce(&mut Last) -> T) -> T {
        action(&mut self.last.lock().expect("the lock holds because nothing panics under it"))
    }
}

/// The ranks to ask after `turn`, round and round.
fn sample(ranks: &[u32], turn: u32) -> Vec<u32> {
    let start = ranks.partition_point(|&rank| rank <= turn);
    let count = ranks.len().min(SAMPLE);
    ranks.iter().cycle().skip(start).take(count).copied().collect()
}

fn round_trip(mut micros: Vec<u64>) -> Option<RoundTrip> {
    micros.sort_unstable();
    let most_micros = *micros.last()?;
    Some(RoundTrip {
        brokers: micros.len() as u32,
        median_micros: micros[(micros.len() - 1) / 2],
        most_micros,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_a_turn() {
        assert!(sample(&[], 0).is_empty());
        assert_eq!(sample(&[1, 2, 5], 0), [1, 2, 5]);
        assert_eq!(sample(&[1, 2, 5], 2), [5, 1, 2]);
        let all: Vec<u32> = (1..=20).collect();
        let first = sample(&all, 0);
        assert_eq!(first, (1..=16).collect::<Vec<_>>());
        let second = sample(&all, *first.last().unwrap());
        assert_eq!(second[..4], [17, 18, 19, 20]);
        assert_eq!(second.len(), 16);
    }

    #[test]
    fn the_median_of_an_even_number_is_the_lower_one() {
        assert_eq!(round_trip(vec![]), None);
        let told = round_trip(vec![40, 10, 30, 20]).unwrap();
        assert_eq!((told.brokers, told.median_micros, told.most_micros), (4, 20, 40));
    }
}
