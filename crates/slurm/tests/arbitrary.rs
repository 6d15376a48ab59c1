//! Whatever people, scripts and environments hold: nothing panics, and what is printed is read back.

#![allow(clippy::unwrap_used, reason = "a test says by a panic what is wrong")]

use proptest::prelude::*;
use quorate_slurm::calendar::Clock;
use quorate_slurm::facts::{Cluster, View};
use quorate_slurm::options::{Context, Input, Settings, TABLE, Tool, parse, wanted};
use quorate_slurm::value::{self, Pattern, PatternFacts};
use quorate_slurm::{options, sacct, scancel, scontrol, script, sinfo, squeue};
use std::collections::BTreeMap;

fn tool() -> impl Strategy<Value = Tool> {
    prop_oneof![Just(Tool::Sbatch), Just(Tool::Srun), Just(Tool::Salloc)]
}

/// Text that is near to what options take.
fn argument() -> impl Strategy<Value = String> {
    prop_oneof![
        "[-0-9:,%+@=a-zA-Z./_?*&|()\\[\\] ]{0,24}",
        ".{0,24}",
        "[0-9]{1,22}([KMGT:-][0-9]{0,9}){0,4}",
        "(after(ok|any|notok)?|singleton|now|gpu|UNLIMITED|B)[:+,0-9a-z]{0,12}",
    ]
}

/// Words of a command line, most of them options that there are.
fn word() -> impl Strategy<Value = String> {
    let known = (0..TABLE.len(), argument())
        .prop_map(|(at, value)| format!("--{}={value}", TABLE[at].name));
    prop_oneof![3 => known, 1 => argument(), 1 => "-[A-Za-z]{1,3}[0-9]{0,3}"]
}

/// What squeue and its kin are asked.
fn question() -> impl Strategy<Value = String> {
    let long =
        ["format", "Format", "sort", "states", "jobs", "starttime", "state", "user", "signal"];
    let long = (0..long.len(), argument()).prop_map(move |(at, v)| format!("--{}={v}", long[at]));
    let verbs = ["show", "hold", "update", "hostnames", "job", "TimeLimit=5", "-N", "-l", "-h"];
    let verbs = (0..verbs.len()).prop_map(move |at| verbs[at].to_owned());
    prop_oneof![long, verbs, "-[oOStjp]%?[.0-9]{0,4}[a-zA-Z%]{0,3}"]
}

proptest! {
    #[test]
    fn no_value_panics(text in argument(), now in any::<i32>(), offset in -50_000..50_000) {
        let clock = Clock { now: now.into(), offset };
        let _ = value::time_limit(&text);
        let _ = value::memory(&text);
        let _ = value::nodes(&text);
        let _ = value::array(&text);
        let _ = value::begin(&text, clock);
        let _ = value::features(&text);
        let _ = value::dependencies(&text);
        let _ = value::export(&text);
        let _ = value::gres(&text);
        let _ = value::early_signal(&text);
        let _ = Pattern::parse(&text).expand(&PatternFacts::default());
    }

    #[test]
    fn no_command_line_panics(
        tool in tool(),
        words in proptest::collection::vec(word(), 0..6),
        text in "(#!/bin/sh\n)?((#SBATCH|#QUORATE) .{0,20}\n){0,3}.{0,20}",
    ) {
        let environment = BTreeMap::new();
        let Ok(parsed) = parse(tool, &words) else { return Ok(()) };
        let directives = if tool == Tool::Sbatch {
            script::options("job.sh", &text).unwrap_or_default()
        } else {
            Vec::new()
        };
        let Ok(settings) = Settings::merge(tool, &directives, &environment, &parsed) else {
            return Ok(());
        };
        let input = if tool == Tool::Sbatch {
            Input::Script { path: None, text, args: Vec::new() }
        } else {
            Input::Command(parsed.operands)
        };
        let context = Context {
            clock: Clock { now: 1_795_885_445, offset: 0 },
            environment: &environment,
            directory: "/",
            host: "n",
            user: "ada",
            submit_line: "",
        };
        match wanted(&settings, input, &context) {
            Ok(wanted) => prop_assert_eq!(wanted.jobspec.check(), Ok(())),
            Err(error) => {
                prop_assert!(!error.lines(tool).is_empty());
                prop_assert!(error.exit_code() > 0);
            }
        }
    }

    #[test]
    fn no_question_panics(
        words in proptest::collection::vec(prop_oneof![question(), argument()], 0..5),
        now in any::<i32>(),
    ) {
        let environment = BTreeMap::new();
        let clock = Clock { now: now.into(), offset: 0 };
        let cluster = Cluster::default();
        let view = View { cluster: &cluster, clock, environment: &environment, user: "ada" };
        let _ = squeue(&words, &view);
        let _ = sinfo(&words, &view);
        let _ = sacct(&words, &view);
        let _ = scancel(&words, &view);
        let _ = scontrol(&words, &view);
    }

    #[test]
    fn no_script_panics(text in "(.|\n){0,200}") {
        let _ = script::check(&text);
        let _ = script::options("job.sh", &text);
    }

    #[test]
    fn a_time_limit_is_printed_as_it_is_read(minutes in 1..5_000_000_u64) {
        let seconds = minutes * 60;
        prop_assert_eq!(value::time_limit(&value::limit_text(seconds)), Ok(Some(seconds)));
    }

    #[test]
    fn memory_is_printed_as_it_is_read(megabytes in 0..(1_u64 << 40)) {
        let bytes = megabytes << 20;
        prop_assert_eq!(value::memory(&value::memory_text(bytes)), Ok(bytes));
    }

    #[test]
    fn a_date_is_printed_as_it_is_read(seconds in 0..10_000_000_000_i64, offset in -43_200..43_200) {
        let clock = Clock { now: 0, offset };
        let text = clock.local(seconds).to_string();
        prop_assume!(!text.starts_with("1969"));
        let read = value::begin(&text, clock).unwrap();
        prop_assert_eq!(read.0, u64::try_from(seconds).unwrap() * 1000);
    }

    #[test]
    fn words_of_a_directive_come_back(words in proptest::collection::vec("[^'\\\\\r\n\0]{1,12}", 1..5)) {
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let text = format!("#!/bin/sh\n#SBATCH {}\n", quoted.join(" "));
        let read = script::directives("job.sh", &text).unwrap();
        prop_assert_eq!(&read[0].words, &words);
    }

    #[test]
    fn a_shortened_option_is_the_option_or_ambiguous(tool in tool(), at in 0..TABLE.len(), keep in 1..30_usize) {
        let option = &TABLE[at];
        prop_assume!(option.of(tool));
        let name = &option.name[..keep.min(option.name.len())];
        match parse(tool, &[format!("--{name}"), "1".into()]) {
            Ok(parsed) => prop_assert!(parsed.options[0].0.name.starts_with(name)),
            Err(options::OptionError::Ambiguous { possibilities, .. }) => {
                let quoted = format!("'--{}'", option.name);
                prop_assert!(possibilities.contains(&quoted));
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}
