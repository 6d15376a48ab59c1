//! Who wrote what into a namespace, when, and what came of it.

use crate::audit::{self, Request};
use crate::lab::Lab;

/// A write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// create, update, patch, delete or deletecollection.
    pub verb: String,
    /// Plural, with the subresource if there is one: `miniclusters/status`.
    pub resource: String,
    /// The name; empty if the server made it up.
    pub name: String,
    /// The HTTP status.
    pub code: u16,
    /// The user's name.
    pub user: String,
    /// The user agent.
    pub agent: String,
    /// The pod whose service account it is, if it is one's.
    pub pod: String,
    /// When the server received it: RFC 3339 with microseconds, which sorts as text.
    pub at: String,
}

impl Write {
    /// When it was received, in seconds of its day.
    pub fn seconds(&self) -> f64 {
        let time = self.at.split_once('T').map_or("", |(_, time)| time.trim_end_matches('Z'));
        time.split(':').fold(0.0, |sum, part| sum * 60.0 + part.parse::<f64>().unwrap_or_default())
    }
}

/// All writes so far that concern a namespace.
pub fn writes(lab: &Lab, namespace: &str) -> Vec<Write> {
    let wanted = format!("\"namespace\":\"{namespace}\"");
    let requests = audit::read(lab.cluster.folder(), &wanted).unwrap();
    let mut writes: Vec<Write> = requests.into_iter().filter(Request::writes).map(write).collect();
    writes.sort_by(|a, b| a.at.cmp(&b.at));
    writes
}

fn write(request: Request) -> Write {
    let object = request.object.clone().unwrap_or_default();
    Write {
        resource: object.resource(),
        name: object.name,
        code: request.code(),
        pod: request.user.pod().to_owned(),
        user: request.user.username,
        verb: request.verb,
        agent: request.user_agent,
        at: request.received,
    }
}
