//! What `spec.topology` asks for, in the words of whoever wonders why pods find no node.

use quorate_api::minicluster::Topology;

/// The first things to try; [`more`] has the last.
pub(super) const TO_DO: &str = "set topology.mode to Preferred, ask for fewer or smaller groups";

/// As a part of a sentence.
pub(super) fn wish(topology: &Topology) -> String {
    let key = &topology.key;
    let group = match topology.group_size {
        Some(1) => "each worker".to_owned(),
        Some(pods) => format!("each {pods} workers"),
        None => "each worker group".to_owned(),
    };
    if topology.exclusive {
        format!("spec.topology asks for a {key} of its own for {group}")
    } else {
        format!("spec.topology asks for one {key} for {group}")
    }
}

/// What else would help.
pub(super) fn more(topology: &Topology) -> String {
    format!("or give more nodes the label {}", topology.key)
}
