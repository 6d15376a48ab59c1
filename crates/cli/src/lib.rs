//! The user binary `quorate`: local clusters, and looking at MiniClusters before they exist.

pub mod sandbox;
