//! What a valid MiniCluster asks for, kept between two looks: enough to compare a living cluster with.
//! The whole plan, with its pod templates, is made only when something is to be created.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_api::{Finding, ValidatedMiniCluster};
use quorate_observe::Shape;
use quorate_plan::names;

/// What a MiniCluster asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Sizes, groups and what its status needs.
    pub shape: Arc<Shape>,
    /// What a living cluster cannot take, as its JobSet carries it.
    pub identity: String,
    /// `spec.suspend`, where it is given.
    pub suspend: Option<bool>,
    /// Labels for Kueue.
    pub queueing: BTreeMap<String, String>,
    /// Annotations for Kueue that the JobSet or one of its templates has to have.
    pub queue_notes: BTreeMap<String, String>,
    /// Seconds from the end to the deletion of the MiniCluster.
    pub ttl_seconds: Option<u32>,
    /// Seconds that the whole run may take.
    pub active_deadline_seconds: Option<u32>,
    /// The name of the NetworkPolicy, where one is wanted.
    pub network_policy: Option<String>,
    /// What validation has to say although the object works.
    pub warnings: Vec<Finding>,
}

impl Wanted {
    /// Reads it off a valid cluster.
    pub fn of(cluster: &ValidatedMiniCluster) -> Self {
        Self {
            shape: Arc::new(Shape::of(cluster)),
            identity: quorate_plan::identity(cluster),
            suspend: cluster.suspend,
            queueing: cluster.queueing.labels.clone(),
            queue_notes: quorate_plan::queue_notes(cluster),
            ttl_seconds: cluster.ttl_seconds_after_finished,
            active_deadline_seconds: cluster.active_deadline_seconds,
            // The same condition as the plan's own.
            network_policy: (cluster.network_policy && !cluster.port_per_rank())
                .then(|| names::network_policy(cluster)),
            warnings: cluster.warnings.clone(),
        }
    }
}
