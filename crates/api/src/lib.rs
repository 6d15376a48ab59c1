//! MiniCluster and JobSet types, validation, conditions.
