//! Flags that say where clusters are: on this machine, or on which Kubernetes.

use clap::Args;
use std::path::PathBuf;

pub(super) const HEADING: &str =
    "On Kubernetes (any of these, or the name kubectl-quorate, chooses it)";

/// Which Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct Reach {
    /// The context of the kubeconfig; an empty one means this machine
    #[arg(long, value_name = "CONTEXT", env = "QUORATE_CONTEXT", help_heading = HEADING)]
    pub context: Option<String>,
    /// The kubeconfig [default: $KUBECONFIG, then ~/.kube/config]
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub kubeconfig: Option<PathBuf>,
}

/// Which Kubernetes and which namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct Place {
    #[command(flatten)]
    pub reach: Reach,
    /// The namespace [default: the context's]
    #[arg(short, long, value_name = "NAMESPACE", help_heading = HEADING)]
    pub namespace: Option<String>,
}

impl Place {
    /// Whether Kubernetes is meant; `as_plugin` when this program was called as `kubectl-quorate`.
    pub fn is_kubernetes(&self, as_plugin: bool) -> bool {
        match self.reach.context.as_deref() {
            Some("") => false,
            Some(_) => true,
            None => as_plugin || self.reach.kubeconfig.is_some() || self.namespace.is_some(),
        }
    }

    /// The flags again, for commands in hints: ` --context lab -n hpc`.
    pub fn words(&self) -> String {
        let mut words = String::new();
        if let Some(context) = self.reach.context.as_deref().filter(|context| !context.is_empty()) {
            words += &format!(" --context {context}");
        }
        if let Some(file) = &self.reach.kubeconfig {
            words += &format!(" --kubeconfig {}", file.display());
        }
        if let Some(namespace) = &self.namespace {
            words += &format!(" -n {namespace}");
        }
        words
    }
}

/// Whether this program was called by the name that makes it a plugin of kubectl.
pub fn called_as_plugin(name: Option<&std::ffi::OsStr>) -> bool {
    let name = name.and_then(|name| std::path::Path::new(name).file_name());
    name.is_some_and(|name| name == "kubectl-quorate")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(context: Option<&str>, kubeconfig: Option<&str>, namespace: Option<&str>) -> Place {
        Place {
            reach: Reach {
                context: context.map(str::to_owned),
                kubeconfig: kubeconfig.map(PathBuf::from),
            },
            namespace: namespace.map(str::to_owned),
        }
    }

    #[test]
    fn any_flag_or_the_plugins_name_chooses_kubernetes() {
        for (place, as_plugin, expected) in [
            (place(None, None, None), false, false),
            (place(None, None, None), true, true),
            (place(Some("lab"), None, None), false, true),
            (place(None, Some("/etc/k"), None), false, true),
            (place(None, None, Some("hpc")), false, true),
            // The way back to this machine when QUORATE_CONTEXT is set.
            (place(Some(""), None, None), true, false),
            (place(Some(""), None, Some("hpc")), false, false),
        ] {
            assert_eq!(place.is_kubernetes(as_plugin), expected, "{place:?} {as_plugin}");
        }
    }

    #[test]
    fn hints_repeat_the_flags() {
        assert_eq!(place(Some("lab"), None, Some("hpc")).words(), " --context lab -n hpc");
        assert_eq!(place(Some(""), None, None).words(), "");
    }

    #[test]
    fn the_plugins_name_is_known_with_its_path() {
        assert!(called_as_plugin(Some("/usr/bin/kubectl-quorate".as_ref())));
        assert!(!called_as_plugin(Some("quorate".as_ref())));
        assert!(!called_as_plugin(None));
    }
}
