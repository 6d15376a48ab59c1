//! Condition types of a MiniCluster and the machine's words for why they have their value.
//! `kubectl wait --for=condition=Succeeded` depends on these names.

/// The object is valid and what it becomes exists.
pub const ACCEPTED: &str = "Accepted";
/// The pods are kept away by `spec.suspend` or a queue.
pub const SUSPENDED: &str = "Suspended";
/// At least `minSize` brokers are connected to rank 0.
pub const QUORATE: &str = "Quorate";
/// The program runs, or the cluster is ready for people.
pub const RUNNING: &str = "Running";
/// The program ended with code 0.
pub const SUCCEEDED: &str = "Succeeded";
/// The cluster failed and will not start again.
pub const FAILED: &str = "Failed";

/// Reasons of the conditions above. How a program ended has the words of the agent's report
/// (`docs/spec/report.md`) instead.
pub mod reason {
    /// Accepted: all objects are there.
    pub const PLANNED: &str = "Planned";
    /// Not accepted: the object breaks a rule; the message lists all of them.
    pub const INVALID: &str = "Invalid";
    /// Not accepted: something of the same name belongs to someone else.
    pub const NAME_TAKEN: &str = "NameTaken";
    /// Not accepted: a change that a running JobSet cannot take.
    pub const IMMUTABLE: &str = "Immutable";
    /// Suspended by `spec.suspend`.
    pub const SUSPENDED_BY_SPEC: &str = "SuspendedBySpec";
    /// No longer suspended.
    pub const RESUMED: &str = "Resumed";
    /// Quorate: enough brokers are connected.
    pub const QUORUM_REACHED: &str = "QuorumReached";
    /// Not quorate: brokers are missing; the message says which and why.
    pub const WAITING_FOR_BROKERS: &str = "WaitingForBrokers";
    /// Running: the program was started.
    pub const PROGRAM_STARTED: &str = "ProgramStarted";
    /// Running: no program; people use the cluster.
    pub const READY: &str = "Ready";
    /// Not running: the whole cluster starts again.
    pub const RESTARTING: &str = "Restarting";
    /// Failed: the budget of `failurePolicy.maxRestarts` is used up.
    pub const RESTARTS_EXHAUSTED: &str = "RestartsExhausted";
    /// Failed: `activeDeadlineSeconds` ended the attempt.
    pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
}
