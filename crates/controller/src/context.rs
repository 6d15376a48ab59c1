//! What every reconciliation shares: the client and what the process was told.

/// What the controller was told at its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Namespaces to watch; empty means all.
    pub namespaces: Vec<String>,
    /// What the plan needs to know: the agent's image, the cluster's DNS domain.
    pub plan: quorate_plan::Context,
    /// MiniClusters that are worked on at the same time: 1 or more.
    pub concurrency: u16,
}
