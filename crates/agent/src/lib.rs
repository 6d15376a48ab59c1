//! The in-pod binary: broker, launch, remote-shell stand-in.
