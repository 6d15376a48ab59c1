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
            let group = Group {
                name: (*name).to_string(),
                first_rank,
                count: *count,
                pods_per_job: None,
                slots: Slots::Auto,
            };
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
        names: Vec::new(),
        queue: quorate_contract::config::Queue::default(),
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
        pod_ip: None,
        node: None,
        book: None,
        shared_host: false,
        slots: None,
        outer_marks: None,
        haste: 1,
    }
}

/// A small generator (xorshift), so that the inputs of a test are the same in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// The next number below a limit; 0 when there is none.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}
