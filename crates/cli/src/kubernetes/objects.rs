//! `quorate delete` and `quorate wait` on Kubernetes.

use super::refuse::Asked;
use super::session::Session;
use super::{describe, follow};
use crate::args::{DeleteArgs, Loudness, WaitArgs, WaitFor};
use crate::refusal::Refusal;
use crate::terminal::write_stderr;
use kube::api::{DeleteParams, Preconditions};
use quorate_api::MiniCluster;
use quorate_contract::exit;
use std::time::Duration;

/// How often an object on its way out is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// Ends clusters, and waits until all of their objects are gone.
pub fn delete(args: &DeleteArgs, loudness: Loudness) -> anyhow::Result<i32> {
    super::block_on(async {
        let session = Session::open(&args.place).await?;
        let mut ending = Vec::new();
        if args.all {
            for name in session.names().await? {
                ending.extend(session.clusters().get_opt(&name).await.ok().flatten());
            }
        }
        for name in &args.names {
            match session.cluster(name).await {
                Ok(cluster) => ending.push(cluster),
                Err(error) => {
                    let found = session.clusters().get_opt(name).await;
                    if !(args.ignore_not_found && matches!(found, Ok(None))) {
                        return Err(error);
                    }
                }
            }
        }
        // All are asked before the first is waited for.
        for cluster in &ending {
            ask(&session, cluster).await?;
        }
        for cluster in &ending {
            gone(&session, cluster).await?;
            if !loudness.quiet {
                let name = cluster.metadata.name.as_deref().unwrap_or_default();
                write_stderr(&format!("{name} deleted\n"));
            }
        }
        Ok(0)
    })
}

/// Asks for the end of just this object, and of what it owns before it.
pub(super) async fn ask(session: &Session, cluster: &MiniCluster) -> anyhow::Result<()> {
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let how = DeleteParams {
        preconditions: Some(Preconditions {
            uid: cluster.metadata.uid.clone(),
            resource_version: None,
        }),
        ..DeleteParams::foreground()
    };
    match session.clusters().delete(name, &how).await {
        Ok(_) => Ok(()),
        // Gone already, or another of its name came instead: nothing of it is left to end.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(session.refuse(&error, &Asked::clusters("delete").named(name))),
    }
}

/// Waits until this object is gone.
pub(super) async fn gone(session: &Session, cluster: &MiniCluster) -> anyhow::Result<()> {
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    loop {
        let now = session.clusters().get_opt(name).await;
        let now = now.map_err(|error| session.refuse(&error, &Asked::clusters("get")))?;
        if now.is_none_or(|now| now.metadata.uid != cluster.metadata.uid) {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits for a cluster's end, or until it can be used.
pub fn wait(args: &WaitArgs) -> anyhow::Result<i32> {
    super::block_on(async {
        let session = Session::open(&args.place).await?;
        let name = match &args.cluster {
            Some(name) => name.clone(),
            None => describe::only(&session).await?,
        };
        let cluster = session.cluster(&name).await?;
        let waiting = until(&session, &cluster, args.wait_for);
        let Some(limit) = args.timeout else { return waiting.await };
        if let Ok(result) = tokio::time::timeout(Duration::from_secs(limit), waiting).await {
            return result;
        }
        let what = match args.wait_for {
            WaitFor::End => "ended",
            WaitFor::Quorate => "become quorate",
        };
        let refusal = Refusal::new(format!("{name} has not {what} within {limit} s"))
            .hint(format!("`quorate why {name}{}` says what is missing", session.flags))
            .code(exit::TIME_LIMIT);
        Err(refusal.into())
    })
}

async fn until(session: &Session, cluster: &MiniCluster, what: WaitFor) -> anyhow::Result<i32> {
    let mut changes = follow::changes(session, cluster);
    while let Some(change) = changes.recv().await {
        let Some(now) = change? else { break };
        if what == WaitFor::Quorate && follow::is_quorate(&now) {
            return Ok(exit::OK);
        }
        if let Some(finish) = follow::finish(&now) {
            if what == WaitFor::Quorate && finish.completed {
                return Ok(exit::OK);
            }
            return Ok(finish.code);
        }
    }
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    Err(Refusal::new(format!("{name} was deleted before its end")).into())
}
