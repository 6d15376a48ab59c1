//! What our controller asks of the API: until its clusters stand, and while nothing happens.

use crate::audit::{self, Request};
use crate::bench::figure::{Figure, say};
use crate::bench::operator;
use crate::bench::process;
use crate::bench::watch::{Depth, Watch};
use anyhow::{Result, bail};
use k8s_openapi::jiff::Timestamp;
use quorate_testbed::api::Api;
use quorate_testbed::layout::Folder;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

/// Nothing new for so long is quiet.
const CALM: Duration = Duration::from_secs(5);
/// For the pods of all clusters to become ready.
const LIMIT: Duration = Duration::from_mins(5);

/// Waits until all clusters have all brokers' pods ready and nothing of them changes any more.
///
/// It is watched from now on: a watcher of whole objects would cost the API server something while it is
/// measured.
pub(super) fn settle(folder: &Folder, clusters: &str, count: usize) -> Result<()> {
    let changes = Watch::start(folder, clusters, Depth::Metadata)?;
    let deadline = Instant::now() + LIMIT;
    loop {
        let changed = changes.next((Instant::now() + CALM).min(deadline))?;
        let late = Instant::now() > deadline;
        if changed.is_some() && !late {
            continue;
        }
        let states = states(&Api::outside(folder)?.get(clusters)?);
        say(format!("states of the clusters: {states:?}"));
        let there: usize = states.values().sum();
        if there != count {
            bail!("{there} of {count} clusters are there");
        }
        if late {
            bail!("the clusters still change after {LIMIT:?}, in the states {states:?}");
        }
        if states.len() == 1 {
            return Ok(());
        }
    }
}

/// How many clusters of a list are in which state.
fn states(list: &Value) -> BTreeMap<String, usize> {
    let mut states = BTreeMap::new();
    for object in list["items"].as_array().into_iter().flatten() {
        let state = object["status"]["state"].as_str().unwrap_or("none");
        *states.entry(state.to_owned()).or_default() += 1;
    }
    states
}

/// Waits until nobody writes to the JobSets any more: their own controller counts pods for a while after
/// all clusters stand, and ours reads what it writes.
pub(super) fn rest(jobsets: &Watch) -> Result<()> {
    let deadline = Instant::now() + LIMIT;
    while jobsets.next(Instant::now() + CALM)?.is_some() {
        if Instant::now() > deadline {
            bail!("JobSet's controller still writes after {LIMIT:?}");
        }
    }
    Ok(())
}

/// Writes for each cluster, from its creation until it stands.
pub(super) fn tell_writes(requests: &[Request], count: usize) {
    let writes: Vec<&Request> =
        requests.iter().filter(|request| request.writes() && !request.leads()).collect();
    for (deed, times) in audit::count(writes.iter().copied()) {
        say(format!("  {:6.2} x {deed}", times as f64 / count as f64));
    }
    let each = writes.len() as f64 / count as f64;
    let what = format!("{count} MiniClusters: API writes of each");
    Figure::new(what, "", &[each]).target(8.0).tell();
    // A create that finds its object there, a patch upon an old version: work that was done twice.
    let refused = writes.iter().filter(|request| request.refused());
    for (deed, times) in audit::count(refused.copied()) {
        say(format!("  {times} refused: {deed}"));
    }
    let mut made = BTreeSet::new();
    let again = writes.iter().filter(|request| {
        request.refused()
            || request.deed().to_string().starts_with("create")
                && !request.name().is_empty()
                && !made.insert((request.deed(), request.name().to_owned()))
    });
    let what = format!("{count} MiniClusters: API writes refused or repeated");
    Figure::new(what, "", &[again.count() as f64]).target(0.0).tell();
}

/// What is done while nothing happens.
pub(super) fn measure(folder: &Folder, pid: u32, span: Duration) -> Result<()> {
    say(format!("looking at the quiet for {span:?}"));
    let (from, before, clock) = (Timestamp::now(), process::processor_time(pid)?, Instant::now());
    thread::sleep(span);
    let (until, after, took) = (Timestamp::now(), process::processor_time(pid)?, clock.elapsed());
    let account = operator::account();
    let requests = audit::requests(folder, &account, from, until)?;
    for (deed, times) in audit::count(&requests) {
        say(format!("  {times} x {deed}"));
    }
    let asked = |wanted: fn(&Request) -> bool| {
        requests.iter().filter(|request| !request.leads() && wanted(request)).count() as f64
    };
    let minutes = took.as_secs_f64() / 60.0;
    let writes = asked(Request::writes) / minutes;
    let reads = asked(|request| !request.writes() && request.verb != "watch") / minutes;
    let share = after.saturating_sub(before).as_secs_f64() / took.as_secs_f64() * 100.0;
    Figure::new("idle: API writes a minute, lease excluded", "", &[writes]).target(0.0).tell();
    Figure::new("idle: API reads a minute beyond watches", "", &[reads]).target(1.0).tell();
    Figure::new("idle: share of a processor", "%", &[share]).target(0.5).tell();
    Ok(())
}
