//! The local services of one broker: they answer requests, read and write streams, contribute to
//! exchanges, and write all they see into the ledger.

use crate::ledger::{Ledger, Life};
use crate::random::Random;
use quorate_hostlist::IdSet;
use quorate_overlay::{
    BootId, Bytes, ChannelId, Command, Delivery, ExchangeKey, Failure, FailureCode, Rank,
};
use std::collections::BTreeMap;

/// What the services want done, after a while.
pub(crate) struct Wish {
    pub(crate) after: u64,
    pub(crate) command: Command,
    /// Right after the first, which has to have been possible.
    pub(crate) then: Option<Command>,
}

#[derive(Debug)]
pub(crate) struct Shell {
    pub(crate) life: Life,
    talks: BTreeMap<ChannelId, Talk>,
    pub(crate) root: BootId,
    last_event: u64,
    /// Jobs of rank 0's launcher, and who is in them.
    pub(crate) jobs: BTreeMap<u64, IdSet>,
    /// Blob size and how many exchanges a job has.
    rounds: BTreeMap<u64, (u32, usize, IdSet)>,
}

#[derive(Debug)]
enum Talk {
    /// Opened here.
    Request {
        id: u64,
    },
    /// Opened here: messages still to send.
    Stream {
        id: u64,
        next: u64,
        total: u64,
        size: usize,
    },
    /// Opened by a peer.
    Answering,
    Reading {
        id: u64,
        next: u64,
    },
}

/// A payload that begins with numbers.
pub(crate) fn payload(numbers: &[u64], size: usize) -> Bytes {
    let mut bytes = Vec::with_capacity(size.max(numbers.len() * 8));
    for number in numbers {
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    if bytes.len() < size {
        bytes.resize(size, numbers.first().map_or(0, |n| *n as u8));
    }
    bytes.into()
}

pub(crate) fn number(payload: &[u8], at: usize) -> u64 {
    payload.get(at * 8..at * 8 + 8).map_or(u64::MAX, |b| {
        u64::from_be_bytes(b.try_into().expect("eight bytes are eight bytes"))
    })
}

fn now(command: Command) -> Wish {
    Wish { after: 0, command, then: None }
}

impl Shell {
    pub(crate) fn new(life: Life) -> Self {
        Self {
            life,
            talks: BTreeMap::new(),
            root: BootId::UNKNOWN,
            last_event: 0,
            jobs: BTreeMap::new(),
            rounds: BTreeMap::new(),
        }
    }

    pub(crate) fn request(
        &mut self,
        channel: ChannelId,
        to: Rank,
        id: u64,
        size: usize,
    ) -> Command {
        self.talks.insert(channel, Talk::Request { id });
        Command::Open { channel, to, service: "echo".into(), payload: payload(&[id], size) }
    }

    pub(crate) fn stream(
        &mut self,
        channel: ChannelId,
        to: Rank,
        id: u64,
        total: u64,
        size: usize,
    ) -> Command {
        self.talks.insert(channel, Talk::Stream { id, next: 0, total, size });
        Command::Open { channel, to, service: "stream".into(), payload: payload(&[id, total], 16) }
    }

    /// Takes part in a job with some exchanges.
    fn enter_job(&mut self, order: &Bytes, ledger: &mut Ledger, random: &mut Random) -> Vec<Wish> {
        let (job, rounds, size) = (number(order, 0), number(order, 1), number(order, 2));
        let members = std::str::from_utf8(&order[24..]).ok().and_then(|text| text.parse().ok());
        let Some(members): Option<IdSet> = members else {
            ledger.broken("the order of a job is damaged".to_owned());
            return Vec::new();
        };
        let key = ExchangeKey { job, sequence: 0 };
        self.rounds.insert(job, (rounds as u32, size as usize, members.clone()));
        let command = self.contribute(key, members, size as usize);
        vec![Wish { after: random.below(300), command, then: None }]
    }

    /// Whether this broker still takes part in a job.
    pub(crate) fn is_in_job(&self, job: u64) -> bool {
        self.rounds.contains_key(&job)
    }

    /// Rank 0's launcher gives up on jobs.
    fn end_jobs(&mut self, jobs: Vec<u64>, ledger: &mut Ledger) -> Vec<Wish> {
        for job in &jobs {
            self.jobs.remove(job);
            for (key, exchange) in &mut ledger.exchanges {
                exchange.ended |= key.job == *job;
            }
        }
        jobs.into_iter().map(|job| now(Command::EndJob { job })).collect()
    }

    fn contribute(&self, key: ExchangeKey, members: IdSet, size: usize) -> Command {
        let blob = payload(&[u64::from(self.life.0), u64::from(key.sequence), key.job], size);
        Command::Contribute { key, members, blob }
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each kind of delivery")]
    pub(crate) fn deliver(
        &mut self,
        delivery: Delivery,
        ledger: &mut Ledger,
        random: &mut Random,
    ) -> Vec<Wish> {
        ledger.deliveries += 1;
        match delivery {
            Delivery::Opened { channel, service, payload: head, .. } => {
                let id = number(&head, 0);
                if !ledger.seen.insert((id, self.life)) {
                    ledger.broken(format!("channel {id} was opened twice at {:?}", self.life));
                }
                match service.as_str() {
                    "echo" => {
                        self.talks.insert(channel, Talk::Answering);
                        let after = if random.chance(30) { random.below(3000) } else { 0 };
                        vec![Wish {
                            after,
                            command: Command::Send { channel, payload: head },
                            then: Some(Command::Close { channel, result: Ok(()) }),
                        }]
                    }
                    "stream" => {
                        self.talks.insert(channel, Talk::Reading { id, next: 0 });
                        Vec::new()
                    }
                    _ => {
                        let failure = Failure::new(FailureCode::NoService, "no such service");
                        vec![now(Command::Close { channel, result: Err(failure) })]
                    }
                }
            }
            Delivery::Data { channel, payload } => self.data(channel, &payload, ledger, random),
            Delivery::Blocked { channel, payload } => {
                // It is sent again when there is room.
                if let Some(Talk::Stream { next, .. }) = self.talks.get_mut(&channel) {
                    *next = number(&payload, 1);
                }
                Vec::new()
            }
            Delivery::Closed { channel, result } => {
                let result = result.map_err(|failure| failure.to_string());
                match self.talks.remove(&channel) {
                    Some(Talk::Request { id } | Talk::Stream { id, .. }) => {
                        if let Some(talk) = ledger.channels.get_mut(&id) {
                            talk.opener = Some(result);
                        }
                    }
                    Some(Talk::Reading { id, .. }) => {
                        if let Some(talk) = ledger.channels.get_mut(&id) {
                            if result.is_ok() && talk.arrived != talk.total {
                                let text = format!("stream {id} ended early: {talk:?}");
                                ledger.broken(text);
                                return Vec::new();
                            }
                            talk.acceptor = Some(result);
                        }
                    }
                    Some(Talk::Answering) | None => {}
                }
                Vec::new()
            }
            Delivery::Cast { service, payload, .. } if service == "job" => {
                self.enter_job(&payload, ledger, random)
            }
            Delivery::Cast { payload, .. } => {
                let id = number(&payload, 0);
                let life = self.life;
                if let Some(cast) = ledger.casts.get_mut(&id)
                    && !cast.got.insert(life)
                {
                    ledger.broken(format!("cast {id} came twice to {life:?}"));
                }
                Vec::new()
            }
            Delivery::CastFailed { service, failed } if service == "job" => {
                let hit = |members: &IdSet| failed.iter().any(|(rank, _)| members.contains(*rank));
                let jobs =
                    self.jobs.iter().filter(|(_, members)| hit(members)).map(|(&job, _)| job);
                let jobs = jobs.collect();
                self.end_jobs(jobs, ledger)
            }
            Delivery::CastFailed { service, failed } => {
                if let Some(cast) =
                    service.parse().ok().and_then(|id: u64| ledger.casts.get_mut(&id))
                {
                    cast.failed.extend(failed.iter().map(|(rank, _)| *rank));
                }
                Vec::new()
            }
            Delivery::Published { sequence, payload, .. } => {
                if sequence <= self.last_event {
                    ledger.broken(format!("event {sequence} out of order at {:?}", self.life));
                }
                self.last_event = sequence;
                let id = number(&payload, 0);
                let known = *ledger.events.entry((self.root, sequence)).or_insert(id);
                if known != id {
                    ledger.broken(format!("event {sequence} differs at {:?}", self.life));
                }
                Vec::new()
            }
            Delivery::RootReplaced { .. } => {
                self.last_event = 0;
                self.rounds.clear();
                Vec::new()
            }
            Delivery::Offline { rank, .. } => {
                let hit: Vec<u64> = self
                    .jobs
                    .iter()
                    .filter(|(_, members)| members.contains(rank))
                    .map(|(&job, _)| job)
                    .collect();
                self.end_jobs(hit, ledger)
            }
            Delivery::Exchanged { key, blobs } => {
                let mut digest = blobs.len() as u64;
                for (rank, blob) in &blobs {
                    if number(blob, 0) != u64::from(*rank)
                        || number(blob, 1) != u64::from(key.sequence)
                        || number(blob, 2) != key.job
                    {
                        ledger.broken(format!("{key:?} gave a wrong blob of rank {rank}"));
                    }
                    digest = digest
                        .wrapping_mul(0x100_0000_01b3)
                        .wrapping_add(u64::from(*rank) ^ blob.len() as u64);
                }
                self.exchange_ended(key, Ok(digest), ledger);
                let Some((rounds, size, members)) = self.rounds.get(&key.job) else {
                    return Vec::new();
                };
                if blobs.len() != members.len() {
                    ledger.broken(format!("{key:?} gave {} blobs", blobs.len()));
                }
                if key.sequence + 1 < *rounds {
                    let key = ExchangeKey { job: key.job, sequence: key.sequence + 1 };
                    return vec![Wish {
                        after: random.below(20),
                        command: self.contribute(key, members.clone(), *size),
                        then: None,
                    }];
                }
                Vec::new()
            }
            Delivery::ExchangeFailed { key, failure, .. } => {
                self.exchange_ended(key, Err(failure.to_string()), ledger);
                Vec::new()
            }
            // With `Writable` the world goes on with the stream.
            Delivery::Writable { .. }
            | Delivery::PublishRefused { .. }
            | Delivery::EventsLost { .. }
            | Delivery::Online { .. }
            | Delivery::Torpid { .. }
            | Delivery::Lively { .. }
            | Delivery::Away { .. }
            | Delivery::Back { .. }
            | Delivery::ShutdownSlow { .. } => Vec::new(),
        }
    }

    fn exchange_ended(&self, key: ExchangeKey, result: Result<u64, String>, ledger: &mut Ledger) {
        let (rank, life) = self.life;
        let mut twice = false;
        if let Some(exchange) = ledger.exchanges.get_mut(&key)
            && exchange.members.contains(&(rank, life))
        {
            twice = exchange.outcomes.insert(rank, result).is_some();
        }
        if twice {
            ledger.broken(format!("{key:?} ended twice at rank {rank}"));
        }
    }

    fn data(
        &mut self,
        channel: ChannelId,
        payload: &Bytes,
        ledger: &mut Ledger,
        random: &mut Random,
    ) -> Vec<Wish> {
        match self.talks.get_mut(&channel) {
            Some(Talk::Request { id }) => {
                if number(payload, 0) != *id {
                    ledger.broken(format!("request {id} got the answer {}", number(payload, 0)));
                }
                if let Some(talk) = ledger.channels.get_mut(id) {
                    if talk.answered {
                        ledger.broken.push(format!("request {id} was answered twice"));
                        return Vec::new();
                    }
                    talk.answered = true;
                }
                Vec::new()
            }
            Some(Talk::Reading { id, next }) => {
                let (stream, at) = (number(payload, 0), number(payload, 1));
                if stream != *id || at != *next {
                    let text = format!("stream {id} got {stream}/{at} instead of {next}");
                    ledger.broken(text);
                }
                *next += 1;
                if let Some(talk) = ledger.channels.get_mut(id) {
                    // Counted anew when a successor of the peer gets it all once more.
                    talk.arrived = *next;
                }
                let after = if random.chance(20) { random.below(200) } else { 0 };
                vec![Wish { after, command: Command::Grant { channel, credits: 1 }, then: None }]
            }
            other => {
                let text = format!("{other:?} got data at {:?}", self.life);
                ledger.broken(text);
                Vec::new()
            }
        }
    }

    /// The next message of a stream; `None` when all are sent or the channel is no such stream.
    pub(crate) fn next_message(&mut self, channel: ChannelId) -> Option<Command> {
        match self.talks.get_mut(&channel) {
            Some(Talk::Stream { id, next, total, size }) if *next < *total => {
                *next += 1;
                let payload = payload(&[*id, *next - 1], *size);
                Some(Command::Send { channel, payload })
            }
            _ => None,
        }
    }

    pub(crate) fn is_stream(&self, channel: ChannelId) -> bool {
        matches!(self.talks.get(&channel), Some(Talk::Stream { .. }))
    }

    pub(crate) fn stream_closed(&mut self, channel: ChannelId, ledger: &mut Ledger) {
        if let Some(Talk::Stream { id, .. }) = self.talks.remove(&channel)
            && let Some(talk) = ledger.channels.get_mut(&id)
        {
            talk.opener = Some(Ok(()));
        }
    }
}
