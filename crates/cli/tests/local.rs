//! Local clusters with real namespaces and a stand-in for the agent: a shell script that does in
//! each pod what the test says. What is tested is everything around the agent.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step is a failed test")]

mod local {
    pub(crate) mod stage;

    mod clusters;
    mod crash;
    mod ends;
    mod input;
    mod pods;
    mod terminal;
}
