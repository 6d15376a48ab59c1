//! Waits for what watches need: the definitions of MiniCluster and JobSet, and the right to list both.
//!
//! A controller may be started before the definitions are applied, together with them, or before
//! anybody has given it a role. It waits then and says for what; a watch alone would try again for
//! ever with the server's words only.

use std::fmt::Debug;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use k8s_openapi::NamespaceResourceScope;
use kube::api::ListParams;
use kube::{Client, Resource};
use quorate_api::MiniCluster;
use quorate_api::jobset::JobSet;
use serde::de::DeserializeOwned;

use crate::telemetry::chain;
use crate::watch::{Scope, api};

/// Between two tries; a definition is served a moment after it was made.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// Between two tries after many.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What stands in the way of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    Definition,
    Right,
    Answer,
}

impl Missing {
    fn of(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.code == 404 => Self::Definition,
            kube::Error::Api(status) if matches!(status.code, 401 | 403) => Self::Right,
            _ => Self::Answer,
        }
    }

    /// What to do about it.
    fn to_do(self, kind: &str) -> String {
        match self {
            Self::Definition => format!("install the definition of {kind}"),
            Self::Right => format!("give this account a role that lists {kind}s"),
            Self::Answer => "see whether the API server is well".to_owned(),
        }
    }
}

/// Waits until MiniClusters and JobSets can be listed in all scopes.
pub(super) async fn wait(client: &Client, scopes: &[Scope]) {
    for scope in scopes {
        wait_for::<MiniCluster>(client, scope, "MiniCluster").await;
        wait_for::<JobSet>(client, scope, "JobSet").await;
    }
}

async fn wait_for<K>(client: &Client, scope: &Scope, kind: &'static str)
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + DeserializeOwned,
{
    let pauses = ExponentialBuilder::default()
        .with_min_delay(FIRST_PAUSE)
        .with_max_delay(LONGEST_PAUSE)
        .with_jitter()
        .without_max_times()
        .build();
    let mut told = None;
    for pause in pauses {
        let one = ListParams::default().limit(1);
        let Err(error) = api::<K>(client, scope).list_metadata(&one).await else { break };
        let missing = Missing::of(&error);
        // Once for each reason: what lasts is in the readiness.
        if told.replace(missing) != Some(missing) {
            tracing::warn!(
                kind,
                namespace = scope,
                error = chain(&error),
                to_do = missing.to_do(kind),
                "waits, since they cannot be listed"
            );
        }
        tokio::time::sleep(pause).await;
    }
    if told.is_some() {
        tracing::info!(kind, namespace = scope, "can be listed now");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    #[test]
    fn what_is_missing_is_told_apart() {
        let answer = |code| kube::Error::Api(Status::failure("x", "x").with_code(code).boxed());
        for (code, missing) in [
            (404, Missing::Definition),
            (403, Missing::Right),
            (401, Missing::Right),
            (503, Missing::Answer),
        ] {
            assert_eq!(Missing::of(&answer(code)), missing, "{code}");
        }
        assert_eq!(Missing::Definition.to_do("JobSet"), "install the definition of JobSet");
    }
}
