//! Which launcher to ask, and whether its words say anything new. Pure.

use std::net::{IpAddr, SocketAddr};

use quorate_contract::ClusterStatus;
use quorate_observe::{Observed, Phase};

/// A launcher's broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The UID of the MiniCluster: its keys are derived over it.
    pub cluster_uid: String,
    /// The UID of the launcher's pod.
    pub pod_uid: String,
    /// Where its broker listens.
    pub address: SocketAddr,
    /// Brokers that the cluster is to have, which the broker is told.
    pub size: u32,
}

impl Target {
    /// The launcher of a cluster, while it runs.
    pub fn of(observed: &Observed) -> Option<Self> {
        let launcher = observed.launcher()?;
        if launcher.phase != Phase::Running || launcher.ended() {
            return None;
        }
        let address: IpAddr = launcher.address.as_ref()?.parse().ok()?;
        let port = u16::try_from(observed.cluster.spec.bootstrap.port).ok()?;
        Some(Self {
            cluster_uid: observed.cluster.metadata.uid.clone()?,
            pod_uid: launcher.uid.clone(),
            address: SocketAddr::new(address, port),
            size: observed.shape.as_ref()?.size,
        })
    }

    /// Whether it is the same broker, whatever it is to be told.
    pub fn same_place(&self, other: &Self) -> bool {
        (&self.cluster_uid, &self.pod_uid, self.address)
            == (&other.cluster_uid, &other.pod_uid, other.address)
    }
}

/// Whether a status says something that matters to anybody but metrics. What counts down or up by
/// itself does not, nor do the jobs of each queue.
pub(super) fn says_more(last: &ClusterStatus, now: &ClusterStatus) -> bool {
    let plain = |status: &ClusterStatus| {
        let mut plain = ClusterStatus {
            figures: None,
            gives_up_in_seconds: None,
            queues: Vec::new(),
            ..status.clone()
        };
        for missing in &mut plain.missing {
            missing.silent_seconds = None;
        }
        plain
    };
    plain(last) != plain(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_contract::status::{Figures, Missing};

    #[test]
    fn figures_and_countdowns_wake_nobody() {
        let missing = |silent| Missing {
            rank: 1,
            pod: "worker-0-0".into(),
            silent_seconds: Some(silent),
            why: "no contact".into(),
        };
        let one = ClusterStatus {
            online: 3,
            missing: vec![missing(1)],
            gives_up_in_seconds: Some(9),
            ..ClusterStatus::default()
        };
        let figures = Some(Figures { bytes_in: 5, ..Figures::default() });
        let later = ClusterStatus {
            missing: vec![missing(2)],
            gives_up_in_seconds: Some(8),
            figures,
            ..one.clone()
        };
        assert!(!says_more(&one, &later));
        assert!(says_more(&one, &ClusterStatus { online: 2, ..later }));
    }
}
