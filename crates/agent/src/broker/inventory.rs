//! What a broker tells about its pod when it joins: CPUs that cgroup and cpuset really give,
//! memory, accelerators, names and addresses.

mod gpus;

use crate::launch::accelerators;
use crate::launch::affinity::Allowance;
use crate::settings::Settings;
use crate::sys;
use quorate_contract::config::Slots;
use quorate_hostlist::IdSet;
use quorate_overlay as overlay;
use std::net::IpAddr;
use std::path::Path;

pub use overlay::Gpu;

/// The pod of one broker, as its peers see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Tasks that this broker takes by default (`slots` of the configuration, `auto` resolved).
    pub slots: u32,
    /// The CPUs that the scheduler lets this pod use, ascending (affinity and cpuset).
    pub cpus: Vec<u32>,
    /// The cgroup's CPU quota in thousandths of a CPU; `None` when there is none.
    pub quota_millicpus: Option<u32>,
    /// The cgroup's memory limit in bytes, or the machine's memory.
    pub memory: u64,
    /// The pod's host name as the kernel knows it.
    pub host: String,
    /// The pod's name, where it is known.
    pub pod: Option<String>,
    /// The node that the pod is on, where it is known.
    pub node: Option<String>,
    /// Addresses of the pod, the main one first.
    pub addresses: Vec<IpAddr>,
    /// Accelerators.
    pub gpus: Vec<Gpu>,
}

/// The pod's accelerators; of a nested instance those that its job has.
fn gpus(settings: &Settings) -> Vec<Gpu> {
    let variable = |name: &str| std::env::var(name).ok();
    let all = gpus::detect(Path::new("/"), variable(gpus::NVIDIA_VARIABLE).as_deref());
    if settings.outer_marks.is_some() { accelerators::within(&all, &variable) } else { all }
}

impl Inventory {
    /// Looks at this pod.
    pub fn detect(settings: &Settings) -> Self {
        let affinity = sys::allowed_cpus().unwrap_or_default();
        let allowance = Allowance::read(Path::new("/"), &affinity);
        let (group, _) =
            settings.config.locate(settings.rank).expect("settings hold a rank of the file");
        let slots = match (settings.slots, group.slots) {
            (Some(count), _) | (None, Slots::Fixed(count)) => count,
            (None, Slots::Auto) => allowance.slots(),
        };
        Self {
            slots,
            quota_millicpus: allowance
                .quota_millis
                .map(|quota| quota.try_into().unwrap_or(u32::MAX)),
            memory: memory_limit(Path::new("/")),
            host: sys::host_name(),
            pod: settings.pod.clone(),
            node: settings.node.clone(),
            addresses: addresses(settings.pod_ip.as_deref()),
            gpus: gpus(settings),
            cpus: allowance.cpus,
        }
    }

    /// As the overlay carries it.
    pub(crate) fn to_wire(&self) -> overlay::Inventory {
        overlay::Inventory {
            hostname: self.host.clone(),
            pod: self.pod.clone().unwrap_or_default(),
            node: self.node.clone().unwrap_or_default(),
            addresses: self.addresses.iter().map(ToString::to_string).collect(),
            cpus: self.cpus.iter().copied().collect::<IdSet>().to_string(),
            cpu_quota_milli: self.quota_millicpus.map(u64::from),
            memory_bytes: self.memory,
            gpus: self.gpus.clone(),
            slots: self.slots,
        }
    }

    /// From what the overlay carried. What a peer of another version says that is not understood
    /// is left out.
    pub(crate) fn from_wire(wire: &overlay::Inventory) -> Self {
        let some = |text: &String| (!text.is_empty()).then(|| text.clone());
        Self {
            slots: wire.slots,
            cpus: wire.cpus.parse::<IdSet>().map(|set| set.iter().collect()).unwrap_or_default(),
            quota_millicpus: wire.cpu_quota_milli.map(|quota| quota.try_into().unwrap_or(u32::MAX)),
            memory: wire.memory_bytes,
            host: wire.hostname.clone(),
            pod: some(&wire.pod),
            node: some(&wire.node),
            addresses: wire.addresses.iter().filter_map(|text| text.parse().ok()).collect(),
            gpus: wire.gpus.clone(),
        }
    }
}

/// The pod's own address first, then those of its interfaces, loopback only if there is nothing
/// else.
fn addresses(pod_ip: Option<&str>) -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = pod_ip.and_then(|text| text.parse().ok()).into_iter().collect();
    let interfaces = sys::interface_addresses();
    for &address in interfaces.iter().filter(|ip| !ip.is_loopback()) {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    if found.is_empty() {
        found = interfaces;
    }
    found
}

/// The smallest memory limit that applies: cgroup v2 `memory.max`, v1 `memory.limit_in_bytes`, or
/// the machine's memory.
fn memory_limit(root: &Path) -> u64 {
    let number = |path: &str| -> Option<u64> {
        std::fs::read_to_string(root.join(path)).ok()?.trim().parse().ok()
    };
    let total = std::fs::read_to_string(root.join("proc/meminfo"))
        .ok()
        .and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
            line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
        })
        .map_or(0, |kib| kib * 1024);
    let limits =
        ["sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"].map(number);
    let limit = limits.into_iter().flatten().min().unwrap_or(total);
    // Version 1 says "none" by a number beyond any machine.
    if total == 0 { limit } else { limit.min(total) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inventory_survives_the_wire() {
        let inventory = Inventory {
            slots: 4,
            cpus: vec![0, 1, 2, 8],
            quota_millicpus: Some(2500),
            memory: 1 << 30,
            host: "h".into(),
            pod: Some("p".into()),
            node: None,
            addresses: vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
            gpus: vec![Gpu { vendor: "nvidia".into(), id: "0".into() }],
        };
        assert_eq!(Inventory::from_wire(&inventory.to_wire()), inventory);
    }

    #[test]
    fn the_smallest_memory_limit_counts() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/meminfo", "MemTotal:       1000 kB\nMemFree: 1 kB\n");
        assert_eq!(memory_limit(dir.path()), 1_024_000);
        write("sys/fs/cgroup/memory.max", "max\n");
        assert_eq!(memory_limit(dir.path()), 1_024_000);
        write("sys/fs/cgroup/memory.max", "4096\n");
        assert_eq!(memory_limit(dir.path()), 4096);
    }
}
