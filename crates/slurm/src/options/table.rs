//! All options of the commands that make jobs.

use Argument::{No, Optional, Required};

/// A command that makes jobs or steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Submits a batch script.
    Sbatch,
    /// Starts a parallel program.
    Srun,
    /// Holds nodes for a command or a shell.
    Salloc,
}

impl Tool {
    /// Its name as a command.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sbatch => "sbatch",
            Self::Srun => "srun",
            Self::Salloc => "salloc",
        }
    }

    const fn bit(self) -> u8 {
        match self {
            Self::Sbatch => B,
            Self::Srun => R,
            Self::Salloc => A,
        }
    }
}

/// Whether an option has an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// None: `--hold`.
    No,
    /// One: `--ntasks=4`, `--ntasks 4`, `-n4`, `-n 4`.
    Required,
    /// One that may be left out, never as a word of its own: `--nice`, `--nice=10`.
    Optional,
}

/// What becomes of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// It does what it does in Slurm, with this remark.
    Supported(&'static str),
    /// It is taken and changes nothing, for this reason.
    NoEffect(&'static str),
    /// It is an error, for this reason, with the way out behind the semicolon.
    Refused(&'static str),
}

/// An option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opt {
    /// The long name, without dashes.
    pub name: &'static str,
    /// The short name.
    pub short: Option<char>,
    /// Whether it has an argument.
    pub argument: Argument,
    tools: u8,
    variables: &'static str,
    /// What becomes of it.
    pub treatment: Treatment,
}

impl Opt {
    /// Whether a command has it.
    pub const fn of(&self, tool: Tool) -> bool {
        self.tools & tool.bit() != 0
    }

    /// The variables that a command reads it from, the first that is set counts.
    pub fn variables(&self, tool: Tool) -> Vec<String> {
        let (own, prefixes): (&str, &[&str]) = match tool {
            Tool::Sbatch => ("SBATCH_", &["SBATCH_"]),
            Tool::Srun => ("SLURM_", &["SRUN_", "SLURM_"]),
            Tool::Salloc => ("SALLOC_", &["SALLOC_"]),
        };
        let mut names: Vec<String> = Vec::new();
        for word in self.variables.split_whitespace() {
            if let Some(suffix) = word.strip_prefix('*') {
                names.push(format!("{own}{suffix}"));
            } else if prefixes.iter().any(|prefix| word.starts_with(prefix)) {
                names.push(word.to_owned());
            }
        }
        names
    }
}

/// sbatch.
const B: u8 = 1;
/// srun.
const R: u8 = 2;
/// salloc.
const A: u8 = 4;
const BR: u8 = B | R;
const BA: u8 = B | A;
const RA: u8 = R | A;
const ALL: u8 = B | R | A;

const fn row(
    name: &'static str,
    short: &'static str,
    argument: Argument,
    tools: u8,
    variables: &'static str,
    treatment: Treatment,
) -> Opt {
    let short = match short.as_bytes() {
        [] => None,
        bytes => Some(bytes[0] as char),
    };
    Opt { name, short, argument, tools, variables, treatment }
}

/// Supported.
const fn yes(
    name: &'static str,
    short: &'static str,
    argument: Argument,
    tools: u8,
    variables: &'static str,
    remark: &'static str,
) -> Opt {
    row(name, short, argument, tools, variables, Treatment::Supported(remark))
}

/// Without effect.
const fn nil(
    name: &'static str,
    short: &'static str,
    argument: Argument,
    tools: u8,
    variables: &'static str,
    reason: &'static str,
) -> Opt {
    row(name, short, argument, tools, variables, Treatment::NoEffect(reason))
}

/// Refused.
const fn bad(
    name: &'static str,
    short: &'static str,
    argument: Argument,
    tools: u8,
    variables: &'static str,
    reason: &'static str,
) -> Opt {
    row(name, short, argument, tools, variables, Treatment::Refused(reason))
}

const WHOLE_CORES: &str = "tasks are bound to whole cores; sockets and threads are not counted";
const NO_SWITCHES: &str = "the queue knows no switches between nodes";
const NO_MAIL: &str = "no mail is sent";
const NO_PLUGINS: &str = "nothing here reads it";
const NO_BUFFERS: &str = "there are no burst buffers; copy files in the script";
const IDENTITY: &str = "jobs run as the user of the pod; submit as that user";

/// Every option, by name: a row for each, to be read as the table it is.
#[rustfmt::skip]
pub const TABLE: &[Opt] = &[
    bad("accel-bind", "", Required, R, "", "tasks see exactly their own accelerators; leave it out"),
    yes("account", "A", Required, ALL, "*ACCOUNT", "shown; nothing is charged"),
    nil("acctg-freq", "", Required, ALL, "*ACCTG_FREQ", "use is not sampled"),
    yes("array", "a", Required, B, "SBATCH_ARRAY_INX", ""),
    nil("batch", "", Required, B, "SBATCH_BATCH", "the script runs on the first node"),
    bad("bb", "", Required, ALL, "SLURM_BURST_BUFFER SALLOC_BURST_BUFFER", NO_BUFFERS),
    bad("bbf", "", Required, ALL, "", NO_BUFFERS),
    bad("bcast", "", Optional, R, "SLURM_BCAST", "files are not copied to nodes; use a shared volume"),
    nil("bcast-exclude", "", Required, R, "SLURM_BCAST_EXCLUDE", "files are not copied to nodes"),
    yes("begin", "b", Required, BR, "", "in the zone of the pod"),
    yes("begin", "", Required, A, "", "in the zone of the pod"),
    nil("bell", "", No, A, "SALLOC_BELL", "the terminal's bell is not rung"),
    yes("chdir", "D", Required, ALL, "SLURM_WORKING_DIR", ""),
    bad("cluster-constraint", "", Required, ALL, "", "there is one cluster; leave it out"),
    bad("clusters", "M", Required, ALL, "*CLUSTERS", "there is one cluster; leave it out"),
    yes("comment", "", Required, ALL, "", "kept as a label"),
    nil("compress", "", Optional, R, "SLURM_COMPRESS", "files are not copied to nodes"),
    yes("constraint", "C", Required, ALL, "*CONSTRAINT", "features are the properties of brokers; no counts, no `[a|b]`"),
    bad("container", "", Required, ALL, "SBATCH_CONTAINER SRUN_CONTAINER SALLOC_CONTAINER", "jobs run in the image of the pod; set image in the MiniCluster"),
    nil("contiguous", "", No, ALL, "", NO_SWITCHES),
    nil("core-spec", "S", Required, ALL, "*CORE_SPEC", "no core is set aside for the system"),
    nil("cores-per-socket", "", Required, ALL, "", WHOLE_CORES),
    nil("cpu-bind", "", Required, R, "SLURM_CPU_BIND", "tasks are bound to their own cores"),
    nil("cpu-freq", "", Required, ALL, "SLURM_CPU_FREQ_REQ", "frequencies are the node's"),
    yes("cpus-per-gpu", "", Required, ALL, "*CPUS_PER_GPU", "needs GPUs of tasks; excludes --cpus-per-task"),
    yes("cpus-per-task", "c", Required, ALL, "SRUN_CPUS_PER_TASK", ""),
    bad("deadline", "", Required, ALL, "", "jobs are not dropped by a deadline; give --time"),
    nil("delay-boot", "", Required, ALL, "*DELAY_BOOT", "nodes are not booted for jobs"),
    yes("dependency", "d", Required, ALL, "SLURM_DEPENDENCY", "after, afterany, afterok, afternotok, singleton; all must hold"),
    yes("disable-status", "X", No, R, "SLURM_DISABLE_STATUS", "always so: an interrupt goes to the tasks, a second within a second kills them"),
    yes("distribution", "m", Required, ALL, "SBATCH_DISTRIBUTION SLURM_DISTRIBUTION", "block, cyclic; srun refuses plane and arbitrary; what stands behind the first colon has no effect"),
    bad("epilog", "", Required, R, "SLURM_EPILOG", "no programs run around steps; run them in the script"),
    yes("error", "e", Required, BR, "SBATCH_ERROR SLURM_STDERRMODE", ""),
    nil("exact", "", No, R, "SLURM_EXACT", "steps get exactly what they ask for"),
    yes("exclude", "x", Required, ALL, "", "names; a file is not read"),
    yes("exclusive", "", Optional, ALL, "*EXCLUSIVE", "whole nodes, also for =user and =mcs"),
    yes("export", "", Required, BR, "SBATCH_EXPORT SRUN_EXPORT_ENV SLURM_EXPORT_ENV", "NONE and NIL are the same: there is no login environment"),
    bad("export-file", "", Required, B, "", "a file of variables is not read; use --export"),
    nil("extra-node-info", "B", Required, ALL, "", WHOLE_CORES),
    nil("get-user-env", "", Optional, BA, "SBATCH_GET_USER_ENV", "there is no login environment"),
    bad("gid", "", Required, ALL, "", IDENTITY),
    nil("gpu-bind", "", Required, ALL, "*GPU_BIND", "tasks see exactly their own GPUs"),
    nil("gpu-freq", "", Required, ALL, "*GPU_FREQ", "frequencies are the node's"),
    yes("gpus", "G", Required, ALL, "*GPUS", "must be a multiple of the tasks"),
    yes("gpus-per-node", "", Required, ALL, "*GPUS_PER_NODE", "must be a multiple of the tasks of a node"),
    bad("gpus-per-socket", "", Required, ALL, "", "sockets are not counted; use --gpus-per-task"),
    yes("gpus-per-task", "", Required, ALL, "*GPUS_PER_TASK", ""),
    yes("gres", "", Required, ALL, "*GRES", "gpu[:type][:count] and none; the type is a property of nodes"),
    nil("gres-flags", "", Required, ALL, "*GRES_FLAGS", "brokers bind GPUs and cores"),
    yes("help", "h", No, ALL, "", ""),
    bad("het-group", "", Required, R, "", "there are no heterogeneous jobs; submit one job for each part"),
    nil("hint", "", Required, ALL, "*HINT", WHOLE_CORES),
    yes("hold", "H", No, ALL, "", ""),
    nil("ignore-pbs", "", No, B, "SBATCH_IGNORE_PBS", "lines of PBS are never read"),
    yes("immediate", "I", Optional, RA, "SLURM_IMMEDIATE SALLOC_IMMEDIATE", "gives up when nodes do not come in time"),
    yes("input", "i", Required, BR, "SBATCH_INPUT SLURM_STDINMODE", "a file, none, or (srun) all or a rank"),
    yes("job-name", "J", Required, ALL, "SBATCH_JOB_NAME SLURM_JOB_NAME", ""),
    yes("jobid", "", Required, R, "", "the step runs in that allocation"),
    nil("kill-command", "K", Optional, A, "SALLOC_KILL_CMD", "the command gets SIGHUP when it has lost its allocation"),
    yes("kill-on-bad-exit", "K", Optional, R, "SLURM_KILL_BAD_EXIT", ""),
    nil("kill-on-invalid-dep", "", Required, B, "", "what can never start fails with that reason"),
    yes("label", "l", No, R, "SLURM_LABELIO", ""),
    bad("licenses", "L", Required, ALL, "", "there are no licenses; limit jobs with an array's %N or a singleton"),
    nil("mail-type", "", Required, ALL, "", NO_MAIL),
    nil("mail-user", "", Required, ALL, "", NO_MAIL),
    nil("mcs-label", "", Required, ALL, "", "there are no security labels"),
    yes("mem", "", Required, ALL, "*MEM_PER_NODE", "of each node; 0 asks for nothing"),
    nil("mem-bind", "", Required, ALL, "*MEM_BIND", "memory is where a task's cores are"),
    yes("mem-per-cpu", "", Required, ALL, "*MEM_PER_CPU", ""),
    yes("mem-per-gpu", "", Required, ALL, "*MEM_PER_GPU", "needs GPUs of tasks"),
    nil("mincpus", "", Required, ALL, "", "ask for --cpus-per-task or --exclusive"),
    yes("mpi", "", Required, R, "SLURM_MPI_TYPE", "list, none, pmi2, pmix; PMI-1 is there always"),
    nil("msg-timeout", "", Required, R, "", "brokers watch each other"),
    yes("multi-prog", "", No, R, "", "the file says which ranks run what; all commands together at most 128 KiB"),
    nil("network", "", Required, ALL, "*NETWORK", NO_SWITCHES),
    yes("nice", "", Optional, ALL, "", "100 are one step of urgency"),
    bad("no-allocate", "Z", No, R, "", "nothing runs outside of the queue; leave it out"),
    nil("no-bell", "", No, A, "SALLOC_NO_BELL", "the terminal's bell is not rung"),
    yes("no-kill", "k", Optional, ALL, "*NO_KILL", "goes on without a lost node that is not its first"),
    yes("no-requeue", "", No, B, "SBATCH_NO_REQUEUE", ""),
    yes("no-shell", "", No, A, "", "the allocation stays until scancel"),
    bad("nodefile", "F", Required, ALL, "", "a file of names is not read; use --nodelist"),
    yes("nodelist", "w", Required, ALL, "", "the job runs on these and no others; a file is not read"),
    yes("nodes", "N", Required, ALL, "SLURM_JOB_NUM_NODES SLURM_NNODES", "one number or min-max"),
    yes("ntasks", "n", Required, ALL, "SLURM_NTASKS SLURM_NPROCS", ""),
    nil("ntasks-per-core", "", Required, ALL, "SLURM_NTASKS_PER_CORE", WHOLE_CORES),
    bad("ntasks-per-gpu", "", Required, ALL, "SLURM_NTASKS_PER_GPU", "a GPU belongs to one task; use --ntasks and --gpus-per-task"),
    yes("ntasks-per-node", "", Required, ALL, "SLURM_NTASKS_PER_NODE", "the most with --ntasks, else exact"),
    nil("ntasks-per-socket", "", Required, ALL, "SLURM_NTASKS_PER_SOCKET", WHOLE_CORES),
    bad("ntasks-per-tres", "", Required, ALL, "", "a GPU belongs to one task; use --ntasks and --gpus-per-task"),
    yes("open-mode", "", Required, BR, "SBATCH_OPEN_MODE SLURM_OPEN_MODE", ""),
    yes("output", "o", Required, BR, "SBATCH_OUTPUT SLURM_STDOUTMODE", "with %j %J %A %a %x %u %%, of scripts %n %t %s; others stay"),
    bad("overcommit", "O", No, ALL, "*OVERCOMMIT", "a core belongs to one task; ask for fewer tasks"),
    nil("overlap", "", No, R, "SLURM_OVERLAP", "a step waits for free cores; `quorate-agent run --direct` starts beside others"),
    nil("oversubscribe", "s", No, ALL, "", "nodes are shared and cores are not, always"),
    yes("parsable", "", No, B, "", ""),
    yes("partition", "p", Required, ALL, "*PARTITION", "the name of a queue; one"),
    nil("power", "", Required, ALL, "*POWER", "power is not managed"),
    nil("prefer", "", Required, ALL, "", "there are no soft constraints"),
    nil("preserve-env", "E", No, R, "", "SLURM_NNODES and SLURM_NTASKS are those of the step"),
    bad("priority", "", Required, ALL, "", "priorities come from urgency; use --nice, or update as an operator"),
    nil("profile", "", Required, ALL, "*PROFILE", "use is not sampled"),
    bad("prolog", "", Required, R, "SLURM_PROLOG", "no programs run around steps; run them in the script"),
    nil("propagate", "", Optional, BR, "", "limits are the pod's"),
    yes("pty", "", No, R, "", "task 0 has this terminal, the others read and write nothing"),
    yes("qos", "q", Required, ALL, "*QOS", "shown; there is one quality"),
    yes("quiet", "Q", No, ALL, "", ""),
    nil("quit-on-interrupt", "", No, R, "", "a second interrupt within a second ends the step"),
    nil("reboot", "", No, ALL, "", "nodes are not booted for jobs"),
    yes("relative", "r", Required, R, "", "the first node of the allocation that the step may have"),
    yes("requeue", "", No, B, "SBATCH_REQUEUE", "after a lost node; the default, as in Slurm"),
    bad("reservation", "", Required, ALL, "*RESERVATION", "there are no reservations; use a queue of its own (--partition)"),
    nil("resv-ports", "", Optional, R, "SLURM_RESV_PORTS", "pods have all ports to themselves"),
    nil("send-libs", "", Optional, R, "SLURM_SEND_LIBS", "files are not copied to nodes"),
    yes("signal", "", Required, ALL, "*SIGNAL", ""),
    nil("slurmd-debug", "", Required, R, "SLURMD_DEBUG", NO_PLUGINS),
    nil("sockets-per-node", "", Required, ALL, "", WHOLE_CORES),
    nil("spread-job", "", No, ALL, "*SPREAD_JOB", "tasks are spread evenly over the nodes of a job"),
    nil("switches", "", Required, ALL, "*REQ_SWITCH", NO_SWITCHES),
    bad("task-epilog", "", Required, R, "SLURM_TASK_EPILOG", "no programs run around tasks; wrap the command"),
    bad("task-prolog", "", Required, R, "SLURM_TASK_PROLOG", "no programs run around tasks; wrap the command"),
    yes("tasks-per-node", "", Required, ALL, "", "the same as --ntasks-per-node"),
    yes("test-only", "", No, BR, "", ""),
    nil("thread-spec", "", Required, ALL, "*THREAD_SPEC", "no core is set aside for the system"),
    nil("threads", "T", Required, R, "SLURM_THREADS", NO_PLUGINS),
    nil("threads-per-core", "", Required, ALL, "*THREADS_PER_CORE", WHOLE_CORES),
    yes("time", "t", Required, ALL, "*TIMELIMIT", "rounded up to minutes; 0 and UNLIMITED are no limit"),
    nil("time-min", "", Required, ALL, "", "the whole limit is asked for"),
    nil("tmp", "", Required, ALL, "", "space on disks is not counted"),
    bad("uid", "", Required, ALL, "", IDENTITY),
    yes("unbuffered", "u", No, R, "SLURM_UNBUFFEREDIO", "output is never held back"),
    yes("usage", "", No, ALL, "", ""),
    nil("use-min-nodes", "", No, ALL, "*USE_MIN_NODES", "as few nodes as hold the tasks are taken, within the range as many as there are"),
    yes("verbose", "v", No, ALL, "*DEBUG", ""),
    yes("version", "V", No, ALL, "", ""),
    yes("wait", "W", No, B, "SBATCH_WAIT", ""),
    nil("wait", "W", Required, R, "SLURM_WAIT", "tasks are waited for until the last ends"),
    nil("wait-all-nodes", "", Required, BA, "*WAIT_ALL_NODES", "all nodes are there before the job starts"),
    nil("wckey", "", Required, ALL, "*WCKEY", "nothing is charged"),
    yes("wrap", "", Required, B, "", ""),
    bad("x11", "", Optional, RA, "", "displays are not forwarded; use ssh -X or a port-forward"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_and_letters_are_unique_for_each_command() {
        for tool in [Tool::Sbatch, Tool::Srun, Tool::Salloc] {
            let (mut names, mut letters) = (BTreeSet::new(), BTreeSet::new());
            for option in TABLE.iter().filter(|option| option.of(tool)) {
                assert!(names.insert(option.name), "{} twice for {}", option.name, tool.name());
                if let Some(short) = option.short {
                    assert!(letters.insert(short), "-{short} twice for {}", tool.name());
                }
            }
        }
        assert!(TABLE.is_sorted_by_key(|option| option.name));
    }

    #[test]
    fn what_is_refused_has_a_way_out() {
        for option in TABLE {
            if let Treatment::Refused(text) = option.treatment {
                assert!(text.contains("; "), "{}", option.name);
            }
        }
    }

    #[test]
    fn variables_are_those_of_the_command() {
        let of = |name: &str, tool| {
            let option = TABLE.iter().find(|option| option.name == name && option.of(tool));
            option.unwrap().variables(tool)
        };
        assert_eq!(of("partition", Tool::Sbatch), ["SBATCH_PARTITION"]);
        assert_eq!(of("partition", Tool::Salloc), ["SALLOC_PARTITION"]);
        assert_eq!(of("ntasks", Tool::Srun), ["SLURM_NTASKS", "SLURM_NPROCS"]);
        assert!(of("ntasks", Tool::Sbatch).is_empty());
        assert_eq!(of("export", Tool::Srun), ["SRUN_EXPORT_ENV", "SLURM_EXPORT_ENV"]);
    }
}
