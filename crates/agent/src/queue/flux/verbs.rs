//! The verbs of `flux` that are no submission.

use super::format::{Format, JOBS, Row, f58, job_id};
use crate::job::client::{self as streams, Labels};
use crate::queue::arguments::{now, print};
use crate::queue::client::{self, Own};
use crate::queue::protocol::{
    Done, JobFacts, LaneChange, LaneFacts, NodeFacts, Question, Selection, Shown,
};
use clap::{Args, Subcommand};
use quorate_contract::exit;
use quorate_hostlist::HostList;
use quorate_queue::{JobId, Standing, State};
use std::fmt::Write as _;
use std::path::PathBuf;

fn socket() -> PathBuf {
    streams::socket(None)
}

fn facts(selection: Selection) -> anyhow::Result<(Vec<JobFacts>, i32)> {
    client::list(&socket(), &Question::Jobs(selection))
}

fn some(ids: Vec<JobId>) -> Selection {
    Selection { ids, ..Selection::default() }
}

/// `flux jobs`
#[derive(Debug, Args)]
pub(super) struct Jobs {
    /// Ids of jobs
    #[arg(value_name = "JOBID", value_parser = job_id)]
    ids: Vec<JobId>,
    /// Those that are over, too
    #[arg(short)]
    all: bool,
    /// Those of all users
    #[arg(short = 'A')]
    everybody: bool,
    /// The most jobs to list
    #[arg(short, long, value_name = "N", default_value_t = 1000)]
    count: usize,
    /// Only in these states or with these results
    #[arg(short, long, value_name = "STATE", value_delimiter = ',')]
    filter: Vec<String>,
    /// No headings
    #[arg(short = 'n', long, visible_alias = "suppress-header")]
    no_header: bool,
    /// Only of this user, by name or number, or all
    #[arg(short, long, value_name = "USER")]
    user: Option<String>,
    /// Only of this name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Only of this queue
    #[arg(short, long, value_name = "QUEUE")]
    queue: Option<String>,
    /// Those that ended since: a number of seconds since 1970, or -15m
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    since: Option<String>,
    /// What is printed of each
    #[arg(short = 'o', long, value_name = "FORMAT")]
    format: Option<String>,
}

impl Jobs {
    pub(super) fn run(&self) -> anyhow::Result<i32> {
        let text = match self.format.as_deref() {
            None | Some("default") => JOBS,
            Some(text) => text,
        };
        let format = Format::read(text).map_err(anyhow::Error::msg)?;
        let mut states = Vec::new();
        for word in &self.filter {
            states.extend(
                shown(word).ok_or_else(|| anyhow::anyhow!("Invalid filter specified: {word}"))?,
            );
        }
        if states.is_empty() && self.ids.is_empty() && !self.all && self.since.is_none() {
            states.push(Shown::Active);
        }
        let me = std::env::var("USER").ok();
        let own = nix::unistd::geteuid();
        let user = match self.user.as_deref().filter(|user| !user.is_empty()) {
            None if self.everybody || !self.ids.is_empty() => None,
            Some("all") => None,
            None => Some(own.as_raw()),
            Some(name) if Some(name) == me.as_deref() => Some(own.as_raw()),
            Some("root") => Some(0),
            Some(text) => Some(text.parse().map_err(|_| anyhow::anyhow!("Unknown user {text}"))?),
        };
        let (name, queue) = (self.name.clone(), self.queue.clone());
        let selection = Selection { ids: self.ids.clone(), states, name, user, queue, last: None };
        let (mut jobs, code) = facts(selection)?;
        if code != exit::OK {
            return Ok(code);
        }
        if let Some(since) = &self.since {
            let since = moment(since)?;
            jobs.retain(|job| job.ended.is_none_or(|ended| ended.0 >= since));
        }
        // The youngest first.
        jobs.reverse();
        jobs.truncate(self.count);
        let (lanes, _): (Vec<LaneFacts>, i32) = client::list(&socket(), &Question::Lanes)?;
        let first = lanes.iter().find(|lane| lane.default).map_or("", |lane| &lane.lane.name);
        let users: Vec<String> =
            jobs.iter().map(|job| user_name(job.user, me.as_deref())).collect();
        let now = now();
        let mut rows = Vec::with_capacity(jobs.len());
        for (job, user) in jobs.iter().zip(&users) {
            rows.push(Row { job, user, first_queue: first, now });
        }
        print(&format.print(&rows, !self.no_header))?;
        Ok(exit::OK)
    }
}

fn user_name(user: u32, me: Option<&str>) -> String {
    match me {
        Some(name) if user == nix::unistd::geteuid().as_raw() => name.to_owned(),
        _ if user == 0 => "root".to_owned(),
        _ => user.to_string(),
    }
}

/// Milliseconds since 1970: `-15m` is so long ago.
fn moment(text: &str) -> anyhow::Result<u64> {
    let wrong = || anyhow::anyhow!("`{text}` is no time: -15m or seconds since 1970 are");
    match text.strip_prefix('-') {
        Some(ago) => {
            let unit = ago.chars().last().filter(|c| !c.is_ascii_digit());
            let number: f64 =
                ago.trim_end_matches(|c: char| c.is_alphabetic()).parse().map_err(|_| wrong())?;
            let each = match unit {
                None | Some('s') => 1.0,
                Some('m') => 60.0,
                Some('h') => 3600.0,
                Some('d') => 86400.0,
                Some(_) => return Err(wrong()),
            };
            Ok(now().0.saturating_sub((number * each * 1000.0) as u64))
        }
        None => Ok((text.parse::<f64>().map_err(|_| wrong())? * 1000.0) as u64),
    }
}

fn shown(word: &str) -> Option<Vec<Shown>> {
    Some(vec![match word.to_ascii_lowercase().as_str() {
        "depend" => Shown::In(State::Depend),
        "priority" => Shown::In(State::Priority),
        "sched" => Shown::In(State::Sched),
        "run" => Shown::In(State::Run),
        "cleanup" => Shown::In(State::Cleanup),
        "inactive" => Shown::In(State::Inactive),
        "pending" => Shown::Pending,
        "running" => Shown::Running,
        "active" => Shown::Active,
        "completed" => Shown::As(Standing::Completed),
        "failed" => Shown::As(Standing::Failed),
        "canceled" | "cancelled" => Shown::As(Standing::Cancelled),
        "timeout" => Shown::As(Standing::TimedOut),
        _ => return None,
    }])
}

/// `flux job`
#[derive(Debug, Subcommand)]
pub(super) enum Job {
    /// Show a job's output to its end
    Attach {
        /// The job
        #[arg(value_parser = job_id)]
        job: JobId,
        /// Begin lines with ranks
        #[arg(short, long)]
        label_io: bool,
        /// Give it no input
        #[arg(short, long)]
        read_only: bool,
    },
    /// Wait for jobs; exits with their highest code
    Status {
        /// The jobs
        #[arg(required = true, value_parser = job_id)]
        jobs: Vec<JobId>,
    },
    /// Wait for a job: 0 if it succeeded, 1 if it failed, 2 if there is none
    Wait {
        /// The job
        #[arg(value_parser = job_id)]
        job: Option<JobId>,
        /// All that are not over
        #[arg(short, long)]
        all: bool,
    },
    /// End jobs
    Cancel {
        /// The jobs
        #[arg(required = true, value_parser = job_id)]
        jobs: Vec<JobId>,
    },
    /// Send a signal
    Kill {
        /// The signal, by name or number
        #[arg(short, long, default_value = "SIGTERM")]
        signal: String,
        /// The jobs
        #[arg(required = true, value_parser = job_id)]
        jobs: Vec<JobId>,
    },
    /// Change the urgency
    Urgency {
        /// The job
        #[arg(value_parser = job_id)]
        job: JobId,
        /// 0 to 31, hold, or default
        urgency: String,
    },
    /// Print ids in another form
    Id {
        /// dec, hex or f58
        #[arg(short, long, default_value = "dec")]
        to: String,
        /// The ids
        #[arg(required = true, value_parser = job_id)]
        jobs: Vec<JobId>,
    },
    /// Print the id of the youngest job
    Last,
    /// Print what is kept of a job: jobspec
    Info {
        /// The job
        #[arg(value_parser = job_id)]
        job: JobId,
        /// What
        key: String,
    },
}

impl Job {
    pub(super) fn run(&self) -> anyhow::Result<i32> {
        match self {
            Self::Attach { job, label_io, read_only } => {
                let labels = if *label_io { Labels::Task } else { Labels::None };
                let stdin = !read_only;
                let question = Question::Attach { job: *job, stdin, terminal: false };
                let hello = client::hello(&question, Own::default());
                let terminal = stdin;
                let options = streams::Options { labels, stdin, terminal, ..Default::default() };
                let end = streams::call(&socket(), &hello, &options);
                Ok(streams::conclude(end, exit::UNAVAILABLE))
            }
            Self::Status { jobs } => wait(some(jobs.clone())),
            Self::Wait { job: Some(job), .. } => match facts(some(vec![*job]))? {
                (jobs, _) if jobs.is_empty() => Ok(2),
                _ => Ok(i32::from(wait(some(vec![*job]))? != exit::OK)),
            },
            Self::Wait { job: None, all: true } => {
                let states = vec![Shown::Active];
                let active = Selection { states, ..Selection::default() };
                Ok(i32::from(wait(active)? != exit::OK))
            }
            Self::Wait { job: None, all: false } => {
                anyhow::bail!("name the job to wait for, or say --all")
            }
            Self::Cancel { jobs } => {
                change(&Question::Cancel { jobs: some(jobs.clone()), note: String::new() })
            }
            Self::Kill { signal, jobs } => {
                let name = signal.strip_prefix("SIG").unwrap_or(signal);
                let number = quorate_slurm::value::signal_number(name)
                    .ok_or_else(|| anyhow::anyhow!("kill: Invalid signal {signal}"))?;
                change(&Question::Signal { jobs: some(jobs.clone()), signal: number })
            }
            Self::Urgency { job, urgency } => {
                let urgency = match urgency.as_str() {
                    "hold" => 0,
                    "default" => quorate_queue::URGENCY,
                    "expedite" => 31,
                    text => text.parse().map_err(|_| anyhow::anyhow!("invalid urgency {text}"))?,
                };
                let (jobs, urgency) = (some(vec![*job]), Some(urgency));
                change(&Question::Update { jobs, urgency, time_limit: None })
            }
            Self::Id { to, jobs } => {
                for id in jobs {
                    let text = match to.as_str() {
                        "dec" => id.to_string(),
                        "hex" => format!("{:#x}", id.0),
                        "f58" => f58(*id),
                        "f58plain" => f58(*id).replacen('ƒ', "f", 1),
                        other => anyhow::bail!("Unknown id form {other}: dec, hex, f58, f58plain"),
                    };
                    print(&format!("{text}\n"))?;
                }
                Ok(exit::OK)
            }
            Self::Last => {
                let (jobs, code) = facts(Selection { last: Some(1), ..Selection::default() })?;
                match jobs.last() {
                    Some(job) => print(&format!("{}\n", f58(job.id))).map(|()| code),
                    None => anyhow::bail!("job history is empty"),
                }
            }
            Self::Info { job, key } => {
                anyhow::ensure!(key == "jobspec", "{key} is not kept here; jobspec is");
                let hello = client::hello(&Question::Events(*job), Own::default());
                let mut first = true;
                client::ask(&socket(), &hello, |answer| {
                    if !std::mem::take(&mut first) {
                        return Ok(());
                    }
                    print(&format!("{}\n", String::from_utf8_lossy(&answer)))
                })
            }
        }
    }
}

/// Waits for jobs; gives their highest code.
fn wait(jobs: Selection) -> anyhow::Result<i32> {
    let hello = client::hello(&Question::Wait { jobs, tell: false }, Own::default());
    client::ask(&socket(), &hello, |_| Ok(()))
}

/// Changes jobs, and says of which that was refused.
fn change(question: &Question) -> anyhow::Result<i32> {
    let (done, code): (Vec<Done>, i32) = client::list(&socket(), question)?;
    for Done { job, refused } in done {
        if let Some(why) = refused {
            crate::sys::complain(&format!("{}: {why}", f58(job)));
        }
    }
    Ok(code)
}

/// `flux cancel`
#[derive(Debug, Args)]
pub(super) struct Cancel {
    /// The jobs
    #[arg(value_parser = job_id, required_unless_present = "all")]
    jobs: Vec<JobId>,
    /// All that are not over
    #[arg(long, conflicts_with = "jobs")]
    all: bool,
    /// Why
    #[arg(short, long, default_value = "")]
    message: String,
    /// With --all, only in these states
    #[arg(short = 'S', long, value_delimiter = ',', requires = "all")]
    states: Vec<String>,
}

impl Cancel {
    pub(super) fn run(&self) -> anyhow::Result<i32> {
        let mut states = Vec::new();
        for word in &self.states {
            states.extend(
                shown(word).ok_or_else(|| anyhow::anyhow!("Invalid state specified: {word}"))?,
            );
        }
        if self.all && states.is_empty() {
            states.push(Shown::Active);
        }
        let jobs = Selection { ids: self.jobs.clone(), states, ..Selection::default() };
        change(&Question::Cancel { jobs, note: self.message.clone() })
    }
}

/// Which queue.
#[derive(Debug, Args)]
pub(super) struct Lane {
    /// The queue
    #[arg(short, long, value_name = "NAME")]
    queue: Option<String>,
    /// All queues
    #[arg(short, long)]
    all: bool,
    /// Why
    #[arg(short, long, default_value = "")]
    message: String,
}

/// `flux queue`
#[derive(Debug, Subcommand)]
pub(super) enum Queue {
    /// Tell whether queues take and start jobs
    Status(Lane),
    /// List queues
    List,
    /// Take jobs
    Enable(Lane),
    /// Take no jobs
    Disable(Lane),
    /// Start jobs
    Start(Lane),
    /// Start no jobs
    Stop(Lane),
}

impl Queue {
    pub(super) fn run(&self) -> anyhow::Result<i32> {
        let (mut lanes, code): (Vec<LaneFacts>, i32) = client::list(&socket(), &Question::Lanes)?;
        let (args, enabled, started) = match self {
            Self::List => {
                print(&crate::queue::table::lanes(&lanes))?;
                return Ok(code);
            }
            Self::Status(args) => {
                lanes.retain(|lane| args.queue.as_ref().is_none_or(|name| *name == lane.lane.name));
                anyhow::ensure!(!lanes.is_empty(), "there is no such queue");
                let several = lanes.len() > 1 || args.queue.is_some();
                for LaneFacts { lane, .. } in &lanes {
                    let name = if several { format!("{}: ", lane.name) } else { String::new() };
                    let why = if lane.reason.is_empty() {
                        String::new()
                    } else {
                        format!(": {}", lane.reason)
                    };
                    let (taken, begun) = (lane.enabled, lane.started);
                    let take = if taken { "enabled".to_owned() } else { format!("disabled{why}") };
                    let start = if begun { "started".to_owned() } else { format!("stopped{why}") };
                    print(&format!(
                        "{name}Job submission is {take}\n{name}Scheduling is {start}\n"
                    ))?;
                }
                return Ok(code);
            }
            Self::Enable(args) => (args, Some(true), None),
            Self::Disable(args) => (args, Some(false), None),
            Self::Start(args) => (args, None, Some(true)),
            Self::Stop(args) => (args, None, Some(false)),
        };
        let names: Vec<Option<String>> = match (&args.queue, args.all) {
            (_, true) => lanes.into_iter().map(|lane| Some(lane.lane.name)).collect(),
            (name, false) => vec![name.clone()],
        };
        let mut code = code;
        for name in names {
            let change = LaneChange { name, enabled, started, reason: args.message.clone() };
            let answer: (Vec<LaneFacts>, i32) =
                client::list(&socket(), &Question::SetLane(change))?;
            code = code.max(answer.1);
        }
        Ok(code)
    }
}

/// `flux resource`
#[derive(Debug, Subcommand)]
pub(super) enum Resource {
    /// List resources by their state for the scheduler
    List,
    /// List nodes by their state
    Status,
    /// Start nothing more on nodes
    Drain {
        /// Ranks
        ranks: String,
        /// Why
        #[arg(trailing_var_arg = true)]
        reason: Vec<String>,
    },
    /// Start jobs there again
    Undrain {
        /// Ranks
        ranks: String,
    },
}

impl Resource {
    pub(super) fn run(&self) -> anyhow::Result<i32> {
        let question = match self {
            Self::List | Self::Status => Question::Nodes,
            Self::Drain { ranks, reason } => {
                Question::Drain { ranks: ranks.clone(), reason: reason.join(" ") }
            }
            Self::Undrain { ranks } => Question::Undrain { ranks: ranks.clone() },
        };
        let (nodes, code): (Vec<NodeFacts>, i32) = client::list(&socket(), &question)?;
        match self {
            _ if code != exit::OK => {}
            Self::List => print(&list(&nodes))?,
            Self::Status => print(&status(&nodes))?,
            Self::Drain { .. } | Self::Undrain { .. } => {}
        }
        Ok(code)
    }
}

fn names<'a>(nodes: impl Iterator<Item = &'a NodeFacts>) -> (usize, String) {
    let names: Vec<&str> = nodes.map(|node| node.pod.as_str()).collect();
    (names.len(), names.iter().copied().collect::<HostList>().to_string())
}

/// Cores and accelerators of a node in a state; none if it is not in it.
type Counted<'a> = dyn Fn(&NodeFacts) -> Option<(u32, u32)> + 'a;

/// What is free, what jobs have, and what is down or drained.
fn list(nodes: &[NodeFacts]) -> String {
    let mut text = String::new();
    let _ =
        writeln!(text, "{:>10} {:>6} {:>8} {:>8} NODELIST", "STATE", "NNODES", "NCORES", "NGPUS");
    let usable = |node: &NodeFacts| node.up && node.drained.is_none();
    let free = |node: &NodeFacts| {
        (usable(node) && node.free_cores > 0).then_some((node.free_cores, node.free_gpus))
    };
    let taken = |node: &NodeFacts| {
        (node.cores.saturating_sub(node.free_cores), node.gpus.saturating_sub(node.free_gpus))
    };
    let allocated = |node: &NodeFacts| Some(taken(node)).filter(|(cores, _)| *cores > 0);
    let down = |node: &NodeFacts| (!usable(node)).then_some((node.cores, node.gpus));
    let states: [(&str, &Counted<'_>); 3] =
        [("free", &free), ("allocated", &allocated), ("down", &down)];
    for (state, counted) in states {
        let (count, list) = names(nodes.iter().filter(|node| counted(node).is_some()));
        let sum = |all: (u32, u32), one: (u32, u32)| (all.0 + one.0, all.1 + one.1);
        let (cores, gpus) = nodes.iter().filter_map(counted).fold((0, 0), sum);
        let _ = writeln!(text, "{state:>10} {count:>6} {cores:>8} {gpus:>8} {list}");
    }
    text
}

fn status(nodes: &[NodeFacts]) -> String {
    let mut text = format!("{:>10} {:>6} NODELIST\n", "STATE", "NNODES");
    let state = |node: &NodeFacts| match (node.up, &node.drained, node.jobs.is_empty()) {
        (_, Some(_), true) => "drained",
        (_, Some(_), false) => "draining",
        (true, None, _) => "avail",
        (false, None, _) => "offline",
    };
    for wanted in ["avail", "offline", "draining", "drained"] {
        let (count, list) = names(nodes.iter().filter(|node| state(node) == wanted));
        if count > 0 || wanted == "avail" {
            let _ = writeln!(text, "{wanted:>10} {count:>6} {list}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(pod: &str, free: u32, drained: bool) -> NodeFacts {
        serde_json::from_value(serde_json::json!({
            "rank": 0, "pod": pod, "host": pod, "up": true, "drained": drained.then_some("why"),
            "cores": 2, "freeCores": free, "gpus": 1, "freeGpus": 1, "memory": 0, "freeMemory": 0,
        }))
        .unwrap()
    }

    #[test]
    fn resources_stand_under_the_default_headings() {
        let nodes = [node("a0", 2, false), node("a1", 1, false), node("a2", 2, true)];
        let expected = "     STATE NNODES   NCORES    NGPUS NODELIST\n\
                        \u{20}     free      2        3        2 a[0-1]\n\
                        \u{20}allocated      1        1        0 a1\n\
                        \u{20}     down      1        2        1 a2\n";
        assert_eq!(list(&nodes), expected);
        let expected =
            "     STATE NNODES NODELIST\n     avail      2 a[0-1]\n   drained      1 a2\n";
        assert_eq!(status(&nodes), expected);
    }
}
