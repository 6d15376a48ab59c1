//! One run each at the sizes that matter: everything joins, exchanges, hears a cast, loses an
//! inner broker, and leaves.

use crate::ledger::{Casted, Exchanged};
use crate::shell::{number, payload};
use crate::world::{Setup, World};
use quorate_hostlist::IdSet;
use quorate_overlay::{
    Command, Delivery, ExchangeKey, ExitReason, MemoryCluster, Node, State, Timing, Topology,
};
use std::collections::BTreeSet;
use std::time::Instant;

fn all_run(world: &World) -> bool {
    world.node(0).is_some_and(|root| root.online().len() == world.setup.size as usize)
        && world.hosts.iter().all(|host| {
            host.node.as_ref().is_some_and(|n| n.state() == State::Run && n.is_connected())
        })
}

/// Runs until something holds; the virtual time that it took.
fn until(world: &mut World, bound: u64, what: &str, holds: impl Fn(&World) -> bool) -> u64 {
    let begun = world.now;
    while !holds(world) {
        assert!(world.now < begun + bound, "{what} takes more than {bound} ms");
        let next = world.now + 20;
        while world.run(next).is_some() {}
    }
    world.now - begun
}

fn large(size: u32, fanout: u32) {
    let clock = Instant::now();
    let setup = Setup {
        size,
        min_size: size,
        fanout,
        timing: Timing::default(),
        codec: false,
        latency: 1,
        trace: false,
    };
    let mut world = World::new(setup, u64::from(size));
    for host in 0..size as usize {
        let at = world.random.below(1_000);
        world.start_at(host, at);
    }
    let join = until(&mut world, 20_000, "joining", all_run);
    let frames = world.frames;
    assert!(
        frames < u64::from(size) * 30,
        "{frames} frames for {size} brokers to join: more than a few each"
    );

    let members = IdSet::first_n(size);
    let lives: Vec<_> = (0..size).map(|rank| (rank, 1)).collect();
    // What an exchange delivers is quadratic in its members: of the largest clusters every fourth
    // broker takes part, which still crosses every inner broker.
    let step = if size > 5_000 { 4 } else { 1 };
    let party: IdSet = (0..size).step_by(step).collect();
    let key = ExchangeKey { job: 1, sequence: 0 };
    let exchange = Exchanged {
        members: party.iter().map(|rank| (rank, 1)).collect(),
        root_life: 1,
        ..Exchanged::default()
    };
    world.ledger.exchanges.insert(key, exchange);
    let mut order = payload(&[1, 1, 64], 24).to_vec();
    order.extend_from_slice(party.to_string().as_bytes());
    let to = party.clone();
    world.command(0, Command::Cast { to, service: "job".into(), payload: order.into() });
    let exchanged = until(&mut world, 5_000, "the exchange", |world| {
        world.ledger.exchanges[&key].outcomes.len() == party.len()
    });
    assert!(world.ledger.exchanges[&key].outcomes.values().all(Result::is_ok));
    world.command(0, Command::EndJob { job: 1 });

    let cast = |world: &mut World, id: u64| {
        let entry = Casted {
            from: (0, 1),
            root_life: 1,
            members: lives.clone(),
            got: BTreeSet::new(),
            failed: BTreeSet::new(),
        };
        world.ledger.casts.insert(id, entry);
        let to = members.clone();
        let payload = payload(&[id], 1000);
        world.command(0, Command::Cast { to, service: id.to_string(), payload });
    };
    cast(&mut world, 1);
    let casted = until(&mut world, 5_000, "the cast", |world| {
        world.ledger.casts[&1].got.len() == size as usize
    });

    // An inner broker dies for good while a cast is on its way: what it had below comes back by
    // other ways, and nothing is lost but itself.
    let topology = Topology::new(size, fanout);
    let inner = topology.children(0).find(|&rank| !topology.children(rank).is_empty());
    let victim = inner.unwrap_or(size - 1);
    cast(&mut world, 2);
    let soon = world.now + 1;
    world.run(soon);
    world.kill(victim as usize);
    let healed = until(&mut world, 20_000, "healing", |world| {
        world.node(0).is_some_and(|root| {
            let online = root.online();
            online.len() == size as usize - 1 && !online.contains(victim)
        }) && world
            .hosts
            .iter()
            .filter(|host| host.rank != victim)
            .all(|host| host.node.as_ref().is_some_and(Node::is_connected))
            && world.ledger.casts[&2].got.len() + 1 >= size as usize
    });

    let begun = world.now;
    world.closing = true;
    world.command(0, Command::Finish { done: true, reason: "done".into() });
    let ended = until(&mut world, 20_000, "shutdown", |world| {
        world.hosts.iter().all(|host| host.node.is_none())
    });
    for host in world.hosts.iter().filter(|host| host.rank != victim) {
        assert!(
            matches!(host.exit, Some(ExitReason::Finished { done: true, .. })),
            "rank {} ended with {:?}",
            host.rank,
            host.exit
        );
    }
    let last = world.hosts.iter().filter(|h| h.rank != victim).map(|h| h.exited).max();
    assert_eq!(last, Some(world.hosts[0].exited), "rank 0 leaves last");
    assert!(world.ledger.broken.is_empty(), "{:#?}", world.ledger.broken);
    println!(
        "{size} brokers, fan-out {}: join {join} ms ({:.1} frames each), exchange {exchanged} ms, \
         cast {casted} ms, healed {healed} ms, shutdown {ended} ms after {begun}; {} events in \
         {:.1} s",
        topology.fanout(),
        frames as f64 / f64::from(size),
        world.steps,
        clock.elapsed().as_secs_f64()
    );
}

#[test]
fn a_thousand_brokers_live_and_leave() {
    large(1_000, 0);
}

#[test]
fn four_thousand_brokers_live_and_leave() {
    large(4_096, 0);
}

#[test]
fn twelve_thousand_brokers_live_and_leave() {
    large(12_736, 0);
}

#[test]
fn a_deep_tree_of_a_thousand_brokers_lives_and_leaves() {
    large(1_000, 3);
}

/// 256 brokers with 96 clients of 300 bytes each: the volume of a fence in MPI_Init. Codecs
/// included, no sockets.
#[test]
fn a_fence_of_256_brokers_with_96_clients_each() {
    let size = 256;
    let mut cluster = MemoryCluster::start(size, 0);
    let members = IdSet::first_n(size);
    let key = ExchangeKey { job: 1, sequence: 0 };
    let before = cluster.bytes();
    let clock = Instant::now();
    for rank in 0..size {
        let blob = payload(&[u64::from(rank)], 96 * 300);
        cluster.command(rank, Command::Contribute { key, members: members.clone(), blob });
    }
    let mut complete = 0;
    while cluster.step() {
        // Taken at once: together they have 1.9 GB.
        if let Some((_, Delivery::Exchanged { blobs, .. })) = cluster.delivery() {
            assert!(blobs.iter().all(|(rank, blob)| number(blob, 0) == u64::from(*rank)));
            assert_eq!(blobs.len(), size as usize);
            complete += 1;
        }
    }
    assert_eq!(complete, size);
    println!(
        "one exchange of 256 x 28,800 bytes: {:.2} s, {} MB over all links",
        clock.elapsed().as_secs_f64(),
        (cluster.bytes() - before) / 1_000_000
    );
}
