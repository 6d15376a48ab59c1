//! Our output against that of the Slurm of this machine, for the same facts at the same moment.
//!
//! Starts Debian's Slurm (`apt-get install slurm-wlm munge slurmdbd mariadb-server-core`, as `.ci/run` does) on loopback, brings jobs
//! into many states, and asks both. In continuous integration it must be there; elsewhere the test says
//! that it is missing. It keeps accounts (slurmdbd and a database of its own), so that sacct answers too.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test says by a panic what is wrong, and prints the logs of what it started"
)]

mod accounting;
#[allow(dead_code, reason = "other tests need a Slurm without accounts")]
mod lab;
#[path = "../real/said.rs"]
mod said;
mod scripts;

use lab::Lab;
use quorate_slurm::calendar::Clock;
use quorate_slurm::facts::{Answer, Cluster, View};
use quorate_slurm::options::{Context, Input, OptionError, Settings, Tool, parse, wanted};
use quorate_slurm::scontrol::Order;
use quorate_slurm::{sacct, scontrol, sinfo, squeue};
use said::commands;
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

/// Jobs 1 to 21, as in the recordings.
const BEFORE: &[&str] = &[
    "sbatch -n1 -t 60 --mem=10 -J first --wrap|sleep 300",
    "sbatch -J fails --mem=10 --wrap|exit 3",
    "sbatch -d afterok:2 -J never --mem=10 --wrap|true",
    "sbatch -J signal --mem=10 --wrap|kill -9 $$",
    "sbatch -J completes --mem=10 -n3 --wrap|srun -n3 hostname; true",
    "sbatch --uid=nobody -J nobodys --mem=10 -D /tmp -o /dev/null --wrap|sleep 1",
    "sbatch -J killed --mem=10 --wrap|sleep 500",
    "sbatch -J gone -H --mem=10 --wrap|true",
    "sbatch -a 0-2 -J done --mem=10 -n1 --wrap|exit $((SLURM_ARRAY_TASK_ID == 1))",
    "srun -N2 -n3 --mem=10 -J steps|hostname",
];
const AFTER: &[&str] = &[
    "sbatch -N2 -n4 -t 30 --no-requeue --mem=100 -J relaxation-of-water --wrap|srun -n2 sleep 600",
    "sbatch -a 0-7%2 -t 10 --mem=10 -J sweep -p short --wrap|sleep 600",
    "sbatch -N3 --exclusive -t 1:00:00 -J big --mem=10 --wrap|true",
    "sbatch -n1 -c 3 -t 1-0 -J behind --mem=10 --nice=50 --wrap|true",
    "sbatch -H -J held -n1 --mem=10 --comment=some-words -C fast --wrap|true",
    "sbatch --begin=2099-01-20T12:00:00 --mem=10 -J later --wrap|true",
    "sbatch -J depends -d afterany:1 --mem=10 -w worker-0-2 -p batch --wrap|true",
];

fn submit(lab: &Lab, line: &str) {
    let (words, command) = line.split_once('|').unwrap();
    let mut words: Vec<&str> = words.split(' ').collect();
    words.push(command);
    let output = lab.output(&words);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}

fn jobs(lab: &Lab) {
    for line in BEFORE {
        submit(lab, line);
    }
    let state =
        |lab: &Lab, job: &str| lab.ask(&["squeue", "-h", "-t", "all", "-j", job, "-o", "%T"]);
    lab.until("the short jobs are over", |lab| {
        ["2", "4", "5", "6", "9", "10"].into_iter().all(|job| {
            state(lab, job).lines().all(|state| ["COMPLETED", "FAILED"].contains(&state))
        }) && state(lab, "7").trim() == "RUNNING"
    });
    assert!(lab.output(&["scancel", "7", "8"]).status.success());
    lab.until("the cancelled jobs are over", |lab| {
        ["7", "8"].into_iter().all(|job| state(lab, job).trim() == "CANCELLED")
    });
    for line in AFTER {
        submit(lab, line);
    }
    let reason = ["scontrol", "update", "nodename=worker-0-2", "state=drain", "reason=disk full"];
    assert!(lab.output(&reason).status.success());
    lab.until("the long jobs run", |lab| {
        state(lab, "13").trim() == "RUNNING"
            && lab.ask(&["squeue", "-h", "-s", "-j", "13", "-o", "%i"]).contains("13.0")
            && state(lab, "14").matches("RUNNING").count() == 2
    });
}

/// Arguments that are wrong: the first line on standard error, and the code.
const VALUES: &[&str] = &[
    "sbatch -n0",
    "sbatch -nx",
    "sbatch -Nx",
    "sbatch -N4-2",
    "sbatch -tx",
    "sbatch -t1:2:3:4",
    "sbatch --mem=x",
    "sbatch --mem=1 --mem-per-cpu=1",
    "sbatch -c0",
    "sbatch --signal=NOSUCH",
    "sbatch --open-mode=x",
    "sbatch --distribution=x",
    "sbatch --exclusive=x",
    "sbatch --ntasks-per-node=x",
    "sbatch --gres=nosuch:1",
    "sbatch --array=x",
    "sbatch --dependency=x",
    "sbatch -w worker-0-0,worker-0-1 -N1",
    "srun -nx",
    "srun -N4-2",
    "srun --mem=x",
    "srun --dependency=x",
    "salloc -tx",
    "salloc -c0",
    "salloc --dependency=x",
];

/// Somebody on a login node.
fn context(environment: &BTreeMap<String, String>) -> Context<'_> {
    Context {
        clock: Clock { now: seconds(), offset: 0 },
        environment,
        directory: "/",
        host: "login",
        user: "ada",
        submit_line: "",
    }
}

/// What we say of options and arguments.
fn refusal(tool: Tool, words: &[String]) -> OptionError {
    let environment = BTreeMap::new();
    let context = context(&environment);
    let input = match tool {
        Tool::Sbatch => Input::Wrap("true".into()),
        _ => Input::Command(vec!["true".into()]),
    };
    parse(tool, words)
        .and_then(|parsed| Settings::merge(tool, &[], &environment, &parsed))
        .and_then(|settings| wanted(&settings, input, &context))
        .unwrap_err()
}

/// What we say of a script, and the code.
fn refusal_of_script(name: &str, text: &str) -> (Vec<String>, u8) {
    let environment = BTreeMap::new();
    let context = context(&environment);
    let script = Input::Script { path: Some(name.into()), text: text.into(), args: Vec::new() };
    let error = quorate_slurm::script::options(name, text)
        .and_then(|directives| {
            let line = parse(Tool::Sbatch, &[])?;
            Settings::merge(Tool::Sbatch, &directives, &environment, &line)
        })
        .and_then(|settings| wanted(&settings, script, &context))
        .unwrap_err();
    (error.lines(Tool::Sbatch), error.exit_code())
}

fn seconds() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_secs()).unwrap()
}

/// Everything that facts are read from, as Slurm says it now. How long jobs have run is left out.
fn facts(lab: &Lab) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    for (name, entity) in
        [("jobs", "job"), ("nodes", "node"), ("partitions", "partition"), ("steps", "step")]
    {
        facts.insert(name.to_owned(), lab.ask(&["scontrol", "show", entity]));
    }
    let (name, words) = commands().into_iter().find(|(name, _)| name == "accounted").unwrap();
    facts.insert(name, lab.ask(&words.iter().map(String::as_str).collect::<Vec<_>>()));
    facts
}

fn still(facts: &BTreeMap<String, String>) -> String {
    let moving = |line: &&str| !line.contains("RunTime=") && !line.contains("FreeMem=");
    facts.values().flat_map(|text| text.lines()).filter(moving).collect::<Vec<_>>().join("\n")
}

fn ours(words: &[String], view: &View<'_>) -> Answer {
    let (command, rest) = words.split_first().unwrap();
    match command.as_str() {
        "squeue" => squeue(rest, view),
        "sinfo" => sinfo(rest, view),
        "sacct" => sacct(rest, view),
        _ => match scontrol(rest, view) {
            Order::Say(answer) => answer,
            order => panic!("{words:?} is an order: {order:?}"),
        },
    }
}

/// What differs between both answers to command lines, which are asked while nothing changes; of those by
/// `chance` lines may come in any order.
fn differences(lab: &Lab, asked: &[(Vec<String>, bool)]) -> Vec<String> {
    let host = lab.ask(&["hostname"]).trim().to_owned();
    let mut different = Vec::new();
    // Few enough that they are asked in a moment.
    for some in asked.chunks(12) {
        let start = Instant::now();
        let (cluster, answers) = loop {
            assert!(
                start.elapsed() < Duration::from_mins(1),
                "the facts of {some:?} never stood still for as long as it takes to ask"
            );
            let before = facts(lab);
            let answers: Vec<_> =
                some.iter().map(|(words, _)| within_a_second(lab, words)).collect();
            if still(&before) == still(&facts(lab)) {
                break (said::cluster(&before, &host), answers);
            }
        };
        let environment = BTreeMap::new();
        for ((words, chance), (now, theirs)) in some.iter().zip(answers) {
            let clock = Clock { now, offset: 0 };
            let view = View { cluster: &cluster, clock, environment: &environment, user: "root" };
            let ours = ours(words, &view).output;
            different.extend(difference(words, ours, theirs, *chance));
        }
    }
    different
}

/// What Slurm says, and the second in which it said so.
fn within_a_second(lab: &Lab, words: &[String]) -> (i64, String) {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    loop {
        let now = seconds();
        let theirs = lab.ask(&words);
        if seconds() == now {
            return (now, theirs);
        }
    }
}

fn difference(words: &[String], ours: String, theirs: String, chance: bool) -> Option<String> {
    let (ours, theirs) = if chance { (sorted(&ours), sorted(&theirs)) } else { (ours, theirs) };
    if ours == theirs {
        return None;
    }
    let first = ours.lines().zip(theirs.lines()).find(|(a, b)| a != b);
    let (ours, theirs) = first.unwrap_or((ours.as_str(), theirs.as_str()));
    Some(format!("{words:?}\n ours   {ours:?}\n theirs {theirs:?}"))
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn sorted(text: &str) -> String {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    lines.sort_unstable();
    lines.concat()
}

/// Words that cannot be read, and values that are wrong: the first line and the code.
const WRONG: &[&str] = &[
    "sbatch --frobnicate --wrap true",
    "sbatch -Y --wrap true",
    "sbatch --hold=3 --wrap true",
    "sbatch --n --wrap true",
    "sbatch --ntasks",
    "sbatch -n",
    "srun --frobnicate true",
    "srun --n true",
    "salloc -Y true",
    "salloc --export=ALL true",
    "salloc --n true",
];

#[test]
fn the_slurm_of_this_machine_prints_what_we_print() {
    if let Some(reason) = lab::missing_with_accounts() {
        assert!(std::env::var_os("CI").is_none(), "{reason}");
        println!("nothing was compared: {reason}");
        return;
    }
    let lab = Lab::start_with_accounts();
    jobs(&lab);
    accounting::limit(&lab);
    accounting::settled(&lab);
    let shown = |(name, _): &(String, _)| !matches!(name.as_str(), "steps" | "accounted");
    // sinfo asks for its partitions in threads: which of them stands first for a node is chance.
    let chance = |name: &str| name.starts_with("sinfo-node") || name.starts_with("sacct");
    let recorded = commands().into_iter().filter(shown);
    let recorded = recorded.map(|(name, words)| (words, chance(&name)));
    // Which job stands first is chance too: the database has them in the order in which it heard of them.
    let accounts: Vec<_> = accounting::LINES.iter().map(|line| (words(line), true)).collect();
    let asked: Vec<_> = recorded.chain(accounts.clone()).collect();
    let mut different = differences(&lab, &asked);
    accounting::end(&lab);
    accounting::settled(&lab);
    different.extend(differences(&lab, &accounts));
    // After the jobs: some refusals use up a number.
    different.extend(scripts::differences(&lab));
    for line in accounting::WRONG {
        let asked = words(line);
        let theirs = lab.output(&asked.iter().map(String::as_str).collect::<Vec<_>>());
        let (cluster, environment) = (Cluster::default(), BTreeMap::new());
        let clock = Clock { now: seconds(), offset: 0 };
        let view = View { cluster: &cluster, clock, environment: &environment, user: "root" };
        let ours = ours(&asked, &view);
        // Where we know a way out, a second line says it.
        let first = |text: &str| text.lines().next().unwrap_or_default().to_owned();
        let ours = (first(&ours.errors), Some(i32::from(ours.code)));
        let theirs = (first(&String::from_utf8(theirs.stderr).unwrap()), theirs.status.code());
        if ours != theirs {
            different.push(format!("{line}\n ours   {ours:?}\n theirs {theirs:?}"));
        }
    }
    for line in WRONG.iter().chain(VALUES) {
        let mut words: Vec<&str> = line.split(' ').collect();
        let value = VALUES.contains(line);
        if value {
            words.extend(if words[0] == "sbatch" { vec!["--wrap", "true"] } else { vec!["true"] });
        }
        let theirs = lab.output(&words);
        let tool = match words[0] {
            "sbatch" => Tool::Sbatch,
            "srun" => Tool::Srun,
            _ => Tool::Salloc,
        };
        let rest: Vec<String> = words[1..].iter().map(|word| (*word).to_owned()).collect();
        let error = refusal(tool, &rest);
        // Of a wrong argument we say in a second line what would be right.
        let lines = error.lines(tool);
        let said = lines[..if value { 1 } else { lines.len() }].join("\n") + "\n";
        if said.as_bytes() != theirs.stderr
            || theirs.status.code() != Some(error.exit_code().into())
        {
            let stderr = String::from_utf8_lossy(&theirs.stderr).into_owned();
            different
                .push(format!("{line}\n ours   {said:?}\n theirs {stderr:?} {}", theirs.status));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert!(asked.len() > 80, "only {} were compared", asked.len());
}
