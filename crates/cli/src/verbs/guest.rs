//! A program as a guest of a cluster that stays: the command line, run in the launcher, that starts
//! it as the cluster itself would have.

use anyhow::Context as _;
use quorate_api::minicluster::MpiStart;
use quorate_api::validate::{ValidatedParallel, ValidatedProgram};
use std::io::{Seek as _, Write as _};

/// What to run in the launcher by way of the agent's `enter`; empty for a cluster without a program.
/// `agent` is the agent's path there.
pub(crate) fn command(program: &ValidatedProgram, agent: &str) -> Vec<String> {
    match program {
        ValidatedProgram::None => Vec::new(),
        ValidatedProgram::Script { .. } | ValidatedProgram::Jobs(_) => {
            [agent, "work", "-"].map(str::to_owned).into()
        }
        ValidatedProgram::Command { argv } => argv.clone(),
        ValidatedProgram::Parallel(parallel) => self::parallel(parallel, agent),
    }
}

/// Makes work for the queue this process's standard input, from where the command reads it; other programs
/// keep the one that there is.
pub(crate) fn hand_over(program: &ValidatedProgram) -> anyhow::Result<()> {
    if !is_work(program) {
        return Ok(());
    }
    let failed = "cannot hand the program over";
    let text = serde_json::to_vec(&quorate_plan::program(program)).context(failed)?;
    let mut file = tempfile::tempfile().context(failed)?;
    file.write_all(&text).and_then(|()| file.rewind()).context(failed)?;
    nix::unistd::dup2_stdin(file).context(failed)
}

fn is_work(program: &ValidatedProgram) -> bool {
    matches!(program, ValidatedProgram::Script { .. } | ValidatedProgram::Jobs(_))
}

fn parallel(parallel: &ValidatedParallel, agent: &str) -> Vec<String> {
    let mut argv: Vec<String> = vec![agent.into(), "run".into()];
    let mut flag = |name: &str, value: Option<u32>| {
        argv.extend(value.map(|value| format!("{name}={value}")));
    };
    flag("--ntasks", parallel.tasks);
    flag("--tasks-per-node", parallel.tasks_per_node);
    flag("--cpus-per-task", parallel.cpus_per_task);
    if parallel.oversubscribe {
        argv.push("--oversubscribe".into());
    }
    if parallel.label_io {
        argv.push("--label-io".into());
    }
    if parallel.mpi != MpiStart::Auto {
        let word = match parallel.mpi {
            MpiStart::Auto => "auto",
            MpiStart::Pmi1 => "pmi1",
            MpiStart::Pmi2 => "pmi2",
            MpiStart::Pmix => "pmix",
            MpiStart::None => "none",
        };
        argv.push(format!("--mpi={word}"));
    }
    for (name, value) in &parallel.env {
        argv.push(format!("--env={name}={value}"));
    }
    if let Some(dir) = &parallel.working_dir {
        argv.push(format!("--cwd={dir}"));
    }
    argv.push("--".into());
    argv.extend(parallel.argv.iter().cloned());
    argv
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parallel_program_keeps_all_that_was_asked_for() {
        let program = ValidatedParallel {
            argv: vec!["./a".into(), "-x".into()],
            tasks: Some(4),
            tasks_per_node: Some(2),
            cpus_per_task: Some(1),
            oversubscribe: true,
            label_io: true,
            env: vec![("A".into(), "b c".into())],
            working_dir: Some("/w".into()),
            mpi: MpiStart::Pmi2,
        };
        assert_eq!(
            command(&ValidatedProgram::Parallel(program), "/q/agent").join(" "),
            "/q/agent run --ntasks=4 --tasks-per-node=2 --cpus-per-task=1 \
             --oversubscribe --label-io --mpi=pmi2 --env=A=b c --cwd=/w -- ./a -x"
        );
    }

    #[test]
    fn a_command_is_itself() {
        let argv = vec!["mpirun".to_owned(), "./a".to_owned()];
        assert_eq!(command(&ValidatedProgram::Command { argv: argv.clone() }, "a"), argv);
        assert!(command(&ValidatedProgram::None, "a").is_empty());
    }
}
