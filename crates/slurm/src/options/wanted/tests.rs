use super::*;
use crate::options::parse;

const NOW: Clock = Clock { now: 1_795_885_445, offset: 0 };

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn with(tool: Tool, text: &str, variables: &[(&str, &str)]) -> Result<Wanted, OptionError> {
    let environment: BTreeMap<String, String> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let parsed = parse(tool, &words(text))?;
    let script = "#!/bin/sh\n#SBATCH -p from-script -c 2\ntrue\n";
    let (directives, input) = if tool == Tool::Sbatch {
        let mut operands = parsed.operands.clone().into_iter();
        let path = operands.next();
        let args = operands.collect();
        (
            crate::script::options("job.sh", script)?,
            Input::Script { path, text: script.to_owned(), args },
        )
    } else {
        (Vec::new(), Input::Command(parsed.operands.clone()))
    };
    let settings = Settings::merge(tool, &directives, &environment, &parsed)?;
    let context = Context {
        clock: NOW,
        environment: &environment,
        directory: "/home/ada",
        host: "login",
        user: "ada",
        submit_line: "sbatch job.sh",
    };
    wanted(&settings, input, &context)
}

fn sbatch(text: &str) -> Wanted {
    with(Tool::Sbatch, text, &[]).unwrap()
}

/// The first line that is said instead.
fn refusal(tool: Tool, text: &str) -> String {
    with(tool, text, &[]).unwrap_err().lines(tool).join("\n")
}

fn request(text: &str) -> String {
    let request = sbatch(text).jobspec.request;
    serde_json::to_string(&request).unwrap()
}

#[test]
fn a_batch_job_is_what_its_options_say() {
    let wanted = sbatch(
        "-J relax -n 8 -N 2-4 --mem=4G -t 1:30 -b now+1hour -d afterok:17,singleton -a 0-3%2 \
         --requeue -A chem --comment=hi -o out/%x-%j -e err --open-mode=append -D work --signal=B:USR1@90 \
         --wait --parsable -vv dir/job.sh one two",
    );
    let spec = &wanted.jobspec;
    assert_eq!(spec.name, "relax");
    assert_eq!(spec.time_limit, Some(120));
    assert_eq!(spec.begin, Some(quorate_queue::Time((1_795_885_445 + 3600) * 1000)));
    assert!(spec.singleton && spec.requeue);
    assert_eq!(spec.directory, "/home/ada/work");
    assert_eq!(spec.queue.as_deref(), Some("from-script"));
    assert_eq!(spec.streams.output.as_deref(), Some("out/{{name}}-{{id}}"));
    assert!(spec.streams.append);
    assert_eq!(spec.labels[ACCOUNT], "chem");
    assert_eq!(spec.labels[COMMENT], "hi");
    assert_eq!(spec.labels[COMMAND], "/home/ada/dir/job.sh");
    assert_eq!(spec.labels[SIGNAL], "B:USR1@90");
    assert_eq!(spec.request.nodes, Some((2, 4)));
    assert_eq!(spec.request.cores_per_task, 2);
    assert_eq!(spec.environment["SLURM_NTASKS"], "8");
    assert_eq!(spec.environment["SLURM_SUBMIT_DIR"], "/home/ada");
    assert_eq!(spec.environment["SLURM_MEM_PER_NODE"], "4096");
    let Program::Script { args, .. } = &spec.program else { unreachable!("it is a script") };
    assert_eq!(args, &["one", "two"]);
    assert!(wanted.client.wait && wanted.client.parsable && wanted.client.verbose == 2);
    assert_eq!(wanted.dependencies.len(), 1);
    let Copies::Array { limit, indices } = &wanted.copies else { unreachable!("it is an array") };
    assert_eq!((indices.to_string().as_str(), *limit), ("0-3", Some(2)));
}

#[test]
fn dependencies_on_arrays_become_those_on_their_jobs() {
    let mut wanted = sbatch("-d afterok:17:9_1 job.sh");
    let known = |reference: JobRef| match (reference.job.0, reference.index) {
        (17, None) => vec![JobId(17), JobId(18)],
        (9, Some(1)) => vec![JobId(10)],
        _ => Vec::new(),
    };
    assert_eq!(wanted.depend(known), Ok(()));
    let jobs: Vec<u64> = wanted.jobspec.dependencies.iter().map(|each| each.job.0).collect();
    assert_eq!(jobs, [17, 18, 10]);
    let mut unknown = sbatch("-d afterok:99 job.sh");
    assert_eq!(unknown.depend(known).unwrap_err().to_string(), "99");
}

#[test]
fn the_command_line_is_before_variables_and_those_before_the_script() {
    let queue = |text, variables: &[(&str, &str)]| {
        with(Tool::Sbatch, text, variables).unwrap().jobspec.queue.unwrap()
    };
    assert_eq!(queue("job.sh", &[]), "from-script");
    assert_eq!(queue("job.sh", &[("SBATCH_PARTITION", "from-variable")]), "from-variable");
    assert_eq!(queue("-p line job.sh", &[("SBATCH_PARTITION", "from-variable")]), "line");
    assert_eq!(queue("job.sh", &[("SALLOC_PARTITION", "other")]), "from-script");
}

#[test]
fn sizes_follow_from_each_other_as_in_slurm() {
    for (options, expected) in [
        ("", r#"{"tasks":1,"coresPerTask":2}"#),
        ("-N3", r#"{"tasks":3,"nodes":[3,3],"coresPerTask":2}"#),
        ("-N2-3", r#"{"tasks":2,"nodes":[2,3],"coresPerTask":2}"#),
        ("-n4 -c1", r#"{"tasks":4}"#),
        ("--ntasks-per-node=4 -c1", r#"{"tasks":4,"tasksPerNode":4}"#),
        ("--tasks-per-node=4 -N2 -c1", r#"{"tasks":8,"nodes":[2,2],"tasksPerNode":4}"#),
        ("-n2 -N3 -c1", r#"{"tasks":2,"nodes":[2,2]}"#),
        ("-c1 -w worker-0-[0-1]", r#"{"tasks":2,"nodes":[2,2]}"#),
        ("-c1 --gres=gpu:8 -N2", r#"{"tasks":2,"nodes":[2,2],"gpusPerTask":8}"#),
        (
            "-c1 --gres=gpu:8 -N2 --ntasks-per-node=4",
            r#"{"tasks":8,"nodes":[2,2],"tasksPerNode":4,"gpusPerTask":2}"#,
        ),
        ("-c1 -G 8 -n 4", r#"{"tasks":4,"gpusPerTask":2}"#),
        ("-c1 -G 8 --gpus-per-task=2", r#"{"tasks":4,"gpusPerTask":2}"#),
        ("--cpus-per-gpu=3 -G 2", r#"{"tasks":1,"coresPerTask":6,"gpusPerTask":2}"#),
        ("--mem-per-cpu=1G", r#"{"tasks":1,"coresPerTask":2,"memoryPerTask":2147483648}"#),
        ("-c1 --exclusive --mem=0", r#"{"tasks":1,"exclusive":true}"#),
    ] {
        assert_eq!(request(&format!("{options} job.sh")), expected, "{options}");
    }
    let warned = sbatch("-n2 -N3 job.sh");
    assert_eq!(warned.notes, ["Warning: can't run 2 processes on 3 nodes, setting nnodes to 2"]);
}

#[test]
fn constraints_join() {
    let constraint =
        |text: &str| serde_json::to_string(&sbatch(text).jobspec.constraint.unwrap()).unwrap();
    assert_eq!(constraint("-C fast job.sh"), r#"{"properties":["fast"]}"#);
    assert_eq!(
        constraint("-G a100:2 -x n1,n2 job.sh"),
        r#"{"and":[{"properties":["a100"]},{"not":[{"hostlist":["n[1-2]"]}]}]}"#
    );
}

#[test]
fn niceness_and_hold_are_urgency() {
    for (options, urgency) in [
        ("", 16),
        ("--nice", 15),
        ("--nice=1", 15),
        ("--nice=250", 13),
        ("--nice=-200", 18),
        ("--nice=999999", 1),
        ("--nice=-999999", 31),
        ("-H", 0),
        ("-H --nice=5", 0),
    ] {
        assert_eq!(sbatch(&format!("{options} job.sh")).jobspec.urgency, urgency, "{options}");
    }
}

#[test]
fn what_goes_wrong_is_said_in_slurms_words_with_the_way_out() {
    for (tool, options, lines) in [
        (Tool::Sbatch, "-n0 j", "sbatch: error: Invalid numeric value \"0\" for --ntasks."),
        (Tool::Srun, "-cx j", "srun: error: Invalid numeric value \"x\" for --cpus-per-task."),
        (Tool::Sbatch, "-Nx j", "sbatch: error: \"x\" is not a valid node count"),
        (
            Tool::Sbatch,
            "-N4-2 j",
            "sbatch: error: Maximum node count 2 is less than minimum node count 4",
        ),
        (
            Tool::Salloc,
            "-tx j",
            "salloc: error: Invalid --time specification\nsalloc: error: `x` is not a time: minutes, \
             minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes, \
             days-hours:minutes:seconds or UNLIMITED",
        ),
        (Tool::Sbatch, "-N1 -w a,b j", "sbatch: error: invalid number of nodes (-N 2-1)"),
        (
            Tool::Sbatch,
            "--reservation=x j",
            "sbatch: error: --reservation is not supported here: there are no reservations; use a queue \
             of its own (--partition)",
        ),
        (
            Tool::Sbatch,
            "--mem=1 --mem-per-cpu=1 j",
            "sbatch: fatal: --mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.",
        ),
        (Tool::Srun, "-n2", "srun: fatal: No command given to execute."),
        (
            Tool::Sbatch,
            "--gres=gpu:3 -n2 j",
            "sbatch: error: --gres asks for 3 GPUs, which is no multiple of the tasks of a node (2): a \
             GPU belongs to one task; use --gpus-per-task, or other numbers of tasks",
        ),
    ] {
        assert_eq!(refusal(tool, options), lines, "{options}");
    }
    assert_eq!(with(Tool::Sbatch, "-tx j", &[]).unwrap_err().exit_code(), 255);
    assert_eq!(with(Tool::Sbatch, "-n0 j", &[]).unwrap_err().exit_code(), 1);
}

#[test]
fn what_has_no_effect_says_so_unless_quiet() {
    let notes = |text: &str| sbatch(text).notes;
    assert_eq!(notes("--mail-user=me j"), ["--mail-user has no effect: no mail is sent"]);
    assert!(notes("-Q --mail-user=me j").is_empty());
    let variable = with(Tool::Sbatch, "j", &[("SBATCH_HINT", "nomultithread")]).unwrap();
    assert!(variable.notes.is_empty());
}

#[test]
fn a_step_of_srun_takes_its_size_from_its_allocation() {
    let inside = [("SLURM_NTASKS", "6"), ("SLURM_JOB_NUM_NODES", "2"), ("SLURM_NNODES", "2")];
    let step = with(Tool::Srun, "-l -K --mpi=pmix -m cyclic:block ./ring", &inside).unwrap();
    assert_eq!((step.jobspec.request.tasks, step.jobspec.request.nodes), (6, Some((2, 2))));
    assert!(step.jobspec.streams.label);
    assert_eq!(step.client.step.kill_on_bad_exit, Some(true));
    assert_eq!(step.client.step.mpi, Some(Mpi::Pmix));
    assert_eq!(step.client.distribution, Some(Distribution::Cyclic));
    let one = with(Tool::Srun, "-n1 true", &inside).unwrap();
    assert_eq!(one.jobspec.request.nodes, Some((1, 1)));
    assert_eq!(one.notes, ["Warning: can't run 1 processes on 2 nodes, setting nnodes to 1"]);
}

#[test]
fn another_jobs_variables_do_not_leak_into_a_batch_job() {
    let outer =
        [("SLURM_JOB_ID", "7"), ("SLURM_PROCID", "3"), ("SLURM_NTASKS", "9"), ("PATH", "/bin")];
    let inner = with(Tool::Sbatch, "j", &outer).unwrap().jobspec.environment;
    assert_eq!(inner.get("PATH").map(String::as_str), Some("/bin"));
    for name in ["SLURM_JOB_ID", "SLURM_PROCID", "SLURM_NTASKS"] {
        assert_eq!(inner.get(name), None, "{name}");
    }
}

#[test]
fn a_wrapped_command_is_a_script() {
    let (name, _, program) = program(Tool::Sbatch, Input::Wrap("echo 'a b'".into())).unwrap();
    let Program::Script { text, .. } = program else { unreachable!("it is a script") };
    assert_eq!(name, "wrap");
    assert!(text.starts_with("#!/bin/sh\n") && text.ends_with("\necho 'a b'\n"));
}

#[test]
fn every_supported_option_changes_something() {
    // What only the shell sees, before there is a job.
    let shell = ["help", "usage", "version", "wrap", "requeue", "unbuffered"];
    let samples = [
        ("account", "a"),
        ("array", "1-3"),
        ("begin", "now+1"),
        ("chdir", "w"),
        ("input", "f"),
        ("comment", "c"),
        ("constraint", "f"),
        ("cpus-per-gpu", "2"),
        ("cpus-per-task", "3"),
        ("dependency", "singleton"),
        ("distribution", "cyclic"),
        ("error", "e"),
        ("exclude", "n1"),
        ("export", "NONE"),
        ("gpus", "2"),
        ("gpus-per-node", "2"),
        ("gpus-per-task", "2"),
        ("gres", "gpu:2"),
        ("job-name", "x"),
        ("jobid", "4"),
        ("mem", "5"),
        ("mem-per-cpu", "5"),
        ("mem-per-gpu", "5"),
        ("mpi", "pmix"),
        ("nodelist", "n1,n2"),
        ("nodes", "2"),
        ("ntasks", "2"),
        ("ntasks-per-node", "2"),
        ("open-mode", "append"),
        ("output", "o"),
        ("partition", "p"),
        ("qos", "q"),
        ("relative", "1"),
        ("signal", "USR1"),
        ("tasks-per-node", "2"),
        ("time", "5"),
        ("wait", "5"),
    ];
    for tool in [Tool::Sbatch, Tool::Srun, Tool::Salloc] {
        for option in crate::options::TABLE.iter().filter(|option| option.of(tool)) {
            let supported = matches!(option.treatment, Treatment::Supported(_));
            if !supported || shell.contains(&option.name) {
                continue;
            }
            let text = match option.argument {
                crate::options::Argument::Required => {
                    let sample = samples.iter().find(|(name, _)| *name == option.name);
                    format!("--{}={}", option.name, sample.expect("every option has a sample").1)
                }
                _ => format!("--{}", option.name),
            };
            let gpus = if option.name.ends_with("-per-gpu") { "--gpus-per-task=1 " } else { "" };
            let base = with(tool, &format!("{gpus}j"), &[("A", "1")]).unwrap();
            let changed = with(tool, &format!("{gpus}{text} j"), &[("A", "1")]);
            let changed = changed.unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_ne!(changed, base, "{} {text}", tool.name());
        }
    }
}
