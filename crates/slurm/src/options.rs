//! The options of sbatch, srun and salloc: which there are, what they mean here, how they are read.
//!
//! [`TABLE`] is the one list (manual pages of Slurm 22.05): each option is supported, has no effect
//! with a reason, or is refused with the way out. [`parse`] reads a command line as getopt_long(3)
//! does, [`Settings`] merges it with variables and directives, [`wanted`] makes a job of the result.

mod command_line;
mod error;
mod settings;
mod table;
mod wanted;

pub use command_line::{Parsed, parse};
pub use error::OptionError;
pub use settings::{Setting, Settings, Source};
pub use table::{Argument, Opt, TABLE, Tool, Treatment};
pub use wanted::{
    ACCOUNT, COMMAND, COMMENT, Client, Context, Distribution, Immediate, Input, Interrupt,
    MPI_LIST, Mpi, NICE, QOS, SIGNAL, SUBMIT_LINE, Step, Wanted, urgency_of, wanted,
};
