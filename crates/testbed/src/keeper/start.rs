//! The order in which a cluster comes up. What does not depend on each other starts at once; the
//! slowest chain is etcd, API server, JobSet's CRD, JobSet.

use super::{Event, Keeper, KeeperError, file, report, report_failure};
use crate::addons::Addon;
use crate::{configuration as text, kwok};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// How long nodes and API groups may take to appear, and how long a server that has too much to do is
/// asked again.
const LIMIT: Duration = Duration::from_mins(2);

/// Starts everything and returns when the cluster can be used. `authority` is the certificate that
/// signs all others (PEM).
pub(super) fn run(keeper: &'static Keeper, authority: &str) -> Result<(), KeeperError> {
    let started = Instant::now();
    let step = |name: &str| {
        report(&Event::Step { name: name.into(), seconds: started.elapsed().as_secs_f64() });
    };
    // In a thread of its own, a failure cannot wait for the others: it ends them.
    let must =
        |outcome: Result<(), KeeperError>| outcome.unwrap_or_else(|error| report_failure(&error));
    thread::scope(|scope| {
        let boots: Vec<_> = keeper
            .nodes
            .iter()
            .map(|node| scope.spawn(move || must(node.boot(&keeper.folder))))
            .collect();
        let start = |name: &str| {
            must(keeper.component(name).and_then(|part| Ok(part.start(&keeper.prober)?)));
            step(name);
        };
        start("etcd");
        start("apiserver");
        scope.spawn(move || {
            must(jobset_crd(keeper));
            start("jobset");
            must(jobset_webhooks(keeper, authority));
        });
        for (addon, output) in &keeper.plan.addons {
            scope.spawn(move || {
                // What it has made already is left as it is, so that it can be done again.
                must(persistently(|| Ok(addon.install(&keeper.api, output)?)));
                must(addon_served(keeper, *addon));
                if let Some(recipe) = addon.recipe(&keeper.folder, output) {
                    start(recipe.name);
                }
                must(create_webhooks(keeper, addon.webhooks(&STANDARD.encode(authority))));
            });
        }
        scope.spawn(move || start("kcm"));
        scope.spawn(move || start("scheduler"));
        scope.spawn(move || start("coredns"));
        must(proxy_role(keeper));
        for (boot, node) in boots.into_iter().zip(&keeper.nodes) {
            // A boot that failed has ended this process.
            let _ = boot.join();
            scope.spawn(move || must(node.join()));
        }
        if keeper.plan.shape.fake_nodes > 0 {
            scope.spawn(move || {
                let count = keeper.plan.shape.fake_nodes;
                must(persistently(|| Ok(kwok::create_nodes(&keeper.api, count)?)));
                start("kwok");
            });
        }
    });
    await_nodes(keeper)?;
    step("nodes");
    until("the default service account is missing", || {
        Ok(keeper.api.get("/api/v1/namespaces/default/serviceaccounts/default").is_ok())
    })
}

/// The proxies' user; the role is one of those that come with the API server.
fn proxy_role(keeper: &Keeper) -> Result<(), KeeperError> {
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": { "name": "testbed:node-proxier" },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "system:node-proxier",
        },
        "subjects": [{
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "User",
            "name": "system:kube-proxy",
        }],
    });
    persistently(|| Ok(keeper.api.create(path, &binding)?))
}

/// Installs the CRD and waits until its objects can be used.
fn jobset_crd(keeper: &Keeper) -> Result<(), KeeperError> {
    let path = keeper.plan.core.join("share/jobset-crd.yaml");
    let yaml = fs::read(&path).map_err(file("read", &path))?;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    persistently(|| Ok(keeper.api.create_yaml(definitions, &yaml)?))?;
    until("JobSets are not served", || {
        Ok(keeper.api.get("/apis/jobset.x-k8s.io/v1alpha2/jobsets?limit=1").is_ok())
    })
}

fn jobset_webhooks(keeper: &Keeper, authority: &str) -> Result<(), KeeperError> {
    create_webhooks(keeper, text::jobset_webhooks(&STANDARD.encode(authority)))
}

/// Waits for what an addon must find when it starts.
fn addon_served(keeper: &Keeper, addon: Addon) -> Result<(), KeeperError> {
    addon.needs().iter().try_for_each(|path| {
        until(&format!("{addon} cannot start: {path} is not served"), || {
            Ok(keeper.api.get(path).is_ok() && discovered(keeper, path))
        })
    })
}

/// Whether the list of what is served, which lags behind, has the resource of a path
/// `/apis/GROUP/VERSION/RESOURCE?...`: clients look there first.
fn discovered(keeper: &Keeper, path: &str) -> bool {
    let Some((group, resource)) = path.split('?').next().and_then(|path| path.rsplit_once('/'))
    else {
        return false;
    };
    let served = keeper.api.get(group).unwrap_or_default();
    let mut resources = served["resources"].as_array().into_iter().flatten();
    resources.any(|one| one["name"] == resource)
}

fn create_webhooks(
    keeper: &Keeper,
    objects: impl IntoIterator<Item = (&'static str, Value)>,
) -> Result<(), KeeperError> {
    for (plural, object) in objects {
        let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}");
        persistently(|| Ok(keeper.api.create(&path, &object)?))?;
    }
    Ok(())
}

/// Waits until all nodes are ready.
fn await_nodes(keeper: &Keeper) -> Result<(), KeeperError> {
    let wanted = keeper.nodes.len() + keeper.plan.shape.fake_nodes as usize;
    until("not all nodes are ready", || {
        let list = keeper.api.get("/api/v1/nodes?resourceVersion=0")?;
        let nodes = list["items"].as_array().map_or(&[][..], Vec::as_slice);
        let ready = nodes.iter().filter(|node| readiness(node) == Some("True"));
        Ok(ready.count() >= wanted)
    })
}

/// A node's condition `Ready`.
pub(super) fn readiness(node: &Value) -> Option<&str> {
    let conditions = node["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == "Ready")?["status"].as_str()
}

/// Waits; an API that is too busy to say is asked again.
fn until(
    what: &str,
    mut reached: impl FnMut() -> Result<bool, KeeperError>,
) -> Result<(), KeeperError> {
    let deadline = Instant::now() + LIMIT;
    loop {
        match reached() {
            Ok(true) => return Ok(()),
            Err(error) if !error.passes() || Instant::now() > deadline => return Err(error),
            Ok(false) if Instant::now() > deadline => {
                return Err(KeeperError::Late { what: what.into(), seconds: LIMIT.as_secs() });
            }
            Ok(false) | Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Does something again for as long as the API is too busy for it. It must be something that can be done
/// twice.
fn persistently(mut act: impl FnMut() -> Result<(), KeeperError>) -> Result<(), KeeperError> {
    let deadline = Instant::now() + LIMIT;
    loop {
        match act() {
            Err(error) if error.passes() && Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(200));
            }
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ApiError;

    fn answer(status: u16) -> KeeperError {
        let (url, message) = ("https://server/x".into(), "etcdserver: request timed out".into());
        KeeperError::Api(ApiError::Refused { url, status, message })
    }

    #[test]
    fn a_server_that_is_too_busy_is_asked_again_and_one_that_refuses_is_not() {
        let mut tries = 0;
        let outcome = persistently(|| {
            tries += 1;
            if tries < 3 { Err(answer(504)) } else { Ok(()) }
        });
        assert!(outcome.is_ok());
        assert_eq!(tries, 3);
        let mut tries = 0;
        let refused = persistently(|| {
            tries += 1;
            Err(answer(403))
        });
        assert!(refused.unwrap_err().to_string().contains("answers 403"));
        assert_eq!(tries, 1);
        let mut tries = 0;
        let seen = until("it is not there", || {
            tries += 1;
            if tries < 3 { Err(answer(500)) } else { Ok(true) }
        });
        assert!(seen.is_ok());
        assert_eq!(tries, 3);
    }
}
