//! Host files, one format for each family of launchers.
//!
//! Owns: the text of the files and their names in the run directory. Pure.

use quorate_contract::config::MpiFlavor;

/// A host with places for tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The name that launchers pass to the remote shell.
    pub name: String,
    /// Tasks that it takes; hosts with 0 are left out of the files.
    pub slots: u32,
}

/// The format of a host file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `name slots=2`: Open MPI 1 to 5, PRRTE.
    OpenMpi,
    /// `name:2`: MPICH's Hydra, Intel MPI, MVAPICH.
    Hydra,
    /// `name`, one line for each place.
    Plain,
}

impl Format {
    /// The format of a flavour's launcher.
    pub fn of(flavor: MpiFlavor) -> Self {
        match flavor {
            MpiFlavor::Auto | MpiFlavor::OpenMPI => Self::OpenMpi,
            MpiFlavor::MPICH | MpiFlavor::Intel => Self::Hydra,
        }
    }

    /// The file's name in the run directory.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::OpenMpi => "hosts.openmpi",
            Self::Hydra => "hosts.hydra",
            Self::Plain => "hosts",
        }
    }
}

/// The text of a host file: hosts in the order given, a line end after each.
pub fn render(format: Format, hosts: &[Host]) -> String {
    let line = |host: &Host| match (format, host.slots) {
        (_, 0) => String::new(),
        (Format::OpenMpi, slots) => format!("{} slots={slots}\n", host.name),
        (Format::Hydra, slots) => format!("{}:{slots}\n", host.name),
        (Format::Plain, slots) => format!("{}\n", host.name).repeat(slots as usize),
    };
    hosts.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_family_reads_its_own_file() {
        let hosts = [("t-launcher-0-0", 0), ("t-worker-0-0", 2), ("t-worker-0-1", 1)]
            .map(|(name, slots)| Host { name: name.into(), slots });
        assert_eq!(render(Format::OpenMpi, &hosts), "t-worker-0-0 slots=2\nt-worker-0-1 slots=1\n");
        assert_eq!(render(Format::Hydra, &hosts), "t-worker-0-0:2\nt-worker-0-1:1\n");
        assert_eq!(render(Format::Plain, &hosts), "t-worker-0-0\nt-worker-0-0\nt-worker-0-1\n");
    }
}
