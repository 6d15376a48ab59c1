use super::*;

fn refusal(change: impl FnOnce(&mut Jobspec)) -> String {
    let mut spec = Jobspec::command("lammps", &["lmp", "-in", "melt"]);
    change(&mut spec);
    spec.check().unwrap_err().to_string()
}

#[test]
fn what_no_cluster_can_run_is_refused_with_the_field_and_the_way_out() {
    assert_eq!(refusal(|spec| spec.request.tasks = 0), "request.tasks is 0; it must be at least 1");
    assert_eq!(refusal(|spec| spec.urgency = 32), "urgency is 32; it must be 0 to 31");
    assert_eq!(
        refusal(|spec| spec.time_limit = Some(0)),
        "timeLimit is 0; it must be at least one second"
    );
    assert_eq!(
        refusal(|spec| spec.program = Program::Command(vec![])),
        "program has no command: give the command after the options"
    );
    assert_eq!(
        refusal(|spec| spec.program = Program::Command(vec!["a".into(), "b\0c".into()])),
        "argument 1 of program has a zero byte in it, which no program can be given"
    );
    assert_eq!(
        refusal(|spec| spec.request = Request { nodes: Some((4, 4)), ..Request::default() }),
        "request.nodes asks for 4 nodes for 1 tasks: every node needs a task (or ask for exclusive nodes with one task each)"
    );
    assert_eq!(
        refusal(|spec| {
            spec.request = Request {
                tasks: 9,
                nodes: Some((2, 4)),
                tasks_per_node: Some(2),
                ..Request::default()
            };
        }),
        "9 tasks do not fit on 4 nodes of at most 2 tasks each (request.tasksPerNode)"
    );
    assert_eq!(
        refusal(|spec| {
            spec.environment.insert("A=B".into(), "c".into());
        }),
        "`A=B` is not a name for a variable: it is empty or has `=` in it"
    );
    assert_eq!(
        refusal(|spec| spec.program = Program::Script { text: "lmp".into(), args: vec![] }),
        "the script does not start with an interpreter line such as #!/bin/sh; wrap a command with --wrap"
    );
}

#[test]
fn what_no_program_can_be_given_is_refused_with_the_string_and_the_limit() {
    let with = |count: usize, bytes: usize| {
        let mut spec = Jobspec::command("big", &["true"]);
        let variable = |at| (format!("V{at:03}"), "x".repeat(bytes - "V000=".len()));
        spec.environment = (0..count).map(variable).collect();
        spec
    };
    // What execve(2) takes is taken, to the byte.
    assert_eq!(with(1, MAX_STRING).check(), Ok(()));
    assert_eq!(
        with(1, MAX_STRING + 1).check().unwrap_err().to_string(),
        "variable V000 is 131072 bytes, and a program can be given at most 131071 in one string \
         (execve(2), MAX_ARG_STRLEN): put it into a file"
    );
    assert_eq!(with(40, 128_000).check(), Ok(()));
    let ten_megabytes = with(82, 128_000).check().unwrap_err();
    assert!(
        matches!(ten_megabytes, JobspecError::StringsTooLong { bytes } if bytes > 10 << 20),
        "{ten_megabytes}"
    );
    let long = "x".repeat(MAX_STRING + 1);
    let said = Jobspec::command("big", &["echo", &long]).check().unwrap_err().to_string();
    assert!(said.starts_with("argument 1 is 131072 bytes"), "{said}");
    // A script is a file: it may be longer than any argument.
    let script = |bytes: usize| {
        let text = format!("#!/bin/sh\n{}", "#".repeat(bytes));
        Jobspec { program: Program::Script { text, args: vec![] }, ..with(1, 100) }
    };
    assert_eq!(script(10 << 20).check(), Ok(()));
    assert!(matches!(script(17 << 20).check(), Err(JobspecError::TooLarge { .. })));
}

#[test]
fn a_plain_job_is_written_without_what_is_usual() {
    let text = serde_json::to_string(&Jobspec::command("t", &["true"])).unwrap();
    assert_eq!(text, r#"{"name":"t","program":{"command":["true"]},"request":{"tasks":1}}"#);
    let read: Jobspec = serde_json::from_str(&text).unwrap();
    assert_eq!(read, Jobspec::command("t", &["true"]));
}

#[test]
fn unknown_fields_are_refused_not_dropped() {
    let text = r#"{"name":"t","program":{"command":["true"]},"request":{"task":1}}"#;
    let error = serde_json::from_str::<Jobspec>(text).unwrap_err().to_string();
    assert!(error.contains("unknown field `task`"), "{error}");
}
