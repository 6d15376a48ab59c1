//! What is kept of an event about an object of a cluster.

use k8s_openapi::api::core::v1::Event as CoreEvent;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::jiff::Timestamp;

use super::at;

/// One event, from either API group: both show the same objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFacts {
    /// The kind of the object that it is about: `Job`, `Pod`, `JobSet`, ...
    pub kind: String,
    /// That object's name.
    pub name: String,
    /// That object's UID; empty if the event has none.
    pub uid: String,
    /// Whether it is a `Warning`.
    pub warning: bool,
    /// The machine's word: `FailedCreate`, `FailedMount`, ...
    pub reason: String,
    /// The sentence.
    pub message: String,
    /// When it was first seen.
    pub first: Option<Timestamp>,
    /// When it was last seen.
    pub last: Option<Timestamp>,
    /// How often it was seen.
    pub count: i32,
}

impl EventFacts {
    /// Reads an event of `events.k8s.io/v1`.
    pub fn from_event(event: &Event) -> Self {
        let regarding = event.regarding.clone().unwrap_or_default();
        let series = event.series.as_ref();
        let micro = event.event_time.as_ref().map(|time| time.0);
        Self {
            kind: regarding.kind.unwrap_or_default(),
            name: regarding.name.unwrap_or_default(),
            uid: regarding.uid.unwrap_or_default(),
            warning: event.type_.as_deref() == Some("Warning"),
            reason: event.reason.clone().unwrap_or_default(),
            message: event.note.clone().unwrap_or_default(),
            first: at(event.deprecated_first_timestamp.as_ref())
                .or(micro)
                .or_else(|| at(event.metadata.creation_timestamp.as_ref())),
            last: series
                .map(|series| series.last_observed_time.0)
                .or_else(|| at(event.deprecated_last_timestamp.as_ref()))
                .or(micro)
                .or_else(|| at(event.metadata.creation_timestamp.as_ref())),
            count: series.map(|series| series.count).or(event.deprecated_count).unwrap_or(1),
        }
    }

    /// Reads an event of the core group, `v1`.
    pub fn from_core(event: &CoreEvent) -> Self {
        let about = &event.involved_object;
        let series = event.series.as_ref();
        let micro = event.event_time.as_ref().map(|time| time.0);
        Self {
            kind: about.kind.clone().unwrap_or_default(),
            name: about.name.clone().unwrap_or_default(),
            uid: about.uid.clone().unwrap_or_default(),
            warning: event.type_.as_deref() == Some("Warning"),
            reason: event.reason.clone().unwrap_or_default(),
            message: event.message.clone().unwrap_or_default(),
            first: at(event.first_timestamp.as_ref())
                .or(micro)
                .or_else(|| at(event.metadata.creation_timestamp.as_ref())),
            last: series
                .and_then(|series| series.last_observed_time.as_ref().map(|time| time.0))
                .or_else(|| at(event.last_timestamp.as_ref()))
                .or(micro)
                .or_else(|| at(event.metadata.creation_timestamp.as_ref())),
            count: series.and_then(|series| series.count).or(event.count).unwrap_or(1),
        }
    }
}
