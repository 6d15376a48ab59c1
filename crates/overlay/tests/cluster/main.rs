//! Whole clusters in virtual time, with faults.
//!
//! `QUORATE_SIM_RUNS` sets how many random runs there are (20,000), `QUORATE_SIM_FIRST` the first
//! seed. A run that breaks an invariant of `docs/spec/overlay.md` is made smaller and printed with
//! its seed; `QUORATE_SIM_SEED=<seed>` runs that one alone, `QUORATE_SIM_SHRINK=1` makes it smaller
//! first, `QUORATE_SIM_TRACE=1` prints each step of it.

#![allow(clippy::print_stdout, reason = "a simulation tells what it did")]
#![allow(clippy::panic, reason = "a broken promise ends the test")]

mod large;
mod ledger;
mod net;
mod plan;
mod random;
mod run;
mod scenes;
mod shell;
mod world;

use plan::Plan;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

fn setting(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

/// A plan with as little in it as still breaks something.
fn shrink(plan: &Plan) -> Plan {
    let fails = |plan: &Plan| !run::run(plan, false).broken.is_empty();
    let mut best = plan.clone();
    let mut size = best.setup.size / 2;
    while size >= 1 {
        let smaller = best.smaller(size);
        if fails(&smaller) {
            best = smaller;
            size = best.setup.size / 2;
        } else if size + 1 >= best.setup.size {
            break;
        } else {
            size += (best.setup.size - size).div_ceil(2);
            if size >= best.setup.size {
                break;
            }
        }
    }
    let mut step = best.items.len();
    while step >= 1 {
        let mut at = 0;
        while at < best.items.len() {
            let fewer = best.without(at..(at + step).min(best.items.len()));
            if fails(&fewer) {
                best = fewer;
            } else {
                at += step;
            }
        }
        step /= 2;
    }
    best
}

#[test]
fn random_clusters_keep_their_promises() {
    if let Some(seed) = setting("QUORATE_SIM_SEED") {
        let plan = shrink_if_asked(Plan::draw(seed));
        println!("{plan:#?}");
        let outcome = run::run(&plan, setting("QUORATE_SIM_TRACE").is_some());
        println!("{outcome:#?}");
        assert!(outcome.broken.is_empty(), "{:#?}", outcome.broken);
        return;
    }
    let runs = setting("QUORATE_SIM_RUNS").unwrap_or(20_000);
    let first = setting("QUORATE_SIM_FIRST").unwrap_or(0);
    let next = AtomicU64::new(first);
    let (steps, frames, deliveries) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let failed: Mutex<Vec<(u64, Vec<String>)>> = Mutex::new(Vec::new());
    let begun = Instant::now();
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let enough = failed.lock().unwrap().len() >= 5;
                    if seed >= first + runs || enough {
                        return;
                    }
                    let outcome = run::run(&Plan::draw(seed), false);
                    steps.fetch_add(outcome.steps, Ordering::Relaxed);
                    frames.fetch_add(outcome.frames, Ordering::Relaxed);
                    deliveries.fetch_add(outcome.deliveries, Ordering::Relaxed);
                    if !outcome.broken.is_empty() {
                        failed.lock().unwrap().push((seed, outcome.broken));
                    }
                }
            });
        }
    });
    println!(
        "{runs} runs from seed {first}: {} events, {} frames, {} deliveries, {:.1} s",
        steps.into_inner(),
        frames.into_inner(),
        deliveries.into_inner(),
        begun.elapsed().as_secs_f64()
    );
    let failed = failed.into_inner().unwrap();
    for (seed, broken) in &failed {
        println!("seed {seed}: {broken:#?}");
    }
    if let Some((seed, _)) = failed.first() {
        let plan = shrink(&Plan::draw(*seed));
        let broken = run::run(&plan, false).broken;
        panic!("QUORATE_SIM_SEED={seed} fails; smallest plan: {plan:#?}\n{broken:#?}");
    }
}

fn shrink_if_asked(plan: Plan) -> Plan {
    if setting("QUORATE_SIM_SHRINK").is_some() { shrink(&plan) } else { plan }
}
