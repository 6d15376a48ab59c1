//! How long the plan of the largest cluster takes, and how large its objects are.

use crate::bench::figure::Figure;
use anyhow::{Context as _, Result, anyhow, ensure};
use quorate_api::{Target, load};
use quorate_plan::{Context, Delivery, Plan, Seed, plan};
use serde_json::{Value, json};
use std::hint::black_box;
use std::time::Instant;

/// 199 groups of 64, the largest cluster that is promised.
const PODS: u32 = 12_736;
const ROUNDS: usize = 15;
/// etcd takes 1.5 MiB a request, and so does the API server (etcd 3.6, `--max-request-bytes`).
const REQUEST_LIMIT: usize = 1_572_864;
/// What a Secret may hold (Kubernetes, `MaxSecretSize`).
const DATA_LIMIT: usize = 1_048_576;

/// Measures it.
pub fn run() -> Result<()> {
    let object = json!({
        "apiVersion": "quorate.dev/v1alpha1",
        "kind": "MiniCluster",
        "metadata": { "name": "large", "namespace": "default" },
        "spec": { "size": PODS, "image": "example/app", "command": ["./hello"] },
    });
    let document = load(&object.to_string(), Target::Kubernetes)
        .map_err(|findings| anyhow!("the MiniCluster is not valid: {findings:?}"))?;
    let context = Context {
        agent_image: "example/agent".to_owned(),
        agent_delivery: Delivery::Copy,
        port_forward: true,
        cluster_domain: None,
    };
    let seed = Seed::new([7; 32]);
    let mut samples = Vec::new();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        black_box(plan(black_box(&document.validated), &context, &seed));
        samples.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    Figure::new(format!("plan of {PODS} pods"), "ms", &samples).target(50.0).tell();
    let largest = largest(&plan(&document.validated, &context, &seed))?;
    Figure::new("the largest object of that plan", "KiB", &[largest as f64 / 1024.0])
        .target(REQUEST_LIMIT as f64 / 1024.0)
        .tell();
    Ok(())
}

/// Bytes of the largest object. Fails for data that no Secret takes.
fn largest(plan: &Plan) -> Result<usize> {
    let Plan { jobset, secret, network_policy, config: _ } = plan;
    let objects = [
        serde_json::to_value(jobset),
        serde_json::to_value(secret),
        serde_json::to_value(network_policy),
    ];
    let mut largest = 0;
    for object in objects {
        let object: Value = object.context("render an object")?;
        for values in [&object["data"], &object["stringData"]] {
            let size: usize = values.as_object().map_or(0, |data| {
                data.iter().map(|(key, value)| key.len() + value.to_string().len()).sum()
            });
            ensure!(size <= DATA_LIMIT, "{} holds {size} bytes of data", object["kind"]);
        }
        largest = largest.max(object.to_string().len());
    }
    Ok(largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_plan_is_measured() {
        run().unwrap();
    }
}
