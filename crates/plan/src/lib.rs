//! From a validated MiniCluster to every object it becomes.
