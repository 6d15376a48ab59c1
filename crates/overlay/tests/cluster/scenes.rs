//! Single behaviours, each in a small cluster: the cases that people meet, by name.

use crate::run::request;
use crate::shell::payload;
use crate::world::{Setup, World};
use quorate_hostlist::IdSet;
use quorate_overlay::{
    Bytes, Command, Delivery, ExchangeKey, ExitReason, FailureCode, FenceReason, Millis, State,
    Timing,
};

fn setup(size: u32, fanout: u32) -> Setup {
    Setup {
        size,
        min_size: size,
        fanout,
        timing: Timing::default(),
        codec: true,
        latency: 1,
        trace: crate::setting("QUORATE_SIM_TRACE").is_some(),
    }
}

fn cluster(setup: Setup) -> World {
    let mut world = World::new(setup, 7);
    world.record = Some(Vec::new());
    for host in 0..world.hosts.len() {
        world.start_at(host, 0);
    }
    world
}

/// A cluster in state RUN.
fn running(size: u32, fanout: u32) -> World {
    let mut world = cluster(setup(size, fanout));
    wait(&mut world, 2_000, "quorate", |world| {
        (0..size).all(|rank| state(world, rank) == Some(State::Run))
    });
    world
}

fn state(world: &World, rank: u32) -> Option<State> {
    world.node(rank).map(quorate_overlay::Node::state)
}

fn wait(world: &mut World, bound: u64, what: &str, holds: impl Fn(&World) -> bool) -> u64 {
    let begun = world.now;
    while !holds(world) {
        assert!(world.now < begun + bound, "not {what} within {bound} ms");
        let next = world.now + 1;
        while world.run(next).is_some() {}
    }
    world.now - begun
}

fn pass(world: &mut World, span: u64) {
    let end = world.now + span;
    while world.run(end).is_some() {}
}

fn record(world: &World) -> &[(u64, usize, Delivery)] {
    world.record.as_deref().unwrap_or(&[])
}

fn failures(world: &World, host: usize) -> Vec<(u64, FailureCode)> {
    record(world)
        .iter()
        .filter_map(|(at, to, delivery)| match delivery {
            Delivery::Closed { result: Err(failure), .. } if *to == host => {
                Some((*at, failure.code))
            }
            _ => None,
        })
        .collect()
}

fn unbroken(world: &World) {
    assert!(world.ledger.broken.is_empty(), "{:#?}", world.ledger.broken);
}

#[test]
fn one_broker_alone_is_a_cluster() {
    let mut world = running(1, 0);
    world.command(0, Command::Finish { done: true, reason: "done".into() });
    wait(&mut world, 1_000, "gone", |world| world.node(0).is_none());
    assert!(matches!(world.hosts[0].exit, Some(ExitReason::Finished { done: true, .. })));
}

#[test]
fn a_paused_broker_is_torpid_then_lively_and_nothing_is_lost() {
    let mut world = running(4, 2);
    request(&mut world, 0, 3, 100, Some(400));
    pass(&mut world, 5);
    world.pause(3);
    pass(&mut world, 10_000);
    assert_eq!(world.node(0).unwrap().torpid().to_string(), "3");
    world.resume(3);
    wait(&mut world, 5_000, "lively", |world| world.node(0).unwrap().torpid().is_empty());
    wait(&mut world, 20_000, "written", |world| {
        world.ledger.channels.values().all(|talk| talk.acceptor == Some(Ok(())))
    });
    assert_eq!(world.ledger.channels.values().next().unwrap().arrived, 400);
    let offline = record(&world).iter().any(|(.., d)| matches!(d, Delivery::Offline { .. }));
    assert!(!offline, "nobody was lost");
    unbroken(&world);
}

#[test]
fn the_death_of_an_inner_broker_loses_nothing_of_streams_that_cross_it() {
    // 7 and 13 are below 1 and 2, by way of 3 and 6.
    let mut world = running(15, 2);
    request(&mut world, 7, 13, 5_000, Some(300));
    request(&mut world, 13, 7, 5_000, Some(300));
    request(&mut world, 0, 8, 300_000, Some(20));
    pass(&mut world, 30);
    assert!(world.ledger.channels.values().any(|talk| talk.acceptor.is_none()), "too late");
    world.kill(1);
    pass(&mut world, 10);
    world.kill(6);
    wait(&mut world, 20_000, "written", |world| {
        world.ledger.channels.values().all(|talk| talk.acceptor == Some(Ok(())))
    });
    assert!(world.ledger.channels.values().all(|talk| talk.arrived == talk.total));
    unbroken(&world);
}

#[test]
fn a_straggler_of_an_earlier_attempt_is_refused_and_shown() {
    let mut late = setup(3, 0);
    late.min_size = 3;
    let mut world = World::new(late, 3);
    world.start_at(0, 0);
    world.start_at(1, 0);
    let straggler = world.add_host(2, 0, false);
    world.start_at(straggler, 0);
    wait(&mut world, 20_000, "refused", |world| world.hosts[straggler].exit.is_some());
    assert!(
        matches!(&world.hosts[straggler].exit,
            Some(ExitReason::Refused { reason }) if reason == "attempt 0, now 1"),
        "{:?}",
        world.hosts[straggler].exit
    );
    let missing = world.node(0).unwrap().missing(Millis(world.now));
    assert_eq!(missing.len(), 1);
    assert_eq!((missing[0].rank, missing[0].why.as_str()), (2, "refused: attempt 0, now 1"));
    world.start_at(2, world.now);
    wait(&mut world, 2_000, "quorate", |world| state(world, 2) == Some(State::Run));
    assert!(world.node(0).unwrap().missing(Millis(world.now)).is_empty());
}

#[test]
fn a_cluster_without_quorum_fails_with_a_table_of_who_is_missing() {
    let mut world = World::new(setup(4, 2), 5);
    for host in [0, 1, 2] {
        world.start_at(host, 0);
    }
    let bound = world.setup.timing.bootstrap_timeout.0;
    pass(&mut world, bound - 1_000);
    assert_eq!(state(&world, 0), Some(State::Quorum));
    assert_eq!(world.node(0).unwrap().gives_up_at(), Some(Millis(bound)));
    wait(&mut world, 5_000, "over", |world| (0..3).all(|rank| world.node(rank).is_none()));
    let Some(ExitReason::BootstrapTimeout { missing }) = &world.hosts[0].exit else {
        panic!("{:?}", world.hosts[0].exit);
    };
    assert_eq!(missing.len(), 1);
    assert_eq!((missing[0].rank, missing[0].why.as_str()), (3, "no contact"));
    assert!(matches!(world.hosts[2].exit, Some(ExitReason::BootstrapTimeout { .. })));
}

#[test]
fn a_broker_cut_off_from_rank_0_fences_itself_in_time_and_before_it_is_given_up() {
    let mut world = running(4, 2);
    world.hosts[3].supervised = false;
    let begun = world.now;
    world.set_group(3, 1);
    let orphan = world.setup.timing.orphan_timeout.0;
    wait(&mut world, orphan + 50, "fenced", |world| world.node(3).is_none());
    assert!(
        matches!(world.hosts[3].exit, Some(ExitReason::Fenced(FenceReason::Orphaned { .. }))),
        "{:?}",
        world.hosts[3].exit
    );
    let fenced = world.now;
    assert!(fenced >= begun + orphan - world.setup.timing.keepalive.0 - 50);
    wait(&mut world, 10_000, "given up", |world| !world.node(0).unwrap().online().contains(3));
    assert!(world.now > fenced);
    let missing = world.node(0).unwrap().missing(Millis(world.now));
    let lost = missing.iter().find(|missing| missing.rank == 3).unwrap();
    assert_eq!(lost.why, "lost: silent for too long");
    let silent = lost.silent.unwrap();
    assert!(
        silent >= world.setup.timing.lost_after,
        "counted from when it was heard, not given up"
    );
}

#[test]
fn requests_to_brokers_that_are_not_there_fail_at_once() {
    let mut late = setup(4, 0);
    late.min_size = 3;
    let mut world = World::new(late, 5);
    world.record = Some(Vec::new());
    for host in [0, 1, 2] {
        world.start_at(host, 0);
    }
    wait(&mut world, 2_000, "quorate", |world| {
        (0..3).all(|rank| state(world, rank) == Some(State::Run))
    });
    for from in [0, 1] {
        let begun = world.now;
        request(&mut world, from, 3, 10, None);
        let what = format!("failed at rank {from}");
        wait(&mut world, 20, &what, |world| !failures(world, from as usize).is_empty());
        assert_eq!(failures(&world, from as usize)[0].1, FailureCode::NotConnected);
        assert!(world.now - begun < 20);
    }
    // One that has been there and was lost.
    world.hosts[2].supervised = false;
    world.kill(2);
    wait(&mut world, 5_000, "given up", |world| !world.node(0).unwrap().online().contains(2));
    request(&mut world, 0, 2, 10, None);
    pass(&mut world, 1);
    assert_eq!(failures(&world, 0).last().unwrap().1, FailureCode::NotConnected);
}

#[test]
fn what_is_open_to_a_broker_fails_when_it_dies_and_it_rejoins_with_a_new_boot() {
    let mut world = running(4, 0);
    let before = world.node(0).unwrap().boot_of(2);
    request(&mut world, 0, 2, 100_000, Some(50));
    request(&mut world, 1, 2, 100_000, Some(50));
    pass(&mut world, 3);
    world.kill(2);
    let begun = world.now;
    world.start_at(2, begun + 100);
    wait(&mut world, 1_000, "back", |world| {
        state(world, 2) == Some(State::Run)
            && failures(world, 0).len() + failures(world, 1).len() == 2
    });
    assert_eq!(failures(&world, 0)[0].1, FailureCode::PeerLost);
    assert_eq!(failures(&world, 1)[0].1, FailureCode::PeerLost);
    assert_ne!(world.node(0).unwrap().boot_of(2), before);
    // The loss is an event that everybody has got, once.
    for host in [0, 1, 3] {
        let losses = record(&world)
            .iter()
            .filter(|(_, to, d)| *to == host && matches!(d, Delivery::Offline { rank: 2, .. }))
            .count();
        assert_eq!(losses, 1, "rank {host}");
    }
}

#[test]
fn a_late_joiner_gets_to_run() {
    let mut late = setup(6, 2);
    late.min_size = 5;
    let mut world = World::new(late, 5);
    for host in 0..5 {
        world.start_at(host, 0);
    }
    wait(&mut world, 2_000, "quorate", |world| state(world, 4) == Some(State::Run));
    pass(&mut world, 30_000);
    world.start_at(5, world.now);
    wait(&mut world, 500, "in", |world| state(world, 5) == Some(State::Run));
    assert_eq!(world.node(0).unwrap().online().len(), 6);
}

#[test]
fn a_broker_that_leaves_is_offline_at_once() {
    let mut world = running(7, 2);
    world.command(6, Command::Leave { reason: "told to terminate".into() });
    wait(&mut world, 50, "offline", |world| !world.node(0).unwrap().online().contains(6));
    wait(&mut world, 50, "told", |world| {
        record(world).iter().any(|(_, to, delivery)| {
            *to == 3
                && matches!(delivery, Delivery::Offline { rank: 6, reason, .. }
                    if reason == "told to terminate")
        })
    });
    assert_eq!(world.hosts[6].exit, Some(ExitReason::Left));
}

#[test]
fn a_broker_whose_parent_never_comes_joins_through_its_grandparent_and_goes_home_later() {
    let mut late = setup(7, 2);
    late.min_size = 6;
    let mut world = World::new(late, 5);
    for host in [0, 1, 3, 4, 5, 6] {
        world.start_at(host, 0);
    }
    // 5 and 6 belong below 2.
    let bound = world.setup.timing.reparent_after.0 + 1_500;
    wait(&mut world, bound, "quorate", |world| state(world, 6) == Some(State::Run));
    assert_eq!(world.node(5).unwrap().parent(), Some(0));
    world.start_at(2, world.now);
    let bound = world.setup.timing.home_retry.0 * 3;
    wait(&mut world, bound, "home", |world| {
        [5, 6].iter().all(|&rank| world.node(rank).unwrap().parent() == Some(2))
    });
    pass(&mut world, 1_000);
    assert_eq!(world.node(0).unwrap().online().len(), 7);
    assert_eq!(world.node(0).unwrap().next_hop(6), Some(2));
}

#[test]
fn rank_0_started_anew_gathers_the_cluster_again() {
    let mut world = running(15, 2);
    request(&mut world, 7, 13, 3_000, Some(200));
    pass(&mut world, 10);
    world.kill(0);
    world.start_at(0, world.now + 200);
    wait(&mut world, 2_000, "whole again", |world| {
        (0..15).all(|rank| state(world, rank) == Some(State::Run))
            && world.node(0).unwrap().online().len() == 15
    });
    // What does not concern rank 0 goes on.
    wait(&mut world, 10_000, "written", |world| {
        world.ledger.channels.values().all(|talk| talk.acceptor == Some(Ok(())))
    });
    let replaced =
        record(&world).iter().filter(|(.., d)| matches!(d, Delivery::RootReplaced { .. })).count();
    assert_eq!(replaced, 14);
    unbroken(&world);
}

#[test]
fn large_messages_cross_in_parts_and_too_large_ones_are_refused() {
    let mut world = running(4, 1);
    request(&mut world, 0, 3, 9_000_000, None);
    request(&mut world, 3, 3, 5_000_000, None);
    wait(&mut world, 30_000, "answered", |world| {
        world.ledger.channels.values().all(|talk| talk.answered)
    });
    request(&mut world, 1, 3, quorate_overlay::MAX_MESSAGE + 1, None);
    pass(&mut world, 5);
    assert_eq!(failures(&world, 1)[0].1, FailureCode::Limit);
    unbroken(&world);
}

#[test]
fn a_reader_that_grants_nothing_stops_its_writer() {
    let mut world = running(2, 0);
    let channel = world.hosts[0].node.as_mut().unwrap().new_channel();
    let payload = Bytes::from_static(b"x");
    world.command(
        0,
        Command::Open { channel, to: 1, service: "mute".into(), payload: payload.clone() },
    );
    for _ in 0..quorate_overlay::INITIAL_CREDITS + 3 {
        world.command(0, Command::Send { channel, payload: payload.clone() });
    }
    assert_eq!(world.hosts[0].node.as_ref().unwrap().credits(channel), Some(0));
    let blocked =
        record(&world).iter().filter(|(.., d)| matches!(d, Delivery::Blocked { .. })).count();
    assert_eq!(blocked, 3);
}

#[test]
fn an_exchange_fails_everywhere_when_a_member_is_lost() {
    let mut world = running(7, 2);
    world.hosts[6].supervised = false;
    let key = ExchangeKey { job: 9, sequence: 0 };
    let members = IdSet::first_n(7);
    for rank in 0..6 {
        world.command(
            rank,
            Command::Contribute {
                key,
                members: members.clone(),
                blob: payload(&[rank as u64], 100),
            },
        );
    }
    pass(&mut world, 1_000);
    world.kill(6);
    let failed = |world: &World| {
        record(world)
            .iter()
            .filter(|(.., d)| {
                matches!(d, Delivery::ExchangeFailed { rank: 6, failure, .. }
                if failure.code == FailureCode::PeerLost)
            })
            .count()
    };
    let bound = world.setup.timing.rejoin_grace.0 + 200;
    wait(&mut world, bound, "failed", |world| failed(world) == 6);
    // One that names a broker which is not there fails at once.
    let key = ExchangeKey { job: 10, sequence: 0 };
    world.command(5, Command::Contribute { key, members, blob: Bytes::new() });
    wait(&mut world, 50, "failed", |world| {
        record(world).iter().any(|(_, to, d)| {
            *to == 5 && matches!(d, Delivery::ExchangeFailed { key: k, .. } if *k == key)
        })
    });
}

#[test]
fn members_that_disagree_about_the_members_all_fail() {
    let mut world = running(7, 2);
    let key = ExchangeKey { job: 1, sequence: 0 };
    for (rank, members) in [(3, "3-4"), (4, "3-5"), (5, "3-5")] {
        let members = members.parse().unwrap();
        world.command(rank, Command::Contribute { key, members, blob: Bytes::new() });
    }
    wait(&mut world, 200, "failed", |world| {
        let failed = |host| {
            record(world)
                .iter()
                .any(|(_, to, d)| *to == host && matches!(d, Delivery::ExchangeFailed { .. }))
        };
        failed(3) && failed(4) && failed(5)
    });
}

#[test]
fn events_reach_everybody_in_one_order_and_a_job_that_ends_frees_its_exchanges() {
    let mut world = running(7, 2);
    for rank in [6, 0, 3, 6] {
        world.next_id += 1;
        let event = payload(&[world.next_id], 16);
        world.command(rank, Command::Publish { topic: "t".into(), payload: event });
    }
    pass(&mut world, 100);
    let heard = |host: usize| -> Vec<Bytes> {
        record(&world)
            .iter()
            .filter_map(|(_, to, d)| match d {
                Delivery::Published { payload, .. } if *to == host => Some(payload.clone()),
                _ => None,
            })
            .collect()
    };
    assert_eq!(heard(0).len(), 4);
    assert!((1..7).all(|host| heard(host) == heard(0)));
    let key = ExchangeKey { job: 5, sequence: 0 };
    let members: IdSet = "2,5".parse().unwrap();
    world.command(2, Command::Contribute { key, members, blob: Bytes::new() });
    pass(&mut world, 50);
    world.command(0, Command::EndJob { job: 5 });
    wait(&mut world, 50, "cancelled", |world| {
        record(world).iter().any(|(_, to, d)| {
            *to == 2
                && matches!(d, Delivery::ExchangeFailed { failure, .. }
                if failure.code == FailureCode::Cancelled)
        })
    });
    unbroken(&world);
}

#[test]
fn a_broker_that_hangs_in_cleanup_holds_up_nobody_beyond_the_bound() {
    let mut world = running(7, 2);
    world.hosts[5].hangs = true;
    world.closing = true;
    world.command(0, Command::Finish { done: true, reason: "done".into() });
    let bound = world.setup.timing.shutdown_timeout.0 + 100;
    let took = wait(&mut world, bound, "gone", |world| world.alive().is_empty());
    assert!(took > world.setup.timing.shutdown_warn.0);
    let warned = record(&world).iter().any(|(_, to, d)| {
        *to == 0 && matches!(d, Delivery::ShutdownSlow { waiting } if waiting.to_string() == "2")
    });
    assert!(warned, "rank 0 says whom it waits for");
}

#[test]
fn a_broker_that_missed_more_events_than_are_remembered_is_told_so() {
    let mut world = running(4, 0);
    request(&mut world, 2, 3, 100, Some(100));
    pass(&mut world, 2);
    // Its link breaks and nobody hears it for a second.
    world.break_connection(2);
    world.set_group(2, 1);
    for _ in 0..600 {
        world.next_id += 1;
        let event = payload(&[world.next_id], 16);
        world.command(0, Command::Publish { topic: "t".into(), payload: event });
    }
    pass(&mut world, 1_000);
    world.set_group(2, 0);
    world.kick();
    wait(&mut world, 6_000, "told", |world| {
        record(world)
            .iter()
            .any(|(_, to, d)| *to == 2 && matches!(d, Delivery::EventsLost { from: 2, .. }))
    });
    let lost = record(&world).iter().filter(|(.., d)| matches!(d, Delivery::EventsLost { .. }));
    assert_eq!(lost.count(), 1, "the others have missed nothing");
    // What was open goes on, and so do events.
    let event = payload(&[9_999], 16);
    world.command(0, Command::Publish { topic: "t".into(), payload: event.clone() });
    wait(&mut world, 5_000, "whole", |world| {
        let heard = record(world).iter().any(|(_, to, d)| {
            *to == 2 && matches!(d, Delivery::Published { payload, .. } if *payload == event)
        });
        heard && world.ledger.channels.values().all(|talk| talk.acceptor == Some(Ok(())))
    });
    unbroken(&world);
}

#[test]
fn a_link_whose_peer_does_not_read_drops_what_it_forwards_and_nothing_is_lost() {
    // 1 stands between 0 and 2, and does not read for a while.
    let mut world = running(3, 1);
    for _ in 0..20 {
        request(&mut world, 0, 2, 200_000, Some(20));
    }
    world.pause(1);
    pass(&mut world, 4_000);
    world.resume(1);
    wait(&mut world, 60_000, "written", |world| {
        world.ledger.channels.values().all(|talk| talk.acceptor == Some(Ok(())))
    });
    unbroken(&world);
}

#[test]
fn a_broker_that_a_former_rank_0_gave_up_is_not_ignored_for_ever() {
    let mut world = running(3, 2);
    // What they have said to each other before counts on both sides.
    request(&mut world, 1, 2, 10, None);
    request(&mut world, 2, 1, 10, None);
    pass(&mut world, 4_000);
    world.pause(2);
    pass(&mut world, 100);
    world.break_connection(2);
    let bound = world.setup.timing.rejoin_grace.0 + 100;
    wait(&mut world, bound, "given up", |world| !world.node(0).unwrap().online().contains(2));
    pass(&mut world, 50);
    world.kill(0);
    world.start_at(0, world.now + 300);
    pass(&mut world, 1_000);
    world.resume(2);
    wait(&mut world, 3_000, "whole again", |world| {
        (0..3).all(|rank| state(world, rank) == Some(State::Run))
    });
    // The first attempt may find out that the other side has forgotten everything.
    for round in 0..3 {
        request(&mut world, 1, 2, 10, None);
        request(&mut world, 2, 1, 10, None);
        // Answers take up to 3 s.
        pass(&mut world, 5_000);
        let talks = || world.ledger.channels.values();
        assert!(talks().all(|talk| talk.opener.is_some()), "something hangs in round {round}");
    }
    let last: Vec<_> = world.ledger.channels.values().rev().take(2).collect();
    assert!(last.iter().all(|talk| talk.answered), "{last:#?}");
}

fn missing(world: &World) -> Vec<(u32, String)> {
    let missing = world.node(0).map(|node| node.missing(Millis(world.now))).unwrap_or_default();
    missing.into_iter().map(|one| (one.rank, one.why)).collect()
}

fn online(world: &World) -> String {
    world.node(0).map(|node| node.online().to_string()).unwrap_or_default()
}

#[test]
fn a_cluster_grows_and_shrinks_and_misses_nobody_who_was_let_go() {
    for fanout in [0, 1, 2] {
        let mut world = World::new(Setup { min_size: 3, ..setup(6, fanout) }, 7);
        for host in 0..3 {
            world.start_at(host, 0);
        }
        wait(&mut world, 2_000, "quorate", |world| {
            (0..3).all(|rank| state(world, rank) == Some(State::Run))
        });
        world.command(0, Command::Resize { size: 3 });
        assert_eq!((missing(&world), world.node(0).unwrap().size()), (vec![], 3));

        world.command(0, Command::Resize { size: 5 });
        let expected = [3, 4].map(|rank| (rank, "no contact".to_owned()));
        assert_eq!(missing(&world), expected);
        let now = world.now;
        world.start_at(3, now);
        world.start_at(4, now);
        wait(&mut world, 12_000, "grown", |world| {
            online(world) == "0-4" && (3..5).all(|rank| state(world, rank) == Some(State::Run))
        });
        assert_eq!((missing(&world), world.node(0).unwrap().size()), (vec![], 5));

        // Told before the pod is: what is still there counts.
        world.command(0, Command::Resize { size: 4 });
        assert_eq!(world.node(0).unwrap().size(), 5);
        world.command(4, Command::Leave { reason: "told to stop".into() });
        wait(&mut world, 100, "shrunk", |world| online(world) == "0-3");
        assert!(matches!(world.hosts[4].exit, Some(ExitReason::Left)));
        assert_eq!((missing(&world), world.node(0).unwrap().size()), (vec![], 4));
        unbroken(&world);
    }
}

#[test]
fn a_broker_told_to_leave_when_the_cluster_is_done_calls_it_done() {
    let mut world = running(3, 0);
    world.command(0, Command::Finish { done: true, reason: "done".into() });
    wait(&mut world, 1_000, "in cleanup", |world| {
        state(world, 2).is_none_or(|state| state >= State::Cleanup)
    });
    world.command(2, Command::Leave { reason: "told to stop".into() });
    wait(&mut world, 1_000, "gone", |world| world.node(2).is_none());
    assert!(
        matches!(world.hosts[2].exit, Some(ExitReason::Finished { done: true, .. })),
        "{:?}",
        world.hosts[2].exit
    );
}

#[test]
fn a_rank_beyond_the_size_that_rank_0_was_told_is_welcome() {
    let mut world = World::new(Setup { min_size: 2, ..setup(4, 2) }, 7);
    world.start_at(0, 0);
    pass(&mut world, 1);
    world.command(0, Command::Resize { size: 2 });
    assert_eq!(world.node(0).unwrap().size(), 2);
    world.start_at(1, 1);
    world.start_at(3, 1);
    wait(&mut world, 12_000, "joined", |world| online(world) == "0-1,3");
    assert_eq!(world.node(0).unwrap().size(), 4);
    assert_eq!(missing(&world), [(2, "no contact".to_owned())]);
    unbroken(&world);
}

#[test]
fn a_broker_that_was_killed_is_not_shown_as_present_until_it_is_given_up() {
    let mut world = running(4, 2);
    world.kill(3);
    let gone = |world: &World| world.node(0).unwrap().present().to_string() == "0-2";
    wait(&mut world, 100, "away", gone);
    assert_eq!(online(&world), "0-3", "it may be back in a moment");
    assert!(missing(&world)[0].1.starts_with("away: "), "{:?}", missing(&world));
    wait(&mut world, 4_000, "lost", |world| online(world) == "0-2");
    assert!(missing(&world)[0].1.starts_with("lost: "), "{:?}", missing(&world));
}
