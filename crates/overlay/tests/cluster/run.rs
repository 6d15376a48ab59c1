//! One run of a plan: start, faults and traffic, calm, judgement, shutdown.

use crate::ledger::{Casted, Exchanged, Talk};
use crate::plan::{Plan, What};
use crate::random::Random;
use crate::shell::payload;
use crate::world::World;
use quorate_hostlist::IdSet;
use quorate_overlay::{Command, ExchangeKey, ExitReason, Node, Rank, State};

/// From the end of all faults until everybody is online again, at the most: a broker that was
/// fenced just then starts anew, climbs to a living ancestor, and what it had under way is sent
/// again.
const SETTLE: u64 = 40_000;

/// After the settling, for requests whose answer was held back.
const DRAIN: u64 = 15_000;

/// What a run tells.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) broken: Vec<String>,
    pub(crate) steps: u64,
    pub(crate) frames: u64,
    pub(crate) deliveries: u64,
}

pub(crate) fn run(plan: &Plan, trace: bool) -> Outcome {
    let mut world = World::new(plan.setup(trace), plan.seed);
    let mut r = Random::new(plan.seed ^ 0xabcd);
    for host in 0..plan.setup.size as usize {
        let at = r.below(plan.setup.start_spread + 1);
        world.start_at(host, at);
    }
    for (index, item) in plan.items.iter().enumerate() {
        world.plan(item.at, index);
    }
    let mut fences: Vec<(u64, usize, u32)> = Vec::new();
    while let Some(index) = world.run(plan.calm_at) {
        act(&mut world, plan, index, &mut fences);
        check_fences(&mut world, &mut fences);
    }
    calm(&mut world);
    let end = plan.calm_at + SETTLE;
    // Traffic may be planned for a while after the calm.
    let earliest = plan.calm_at + 1_000;
    let patient = plan.seed.is_multiple_of(16);
    let mut until = earliest;
    loop {
        while let Some(index) = world.run(until) {
            if index < plan.items.len() && !plan.items[index].what.is_fault() {
                act(&mut world, plan, index, &mut fences);
            }
        }
        let settled = || flaws(&world).is_empty() && !world.ledger.has_open_ends(&world.alive());
        if until >= end + DRAIN || (!patient && settled()) {
            break;
        }
        if until >= end {
            judge_membership(&mut world);
        }
        until = (until + 500).min(end + DRAIN);
    }
    judge_membership(&mut world);
    let alive = world.alive();
    let root_life = world.hosts[0].life;
    world.ledger.judge(&alive, root_life);
    finish(&mut world, &mut r);
    Outcome {
        broken: std::mem::take(&mut world.ledger.broken),
        steps: world.steps,
        frames: world.frames,
        deliveries: world.ledger.deliveries,
    }
}

/// Ends all faults.
fn calm(world: &mut World) {
    let now = world.now;
    for host in 0..world.hosts.len() {
        world.set_group(host, 0);
    }
    for host in 0..world.hosts.len() {
        world.resume(host);
        if world.hosts[host].node.is_none() && world.hosts[host].supervised {
            world.start_at(host, now);
        }
    }
    world.kick();
}

fn act(world: &mut World, plan: &Plan, index: usize, fences: &mut Vec<(u64, usize, u32)>) {
    if index >= plan.items.len() {
        // The end of a pause or a partition, or a start after a kill.
        return heal(world, index);
    }
    let now = world.now;
    match plan.items[index].what {
        What::Kill { rank, down } => {
            world.kill(rank as usize);
            world.start_at(rank as usize, now + down);
        }
        What::Break { rank } => world.break_connection(rank as usize),
        What::Pause { rank, span } => {
            world.pause(rank as usize);
            world.plan(now + span, (1 << 40) | rank as usize);
        }
        What::Partition { first, count, span } => {
            // Brokers that were cut off may now hear others with fresher proof.
            for (since, ..) in fences.iter_mut() {
                *since = now;
            }
            for rank in first..first + count {
                let host = rank as usize;
                world.set_group(host, 1);
                let cut_off = first > 0 && world.node(rank).is_some_and(Node::is_connected);
                if cut_off && !world.hosts[host].paused {
                    fences.push((now, host, world.hosts[host].life));
                }
            }
            // Those that stay may be the ones without rank 0.
            if first == 0 {
                for rank in count..plan.setup.size {
                    let host = rank as usize;
                    let connected = world.node(rank).is_some_and(Node::is_connected);
                    if world.hosts[host].group == 0 && connected && !world.hosts[host].paused {
                        fences.push((now, host, world.hosts[host].life));
                    }
                }
            }
            world.plan(now + span, (2 << 40) | index);
        }
        What::Straggler { rank } => {
            let host = world.add_host(rank, 0, false);
            world.start_at(host, now);
        }
        What::Request { from, to, size } => request(world, from, to, size as usize, None),
        What::Stream { from, to, total, size } => {
            request(world, from, to, size as usize, Some(u64::from(total)));
        }
        What::Cast { from, salt, size } => cast(world, from, salt, size as usize),
        What::Publish { from } => {
            world.next_id += 1;
            let event = payload(&[world.next_id], 64);
            if world.node(from).is_some() && !world.hosts[from as usize].paused {
                world.command(
                    from as usize,
                    Command::Publish { topic: "test".into(), payload: event },
                );
            }
        }
        What::Job { salt, rounds, size } => job(world, salt, rounds, size as usize),
    }
}

fn heal(world: &mut World, index: usize) {
    if index >> 40 == 1 {
        world.resume(index & 0xff_ffff);
    } else {
        for host in 0..world.hosts.len() {
            world.set_group(host, 0);
        }
        world.kick();
    }
}

/// A broker that has been cut off from rank 0 for the orphan timeout must be gone.
fn check_fences(world: &mut World, fences: &mut Vec<(u64, usize, u32)>) {
    let orphan = world.setup.timing.orphan_timeout.0;
    let root_group = world.hosts[0].group;
    let now = world.now;
    let mut late = Vec::new();
    fences.retain(|&(since, host, life)| {
        let entry = &world.hosts[host];
        let healed = entry.group == root_group || entry.paused;
        let gone = entry.life != life || entry.node.is_none();
        if healed || gone {
            return false;
        }
        if now > since + orphan + 100 {
            late.push(format!("rank {} is cut off since {since} and lives at {now}", entry.rank));
            return false;
        }
        true
    });
    for what in late {
        world.ledger.broken(what);
    }
}

fn ready(world: &World, rank: Rank) -> bool {
    !world.hosts[rank as usize].paused
        && world.node(rank).is_some_and(|node| node.state() >= State::Init)
}

pub(crate) fn request(world: &mut World, from: Rank, to: Rank, size: usize, stream: Option<u64>) {
    if !ready(world, from) {
        return;
    }
    world.next_id += 1;
    let id = world.next_id;
    let known = world.node(0).is_some_and(|root| root.online().contains(to))
        && world.node(to).is_some_and(Node::is_connected)
        && world.node(from).is_some_and(Node::is_connected)
        // All three mean the same lives.
        && world.node(0).is_some_and(|root| {
            [from, to].iter().all(|&rank| {
                let node = world.node(rank);
                root.boot_of(rank) == node.map(|n| n.config().boot)
                    && node.map(Node::root_boot) == Some(root.config().boot)
            })
        });
    let host = from as usize;
    let talk = Talk {
        from: (from, world.hosts[host].life),
        to: (to, world.hosts[to as usize].life),
        known,
        root_life: world.hosts[0].life,
        total: stream.unwrap_or(0),
        arrived: 0,
        opener: None,
        acceptor: None,
        answered: false,
    };
    world.ledger.channels.insert(id, talk);
    let Some(node) = &mut world.hosts[host].node else { return };
    let channel = node.new_channel();
    let shell = &mut world.hosts[host].shell;
    let command = match stream {
        Some(total) => shell.stream(channel, to, id, total, size),
        None => shell.request(channel, to, id, size),
    };
    world.command(host, command);
    if stream.is_some() {
        world.wish_stream(host, channel);
    }
}

/// A random subset of the brokers.
fn subset(world: &World, salt: u32) -> IdSet {
    let mut r = Random::new(u64::from(salt));
    let percent = [5, 50, 100][r.below(3) as usize];
    (0..world.setup.size).filter(|_| r.chance(percent)).collect()
}

fn cast(world: &mut World, from: Rank, salt: u32, size: usize) {
    if !ready(world, from) {
        return;
    }
    world.next_id += 1;
    let id = world.next_id;
    let to = subset(world, salt);
    let members = to.iter().map(|rank| (rank, world.hosts[rank as usize].life)).collect();
    let entry = Casted {
        from: (from, world.hosts[from as usize].life),
        root_life: world.hosts[0].life,
        members,
        got: std::collections::BTreeSet::new(),
        failed: std::collections::BTreeSet::new(),
    };
    world.ledger.casts.insert(id, entry);
    world.command(
        from as usize,
        Command::Cast { to, service: id.to_string(), payload: payload(&[id], size) },
    );
}

fn job(world: &mut World, salt: u32, rounds: u32, size: usize) {
    if !ready(world, 0) {
        return;
    }
    let Some(root) = world.node(0) else { return };
    let online = root.online();
    let members = subset(world, salt).intersection(&online);
    if members.is_empty() {
        return;
    }
    world.next_id += 1;
    let job = world.next_id;
    let lives: Vec<_> =
        members.iter().map(|rank| (rank, world.hosts[rank as usize].life)).collect();
    for sequence in 0..rounds {
        let exchange = Exchanged {
            members: lives.clone(),
            root_life: world.hosts[0].life,
            ..Exchanged::default()
        };
        world.ledger.exchanges.insert(ExchangeKey { job, sequence }, exchange);
    }
    world.hosts[0].shell.jobs.insert(job, members.clone());
    // The members hear of the job as those of a real one: by a cast of rank 0's launcher.
    let mut order = payload(&[job, u64::from(rounds), size.min(20_000) as u64], 24).to_vec();
    order.extend_from_slice(members.to_string().as_bytes());
    world.command(0, Command::Cast { to: members, service: "job".into(), payload: order.into() });
}

/// After the calm: every live broker is online, rank 0 knows exactly them, all agree.
fn judge_membership(world: &mut World) {
    for what in flaws(world) {
        world.ledger.broken(what);
    }
}

fn flaws(world: &World) -> Vec<String> {
    let live = world.live_ranks();
    let Some(root) = world.node(0) else {
        return vec![format!("rank 0 is gone: {:?}", world.hosts[0].exit)];
    };
    let online = root.online();
    let quorate = root.state() == State::Run;
    let mut broken = Vec::new();
    if online != live {
        broken.push(format!("rank 0 has {online} online, {live} live at {}", world.now));
    }
    if live.len() as u32 != world.setup.size {
        broken.push(format!("only {live} live of {}", world.setup.size));
    }
    if online.len() as u32 >= world.setup.min_size && !quorate {
        broken.push(format!("not quorate with {online}"));
    }
    for rank in live.iter() {
        let Some(node) = world.node(rank) else { continue };
        if !node.is_connected() {
            broken.push(format!("rank {rank} is not connected, state {}", node.state()));
        }
        if (node.state() == State::Run) != quorate {
            broken.push(format!("rank {rank} is in {}, quorate is {quorate}", node.state()));
        }
        if root.boot_of(rank) != Some(node.config().boot) {
            broken.push(format!("rank 0 knows another life of rank {rank}"));
        }
    }
    for host in &world.hosts {
        if host.attempt == 0
            && host.rank > 0
            && host.node.as_ref().is_some_and(|n| n.state() > State::Join)
        {
            broken.push(format!("straggler of rank {} has joined", host.rank));
        }
    }
    broken
}

/// Rank 0 ends the cluster; everybody leaves in time.
fn finish(world: &mut World, r: &mut Random) {
    let size = world.setup.size as usize;
    let hang = r.chance(20).then(|| r.below(size as u64) as usize);
    if let Some(host) = hang {
        world.hosts[host].hangs = true;
    }
    let timing = &world.setup.timing;
    let bound = timing.shutdown_timeout.0 + 1000;
    let begun = world.now;
    world.closing = true;
    world.command(0, Command::Finish { done: true, reason: "the program ended".into() });
    while world.run(begun + bound).is_some() {}
    let mut broken = Vec::new();
    for host in world.hosts.iter().take(size) {
        match (&host.node, &host.exit) {
            (None, Some(ExitReason::Finished { done: true, .. })) => {}
            // Its lease ran out before the news could reach it.
            (None, Some(ExitReason::Fenced(_))) if host.exited < begun + 1000 => {}
            (None, exit) => broken.push(format!("rank {} ended with {exit:?}", host.rank)),
            (Some(node), _) => {
                broken.push(format!("rank {} is still in {}", host.rank, node.state()));
            }
        }
    }
    if hang.is_none() {
        let last = world.hosts.iter().take(size).map(|host| host.exited).max().unwrap_or(0);
        if world.hosts[0].exited < last {
            broken.push("rank 0 left before others".to_owned());
        }
        if last > begun + 5_000 {
            broken.push(format!("shutdown took {} ms", last - begun));
        }
    }
    for what in broken {
        world.ledger.broken(what);
    }
}
