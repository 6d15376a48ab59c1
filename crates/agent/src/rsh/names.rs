//! Which broker a host name means, by the cluster's own table and never by DNS.
//!
//! Owns: the names of each rank: short, within the namespace, full, as people call it, the alias
//! that counts workers, and its addresses. Pure.

use quorate_contract::AgentConfig;
use std::collections::HashMap;

/// Names and addresses of a cluster's brokers.
#[derive(Clone, Debug, Default)]
pub struct Names {
    ranks: HashMap<String, u32>,
    cluster: String,
    size: u32,
}

/// Why a name means no broker.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nobody has the name.
    #[error(
        "no pod of {cluster} is called {name}; it has ranks 0 to {last}, see `quorate-agent hosts`"
    )]
    Unknown {
        /// The cluster.
        cluster: String,
        /// The name that was looked for.
        name: String,
        /// The last rank.
        last: u32,
    },
}

impl Names {
    /// The table of a configuration. `addresses` are those that brokers have told of, as
    /// `(rank, address)`; ranks that share an address (host network) are not found by it.
    pub fn new<'a>(
        config: &AgentConfig,
        addresses: impl IntoIterator<Item = (u32, &'a str)>,
    ) -> Self {
        let size = config.max_size.max(config.size);
        let mut ranks = HashMap::new();
        let mut workers = 0;
        for rank in 0..size {
            let Some((group, index)) = config.locate(rank) else { continue };
            let mut add = |name: Option<String>| {
                if let Some(name) = name {
                    ranks.entry(name.to_ascii_lowercase()).or_insert(rank);
                }
            };
            add(config.host_name(rank));
            add(config.service_name(rank));
            if let Some(service) = config.service_name(rank) {
                add(Some(format!("{service}.{}", config.cluster.namespace)));
                add(Some(format!("{service}.{}.svc", config.cluster.namespace)));
            }
            add(config.full_name(rank));
            add(Some(config.display_name(rank)));
            // The names of the MPI Operator: `<job>-launcher`, `<job>-worker-3`.
            if rank == 0 {
                add(Some(format!("{}-launcher", config.cluster.name)));
                add(Some(group.name.clone()));
            } else {
                add(Some(format!("{}-worker-{workers}", config.cluster.name)));
                add(Some(format!("{}-{}-{index}", config.cluster.name, group.name)));
                workers += 1;
            }
        }
        let mut by_address: HashMap<String, Option<u32>> = HashMap::new();
        for (rank, address) in addresses {
            by_address
                .entry(address.to_string())
                .and_modify(|known| *known = known.filter(|k| *k == rank))
                .or_insert(Some(rank));
        }
        for (address, rank) in by_address {
            if let Some(rank) = rank {
                ranks.entry(address).or_insert(rank);
            }
        }
        Self { ranks, cluster: config.cluster.name.clone(), size }
    }

    /// The rank of a name or address. A final dot and the case do not matter.
    pub fn find(&self, name: &str) -> Result<u32, NameError> {
        let key = name.trim_end_matches('.').to_ascii_lowercase();
        self.ranks.get(&key).copied().ok_or_else(|| NameError::Unknown {
            cluster: self.cluster.clone(),
            name: name.to_string(),
            last: self.size.saturating_sub(1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::config;

    #[test]
    fn every_way_to_name_a_pod() {
        let config = config(&[("launcher", 1), ("worker", 2), ("gpu", 2)]);
        let addresses = [(1, "10.0.0.2"), (2, "10.0.0.3"), (3, "10.0.0.3"), (4, "fd00::4")];
        let names = Names::new(&config, addresses);
        for (name, rank) in [
            ("t-launcher-0-0", 0),
            ("t-launcher", 0),
            ("launcher", 0),
            ("t-worker-0-1", 2),
            ("T-WORKER-0-1", 2),
            ("t-worker-0-1.t", 2),
            ("t-worker-0-1.t.lab", 2),
            ("t-worker-0-1.t.lab.svc", 2),
            ("t-worker-0-1.t.lab.svc.cluster.local", 2),
            ("t-worker-0-1.t.lab.svc.cluster.local.", 2),
            ("worker-0-1", 2),
            ("t-worker-1", 2),
            ("t-worker-2", 3),
            ("t-gpu-1", 4),
            ("gpu-0-0", 3),
            ("10.0.0.2", 1),
            ("fd00::4", 4),
        ] {
            assert_eq!(names.find(name), Ok(rank), "{name}");
        }
    }

    #[test]
    fn unknown_names_and_shared_addresses_are_refused() {
        let config = config(&[("launcher", 1), ("worker", 2)]);
        let names = Names::new(&config, [(0, "127.0.0.1"), (1, "127.0.0.1")]);
        assert!(names.find("127.0.0.1").is_err());
        assert_eq!(
            names.find("other-worker-0-0").unwrap_err().to_string(),
            "no pod of t is called other-worker-0-0; it has ranks 0 to 2, see `quorate-agent hosts`"
        );
    }
}
