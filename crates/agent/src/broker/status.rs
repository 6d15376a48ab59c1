//! The node's view in the words of the contract.

use super::handle::Membership;
use crate::settings::Settings;
use quorate_contract::report::{Phases, Report};
use quorate_contract::status::{
    BrokerState, ClusterStatus, Leaving, Missing, NamedCounts, ProgramStatus, QueueCounts,
};
use quorate_hostlist::IdSet;
use quorate_overlay::{Millis, Node, State};

/// The most missing ranks that a status lists.
const MISSING_LIMIT: usize = 32;

/// What others have told the node task for the status.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) program: Option<ProgramStatus>,
    pub(super) queue: Option<QueueCounts>,
    pub(super) queues: Vec<NamedCounts>,
    pub(super) queue_trouble: Option<String>,
    pub(super) leaving: Option<Leaving>,
    pub(super) phases: Phases,
    pub(super) report: Option<Box<Report>>,
}

/// The cluster as the node knows it.
pub(super) fn of(
    node: &Node,
    settings: &Settings,
    members: &Membership,
    told: &Told,
    now: Millis,
) -> ClusterStatus {
    let config = &settings.config;
    let online = node.present();
    let draining = members.online.iter().filter(|(_, member)| member.draining);
    ClusterStatus {
        cluster: config.cluster.name.clone(),
        attempt: settings.attempt,
        state: state(node.state()),
        size: node.size(),
        free_from: members.free_from,
        leaving: told.leaving.clone(),
        min_size: config.min_size,
        online: online.len() as u32,
        online_ranks: online.to_string(),
        torpid_ranks: node.torpid().to_string(),
        draining_ranks: draining.map(|(&rank, _)| rank).collect::<IdSet>().to_string(),
        missing: node
            .missing(now)
            .into_iter()
            .take(MISSING_LIMIT)
            .map(|missing| self::missing(settings, missing))
            .collect(),
        // Rounded up: the last second counts as one.
        gives_up_in_seconds: node.gives_up_at().map(|at| at.since(now).0.div_ceil(1000)),
        program: told.program.clone(),
        queue: told.queue,
        queues: told.queues.clone(),
        queue_trouble: told.queue_trouble.clone(),
        boot: node.config().boot.to_string(),
        phases: told.phases.clone(),
        report: told.report.as_deref().cloned(),
        figures: None,
    }
}

/// One missing rank.
pub(super) fn missing(settings: &Settings, missing: quorate_overlay::Missing) -> Missing {
    Missing {
        rank: missing.rank,
        pod: settings.config.display_name(missing.rank),
        silent_seconds: missing.silent.map(|span| span.0 / 1000),
        why: missing.why,
    }
}

/// The state's name in the contract.
pub(super) fn state(state: State) -> BrokerState {
    match state {
        State::Join => BrokerState::Join,
        State::Init => BrokerState::Init,
        State::Quorum => BrokerState::Quorum,
        State::Run => BrokerState::Run,
        State::Cleanup => BrokerState::Cleanup,
        State::Shutdown => BrokerState::Shutdown,
        State::Exit => BrokerState::Exit,
    }
}
