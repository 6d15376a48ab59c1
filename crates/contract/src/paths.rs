//! Where things are inside a pod. The same in every pod, since launchers such as Open MPI start
//! their daemons on other pods by the path they were given.

/// The volume that carries the agent's binary from its image into the user's containers.
pub const BIN_DIR: &str = "/quorate/bin";
/// The agent in every pod.
pub const AGENT: &str = "/quorate/bin/quorate-agent";
/// Where the Secret is mounted.
pub const CONFIG_DIR: &str = "/quorate/config";
/// The key of the configuration in the Secret.
pub const CONFIG_KEY: &str = "agent.json";
/// The key of the 32-byte seed in the Secret.
pub const SEED_KEY: &str = "seed";
/// Where the broker keeps its socket, host files and task records: memory-backed, writable.
pub const RUN_DIR: &str = "/quorate/run";
/// Where the volume is mounted that keeps the launcher's queue; the queue of a cluster is in the
/// directory of its name in it.
pub const STATE_DIR: &str = "/quorate/state";
/// The broker's local socket in the run directory.
pub const SOCKET: &str = "agent.sock";
/// Where Kubernetes reads the termination message.
pub const TERMINATION_LOG: &str = "/dev/termination-log";
/// The most bytes of a termination message that Kubernetes keeps.
pub const TERMINATION_LIMIT: usize = 4096;
/// The TCP port of brokers unless the MiniCluster names another.
pub const DEFAULT_PORT: u16 = 8117;
/// The agent in its own image; `install` copies it from there to [`BIN_DIR`].
pub const IMAGE_AGENT: &str = "/quorate-agent";
