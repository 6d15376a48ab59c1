//! Two or three candidates and an API server in memory, under any interleaving, lost messages and
//! clocks that differ in what they show and how fast they run: never two leaders that may write.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use proptest::prelude::*;
use quorate_controller::lease::{Candidate, Decision, Holder, Moment, Timing};
use std::time::Duration;

/// The server's Lease: a version and the holder, as replaced last.
#[derive(Clone, Debug, Default)]
struct Server {
    lease: Option<(u64, Holder)>,
    versions: u64,
}

impl Server {
    /// A create (`expected` is `None`) or a replace by version.
    fn write(&mut self, expected: Option<&str>, holder: Holder) -> Option<String> {
        let current = self.lease.as_ref().map(|(version, _)| version.to_string());
        if current.as_deref() != expected {
            return None;
        }
        self.versions += 1;
        self.lease = Some((self.versions, holder));
        Some(self.versions.to_string())
    }

    fn read(&self) -> Option<(String, Holder)> {
        self.lease.as_ref().map(|(version, holder)| (version.to_string(), holder.clone()))
    }
}

/// A steady clock of its own: it shows another time than the others', and runs faster or slower.
#[derive(Clone, Copy, Debug)]
struct Clock {
    offset: Duration,
    rate: f64,
}

impl Clock {
    fn at(self, real: Duration) -> Moment {
        self.offset + real.mul_f64(self.rate)
    }
}

/// What happens to a candidate at one step.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// It reads (or hears by its watch) what the server had `ago` milliseconds before.
    Reads { ago: u64 },
    /// It does what it decides; the answer comes after `delay`.
    Acts { delay: u64 },
    /// It does what it decides, and the answer is lost.
    ActsUnheard,
    /// It does what it decides, and the request is lost.
    ActsInVain,
    /// It gives up what it holds and stops leading, as on SIGTERM.
    Releases,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    who: usize,
    /// Milliseconds after the step before.
    after: u64,
    fate: Fate,
}

struct Process {
    candidate: Candidate,
    clock: Clock,
    /// Its fence, in its own time.
    open_until: Moment,
    /// Confirmations under way: when each arrives (real time), version, when it was sent (own time).
    answers: Vec<(Duration, String, Moment)>,
}

impl Process {
    fn leads(&self, real: Duration) -> bool {
        self.clock.at(real) < self.open_until
    }

    fn hear(&mut self, real: Duration) {
        let now = self.clock.at(real);
        let (arrived, under_way) = std::mem::take(&mut self.answers)
            .into_iter()
            .partition(|(arrives, _, _)| *arrives <= real);
        self.answers = under_way;
        for (_, version, sent) in arrived {
            self.candidate.confirmed(version, sent, now);
            self.open_until = self.candidate.leads_until().unwrap_or_default();
        }
    }

    fn lose(&mut self) {
        self.candidate.stepped_down();
        self.open_until = Moment::ZERO;
    }
}

fn timing() -> Timing {
    Timing::new(Duration::from_secs(15), Duration::from_secs(10)).unwrap()
}

fn holder(me: &str) -> Holder {
    Holder { identity: Some(me.to_owned()), duration: Some(Duration::from_secs(15)) }
}

/// Plays the steps; answers how many terms began, or where two led at once.
fn play(clocks: &[Clock], steps: &[Step]) -> Result<u32, String> {
    let names = ["a", "b", "c"];
    let mut server = Server::default();
    let mut past: Vec<(Duration, Option<(String, Holder)>)> = vec![(Duration::ZERO, None)];
    let mut processes: Vec<Process> = clocks
        .iter()
        .zip(names)
        .map(|(clock, name)| Process {
            candidate: Candidate::new(name.to_owned(), timing()),
            clock: *clock,
            open_until: Moment::ZERO,
            answers: Vec::new(),
        })
        .collect();
    let mut real = Duration::ZERO;
    let mut terms = 0;
    for (at, step) in steps.iter().enumerate() {
        real += Duration::from_millis(step.after);
        let led: Vec<bool> = processes.iter().map(|process| process.leads(real)).collect();
        for process in &mut processes {
            process.hear(real);
        }
        let leading = processes.iter().filter(|process| process.leads(real)).count();
        if leading > 1 {
            return Err(format!("two lead after step {at} ({step:?}) at {real:?}"));
        }
        terms += processes.iter().zip(led).filter(|(now, was)| now.leads(real) && !was).count();

        let who = step.who % processes.len();
        let process = &mut processes[who];
        let now = process.clock.at(real);
        match step.fate {
            Fate::Reads { ago } => {
                let then = real.saturating_sub(Duration::from_millis(ago));
                let seen = past.iter().rev().find(|(at, _)| *at <= then);
                // A leader's shell does not listen to its watch.
                if process.candidate.leads_until().is_none() {
                    process.candidate.saw(seen.and_then(|(_, lease)| lease.clone()), now);
                }
            }
            Fate::Releases => {
                let expected = process.candidate.lease().map(|sight| sight.version.clone());
                if process.candidate.leads_until().is_some() {
                    process.lose();
                    server.write(expected.as_deref(), Holder::default());
                }
            }
            Fate::ActsInVain => {
                if matches!(process.candidate.decide(now), Decision::Lost { .. }) {
                    process.lose();
                }
            }
            Fate::Acts { .. } | Fate::ActsUnheard => match process.candidate.decide(now) {
                Decision::Wait { .. } => {}
                Decision::Lost { .. } => process.lose(),
                Decision::Acquire | Decision::Renew => {
                    let expected = process.candidate.lease().map(|sight| sight.version.clone());
                    let me = process.candidate.me().to_owned();
                    match (server.write(expected.as_deref(), holder(&me)), step.fate) {
                        (Some(version), Fate::Acts { delay }) => {
                            let arrives = real + Duration::from_millis(delay);
                            process.answers.push((arrives, version, now));
                        }
                        (Some(_), _) => {}
                        // A conflict: it reads again, as the shell does.
                        (None, _) => process.candidate.saw(server.read(), now),
                    }
                }
            },
        }
        past.push((real, server.read()));
    }
    Ok(u32::try_from(terms).unwrap())
}

fn clock() -> impl Strategy<Value = Clock> {
    // A deadline of 10 s and a duration of 15 s bear clocks of which one runs half again as fast as
    // another; real ones differ by less than a thousandth.
    (0_u64..1_000_000, 0.9_f64..1.1)
        .prop_map(|(offset, rate)| Clock { offset: Duration::from_secs(offset), rate })
}

fn step() -> impl Strategy<Value = Step> {
    let fate = prop_oneof![
        3 => (0_u64..20_000).prop_map(|ago| Fate::Reads { ago }),
        3 => (0_u64..50).prop_map(|ago| Fate::Reads { ago }),
        6 => (0_u64..200).prop_map(|delay| Fate::Acts { delay }),
        2 => (0_u64..30_000).prop_map(|delay| Fate::Acts { delay }),
        1 => Just(Fate::ActsUnheard),
        1 => Just(Fate::ActsInVain),
        1 => Just(Fate::Releases),
    ];
    let after = prop_oneof![4 => 0_u64..3_000, 1 => 0_u64..20_000];
    (0_usize..3, after, fate).prop_map(|(who, after, fate)| Step { who, after, fate })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]
    #[test]
    fn never_two_leaders(
        clocks in prop::collection::vec(clock(), 2..=3),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let played = play(&clocks, &steps);
        prop_assert!(played.is_ok(), "{}", played.unwrap_err());
    }
}

/// The property above would also hold if nobody ever led.
#[test]
fn somebody_leads_and_another_takes_over() {
    let even = Clock { offset: Duration::from_secs(7), rate: 1.0 };
    let odd = Clock { offset: Duration::from_hours(25), rate: 1.01 };
    let reads = |who, after| Step { who, after, fate: Fate::Reads { ago: 0 } };
    let acts = |who, after| Step { who, after, fate: Fate::Acts { delay: 10 } };
    let mut steps = vec![acts(0, 0), reads(1, 20)];
    // The first falls silent after 20 s of renewing; the second acts every second.
    steps.extend((0..4).flat_map(|_| [acts(0, 5_000), reads(1, 20)]));
    steps.extend((0..20).map(|_| acts(1, 1_000)));
    assert_eq!(play(&[even, odd], &steps), Ok(2));
}

/// Who waits less than the duration breaks the bound; the simulation must see that.
#[test]
fn the_simulation_sees_two_leaders() {
    // The second one's clock runs twice as fast: 15 of its seconds are 7.5 of the first one's.
    let clocks =
        [Clock { offset: Duration::ZERO, rate: 1.0 }, Clock { offset: Duration::ZERO, rate: 2.0 }];
    let step = |who, after, fate| Step { who, after, fate };
    let steps = [
        step(0, 0, Fate::Acts { delay: 0 }),
        step(1, 1, Fate::Reads { ago: 0 }),
        step(1, 7_600, Fate::Acts { delay: 0 }),
        step(0, 1, Fate::ActsInVain),
    ];
    assert!(play(&clocks, &steps).is_err());
}
