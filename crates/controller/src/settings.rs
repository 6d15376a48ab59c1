//! Flags and the variables of the same names.

use clap::Parser;

use crate::context::Options;

/// Makes MiniClusters what they ask for.
#[derive(Parser, Clone, Debug)]
#[command(name = "quorate-controller", version)]
pub struct Settings {
    /// Watch these namespaces only (may be repeated; with commas in the variable). Default: all.
    #[arg(long = "namespace", env = "QUORATE_NAMESPACE", value_delimiter = ',')]
    pub namespaces: Vec<String>,
    /// The image that holds the agent.
    #[arg(long, env = "QUORATE_AGENT_IMAGE")]
    pub agent_image: String,
    /// The DNS domain of the Kubernetes cluster. Default: the pods' own search list is used.
    #[arg(long, env = "QUORATE_CLUSTER_DOMAIN")]
    pub cluster_domain: Option<String>,
    /// MiniClusters that are worked on at the same time.
    #[arg(long, env = "QUORATE_CONCURRENCY", default_value_t = 24, value_parser = clap::value_parser!(u16).range(1..))]
    pub concurrency: u16,
}

impl Settings {
    /// What the reconcile loop needs of them.
    pub fn options(&self) -> Options {
        Options {
            namespaces: self.namespaces.clone(),
            plan: quorate_plan::Context {
                agent_image: self.agent_image.clone(),
                cluster_domain: self.cluster_domain.clone(),
            },
            concurrency: self.concurrency,
        }
    }
}
