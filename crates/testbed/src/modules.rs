//! The table of Go modules that the test cluster is built from. Versions are pinned by the `go.mod`
//! and `go.sum` in `e2e/kube/NAME`; here is what is built of each and what is copied beside it.
//!
//! Pure: [`crate::build`] does the work.

/// A folder below `e2e/kube` with a `go.mod`, built as one.
#[derive(Clone, Copy, Debug)]
pub struct Module {
    /// The folder's name.
    pub name: &'static str,
    /// The programs built from it.
    pub programs: &'static [Program],
    /// String variables set by the linker (`-X NAME=VALUE`), without which some programs do not
    /// know their version.
    pub stamps: &'static [(&'static str, &'static str)],
    /// What is copied from the sources of modules it requires.
    pub assets: &'static [Asset],
}

/// A program of a module.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its Go package: an import path, or a folder as `./NAME`.
    pub package: &'static str,
    /// What the file is called.
    pub name: &'static str,
}

/// A file or folder of a required module's sources, such as its CRDs.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    /// The module's path.
    pub module: &'static str,
    /// The file or folder in it.
    pub path: &'static str,
    /// Its name in the module's folder of assets.
    pub name: &'static str,
}

/// All modules; `core` and `etcd` are what every cluster needs.
pub const MODULES: &[Module] = &[
    Module {
        name: "core",
        programs: &[
            Program { package: "k8s.io/kubernetes/cmd/kube-apiserver", name: "kube-apiserver" },
            Program {
                package: "k8s.io/kubernetes/cmd/kube-controller-manager",
                name: "kube-controller-manager",
            },
            Program { package: "k8s.io/kubernetes/cmd/kube-scheduler", name: "kube-scheduler" },
            Program { package: "k8s.io/kubernetes/cmd/kubelet", name: "kubelet" },
            Program { package: "k8s.io/kubernetes/cmd/kube-proxy", name: "kube-proxy" },
            Program { package: "k8s.io/kubernetes/cmd/kubectl", name: "kubectl" },
            Program { package: "sigs.k8s.io/jobset", name: "jobset" },
            Program { package: "./coredns", name: "coredns" },
        ],
        // Unstamped, every part calls itself v0.0.0-master, and nodes register with that.
        stamps: &[
            ("k8s.io/component-base/version.gitVersion", "v1.36.3"),
            ("k8s.io/component-base/version.gitMajor", "1"),
            ("k8s.io/component-base/version.gitMinor", "36"),
            ("k8s.io/client-go/pkg/version.gitVersion", "v1.36.3"),
            ("k8s.io/client-go/pkg/version.gitMajor", "1"),
            ("k8s.io/client-go/pkg/version.gitMinor", "36"),
        ],
        assets: &[Asset {
            module: "sigs.k8s.io/jobset",
            path: "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",
            name: "jobset-crd.yaml",
        }],
    },
    // Not in `core`: CoreDNS lifts etcd's client libraries to 3.7, with which the server of 3.6
    // does not compile.
    Module {
        name: "etcd",
        programs: &[Program { package: "go.etcd.io/etcd/server/v3", name: "etcd" }],
        stamps: &[],
        assets: &[],
    },
    // A container runtime of today beside the distribution's; that one's runc serves both.
    Module {
        name: "containerd",
        programs: &[
            Program {
                package: "github.com/containerd/containerd/v2/cmd/containerd",
                name: "containerd",
            },
            Program {
                package: "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
                name: "containerd-shim-runc-v2",
            },
        ],
        stamps: &[],
        assets: &[],
    },
    Module {
        name: "helm",
        programs: &[Program { package: "helm.sh/helm/v4/cmd/helm", name: "helm" }],
        stamps: &[("helm.sh/helm/v4/internal/version.version", "v4.3.1")],
        assets: &[],
    },
    Module {
        name: "kwok",
        programs: &[Program { package: "sigs.k8s.io/kwok/cmd/kwok", name: "kwok" }],
        stamps: &[],
        assets: &[
            stage("kustomize/stage/pod/fast/pod-ready.yaml", "pod-ready.yaml"),
            stage("kustomize/stage/pod/fast/pod-complete.yaml", "pod-complete.yaml"),
            stage("kustomize/stage/pod/fast/pod-delete.yaml", "pod-delete.yaml"),
        ],
    },
    Module {
        name: "kueue",
        programs: &[Program { package: "sigs.k8s.io/kueue/cmd/kueue", name: "kueue" }],
        stamps: &[],
        assets: &[Asset {
            module: "sigs.k8s.io/kueue",
            path: "config/components/crd/bases",
            name: "crds",
        }],
    },
    Module {
        name: "network-policies",
        programs: &[Program {
            package: "sigs.k8s.io/kube-network-policies/cmd",
            name: "network-policies",
        }],
        stamps: &[],
        assets: &[],
    },
    // Peers that benchmarks measure beside ours.
    Module {
        name: "mpi-operator",
        programs: &[Program {
            package: "github.com/kubeflow/mpi-operator/cmd/mpi-operator",
            name: "mpi-operator",
        }],
        stamps: &[],
        assets: &[Asset {
            module: "github.com/kubeflow/mpi-operator",
            path: "manifests/base/kubeflow.org_mpijobs.yaml",
            name: "crds/mpijobs.yaml",
        }],
    },
    Module {
        name: "trainer",
        programs: &[Program {
            package: "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager",
            name: "trainer",
        }],
        stamps: &[],
        assets: &[
            Asset {
                module: "github.com/kubeflow/trainer/v2",
                path: "manifests/base/crds/trainer.kubeflow.org_clustertrainingruntimes.yaml",
                name: "crds/clustertrainingruntimes.yaml",
            },
            Asset {
                module: "github.com/kubeflow/trainer/v2",
                path: "manifests/base/crds/trainer.kubeflow.org_trainingruntimes.yaml",
                name: "crds/trainingruntimes.yaml",
            },
            Asset {
                module: "github.com/kubeflow/trainer/v2",
                path: "manifests/base/crds/trainer.kubeflow.org_trainjobs.yaml",
                name: "crds/trainjobs.yaml",
            },
        ],
    },
];

/// A stage of kwok's.
const fn stage(path: &'static str, name: &'static str) -> Asset {
    Asset { module: "sigs.k8s.io/kwok", path, name }
}

/// The module of this name.
pub fn module(name: &str) -> Option<&'static Module> {
    MODULES.iter().find(|module| module.name == name)
}

/// The module that a program is built from.
pub fn module_of(program: &str) -> Option<&'static Module> {
    MODULES.iter().find(|module| module.programs.iter().any(|p| p.name == program))
}

impl Module {
    /// The value of `-ldflags`: small files, and the stamps.
    pub fn linker_flags(&self) -> String {
        let stamp = |(name, value): &(&str, &str)| format!(" -X {name}={value}");
        let stamps: String = self.stamps.iter().map(stamp).collect();
        format!("-s -w{stamps}")
    }
}

impl Program {
    /// What `go build` calls the file: the last part of the path that is not a major version.
    pub fn built_name(&self) -> &'static str {
        let major = |part: &str| {
            part.strip_prefix('v')
                .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        };
        self.package.rsplit('/').find(|part| !major(part)).unwrap_or(self.package)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_program_is_built_once() {
        let mut names = BTreeSet::new();
        for program in MODULES.iter().flat_map(|module| module.programs) {
            assert!(names.insert(program.name), "{} is in two modules", program.name);
        }
    }

    #[test]
    fn go_names_a_program_after_its_folder_without_the_major_version() {
        let name = |package| Program { package, name: "x" }.built_name();
        assert_eq!(name("go.etcd.io/etcd/server/v3"), "server");
        assert_eq!(name("./coredns"), "coredns");
        assert_eq!(name("k8s.io/kubernetes/cmd/kubelet"), "kubelet");
    }

    #[test]
    fn stamps_reach_the_linker() {
        let flags = module("core").unwrap().linker_flags();
        assert!(flags.starts_with("-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 "));
        assert_eq!(module("etcd").unwrap().linker_flags(), "-s -w");
    }
}
