//! The members of a job: they come, they leave, they are lost or given up.
//!
//! Owns: the channels to them and the count of tasks whose end is not known. What a loss means for the
//! job is the judge's.

use super::START_LIMIT;
use super::course::Job;
use super::events::Event;
use crate::broker::Channel;
use crate::job::protocol::{kind, number, split};
use bytes::Bytes;
use tokio::sync::mpsc;

impl Job<'_> {
    /// Takes a member's channel in: its output goes straight to the client, the rest becomes
    /// events, in the order of the channel.
    pub(super) fn join(&mut self, broker: u32, channel: Channel) {
        if !self.left.contains_key(&broker) || !self.joined.insert(broker) {
            return;
        }
        self.channels += 1;
        let (sender, mut receiver) = channel.split();
        if self.kept || self.stdin.contains_key(&broker) {
            let (queue, mut messages) = mpsc::unbounded_channel::<Bytes>();
            if let Some(taken) = self.taken_before.get(&broker) {
                let _ = queue.send(number(kind::RESUME, *taken));
            }
            for message in self.stdin.get_mut(&broker).into_iter().flat_map(std::mem::take) {
                let _ = queue.send(message);
            }
            self.lines.insert(broker, queue);
            let sender = sender.clone();
            tokio::spawn(async move {
                while let Some(message) = messages.recv().await {
                    if sender.send(message).await.is_err() {
                        return;
                    }
                }
            });
        }
        let (events, sink) = (self.events.clone(), self.sink.clone());
        tokio::spawn(async move {
            let mut client = true;
            let why = loop {
                match receiver.recv().await {
                    Ok(Some(received)) => match received.first().copied() {
                        Some(kind::OUT | kind::ERR | kind::NOTICE) => {
                            // Without a client output goes nowhere, but it must not stop.
                            if client && !sink.send(received).await {
                                client = false;
                                let _ = events.send(Event::ClientGone);
                            }
                        }
                        _ => {
                            if let Some((kind, payload)) = split(received) {
                                let _ = events.send(Event::Member { broker, kind, payload });
                            }
                        }
                    },
                    Ok(None) => break None,
                    Err(error) => break Some(error.to_string()),
                }
            };
            let _ = sender.finish(Ok(())).await;
            let _ = events.send(Event::Left { broker, why });
        });
    }

    /// A broker is gone, and what is left of its tasks with it.
    pub(super) fn lost(&mut self, broker: u32, why: &str) {
        let own = self.overlay.rank();
        if self.kept && broker != own && self.overlay.membership().borrow().is_draining(own) {
            // This broker leaves, and its ways to the others close before it is gone. They keep their
            // tasks, and the next leader asks for them.
            return;
        }
        let Some(left) = self.left.get_mut(&broker) else { return };
        let tasks = std::mem::take(left);
        if tasks > 0 {
            let pod = self.overlay.config().display_name(broker);
            let verdict = self.judge.broker_lost(broker, &pod, tasks, why);
            self.end(verdict);
        }
    }

    /// Compares with the membership when loss events were dropped.
    pub(super) fn look_for_lost(&mut self) {
        let membership = self.overlay.membership().borrow().clone();
        let gone: Vec<u32> = self
            .left
            .iter()
            .filter(|(broker, left)| **left > 0 && !membership.online.contains_key(broker))
            .map(|(broker, _)| *broker)
            .collect();
        for broker in gone {
            self.lost(broker, "it is not connected any more");
        }
    }

    pub(super) fn give_up(&mut self, why: &str) {
        self.give_up_at = None;
        let brokers: Vec<u32> = self.left.keys().copied().collect();
        for broker in brokers {
            self.lost(broker, why);
        }
        // Whoever still has a channel open is not waited for.
        self.channels = 0;
    }

    pub(super) fn give_up_absent(&mut self) {
        let absent: Vec<u32> =
            self.left.keys().filter(|b| !self.joined.contains(b)).copied().collect();
        for broker in absent {
            let why = format!("it did not start its tasks within {} s", START_LIMIT.as_secs());
            self.lost(broker, &why);
        }
    }
}
