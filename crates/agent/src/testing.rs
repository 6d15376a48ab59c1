//! What tests of several modules share.

use quorate_contract::config::{
    AgentConfig, Bootstrap, Cluster, Group, MpiFlavor, Program, Slots, VERSION,
};

/// A cluster `t` in namespace `lab` with these groups.
pub(crate) fn config(groups: &[(&str, u32)]) -> AgentConfig {
    let mut first_rank = 0;
    let groups: Vec<Group> = groups
        .iter()
        .map(|(name, count)| {
            let group =
                Group { name: (*name).to_string(), first_rank, count: *count, slots: Slots::Auto };
            first_rank += count;
            group
        })
        .collect();
    AgentConfig {
        version: VERSION,
        cluster: Cluster {
            name: "t".into(),
            namespace: "lab".into(),
            uid: "6b3f7c1e".into(),
            subdomain: "t".into(),
            domain: None,
        },
        size: first_rank,
        min_size: first_rank,
        max_size: first_rank,
        groups,
        bootstrap: Bootstrap {
            fanout: 0,
            port: 8117,
            port_per_rank: false,
            timeout_seconds: 60,
            orphan_timeout_seconds: 15,
        },
        program: Program::None,
        mpi: MpiFlavor::Auto,
    }
}

/// The settings of a rank of [`config`].
pub(crate) fn settings(groups: &[(&str, u32)], rank: u32) -> crate::settings::Settings {
    crate::settings::Settings {
        config: config(groups),
        rank,
        attempt: 0,
        run_dir: "/nonexistent".into(),
        termination_log: "/nonexistent/log".into(),
        pod: None,
        pod_uid: None,
        pod_ip: None,
        node: None,
        hosts: None,
        haste: 1,
    }
}
