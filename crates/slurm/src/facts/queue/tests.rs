use super::*;
use crate::facts::View;
use quorate_queue::{Copies, Jobspec, Offer, Outcome, Queue, Settings};

const START: i64 = 1_795_885_445;

fn at(seconds: i64) -> Time {
    Time(u64::try_from(START + seconds).unwrap() * 1000)
}

fn queue() -> Queue {
    let mut queue = Queue::new(Settings::default()).unwrap();
    for rank in 0..3 {
        let offer = Offer {
            rank,
            host: format!("worker-0-{rank}"),
            cores: IdSet::first_n(2),
            memory: 1 << 30,
            properties: vec!["fast".into()],
            ..Offer::default()
        };
        queue.node_here(offer);
    }
    queue
}

fn ask(queue: &Queue, words: &str) -> String {
    let users = [(0, "root".to_owned())].into();
    let groups = [(0, (0, "root".to_owned()))].into();
    let clock = Clock { now: START + 60, offset: 0 };
    let known = Known {
        cluster: "lab",
        host: "launcher-0-0",
        first_lane: "default",
        users: &users,
        groups: &groups,
        clock,
    };
    let cluster = cluster(queue, &known);
    let environment = BTreeMap::new();
    let view = View { cluster: &cluster, clock, environment: &environment, user: "root" };
    let mut words = words.split(' ').map(str::to_owned);
    let command = words.next().unwrap();
    let rest: Vec<String> = words.collect();
    let answer = match command.as_str() {
        "squeue" => crate::squeue(&rest, &view),
        "sinfo" => crate::sinfo(&rest, &view),
        "sacct" => crate::sacct(&rest, &view),
        _ => match crate::scontrol(&rest, &view) {
            crate::scontrol::Order::Say(answer) => answer,
            order => panic!("{order:?}"),
        },
    };
    assert_eq!(answer.errors, "");
    answer.output
}

fn sleep(name: &str, tasks: u32) -> Jobspec {
    let mut spec = Jobspec::command(name, &["sleep", "60"]);
    spec.request.tasks = tasks;
    spec
}

#[test]
fn a_queue_is_shown_in_slurms_words() {
    let mut queue = queue();
    let running = queue.submit(at(0), 0, sleep("relax", 4), &Copies::One).unwrap();
    let array = Copies::Array { indices: IdSet::first_n(4), limit: Some(1) };
    queue.submit(at(1), 0, sleep("sweep", 1), &array).unwrap();
    queue.submit(at(2), 0, sleep("big", 6), &Copies::One).unwrap();
    queue.submit(at(3), 0, sleep("behind", 5), &Copies::One).unwrap();
    let mut held = sleep("held", 1);
    held.urgency = 0;
    queue.submit(at(4), 0, held, &Copies::One).unwrap();
    let mut later = sleep("later", 1);
    later.begin = Some(at(3600));
    queue.submit(at(4), 0, later, &Copies::One).unwrap();
    let mut after = sleep("after", 1);
    after.dependencies = vec![quorate_queue::Dependency { on: Condition::AfterOk, job: running }];
    queue.submit(at(4), 0, after, &Copies::One).unwrap();
    queue.schedule(at(5));
    queue.started(at(5), running).unwrap();
    let lines = ask(&queue, "squeue -h -S i -o %i|%j|%t|%D|%R|%E|%S");
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(
        lines,
        [
            "1|relax|R|2|worker-0-[0-1]|(null)|2026-11-28T17:04:10",
            "2_0|sweep|R|1|worker-0-2|(null)|2026-11-28T17:04:10",
            "2_[1-3%1]|sweep|PD|1|(JobArrayTaskLimit)|(null)|N/A",
            "6|big|PD|1|(Resources)|(null)|N/A",
            "7|behind|PD|1|(Priority)|(null)|N/A",
            "8|held|PD|1|(JobHeldUser)|(null)|N/A",
            "9|later|PD|1|(BeginTime)|(null)|2026-11-28T18:04:05",
            "10|after|PD|1|(Dependency)|afterok:1(unfulfilled)|N/A",
        ]
    );
    assert_eq!(
        ask(&queue, "sinfo"),
        "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n\
         default*     up   infinite      1    mix worker-0-2\n\
         default*     up   infinite      2  alloc worker-0-[0-1]\n"
    );
}

#[test]
fn what_became_of_a_job_is_told_as_slurm_tells_it() {
    let mut queue = queue();
    let mut fails = sleep("fails", 1);
    fails.program = Program::Script { text: "#!/bin/sh\n".into(), args: Vec::new() };
    fails.directory = "/home/ada".into();
    fails.streams.output = Some("slurm-{{id}}.out".into());
    for spec in [sleep("good", 1), fails, sleep("signal", 1), sleep("killed", 1)] {
        queue.submit(at(0), 0, spec, &Copies::One).unwrap();
    }
    queue.schedule(at(1));
    for (id, code) in [(1, 0), (2, 3), (3, 137)] {
        queue.started(at(1), JobId(id)).unwrap();
        let outcome = Outcome { code, ..Outcome::default() };
        queue.finished(at(11), JobId(id), outcome).unwrap();
    }
    queue.started(at(1), JobId(4)).unwrap();
    queue.cancel(at(12), JobId(4), "enough").unwrap();
    queue.finished(at(13), JobId(4), Outcome { code: 143, ..Outcome::default() }).unwrap();
    assert_eq!(
        ask(&queue, "sacct -X -n -P -o JobID,JobName,State,ExitCode,Elapsed"),
        "1|good|COMPLETED|0:0|00:00:10\n2|fails|FAILED|3:0|00:00:10\n3|signal|FAILED|0:9|00:00:10\n\
         4|killed|CANCELLED by 0|0:0|00:00:12\n"
    );
    let text = ask(&queue, "scontrol show job 2");
    assert!(text.contains("\n   StdOut=/home/ada/slurm-2.out\n"), "{text}");
    assert!(text.contains("JobState=FAILED Reason=NonZeroExitCode"), "{text}");
}

#[test]
fn a_drained_node_says_why() {
    let mut queue = queue();
    queue.drain(at(0), 1, "disk is full").unwrap();
    assert_eq!(
        ask(&queue, "sinfo -h -o %t|%D|%N|%E"),
        "drain|1|worker-0-1|disk is full\nidle|2|worker-0-[0,2]|none\n"
    );
}
