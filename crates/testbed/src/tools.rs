//! Programs of the distribution that the nodes need.

use std::collections::BTreeSet;
use std::path::Path;

/// Where they are looked for; also the search path of the nodes.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Programs (or files by their whole path) and the Debian packages that hold them.
const NEEDED: [(&str, &str); 10] = [
    ("containerd", "containerd"),
    ("ctr", "containerd"),
    ("containerd-shim-runc-v2", "containerd"),
    ("runc", "runc"),
    ("/usr/lib/cni/bridge", "containernetworking-plugins"),
    ("/usr/lib/cni/portmap", "containernetworking-plugins"),
    ("ip", "iproute2"),
    ("iptables", "iptables"),
    ("nft", "nftables"),
    ("conntrack", "conntrack"),
];

/// Something is not installed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot find {missing}; as root: apt-get install {packages}")]
pub struct Missing {
    /// Programs, joined by commas.
    pub missing: String,
    /// Packages, joined by blanks.
    pub packages: String,
}

/// Refuses a machine on which a node could not run.
pub fn check() -> Result<(), Missing> {
    check_with(|path| Path::new(path).exists())
}

fn check_with(exists: impl Fn(&str) -> bool) -> Result<(), Missing> {
    let found = |name: &str| {
        let in_folder = |folder: &str| exists(&format!("{folder}/{name}"));
        if name.starts_with('/') { exists(name) } else { PATH.split(':').any(in_folder) }
    };
    let missing: Vec<_> = NEEDED.iter().filter(|(name, _)| !found(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
    let packages: BTreeSet<&str> = missing.iter().map(|(_, package)| *package).collect();
    let packages: Vec<&str> = packages.into_iter().collect();
    Err(Missing { missing: names.join(", "), packages: packages.join(" ") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_the_packages_to_install() {
        let error = check_with(|path| !path.contains("containerd") && !path.ends_with("/ctr"));
        let expected = "cannot find containerd, ctr, containerd-shim-runc-v2; as root: apt-get \
                        install containerd";
        assert_eq!(error.unwrap_err().to_string(), expected);
        assert_eq!(check_with(|path| !path.starts_with("/usr/local")), Ok(()));
    }
}
