//! Keeps new pods of a JobSet off nodes that do not answer, and ends that.
//!
//! Order: the PodTemplate that the chart's admission policy reads, then the note on the JobSet. A JobSet
//! whose note has had its time is the reason to take the template away, so the note goes last, too: a
//! controller that dies in between leaves nothing behind that the next one would not find.

use k8s_openapi::api::core::v1::PodTemplate;
use kube::api::{DeleteParams, PostParams};
use quorate_api::jobset::JobSet;
use quorate_observe::{LostNodes, Obstacle};
use quorate_plan::names;
use serde_json::json;

use super::{Applied, ApplyError, Verdict, api, delete, judge, kind, outcome, patch_object};
use crate::context::{Context, FIELD_MANAGER};
use crate::watch::Key;

/// Makes it so that new pods of the JobSet of this UID are kept off these nodes, and no others.
pub(super) async fn keep_off(
    context: &Context,
    key: &Key,
    uid: &str,
    lost: &LostNodes,
) -> Result<Applied, ApplyError> {
    tracing::info!(
        mc.ns = key.namespace,
        mc.name = key.name,
        nodes = ?lost.nodes,
        "keeps new pods off nodes that do not answer"
    );
    let name = names::lost_nodes(uid);
    let remove = || delete::<PodTemplate>(context, key, &name, DeleteParams::default());
    let refused = if lost.nodes.is_empty() {
        remove().await?
    } else if let Some(refused) = create(context, key, uid, lost).await? {
        refused
    } else {
        // It names the nodes of an earlier note.
        remove().await?;
        create(context, key, uid, lost).await?.unwrap_or_default()
    };
    // Pods may be late then, which is no reason to leave the lost ones where they are.
    if !refused.is_empty() {
        tracing::warn!(mc.ns = key.namespace, mc.name = key.name, ?refused, "not taken");
    }
    let mut metadata = lost.metadata();
    metadata["uid"] = json!(uid);
    patch_object::<JobSet>(context, key, &key.name, &json!({ "metadata": metadata })).await
}

/// Creates the template; nothing if there is one already.
async fn create(
    context: &Context,
    key: &Key,
    uid: &str,
    lost: &LostNodes,
) -> Result<Option<Vec<Obstacle>>, ApplyError> {
    let template = lost.template(&key.namespace, &key.name, uid);
    let params =
        PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    let sent = api::<PodTemplate>(context, &key.namespace).create(&params, &template).await;
    if let Err(Verdict::Exists) = sent.as_ref().map_err(judge) {
        return Ok(None);
    }
    let name = names::lost_nodes(uid);
    outcome(sent, "create", &kind::<PodTemplate>(), &name).map(Some)
}
