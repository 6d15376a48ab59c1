//! What only the client does: how it waits, what it prints, how a step of srun runs.

use super::Reader;
use crate::options::{OptionError, Setting, Tool};
use crate::value::ValueError;
use quorate_queue::JobId;

/// What the client does around the job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one flag of a command line")]
pub struct Client {
    /// Waits for the end and exits with the job's code.
    pub wait: bool,
    /// Prints the number alone.
    pub parsable: bool,
    /// Submits nothing and says when the job would start.
    pub test_only: bool,
    /// Prints nothing but errors; how often it was asked for.
    pub quiet: u32,
    /// Says more; how often it was asked for.
    pub verbose: u32,
    /// How tasks are spread over nodes.
    pub distribution: Option<Distribution>,
    /// Gives up when nodes do not come in time.
    pub immediate: Option<Immediate>,
    /// salloc: runs no command, the allocation stays.
    pub no_shell: bool,
    /// How a step of srun runs.
    pub step: Step,
}

/// How long a client waits for nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Immediate {
    /// Seconds.
    pub seconds: u32,
}

/// How tasks are spread over nodes, as far as it is before the first colon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// The first node is filled before the second.
    Block,
    /// One task to each node in turn.
    Cyclic,
    /// Blocks of this many tasks to each node in turn.
    Plane(u32),
    /// As the file in `SLURM_HOSTFILE` says.
    Arbitrary,
}

impl std::fmt::Display for Distribution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Block => "block",
            Self::Cyclic => "cyclic",
            Self::Plane(_) => "plane",
            Self::Arbitrary => "arbitrary",
        })
    }
}

/// How a step of srun runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// In this allocation.
    pub job: Option<JobId>,
    /// The first node of the allocation that it takes.
    pub relative: u32,
    /// Task zero has a terminal.
    pub pty: bool,
    /// It does not wait for cores that other steps have.
    pub overlap: bool,
    /// A task that fails ends the others; `None` as the queue is set.
    pub kill_on_bad_exit: Option<bool>,
    /// Seconds from the first end of a task to the forced end of the others.
    pub wait: Option<u32>,
    /// Which way ranks find each other.
    pub mpi: Option<Mpi>,
    /// The operand is a file that says which ranks run what.
    pub multi_prog: bool,
    /// What an interrupt does.
    pub interrupt: Interrupt,
}

/// What an interrupt from the terminal does to srun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interrupt {
    /// The first shows how tasks are, a second within a second ends them.
    #[default]
    Show,
    /// The first ends them.
    End,
}

/// Which way ranks find each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mpi {
    /// The client lists what there is and ends.
    List,
    /// None.
    None,
    /// PMI-2 (and PMI-1).
    Pmi2,
    /// PMIx.
    Pmix,
}

/// What `srun --mpi=list` prints.
pub const MPI_LIST: &str = "MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix\n";

pub(super) fn client(reader: &Reader<'_>) -> Result<Client, OptionError> {
    let settings = reader.settings;
    let times = |name: &str| settings.get(name).map_or(0, |setting: &Setting| setting.times);
    let srun = settings.tool() == Tool::Srun;
    Ok(Client {
        wait: !srun && settings.has("wait"),
        parsable: settings.has("parsable"),
        test_only: settings.has("test-only"),
        quiet: times("quiet"),
        verbose: times("verbose"),
        distribution: reader.value("distribution", distribution)?,
        immediate: immediate(reader)?,
        no_shell: settings.has("no-shell"),
        step: if srun { step(reader)? } else { Step::default() },
    })
}

fn step(reader: &Reader<'_>) -> Result<Step, OptionError> {
    let settings = reader.settings;
    let number = |text: &str| {
        text.parse()
            .map_err(|_| ValueError::Form { text: text.to_owned(), expected: "a whole number" })
    };
    if settings.has("pty") && ["error", "input", "output"].iter().any(|name| settings.has(name)) {
        let what = "--error/--input/--output are incompatible with --pty".to_owned();
        return Err(reader.conflict("pty", what));
    }
    Ok(Step {
        job: reader.value("jobid", |text| {
            text.parse().map_err(|_| ValueError::Form {
                text: text.to_owned(),
                expected: "the number of a job",
            })
        })?,
        relative: reader.value("relative", number)?.unwrap_or(0),
        pty: settings.has("pty"),
        overlap: settings.has("overlap"),
        kill_on_bad_exit: match settings.get("kill-on-bad-exit") {
            None => None,
            Some(Setting { value: None, .. }) => Some(true),
            Some(_) => reader.value("kill-on-bad-exit", |text| match text {
                "0" => Ok(false),
                "1" => Ok(true),
                _ => Err(ValueError::Form { text: text.to_owned(), expected: "0 or 1" }),
            })?,
        },
        wait: reader.value("wait", number)?,
        mpi: reader.value("mpi", mpi)?,
        multi_prog: settings.has("multi-prog"),
        interrupt: if settings.has("disable-status") { Interrupt::End } else { Interrupt::Show },
    })
}

fn immediate(reader: &Reader<'_>) -> Result<Option<Immediate>, OptionError> {
    match reader.settings.get("immediate") {
        None => Ok(None),
        Some(Setting { value: None, .. }) => Ok(Some(Immediate { seconds: 1 })),
        Some(_) => Ok(reader.count("immediate")?.map(|seconds| Immediate { seconds })),
    }
}

fn mpi(text: &str) -> Result<Mpi, ValueError> {
    match text {
        "list" => Ok(Mpi::List),
        "none" => Ok(Mpi::None),
        "pmi2" | "openmpi" => Ok(Mpi::Pmi2),
        _ if text == "pmix" || text.starts_with("pmix_v") => Ok(Mpi::Pmix),
        _ => Err(ValueError::Form { text: text.to_owned(), expected: "list, none, pmi2 or pmix" }),
    }
}

fn distribution(text: &str) -> Result<Distribution, ValueError> {
    let wrong = || ValueError::Form {
        text: text.to_owned(),
        expected: "block, cyclic, plane=SIZE or arbitrary",
    };
    let first = text.split([':', ',']).next().unwrap_or("");
    if let Some(size) = first.strip_prefix("plane=") {
        return crate::value::count(size).map(Distribution::Plane).map_err(|_| wrong());
    }
    match first {
        "block" | "*" => Ok(Distribution::Block),
        "cyclic" => Ok(Distribution::Cyclic),
        "arbitrary" => Ok(Distribution::Arbitrary),
        _ => Err(wrong()),
    }
}
