//! What is kept of an object: small structs made by total functions, so that caches of thousands of
//! clusters hold facts and never whole objects.
//!
//! A function here reads and never judges: what a fact means is the business of `crate::status` and
//! `crate::why`. Whatever an object lacks becomes an empty or absent fact.

pub(crate) mod event;
pub(crate) mod job;
pub(crate) mod jobset;
pub(crate) mod lost_nodes;
pub(crate) mod pod;
pub(crate) mod workload;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use k8s_openapi::jiff::Timestamp;

/// Something that was said of an object, once: the part of a condition that matters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fact {
    /// The machine's word.
    pub reason: String,
    /// The sentence.
    pub message: String,
    /// When it became so.
    pub since: Option<Timestamp>,
}

/// A condition: not there, or true or false with a reason. `Unknown` counts as not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// Never said.
    #[default]
    Absent,
    /// Said to be so.
    True(Fact),
    /// Said not to be so.
    False(Fact),
}

impl Reading {
    /// A condition from its four fields.
    pub(crate) fn of(
        status: &str,
        reason: Option<&str>,
        message: Option<&str>,
        since: Option<Timestamp>,
    ) -> Self {
        let fact = || Fact {
            reason: reason.unwrap_or_default().to_owned(),
            message: message.unwrap_or_default().to_owned(),
            since,
        };
        match status {
            "True" => Self::True(fact()),
            "False" => Self::False(fact()),
            _ => Self::Absent,
        }
    }

    /// The fact, if the condition is true.
    pub fn holds(&self) -> Option<&Fact> {
        match self {
            Self::True(fact) => Some(fact),
            Self::Absent | Self::False(_) => None,
        }
    }

    /// The fact, if the condition is there and false.
    pub fn denied(&self) -> Option<&Fact> {
        match self {
            Self::False(fact) => Some(fact),
            Self::Absent | Self::True(_) => None,
        }
    }
}

/// The time in a field that may be absent.
pub(crate) fn at(time: Option<&Time>) -> Option<Timestamp> {
    time.map(|time| time.0)
}

/// A label of an object.
pub(crate) fn label<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    text(metadata.labels.as_ref(), key)
}

/// An annotation of an object.
pub(crate) fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    text(metadata.annotations.as_ref(), key)
}

fn text<'a>(map: Option<&'a BTreeMap<String, String>>, key: &str) -> Option<&'a str> {
    map.and_then(|map| map.get(key)).map(String::as_str)
}

/// The owner that controls an object.
pub(crate) fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// A number in a label or annotation; 0 when it is missing or no number.
pub(crate) fn number<T: std::str::FromStr + Default>(text: Option<&str>) -> T {
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}
