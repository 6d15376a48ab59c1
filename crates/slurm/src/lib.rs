//! Slurm's commands as data in, data out: sbatch, srun, salloc, squeue, scancel, sinfo, sacct, scontrol.
//!
//! Owns what people and programs see of Slurm's surface: options with their meaning for a
//! [`quorate_queue::Jobspec`], directives of scripts, output formats byte by byte, variables of jobs.
//! It reads no file, asks no queue, knows no clock and no user: the agent, started under one of
//! these names, brings facts and carries out what comes back. Formats are those of Slurm 22.05
//! (Debian 12) and its manual pages; docs/slurm.md says what differs.

#![forbid(unsafe_code)]

pub mod calendar;
pub mod environment;
pub mod options;
pub mod script;
pub mod value;
