//! scontrol: what it shows, and what it asks the queue to do.

mod show;

use crate::facts::{Answer, JobFacts, View};
use crate::flags::{self, Flag};
use crate::value::{self, JobRef, job_ref};
use quorate_hostlist::HostList;

const FLAGS: &[Flag] = &[
    Flag::plain("all", "a"),
    Flag::plain("details", "d"),
    Flag::plain("help", "h"),
    Flag::plain("hide", ""),
    Flag::plain("oneliner", "o"),
    Flag::plain("quiet", "Q"),
    Flag::plain("verbose", "v"),
    Flag::plain("version", "V"),
];

/// What scontrol wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Only an answer.
    Say(Answer),
    /// Jobs must not start until they are released.
    Hold(Vec<JobRef>),
    /// They may start.
    Release(Vec<JobRef>),
    /// They begin again; held then, on request.
    Requeue {
        /// Which.
        jobs: Vec<JobRef>,
        /// Whether they are held.
        hold: bool,
    },
    /// Something of jobs changes.
    Update {
        /// Which.
        jobs: Vec<JobRef>,
        /// What.
        changes: Vec<Change>,
    },
    /// A node takes no jobs any more, for a reason.
    Drain {
        /// Names.
        nodes: HostList,
        /// Why.
        reason: String,
    },
    /// A node takes jobs again.
    Resume {
        /// Names.
        nodes: HostList,
    },
    /// The script of a job, to a file or to standard output.
    WriteScript {
        /// Which.
        job: JobRef,
        /// The file; `-` is standard output.
        file: String,
    },
}

/// A change of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Seconds, or no limit.
    TimeLimit(Option<u64>),
    /// Slurm's niceness.
    Nice(i64),
    /// The most tasks of its array that run at once; `None` as many as fit.
    ArrayLimit(Option<u32>),
}

/// Reads a call of scontrol; what only shows is answered at once.
pub fn scontrol(words: &[String], view: &View<'_>) -> Order {
    let (given, words) = match flags::read(FLAGS, words, true) {
        Ok(read) => read,
        Err(error) => return Order::Say(Answer::failed(error.hint("scontrol").join("\n"))),
    };
    let has = |name: &str| given.iter().any(|(each, _)| *each == name);
    if has("version") {
        return Order::Say(Answer::said(format!("{}\n", crate::VERSION)));
    }
    order(&words, has("oneliner"), view).unwrap_or_else(|error| Order::Say(Answer::failed(error)))
}

fn order(words: &[String], one_line: bool, view: &View<'_>) -> Result<Order, String> {
    let (verb, rest) = words.split_first().ok_or(
        "scontrol: error: there is no interactive mode here; give a command such as `scontrol show job 17`",
    )?;
    match verb.to_ascii_lowercase().as_str() {
        "show" => show(rest, one_line, view).map(|text| Order::Say(Answer::said(text))),
        "ping" => {
            let host = &view.cluster.host;
            Ok(Order::Say(Answer::said(format!("Slurmctld(primary) at {host} is UP\n"))))
        }
        "hold" | "uhold" => Ok(Order::Hold(jobs(rest, view)?)),
        "release" => Ok(Order::Release(jobs(rest, view)?)),
        "requeue" => Ok(Order::Requeue { jobs: jobs(rest, view)?, hold: false }),
        "requeuehold" => Ok(Order::Requeue { jobs: jobs(rest, view)?, hold: true }),
        "update" => update(rest, view),
        "write" => match rest {
            [what, job] if what == "batch_script" => {
                let reference = jobs(std::slice::from_ref(job), view)?[0];
                Ok(Order::WriteScript { job: reference, file: format!("slurm-{job}.sh") })
            }
            [what, job, file] if what == "batch_script" => {
                let reference = jobs(std::slice::from_ref(job), view)?[0];
                Ok(Order::WriteScript { job: reference, file: file.clone() })
            }
            _ => Err("scontrol: error: write takes `batch_script JOB [FILE]`".to_owned()),
        },
        "suspend" | "resume" => Err(format!(
            "scontrol: error: {verb} is not supported here: jobs are not stopped on their nodes; use \
             `scontrol requeuehold` or scancel --signal=STOP"
        )),
        _ => Err(format!("invalid keyword: {verb}")),
    }
}

/// Jobs by number or by name (`jobname=relax`), several with commas.
fn jobs(words: &[String], view: &View<'_>) -> Result<Vec<JobRef>, String> {
    let mut found = Vec::new();
    for word in words.iter().flat_map(|word| word.split(',')).filter(|word| !word.is_empty()) {
        let (key, value) = word.split_once('=').unwrap_or(("", word));
        if key.eq_ignore_ascii_case("jobname") || key.eq_ignore_ascii_case("name") {
            let named = view.cluster.jobs.iter().filter(|job| job.name == value);
            found.extend(named.map(reference));
            continue;
        }
        let reference = job_ref(value).filter(|reference| known(*reference, view));
        found.push(reference.ok_or_else(|| {
            format!(
                "Invalid job id specified for job {value}\nslurm_suspend error: Invalid job id specified"
            )
        })?);
    }
    if found.is_empty() {
        return Err("scontrol: error: too few arguments: give the numbers of jobs".to_owned());
    }
    Ok(found)
}

fn reference(job: &JobFacts) -> JobRef {
    JobRef { job: quorate_queue::JobId(job.id), index: None }
}

fn known(reference: JobRef, view: &View<'_>) -> bool {
    view.cluster.jobs.iter().any(|job| {
        job.id == reference.job.0
            || job.array.as_ref().is_some_and(|array| array.job == reference.job.0)
    })
}

fn update(words: &[String], view: &View<'_>) -> Result<Order, String> {
    let (mut of, mut nodes, mut changes) = (Vec::new(), None, Vec::new());
    let (mut state, mut reason) = (String::new(), String::new());
    for word in words {
        let (key, text) = word
            .split_once('=')
            .ok_or_else(|| format!("scontrol: error: `{word}` is not KEY=VALUE"))?;
        let wrong = || format!("scontrol: error: Invalid {key} value: {text}");
        match key.to_ascii_lowercase().as_str() {
            "jobid" | "job" | "jobname" => of.extend(jobs(std::slice::from_ref(word), view)?),
            "nodename" | "node" => nodes = Some(text.parse().map_err(|_| wrong())?),
            "state" => state = text.to_ascii_lowercase(),
            "reason" => text.clone_into(&mut reason),
            "timelimit" => {
                let limit = value::time_limit(text).map_err(|_| wrong())?;
                changes.push(Change::TimeLimit(limit));
            }
            "nice" => changes.push(Change::Nice(text.parse().map_err(|_| wrong())?)),
            "arraytaskthrottle" => {
                let limit: u32 = text.parse().map_err(|_| wrong())?;
                changes.push(Change::ArrayLimit((limit > 0).then_some(limit)));
            }
            _ => {
                return Err(format!(
                    "scontrol: error: update of {key} is not supported here; of jobs TimeLimit, Nice and \
                     ArrayTaskThrottle can be changed, of nodes State (DRAIN with Reason, RESUME)"
                ));
            }
        }
    }
    match (nodes, state.as_str()) {
        (Some(_), "drain") if reason.is_empty() => {
            Err("You must specify a reason when DOWNING a node. Request denied"
                .replace("DOWNING a node", "draining a node, as reason=\"...\""))
        }
        (Some(nodes), "drain") => Ok(Order::Drain { nodes, reason }),
        (Some(nodes), "resume" | "undrain") => Ok(Order::Resume { nodes }),
        (Some(_), _) => {
            Err("scontrol: error: State of a node can be set to DRAIN or RESUME".to_owned())
        }
        (None, _) if of.is_empty() || changes.is_empty() => Err("No changes specified".to_owned()),
        (None, _) => Ok(Order::Update { jobs: of, changes }),
    }
}

fn show(words: &[String], one_line: bool, view: &View<'_>) -> Result<String, String> {
    let entity = words.first().map_or("", String::as_str).to_ascii_lowercase();
    // `job=17` is `job 17`.
    let (entity, joined) = match entity.split_once('=') {
        Some((entity, _)) => {
            (entity.to_owned(), words[0].split_once('=').map(|(_, id)| id.to_owned()))
        }
        None => (entity, None),
    };
    let id = joined.or_else(|| words.get(1).cloned());
    let is = |names: &[&str]| names.contains(&entity.as_str());
    if is(&["hostnames", "hostname"]) {
        let text = id.or_else(|| view.environment.get("SLURM_JOB_NODELIST").cloned());
        let text =
            text.ok_or("scontrol: error: SLURM_JOB_NODELIST is not set; give a list of hosts")?;
        let hosts: HostList = text
            .parse()
            .map_err(|error| format!("scontrol: error: Invalid hostlist: {text}: {error}"))?;
        let names: Vec<&str> = hosts.iter().chain([""]).collect();
        return Ok(names.join("\n"));
    }
    if is(&["hostlist", "hostlistsorted"]) {
        let text = id.ok_or("invalid option:(null) for keyword:hostlist ")?;
        let hosts: HostList = text
            .parse()
            .map_err(|error| format!("scontrol: error: Invalid hostlist: {text}: {error}"))?;
        let mut names: Vec<&str> = hosts.iter().collect();
        if entity == "hostlistsorted" {
            names.sort_by_key(|name| natural(name));
        }
        return Ok(format!("{}\n", names.into_iter().collect::<HostList>()));
    }
    let mut text = String::new();
    if is(&["job", "jobs"]) {
        let wanted = match &id {
            Some(id) => Some(job_ref(id).ok_or("slurm_load_jobs error: Invalid job id specified")?),
            None => None,
        };
        for job in &view.cluster.jobs {
            if wanted.is_none_or(|wanted| crate::squeue::is(job, wanted)) {
                text.push_str(&show::job(job, one_line, view));
            }
        }
        if text.is_empty() && wanted.is_some() {
            return Err("slurm_load_jobs error: Invalid job id specified".to_owned());
        }
        if text.is_empty() {
            text.push_str("No jobs in the system\n");
        }
    } else if is(&["node", "nodes"]) {
        let wanted: Option<HostList> = id.as_ref().and_then(|id| id.parse().ok());
        for node in &view.cluster.nodes {
            if wanted.as_ref().is_none_or(|wanted| wanted.find(&node.name).is_some()) {
                text.push_str(&show::node(node, one_line, view));
            }
        }
        if let (Some(id), true) = (id, text.is_empty()) {
            return Err(format!("Node {id} not found"));
        }
    } else if is(&["partition", "partitions"]) {
        for partition in &view.cluster.partitions {
            if id.as_ref().is_none_or(|id| *id == partition.name) {
                text.push_str(&show::partition(partition, one_line, view));
            }
        }
        if let (Some(id), true) = (id, text.is_empty()) {
            return Err(format!("Partition {id} not found"));
        }
    } else if is(&["config"]) {
        text = show::config(view);
    } else {
        return Err(format!("invalid entity:{entity} for keyword:show "));
    }
    Ok(text)
}

/// Names with numbers in them, in the order people expect.
fn natural(name: &str) -> (String, u64) {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (head, tail) = name.split_at(name.len() - digits);
    (head.to_owned(), tail.parse().unwrap_or(0))
}
