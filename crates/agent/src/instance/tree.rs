//! `quorate-agent tree`: the instances within a cluster, and those within them.

use super::known::{Instance, LIST};
use super::proxy::Way;
use crate::query::{Where, ask, block_on};
use crate::version::Output;
use anyhow::Context;
use quorate_contract::exit;
use serde::Serialize;
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Show the instances within this cluster, and those within them
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    place: Where,
    /// The instance to begin at, as for `proxy`
    #[arg(default_value = ".")]
    path: String,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// An instance with those within it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Branch {
    #[serde(flatten)]
    instance: Instance,
    instances: Vec<Branch>,
}

/// Runs the verb.
pub fn run(args: &Args) -> anyhow::Result<i32> {
    let branches = block_on(async {
        let way = Way::find(args.place.path(), &args.path).await?;
        branches(&way.socket).await
    })??;
    let Some(branches) = branches else { return Ok(exit::UNAVAILABLE) };
    let text = match args.output {
        Output::Json => {
            let all = serde_json::to_string(&branches).context("a tree is plain data")?;
            format!("{all}\n")
        }
        Output::Text => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let mut text = String::from(".\n");
            draw(&mut text, &branches, "", now);
            text
        }
    };
    std::io::stdout().write_all(text.as_bytes()).context("cannot write the answer")?;
    Ok(exit::OK)
}

/// The instances at a socket; `None` where nobody answers, which was said.
async fn branches(socket: &Path) -> anyhow::Result<Option<Vec<Branch>>> {
    let (values, code) = ask(socket, LIST, serde_json::Value::Null).await?;
    let Some(all) = values.first().filter(|_| code == exit::OK) else { return Ok(None) };
    let all: Vec<Instance> =
        serde_json::from_slice(all).context("the broker lists its instances in an unknown way")?;
    let mut found = Vec::new();
    for instance in all {
        let way = Way::find(socket.to_owned(), &instance.id).await?;
        // One that ends in this very moment has nothing within it any more.
        let within = Box::pin(branches(&way.socket)).await.unwrap_or_default();
        found.push(Branch { instance, instances: within.unwrap_or_default() });
    }
    Ok(Some(found))
}

fn draw(text: &mut String, branches: &[Branch], indent: &str, now: Duration) {
    for (at, branch) in branches.iter().enumerate() {
        let (fork, below) =
            if at + 1 < branches.len() { ("├──", "│   ") } else { ("└──", "    ") };
        let Instance { id, pod, size, since, .. } = &branch.instance;
        let nodes = if *size == 1 { "node" } else { "nodes" };
        let age = now.saturating_sub(Duration::from_millis(*since)).as_secs();
        let _ = writeln!(text, "{indent}{fork} {id}  {size} {nodes} from {pod} on, up {age} s");
        draw(text, &branch.instances, &format!("{indent}{below}"), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn branch(id: &str, size: u32, instances: Vec<Branch>) -> Branch {
        let pod = "worker-0-1".into();
        let instance = Instance {
            id: id.into(),
            rank: 2,
            pod,
            socket: "/quorate/run/i1/agent.sock".into(),
            size,
            since: 1000,
        };
        Branch { instance, instances }
    }

    #[test]
    fn a_tree_shows_what_is_within_what() {
        let all = [
            branch("3", 4, vec![branch("1", 2, vec![]), branch("2", 1, vec![])]),
            branch("5", 2, vec![]),
        ];
        let mut text = String::new();
        draw(&mut text, &all, "", Duration::from_secs(61));
        assert_eq!(
            text,
            "├── 3  4 nodes from worker-0-1 on, up 60 s\n\
             │   ├── 1  2 nodes from worker-0-1 on, up 60 s\n\
             │   └── 2  1 node from worker-0-1 on, up 60 s\n\
             └── 5  2 nodes from worker-0-1 on, up 60 s\n"
        );
    }
}
