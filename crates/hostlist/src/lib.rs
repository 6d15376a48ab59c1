//! Host lists, id sets and task maps: parse, print, set algebra.
//!
//! Owns the three compact text forms that HPC tools share: sets of ranks (`0-3,7`), lists of host
//! names (`node[0-3,07]`) and the spread of tasks over nodes (`1x0,3x2`). Pure data: it resolves
//! no names and knows nothing of what the numbers stand for. Every parser bounds what it builds,
//! so text from the network or from users cannot ask for more memory than [`MAX_IDS`] entries.

#![forbid(unsafe_code)]

mod hostlist;
mod idset;
mod taskmap;

pub use hostlist::{HostList, HostListError};
pub use idset::{IdSet, IdSetError};
pub use taskmap::{TaskMap, TaskMapError, TaskRun};

/// The most entries that parsed text may stand for.
pub const MAX_IDS: u32 = 1 << 20;
