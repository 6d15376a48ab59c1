//! The variables by which an unmodified `mpirun` in a batch script spreads over the pods.
//!
//! Owns: the names that each launcher reads, all families at once. Pure. Variables of process
//! management (PMI, PMIx) must never be here: a script is no rank.
//!
//! Sources: mpirun(1) and orterun(1) of Open MPI 4, prterun(1) of PRRTE 3, Hydra's and Intel MPI's
//! environment references.

use super::files::Format;
use crate::launch::environment::Variables;
use quorate_contract::config::MpiFlavor;
use quorate_contract::env::HOST_FILES;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// What the variables point at.
#[derive(Clone, Debug)]
pub struct Launchers<'a> {
    /// The directory of the host files.
    pub run_dir: &'a Path,
    /// The stand-in for ssh: one word, at the same path in every pod.
    pub remote_shell: &'a str,
    /// The network interface of the pod's address, where it is known.
    pub interface: Option<&'a str>,
    /// The most slots of any pod.
    pub per_host: u32,
    /// Which families.
    pub flavor: MpiFlavor,
}

/// What keeps libfabric from its provider `sockets`, as a name and its value.
///
/// Where there is no fast network, MPICH (seen in 4.1 to 5.0) takes that one before `tcp`. It has been
/// given up by its makers, and loses messages where two ranks connect to each other at the same time:
/// MPICH 5 then waits for ever in `MPI_Init`. Any other provider is still found, fast ones first
/// (fi_fabric(7), on `FI_PROVIDER`).
pub const LIBFABRIC: (&str, &str) = ("FI_PROVIDER", "^sockets");

/// Names and values. Whoever sets them must let what the container already has win.
pub fn variables(launchers: &Launchers<'_>) -> Vec<(&'static str, String)> {
    let file =
        |format: Format| launchers.run_dir.join(format.file_name()).to_string_lossy().into_owned();
    let shell = || launchers.remote_shell.to_string();
    let wants = |flavor| launchers.flavor == MpiFlavor::Auto || launchers.flavor == flavor;
    let mut all = vec![(HOST_FILES, launchers.run_dir.to_string_lossy().into_owned())];
    if wants(MpiFlavor::OpenMPI) {
        all.extend([
            ("OMPI_MCA_plm_rsh_agent", shell()),
            ("OMPI_MCA_orte_default_hostfile", file(Format::OpenMpi)),
            // Pods share machines: binding from the first core on would stack all pods on it.
            ("OMPI_MCA_hwloc_base_binding_policy", "none".into()),
            // Root inside a container is nobody to fear; without these mpirun refuses it.
            ("OMPI_ALLOW_RUN_AS_ROOT", "1".into()),
            ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1".into()),
            // Open MPI 5 (PRRTE) reads its own names.
            ("PRTE_MCA_plm_ssh_agent", shell()),
            ("PRTE_MCA_prte_default_hostfile", file(Format::OpenMpi)),
            ("PRTE_MCA_hwloc_default_binding_policy", "none".into()),
            ("PRTE_ALLOW_RUN_AS_ROOT", "1".into()),
            ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1".into()),
        ]);
        if let Some(interface) = launchers.interface {
            all.extend([
                ("OMPI_MCA_oob_tcp_if_include", interface.to_string()),
                ("OMPI_MCA_btl_tcp_if_include", interface.to_string()),
                ("PRTE_MCA_prte_if_include", interface.to_string()),
            ]);
        }
    }
    if wants(MpiFlavor::MPICH) || wants(MpiFlavor::Intel) {
        all.extend([
            ("HYDRA_LAUNCHER", "ssh".into()),
            ("HYDRA_LAUNCHER_EXEC", shell()),
            ("HYDRA_HOST_FILE", file(Format::Hydra)),
            (LIBFABRIC.0, LIBFABRIC.1.into()),
        ]);
        if let Some(interface) = launchers.interface {
            // Proxies then connect back to an address, not to a name that may not resolve.
            all.push(("HYDRA_IFACE", interface.to_string()));
        }
    }
    if wants(MpiFlavor::Intel) {
        all.extend([
            ("I_MPI_HYDRA_BOOTSTRAP", "ssh".into()),
            ("I_MPI_HYDRA_BOOTSTRAP_EXEC", shell()),
            ("I_MPI_HYDRA_HOST_FILE", file(Format::Hydra)),
            // Intel's launcher does not read the places in the host file by itself.
            ("I_MPI_PERHOST", launchers.per_host.max(1).to_string()),
        ]);
        if let Some(interface) = launchers.interface {
            all.push(("I_MPI_HYDRA_IFACE", interface.to_string()));
        }
    }
    all
}

/// Adds variables to an environment; what is there already wins, unless it names the host files of another
/// cluster: a job may come with the environment of the program that submitted it.
pub fn offer(env: &mut Variables, offered: impl Iterator<Item = (OsString, OsString)>) {
    if let Some(other) = env.remove(OsStr::new(HOST_FILES)) {
        let theirs = |value: &OsString| Path::new(value).parent() == Some(Path::new(&other));
        // How many ranks a host has is told beside the file for Intel's launcher alone.
        if env.get(OsStr::new("I_MPI_HYDRA_HOST_FILE")).is_some_and(theirs) {
            env.remove(OsStr::new("I_MPI_PERHOST"));
        }
        env.retain(|name, value| !(FILES.iter().any(|file| name == file) && theirs(value)));
    }
    for (name, value) in offered {
        env.entry(name).or_insert(value);
    }
}

/// The variables that name host files.
const FILES: [&str; 4] = [
    "OMPI_MCA_orte_default_hostfile",
    "PRTE_MCA_prte_default_hostfile",
    "HYDRA_HOST_FILE",
    "I_MPI_HYDRA_HOST_FILE",
];

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_pmi::must_not_leak;

    fn names(flavor: MpiFlavor) -> Vec<&'static str> {
        let launchers = Launchers {
            run_dir: Path::new("/quorate/run"),
            remote_shell: "/quorate/run/bin/quorate-rsh",
            interface: Some("eth0"),
            per_host: 2,
            flavor,
        };
        variables(&launchers).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn all_families_are_set_at_once() {
        let all = names(MpiFlavor::Auto);
        for name in [
            "OMPI_MCA_plm_rsh_agent",
            "PRTE_MCA_plm_ssh_agent",
            "HYDRA_LAUNCHER_EXEC",
            "I_MPI_HYDRA_BOOTSTRAP_EXEC",
            "FI_PROVIDER",
        ] {
            assert!(all.contains(&name), "{name}");
        }
        assert!(!names(MpiFlavor::MPICH).contains(&"OMPI_MCA_plm_rsh_agent"));
        assert!(!names(MpiFlavor::OpenMPI).contains(&"HYDRA_HOST_FILE"));
        assert!(names(MpiFlavor::Intel).contains(&"HYDRA_HOST_FILE"));
    }

    #[test]
    fn host_files_of_another_cluster_give_way_and_those_of_users_stay() {
        let offered = |dir: &str| {
            [
                (HOST_FILES, dir.to_owned()),
                ("HYDRA_HOST_FILE", format!("{dir}/hosts.hydra")),
                ("I_MPI_HYDRA_HOST_FILE", format!("{dir}/hosts.hydra")),
                ("I_MPI_PERHOST", dir.len().to_string()),
                ("OMPI_MCA_orte_default_hostfile", format!("{dir}/hosts.openmpi")),
            ]
            .into_iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value)))
        };
        let mut env = Variables::new();
        env.insert("OMPI_MCA_orte_default_hostfile".into(), "/home/ada/hosts.openmpi".into());
        offer(&mut env, offered("/run/quorate"));
        // A job of it comes into a cluster of its own.
        offer(&mut env, offered("/run/nested"));
        let said = |name: &str| env[OsStr::new(name)].to_str().unwrap().to_owned();
        assert_eq!(said("HYDRA_HOST_FILE"), "/run/nested/hosts.hydra");
        assert_eq!(said("I_MPI_HYDRA_HOST_FILE"), "/run/nested/hosts.hydra");
        assert_eq!(said("I_MPI_PERHOST"), "11");
        assert_eq!(said(HOST_FILES), "/run/nested");
        assert_eq!(said("OMPI_MCA_orte_default_hostfile"), "/home/ada/hosts.openmpi");
    }

    #[test]
    fn a_script_is_never_taken_for_a_rank() {
        for name in names(MpiFlavor::Auto) {
            assert!(!must_not_leak(name), "{name}");
        }
    }
}
