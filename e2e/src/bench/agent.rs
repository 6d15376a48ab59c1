//! What it costs a pod to get its agent: the size of the binary, and the run time of the container that
//! copies it, as containerd tells it (a pod's status has whole seconds only).

use crate::bench::figure::Figure;
use anyhow::{Context as _, Result, ensure};
use k8s_openapi::jiff::Timestamp;
use quorate_testbed::{Cluster, Node, build};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Tells the size of the shipped agent.
pub fn size() -> Result<()> {
    let path = build::workspace_root().join("target/dist/quorate-agent");
    let bytes = fs::metadata(&path).with_context(|| format!("look at {}", path.display()))?.len();
    Figure::new("agent's binary", "MB", &[bytes as f64 / 1e6]).target(10.0).tell();
    Ok(())
}

/// The events of all nodes' containerd, from now on.
pub struct Containers {
    listeners: Vec<Child>,
    events: Arc<Mutex<Vec<Event>>>,
}

/// A container's first process started or ended.
#[derive(Clone, Debug, PartialEq)]
struct Event {
    at: Timestamp,
    container: String,
    started: bool,
}

impl Containers {
    /// Listens on these nodes.
    pub fn listen(cluster: &Cluster, nodes: impl IntoIterator<Item = Node>) -> Result<Self> {
        let mut all = Self { listeners: Vec::new(), events: Arc::default() };
        for node in nodes {
            let mut command = cluster.exec(Some(node))?;
            command.args(["ctr", "--namespace", "k8s.io", "events"]);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut child = command.spawn().context("start ctr")?;
            let lines = BufReader::new(child.stdout.take().context("its output is a pipe")?);
            all.listeners.push(child);
            let events = Arc::clone(&all.events);
            thread::spawn(move || {
                for line in lines.lines().map_while(Result::ok) {
                    let mut events = events.lock().unwrap_or_else(PoisonError::into_inner);
                    events.extend(parse(&line));
                }
            });
        }
        Ok(all)
    }

    /// When a container started, or ended, if that was told.
    pub fn moment(&self, container: &str, started: bool) -> Option<Timestamp> {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let mut of = events.iter().filter(|event| event.container == container);
        of.find(|event| event.started == started).map(|event| event.at)
    }

    /// Milliseconds that each of these containers ran.
    fn run_times(&self, containers: &BTreeSet<String>) -> Vec<f64> {
        let spans = containers.iter().filter_map(|id| {
            let span = self.moment(id, false)?.duration_since(self.moment(id, true)?);
            Some(span.as_secs_f64() * 1e3)
        });
        spans.collect()
    }

    /// Tells the run time of the containers that brought the agent, by their IDs.
    pub fn tell(&self, containers: &BTreeSet<String>) -> Result<()> {
        let times = self.run_times(containers);
        ensure!(
            times.len() * 2 > containers.len(),
            "containerd told of {} of {} containers",
            times.len(),
            containers.len()
        );
        Figure::new("init container: run time", "ms", &times).target(300.0).tell();
        Ok(())
    }
}

impl Drop for Containers {
    fn drop(&mut self) {
        for child in &mut self.listeners {
            // It may have ended with its node.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A line of `ctr events`: `2026-11-28 13:40:36.123456789 +0000 UTC k8s.io /tasks/start {...}`.
fn parse(line: &str) -> Option<Event> {
    let (head, body) = line.split_once('{')?;
    let words: Vec<&str> = head.split_whitespace().collect();
    let [date, time, _, _, _, topic] = words.as_slice() else { return None };
    let body: serde_json::Value = serde_json::from_str(&format!("{{{body}")).ok()?;
    let word = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    let started = match *topic {
        "/tasks/start" => true,
        // Programs that were started in it by exec end, too.
        "/tasks/exit" if word("id").is_empty() || word("id") == word("container_id") => false,
        _ => return None,
    };
    let at = format!("{date}T{time}Z").parse().ok()?;
    Some(Event { at, container: word("container_id"), started })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_and_ends_of_containers_are_read() {
        let start =
            r#"2026-11-28 13:40:36.25 +0000 UTC k8s.io /tasks/start {"container_id":"a","pid":7}"#;
        let exit = r#"2026-11-28 13:40:36.5 +0000 UTC k8s.io /tasks/exit {"container_id":"a","id":"a","pid":7}"#;
        let exec = r#"2026-11-28 13:40:36.5 +0000 UTC k8s.io /tasks/exit {"container_id":"a","id":"x","pid":7}"#;
        let events: Vec<Event> = [start, exit, exec].into_iter().filter_map(parse).collect();
        assert_eq!(events.len(), 2);
        let all = Containers { listeners: Vec::new(), events: Arc::new(Mutex::new(events)) };
        let times = all.run_times(&BTreeSet::from(["a".to_owned(), "b".to_owned()]));
        assert_eq!(times.len(), 1);
        assert!((times[0] - 250.0).abs() < 1e-6);
    }
}
