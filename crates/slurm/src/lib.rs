//! Slurm's commands as data in, data out: sbatch, srun, salloc, squeue, scancel, sinfo, sacct, scontrol.
//!
//! Owns what people and programs see of Slurm's surface: options with their meaning for a
//! [`quorate_queue::Jobspec`], directives of scripts, output formats byte by byte, variables of jobs.
//! It reads no file, asks no queue, knows no clock and no user: the agent, started under one of
//! these names, brings facts and carries out what comes back. Formats are those of Slurm 22.05
//! (Debian 12) and its manual pages; docs/slurm.md says what differs.
//!
//! For a job: [`options::parse`] reads the words, [`script::options`] the directives,
//! [`options::Settings::merge`] joins them with variables, [`options::wanted`] makes the specification;
//! [`message`] has what is said then. For a question: [`facts::queue::cluster`] fills the facts, and
//! [`squeue()`], [`sinfo()`], [`sacct()`], [`scancel()`] and [`scontrol()`] answer or say what to do.

#![forbid(unsafe_code)]
#![allow(
    clippy::format_push_string,
    reason = "answers are texts made of pieces; writing into a String has an error that cannot be"
)]

pub mod calendar;
mod columns;
pub mod environment;
pub mod facts;
mod flags;
mod json;
pub mod message;
pub mod multi_prog;
pub mod options;
mod sacct;
pub mod scancel;
pub mod scontrol;
pub mod script;
mod sinfo;
mod squeue;
pub mod value;

pub use sacct::sacct;
pub use scancel::scancel;
pub use scontrol::scontrol;
pub use sinfo::sinfo;
pub use squeue::squeue;

/// What `--version` of every command says: the version whose formats these are.
pub const VERSION: &str = "slurm-wlm 22.05.8";
