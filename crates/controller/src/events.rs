//! Publishes events about MiniClusters (`events.k8s.io/v1`): one object for what is said once, a series
//! of it for what is said again.
//!
//! Owns: names and series, and what has to be remembered for them, which is a time and a count for
//! each event of the last minutes and never the event. Must not: decide what is said
//! (`quorate_observe::transitions` does).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use quorate_observe::{EventDraft, EventType};
use serde_json::json;

/// An event that was not repeated for so long begins anew (KEP-383 has six minutes).
const SERIES: SignedDuration = SignedDuration::from_mins(6);

/// Publishes events in the name of one controller.
pub struct Recorder {
    client: Client,
    controller: &'static str,
    told: Mutex<Told>,
}

impl Recorder {
    /// One that has said nothing yet.
    pub fn new(client: Client, controller: &'static str) -> Self {
        Self { client, controller, told: Mutex::default() }
    }

    /// Publishes an event about an object of a namespace.
    pub async fn publish(
        &self,
        draft: &EventDraft,
        about: &ObjectReference,
    ) -> Result<(), kube::Error> {
        let now = Timestamp::now();
        let key = Key {
            uid: about.uid.clone().unwrap_or_default().into(),
            reason: draft.reason.as_str().into(),
            action: draft.action.as_str().into(),
        };
        let events: Api<Event> =
            Api::namespaced(self.client.clone(), about.namespace.as_deref().unwrap_or("default"));
        let series = self.lock().say(key.clone(), now);
        let sent = match series {
            Series { count: 1, .. } => {
                let event = self.event(draft, about, now);
                events.create(&PostParams::default(), &event).await
            }
            Series { first, count } => {
                let series = EventSeries { count, last_observed_time: MicroTime(now) };
                let patch = Patch::Merge(json!({ "series": series }));
                events.patch(&name(about, first), &PatchParams::default(), &patch).await
            }
        };
        if sent.is_err() {
            // There may be no object to count on in.
            self.lock().forget(&key);
        }
        sent.map(drop)
    }

    fn event(&self, draft: &EventDraft, about: &ObjectReference, now: Timestamp) -> Event {
        let kind = match draft.kind {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        };
        Event {
            metadata: ObjectMeta {
                name: Some(name(about, now)),
                namespace: about.namespace.clone(),
                ..ObjectMeta::default()
            },
            action: Some(draft.action.clone()),
            event_time: Some(MicroTime(now)),
            note: Some(draft.note.clone()),
            reason: Some(draft.reason.clone()),
            regarding: Some(about.clone()),
            reporting_controller: Some(self.controller.to_owned()),
            reporting_instance: Some(self.controller.to_owned()),
            type_: Some(kind.to_owned()),
            ..Event::default()
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of an event that was first seen then.
fn name(about: &ObjectReference, first: Timestamp) -> String {
    format!("{}.{:x}", about.name.as_deref().unwrap_or_default(), first.as_nanosecond())
}

/// What makes two events the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    uid: Box<str>,
    reason: Box<str>,
    action: Box<str>,
}

/// How often an event was seen, and when first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Series {
    first: Timestamp,
    count: i32,
}

/// Events of the last minutes. Pure.
#[derive(Debug, Default)]
struct Told {
    events: HashMap<Key, (Series, Timestamp)>,
    swept: Timestamp,
}

impl Told {
    /// Takes note of an event.
    fn say(&mut self, key: Key, now: Timestamp) -> Series {
        if now.duration_since(self.swept) >= SERIES {
            self.events.retain(|_, (_, last)| now.duration_since(*last) < SERIES);
            self.events.shrink_to_fit();
            self.swept = now;
        }
        let fresh = Series { first: now, count: 0 };
        let (series, last) = self.events.entry(key).or_insert((fresh, now));
        if now.duration_since(*last) >= SERIES {
            *series = fresh;
        }
        *last = now;
        series.count = series.count.saturating_add(1);
        *series
    }

    fn forget(&mut self, key: &Key) {
        self.events.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(uid: &str, reason: &str) -> Key {
        Key { uid: uid.into(), reason: reason.into(), action: "Start".into() }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + seconds).unwrap()
    }

    #[test]
    fn what_is_said_again_is_counted_and_begins_anew_after_a_silence() {
        let mut told = Told::default();
        let first = Series { first: at(0), count: 1 };
        assert_eq!(told.say(key("a", "Lost"), at(0)), first);
        assert_eq!(told.say(key("a", "Lost"), at(300)), Series { count: 2, ..first });
        assert_eq!(told.say(key("a", "Lost"), at(600)), Series { count: 3, ..first });
        assert_eq!(told.say(key("b", "Lost"), at(600)).count, 1, "it is of another object");
        assert_eq!(told.say(key("a", "Found"), at(600)).count, 1, "it is another event");
        let anew = Series { first: at(960), count: 1 };
        assert_eq!(told.say(key("a", "Lost"), at(960)), anew);
    }

    #[test]
    fn what_was_not_published_is_not_counted_on() {
        let mut told = Told::default();
        told.say(key("a", "Lost"), at(0));
        told.forget(&key("a", "Lost"));
        assert_eq!(told.say(key("a", "Lost"), at(1)).count, 1);
    }

    #[test]
    fn nothing_is_remembered_for_long() {
        let mut told = Told::default();
        for cluster in 0..1_000 {
            told.say(key(&cluster.to_string(), "Lost"), at(cluster));
        }
        told.say(key("last", "Lost"), at(2_000));
        assert_eq!(told.events.len(), 1);
    }
}
