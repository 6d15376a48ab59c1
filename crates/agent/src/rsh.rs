//! The stand-in for ssh and rsh: starts a command on another pod of the cluster for launchers
//! such as mpirun, through the overlay.

pub mod arguments;
pub mod names;
