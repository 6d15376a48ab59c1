//! What the keeper is told by whoever starts it: the shape of the cluster and where the programs are.

use crate::addons::Addon;
use crate::build::{self, BuildError};
use crate::layout::{Folder, Runtime, Shape};
use crate::modules::module;
use crate::pause::{self, PauseError};
use crate::tools;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Programs are missing.
    #[error("the programs of the cluster cannot be built")]
    Build(#[from] BuildError),
    /// The image that every pod needs is missing.
    #[error("the image of pods' first container cannot be made")]
    Pause(#[from] PauseError),
    /// An image that is to be loaded is not there.
    #[error("--image {}: there is no such file", path.display())]
    NoImage {
        /// The file.
        path: PathBuf,
    },
    /// The plan's file could not be used.
    #[error("cannot {doing} {}", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

/// The plan of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// What it is to be.
    pub shape: Shape,
    /// Output of the module `core`.
    pub core: PathBuf,
    /// Output of the module `etcd`.
    pub etcd: PathBuf,
    /// Output of the module `containerd`, if the nodes are to run that.
    pub runtime: Option<PathBuf>,
    /// Output of the module `kwok`, if there are nodes for it to play.
    pub kwok: Option<PathBuf>,
    /// Outputs of the modules of the addons.
    pub addons: BTreeMap<Addon, PathBuf>,
    /// The archive of the image that holds a pod's namespaces.
    pub pause: PathBuf,
}

impl Plan {
    /// Builds what is missing for a shape.
    pub fn new(mut shape: Shape, say: &mut dyn FnMut(&str)) -> Result<Self, PlanError> {
        for image in &mut shape.images {
            *image =
                fs::canonicalize(&image).map_err(|_| PlanError::NoImage { path: image.clone() })?;
        }
        let mut built = |name: &str| {
            let unknown = || BuildError::UnknownModule { name: name.to_owned() };
            let module = module(name).ok_or_else(unknown)?;
            build::ensure(module, say).map(|built| built.folder().to_owned())
        };
        let mut addons = BTreeMap::new();
        for addon in &shape.addons {
            addons.insert(*addon, built(addon.module())?);
        }
        let kwok = if shape.fake_nodes > 0 { Some(built("kwok")?) } else { None };
        let runtime = match shape.runtime {
            Runtime::Distribution => None,
            Runtime::Containerd2 => Some(built("containerd")?),
        };
        let (core, etcd) = (built("core")?, built("etcd")?);
        Ok(Self { shape, core, etcd, runtime, kwok, addons, pause: pause::archive()? })
    }

    /// A program of the module `core`.
    pub fn core(&self, program: &str) -> PathBuf {
        self.core.join("bin").join(program)
    }

    /// Where the nodes look for programs: containerd finds its shim there, too.
    pub fn node_path(&self) -> String {
        match &self.runtime {
            Some(folder) => format!("{}:{}", folder.join("bin").display(), tools::PATH),
            None => tools::PATH.to_owned(),
        }
    }

    /// Writes it where the keeper and the nodes read it.
    pub fn write(&self, folder: &Folder) -> Result<(), PlanError> {
        let path = folder.path("plan.json");
        let text = serde_json::to_string(self).expect("a plan is plain data");
        fs::write(&path, text).map_err(file("write", &path))
    }

    /// Reads it.
    pub fn read(folder: &Folder) -> Result<Self, PlanError> {
        let path = folder.path("plan.json");
        let text = fs::read_to_string(&path).map_err(file("read", &path))?;
        serde_json::from_str(&text).map_err(|error| file("read", &path)(error.into()))
    }
}

fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> PlanError {
    let path = path.to_owned();
    move |source| PlanError::File { doing, path, source }
}
