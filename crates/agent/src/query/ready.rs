//! `quorate-agent ready`: the pod's readiness probe.

use super::{Where, ask, block_on};
use crate::broker::verbs;

/// Tell whether this pod's broker is connected (launcher: the cluster is quorate)
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    place: Where,
}

/// Runs the verb.
pub fn run(args: &Args) -> anyhow::Result<i32> {
    let path = args.place.path();
    let (_, code) = block_on(ask(&path, verbs::READY, serde_json::Value::Null))??;
    Ok(code)
}
