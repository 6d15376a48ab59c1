//! The variables by which ranks find their server, and those that must never reach them from
//! outside. Owns names and values; the shell puts them into processes.

use crate::layout::Layout;
use std::net::SocketAddr;

/// Which protocols a job's ranks are told about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offer {
    /// All; every MPI picks its own.
    #[default]
    Auto,
    /// PMI-1 alone.
    Pmi1,
    /// PMI-2 alone.
    Pmi2,
    /// PMIx alone.
    Pmix,
    /// None: ranks are on their own.
    None,
}

impl Offer {
    /// The words of the option `--mpi`, in the order of the variants.
    pub const WORDS: [&'static str; 5] = ["auto", "pmi1", "pmi2", "pmix", "none"];

    fn pmi(self) -> bool {
        matches!(self, Self::Auto | Self::Pmi1 | Self::Pmi2)
    }

    fn pmix(self) -> bool {
        matches!(self, Self::Auto | Self::Pmix)
    }
}

/// Not one of [`Offer::WORDS`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is not a way to start MPI; use auto, pmi1, pmi2, pmix or none")]
pub struct UnknownOffer {
    /// What was given.
    pub word: String,
}

impl std::str::FromStr for Offer {
    type Err = UnknownOffer;

    fn from_str(word: &str) -> Result<Self, UnknownOffer> {
        match word {
            "auto" => Ok(Self::Auto),
            "pmi1" => Ok(Self::Pmi1),
            "pmi2" => Ok(Self::Pmi2),
            "pmix" => Ok(Self::Pmix),
            "none" => Ok(Self::None),
            _ => Err(UnknownOffer { word: word.to_owned() }),
        }
    }
}

/// The ends that a rank can reach its server by. What is `None` is not offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transports {
    /// Number of the rank's end of a socket pair, as it will be in the rank's process.
    pub pmi_fd: Option<i32>,
    /// Where PMI is served by TCP, for programs behind wrappers that close descriptors.
    pub pmi_port: Option<SocketAddr>,
    /// The port on 127.0.0.1 where PMIx is served.
    pub pmix_port: Option<u16>,
}

impl Layout {
    /// All variables of a local rank, to be put over an environment that went through
    /// [`must_not_leak`]. Not for batch scripts.
    pub fn environment(
        &self,
        rank: u32,
        transports: &Transports,
        offer: Offer,
    ) -> Vec<(String, String)> {
        let mut env = Vec::with_capacity(40);
        let mut set = |name: &str, value: String| env.push((name.to_owned(), value));
        let job = self.job();
        let size = job.size().to_string();
        let local_rank = job.local_rank_of(rank).unwrap_or_default().to_string();
        let local_size = self.local_ranks().len().to_string();
        // What mpirun of Open MPI and Hydra set, and wrapper scripts read.
        set("OMPI_COMM_WORLD_RANK", rank.to_string());
        set("OMPI_COMM_WORLD_SIZE", size.clone());
        set("OMPI_COMM_WORLD_LOCAL_RANK", local_rank.clone());
        set("OMPI_COMM_WORLD_LOCAL_SIZE", local_size.clone());
        set("OMPI_COMM_WORLD_NODE_RANK", local_rank.clone());
        set("MPI_LOCALRANKID", local_rank);
        set("MPI_LOCALNRANKS", local_size);
        if offer.pmi() {
            set("PMI_RANK", rank.to_string());
            set("PMI_SIZE", size);
            set("PMI_SPAWNED", "0".into());
            set("PMI_JOBID", job.namespace().to_owned());
            if let Some(fd) = transports.pmi_fd {
                set("PMI_FD", fd.to_string());
            }
            if let Some(address) = transports.pmi_port {
                set("PMI_PORT", address.to_string());
                set("PMI_ID", rank.to_string());
            }
            // MPICH 5 refuses to choose when it sees PMIx as well. Who asked for PMI-2 has PMI-1 by the
            // same descriptor, as of Slurm: not every MPICH was built with PMI-2.
            if offer != Offer::Pmi2 {
                set("MPIR_CVAR_PMI_VERSION", "1".into());
            }
        }
        if let Some(port) = transports.pmix_port.filter(|_| offer.pmix()) {
            let uri = format!("pmix-server.{};tcp4://127.0.0.1:{port}", self.node());
            set("PMIX_NAMESPACE", job.namespace().to_owned());
            set("PMIX_RANK", rank.to_string());
            for name in PMIX_URIS {
                set(name, uri.clone());
            }
            set("PMIX_SECURITY_MODE", "native".into());
            set("PMIX_BFROP_BUFFER_TYPE", "PMIX_BFROP_BUFFER_NON_DESC".into());
            // The store that needs no shared memory with the server.
            set("PMIX_GDS_MODULE", "hash".into());
            set("PMIX_HOSTNAME", self.host().to_owned());
            set("PMIX_VERSION", "4.1.0".into());
            set("PMIX_SERVER_TMPDIR", self.tmp_dir().to_owned());
            set("PMIX_SYSTEM_TMPDIR", self.tmp_dir().to_owned());
            // Open MPI 4 believes PMIx only when a known launcher is there; this name also turns
            // its own binding off, and does no harm to a nested mpirun.
            set("JSM_JSRUN_PORT", port.to_string());
        }
        env
    }
}

/// The names under which client libraries of different age look for the server; the one they find
/// first tells them which encoding the server speaks.
const PMIX_URIS: [&str; 5] = [
    "PMIX_SERVER_URI41",
    "PMIX_SERVER_URI4",
    "PMIX_SERVER_URI3",
    "PMIX_SERVER_URI21",
    "PMIX_SERVER_URI2",
];

/// Names that belong to one rank of one launch, as Open MPI's, MPICH's and Intel's launchers set
/// them.
const LAUNCH_NAMES: [&str; 28] = [
    "HYDI_CONTROL_FD",
    "I_MPI_HYDRA_UUID",
    "I_MPI_PIN_INFO",
    "I_MPI_PIN_MAPPING",
    "MPIR_CVAR_CH3_INTERFACE_HOSTNAME",
    "MPIR_CVAR_PMI_VERSION",
    "MPI_LOCALNRANKS",
    "MPI_LOCALRANKID",
    "OMPI_APP_CTX_NUM_PROCS",
    "OMPI_ARGV",
    "OMPI_COMMAND",
    "OMPI_FILE_LOCATION",
    "OMPI_FIRST_RANKS",
    "OMPI_MCA_ess",
    "OMPI_MCA_initial_wdir",
    "OMPI_MCA_num_procs",
    "OMPI_MCA_orte_app_num",
    "OMPI_MCA_orte_bound_at_launch",
    "OMPI_MCA_orte_hnp_uri",
    "OMPI_MCA_orte_jobfam_session_dir",
    "OMPI_MCA_orte_launch",
    "OMPI_MCA_orte_local_daemon_uri",
    "OMPI_MCA_orte_num_nodes",
    "OMPI_MCA_orte_precondition_transports",
    "OMPI_MCA_orte_top_session_dir",
    "OMPI_MCA_pmix",
    "OMPI_NUM_APP_CTX",
    "PRTE_LAUNCHED",
];

/// Families of such names.
const LAUNCH_PREFIXES: [&str; 13] = [
    "HYDRA_BSTRAP_",
    "I_MPI_INFO_",
    "JSM_",
    "OMPI_COMM_WORLD_",
    "OMPI_MCA_ess_base_",
    "OMPI_MCA_orte_ess_",
    "OMPI_UNIVERSE_",
    "OMPI_WORLD_",
    "PALS_",
    "PMI2_",
    "PMIX_",
    "PMI_",
    "PRTE_MCA_ess_base_",
];

/// What users set within these families: parameters, and where a moved installation is.
const USER_PREFIXES: [&str; 3] = ["PMIX_MCA_", "PMIX_PREFIX", "PMIX_INSTALL_PREFIX"];

/// Tells whether a variable of an outer launch must be taken out of the environment before ranks or
/// batch scripts are started: with it, they would take themselves for a rank of that launch. What
/// users set (`OMPI_MCA_btl`, `PMIX_MCA_...`) stays.
pub fn must_not_leak(name: &str) -> bool {
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    !begins(&USER_PREFIXES) && (LAUNCH_NAMES.contains(&name) || begins(&LAUNCH_PREFIXES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Job, JobSpec};
    use std::collections::BTreeMap;

    fn environment(offer: Offer, transports: Transports) -> BTreeMap<String, String> {
        let job = Job::new(JobSpec {
            namespace: "ns-1".into(),
            id: "1".into(),
            hosts: vec!["a".into(), "b".into()],
            node_of: vec![0, 1, 1],
            ..JobSpec::default()
        });
        let layout = Layout::new(job.unwrap(), 1, "/tmp/job").unwrap();
        let variables = layout.environment(2, &transports, offer);
        let count = variables.len();
        let map: BTreeMap<_, _> = variables.into_iter().collect();
        assert_eq!(map.len(), count, "each name once");
        map
    }

    const ALL: Transports = Transports {
        pmi_fd: Some(7),
        pmi_port: Some(SocketAddr::V4(std::net::SocketAddrV4::new(
            std::net::Ipv4Addr::LOCALHOST,
            4000,
        ))),
        pmix_port: Some(5000),
    };

    #[test]
    fn auto_offers_everything_at_once() {
        let env = environment(Offer::Auto, ALL);
        for (name, value) in [
            ("PMI_FD", "7"),
            ("PMI_PORT", "127.0.0.1:4000"),
            ("PMI_ID", "2"),
            ("PMI_RANK", "2"),
            ("PMI_SIZE", "3"),
            ("PMI_SPAWNED", "0"),
            ("MPIR_CVAR_PMI_VERSION", "1"),
            ("PMIX_NAMESPACE", "ns-1"),
            ("PMIX_RANK", "2"),
            ("PMIX_SERVER_URI41", "pmix-server.1;tcp4://127.0.0.1:5000"),
            ("PMIX_HOSTNAME", "b"),
            ("PMIX_GDS_MODULE", "hash"),
            ("JSM_JSRUN_PORT", "5000"),
            ("OMPI_COMM_WORLD_RANK", "2"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
            ("MPI_LOCALRANKID", "1"),
        ] {
            assert_eq!(env.get(name).map(String::as_str), Some(value), "{name}");
        }
    }

    #[test]
    fn an_offer_leaves_the_others_out() {
        let family = |offer, prefix: &str| {
            environment(offer, ALL).keys().any(|name| name.starts_with(prefix))
        };
        for (offer, pmi, pmix) in [
            (Offer::Pmi1, true, false),
            (Offer::Pmi2, true, false),
            (Offer::Pmix, false, true),
            (Offer::None, false, false),
        ] {
            assert_eq!((family(offer, "PMI_"), family(offer, "PMIX_")), (pmi, pmix), "{offer:?}");
            assert_eq!(family(offer, "JSM_"), pmix);
            assert!(family(offer, "OMPI_COMM_WORLD_"));
        }
        assert!(!environment(Offer::Pmi2, ALL).contains_key("MPIR_CVAR_PMI_VERSION"));
        let alone = environment(Offer::Auto, Transports::default());
        assert!(!alone.contains_key("PMI_FD") && !alone.contains_key("PMIX_RANK"));
    }

    #[test]
    fn all_that_a_launch_sets_must_not_leak_into_the_next() {
        for name in environment(Offer::Auto, ALL).keys() {
            assert!(must_not_leak(name), "{name}");
        }
        for name in
            ["PMI_HOSTNAME", "PMIX_SERVER_URI51", "OMPI_MCA_ess_base_jobid", "PRTE_LAUNCHED"]
        {
            assert!(must_not_leak(name), "{name}");
        }
        for name in [
            "OMPI_MCA_btl",
            "OMPI_MCA_orte_default_hostfile",
            "PMIX_MCA_gds",
            "PMIX_PREFIX",
            "OPAL_PREFIX",
            "MPIR_CVAR_CH4_NETMOD",
            "I_MPI_DEBUG",
            "HYDRA_HOST_FILE",
            "SLURM_JOB_ID",
            "PATH",
        ] {
            assert!(!must_not_leak(name), "{name}");
        }
    }

    #[test]
    fn words_name_offers() {
        let all = [Offer::Auto, Offer::Pmi1, Offer::Pmi2, Offer::Pmix, Offer::None];
        for (word, offer) in Offer::WORDS.into_iter().zip(all) {
            assert_eq!(word.parse(), Ok(offer));
        }
        let error = "openmpi".parse::<Offer>().unwrap_err().to_string();
        assert!(error.contains("auto, pmi1, pmi2, pmix or none"), "{error}");
    }
}
