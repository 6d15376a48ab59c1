//! What one broker is told: the cluster's configuration file, the seed, the pod's environment,
//! and flags, which override the rest.
//!
//! Reading happens once, at the start; the seed never leaves this process except as keys.

use crate::net::resolve::{AddressBook, AddressBookError, parse_address_book};
use quorate_contract::config::ConfigError;
use quorate_contract::keys::{SEED_LENGTH, Seed};
use quorate_contract::{AgentConfig, env, paths};
use std::io;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Flags of `broker`; each overrides what the environment or the usual paths say.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Flags {
    /// The cluster's configuration file
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The file with the cluster's 32-byte seed
    #[arg(long, value_name = "FILE")]
    pub seed_file: Option<PathBuf>,
    /// A writable directory for the socket, host files and task records
    #[arg(long, value_name = "DIR")]
    pub run_dir: Option<PathBuf>,
    /// Where the report is left when the broker ends
    #[arg(long, value_name = "FILE")]
    pub termination_log: Option<PathBuf>,
    /// This broker's rank, instead of QUORATE_GROUP and JOB_COMPLETION_INDEX
    #[arg(long)]
    pub rank: Option<u32>,
    /// The restart attempt, instead of QUORATE_ATTEMPT
    #[arg(long)]
    pub attempt: Option<u32>,
    /// Lines of `RANK ADDRESS:PORT` to use instead of DNS, one a rank
    #[arg(long, value_name = "FILE", hide = true)]
    pub hosts: Option<PathBuf>,
    /// Other brokers of the cluster share this host's processes and directories
    #[arg(long, hide = true)]
    pub shared_host: bool,
    /// Tasks that this broker takes, whatever the configuration says
    #[arg(long, value_name = "N", hide = true)]
    pub slots: Option<u32>,
    /// Divides the overlay's silence limits, for tests
    #[arg(long, value_name = "N", default_value_t = 1, hide = true)]
    pub haste: u32,
}

/// Everything that a broker is told, checked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The cluster's configuration.
    pub config: AgentConfig,
    /// This broker's rank.
    pub rank: u32,
    /// The restart attempt.
    pub attempt: u32,
    /// The run directory.
    pub run_dir: PathBuf,
    /// Where the report goes.
    pub termination_log: PathBuf,
    /// The pod's name, where it is known.
    pub pod: Option<String>,
    /// The pod's address, where it is known.
    pub pod_ip: Option<String>,
    /// The node's name, where it is known.
    pub node: Option<String>,
    /// The address book that replaces DNS, where there is one.
    pub book: Option<AddressBook>,
    /// Other brokers of the cluster share this host's processes and directories.
    pub shared_host: bool,
    /// Tasks that this broker takes, where the configuration does not say it.
    pub slots: Option<u32>,
    /// The marks of what started this broker ([`env::MARK`]), where it is part of another cluster.
    pub outer_marks: Option<String>,
    /// Divides the overlay's silence limits.
    pub haste: u32,
}

/// Why the settings are not usable.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A file cannot be read.
    #[error("cannot read the {what} {}: is the volume mounted? --{flag} names another file", path.display())]
    Read {
        /// What the file holds.
        what: &'static str,
        /// Its path.
        path: PathBuf,
        /// The flag that names another.
        flag: &'static str,
        /// The system's word for it.
        #[source]
        source: io::Error,
    },
    /// The configuration is not readable.
    #[error("the file {} is not a usable agent configuration", path.display())]
    Config {
        /// Its path.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: ConfigError,
    },
    /// The seed has the wrong length.
    #[error("the seed file {} has {found} bytes, it must have {SEED_LENGTH} random bytes, neither text nor base64", path.display())]
    SeedLength {
        /// Its path.
        path: PathBuf,
        /// Its length.
        found: usize,
    },
    /// The address book is not readable.
    #[error("the file {} is not a usable address book", path.display())]
    Book {
        /// Its path.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: AddressBookError,
    },
    /// A variable is missing.
    #[error("the variable {name} is not set: set it or give --{flag}")]
    Unset {
        /// The variable.
        name: &'static str,
        /// The flag that replaces it.
        flag: &'static str,
    },
    /// A variable is not a number.
    #[error("the variable {name} is {value:?}, not a number: correct it or give --{flag}")]
    NotANumber {
        /// The variable.
        name: &'static str,
        /// What it holds.
        value: String,
        /// The flag that replaces it.
        flag: &'static str,
    },
    /// The group or index is not in the configuration.
    #[error(
        "the configuration has no pod {index} in Job {job} of group {group:?} (JOB_COMPLETION_INDEX, QUORATE_JOB_INDEX, QUORATE_GROUP): its groups are {known}"
    )]
    UnknownPod {
        /// The group.
        group: String,
        /// The index of its Job.
        job: u32,
        /// The index.
        index: u32,
        /// Groups with their sizes.
        known: String,
    },
    /// The rank is not in the configuration.
    #[error("rank {rank} is not in the configuration: its largest size is {max_size}")]
    UnknownRank {
        /// The rank.
        rank: u32,
        /// The largest size.
        max_size: u32,
    },
}

impl Settings {
    /// How long a broker goes on without rank 0.
    pub fn orphan_timeout(&self) -> std::time::Duration {
        let seconds = self.config.bootstrap.orphan_timeout_seconds;
        std::time::Duration::from_secs(seconds.into()) / self.haste.min(1000)
    }

    /// Reads and checks everything. `variable` looks a variable of the environment up. The seed
    /// comes apart from the rest, so that whoever gets the settings does not get the secret.
    pub fn read(
        flags: &Flags,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(Self, Seed), SettingsError> {
        let path = flags
            .config
            .clone()
            .unwrap_or_else(|| Path::new(paths::CONFIG_DIR).join(paths::CONFIG_KEY));
        let bytes = read("configuration", &path, "config")?;
        let config = AgentConfig::parse(&bytes)
            .map_err(|source| SettingsError::Config { path: path.clone(), source })?;
        let seed = read_seed(flags)?;
        let attempt = match flags.attempt {
            Some(attempt) => attempt,
            None => number(variable, env::ATTEMPT, "attempt")?,
        };
        let rank = match flags.rank {
            Some(rank) => rank,
            None => rank_from(&config, variable)?,
        };
        if config.locate(rank).is_none() {
            return Err(SettingsError::UnknownRank { rank, max_size: config.max_size });
        }
        let settings = Self {
            config,
            rank,
            attempt,
            run_dir: flags.run_dir.clone().unwrap_or_else(|| paths::RUN_DIR.into()),
            termination_log: termination_log(flags),
            pod: variable(env::POD_NAME),
            pod_ip: variable(env::POD_IP),
            node: variable(env::NODE_NAME),
            book: flags.hosts.as_deref().map(read_book).transpose()?,
            shared_host: flags.shared_host,
            slots: flags.slots,
            outer_marks: variable(env::MARK),
            haste: flags.haste.max(1),
        };
        Ok((settings, seed))
    }

    /// The broker's local socket.
    pub fn socket(&self) -> PathBuf {
        self.run_dir.join(paths::SOCKET)
    }

    /// The address that other brokers reach this one at, where it is known.
    pub fn address(&self) -> Option<String> {
        let entry = self.book.as_ref().and_then(|book| book.get(&self.rank));
        entry.map(|address| address.ip().to_string()).or_else(|| self.pod_ip.clone())
    }

    /// How people call this pod.
    pub fn display_name(&self) -> String {
        self.config.display_name(self.rank)
    }
}

/// Where the report goes; known even when the rest of the settings cannot be read.
pub fn termination_log(flags: &Flags) -> PathBuf {
    flags.termination_log.clone().unwrap_or_else(|| paths::TERMINATION_LOG.into())
}

fn read(what: &'static str, path: &Path, flag: &'static str) -> Result<Vec<u8>, SettingsError> {
    std::fs::read(path).map_err(|source| SettingsError::Read {
        what,
        path: path.to_owned(),
        flag,
        source,
    })
}

fn read_seed(flags: &Flags) -> Result<Seed, SettingsError> {
    let path = flags
        .seed_file
        .clone()
        .unwrap_or_else(|| Path::new(paths::CONFIG_DIR).join(paths::SEED_KEY));
    let bytes = Zeroizing::new(read("seed file", &path, "seed-file")?);
    let found = bytes.len();
    let seed = <[u8; SEED_LENGTH]>::try_from(bytes.as_slice())
        .map_err(|_| SettingsError::SeedLength { path, found })?;
    Ok(Seed::new(seed))
}

fn read_book(path: &Path) -> Result<AddressBook, SettingsError> {
    let bytes = read("address book", path, "hosts")?;
    parse_address_book(&String::from_utf8_lossy(&bytes))
        .map_err(|source| SettingsError::Book { path: path.to_owned(), source })
}

fn number(
    variable: &dyn Fn(&str) -> Option<String>,
    name: &'static str,
    flag: &'static str,
) -> Result<u32, SettingsError> {
    let value = variable(name).ok_or(SettingsError::Unset { name, flag })?;
    value.trim().parse().map_err(|_| SettingsError::NotANumber { name, value, flag })
}

fn rank_from(
    config: &AgentConfig,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<u32, SettingsError> {
    let group =
        variable(env::GROUP).ok_or(SettingsError::Unset { name: env::GROUP, flag: "rank" })?;
    let index = number(variable, env::INDEX, "rank")?;
    let job = match variable(env::JOB_INDEX) {
        Some(_) => number(variable, env::JOB_INDEX, "rank")?,
        None => 0,
    };
    config.rank_of(&group, job, index).ok_or_else(|| {
        let known: Vec<String> =
            config.groups.iter().map(|g| format!("{} ({})", g.name, g.count)).collect();
        SettingsError::UnknownPod { group, job, index, known: known.join(", ") }
    })
}

#[cfg(test)]
mod tests;
