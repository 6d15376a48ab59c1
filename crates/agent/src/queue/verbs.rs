//! The front: the broker at which a verb of the queue was typed.
//!
//! Owns: who asks (the kernel says it), the way to rank 0, and what of a client's environment travels:
//! the difference to that of the pod it lives in, as with `run`.

use super::keeper::Keeping;
use super::protocol::{Opening, QUEUE, kind};
use super::service;
use super::talk::{here, send_parts};
use crate::broker::{Overlay, Services};
use crate::job::Jobs;
use crate::job::front::relay;
use crate::job::protocol::body;
use crate::launch::environment::{Difference, Variables};
use crate::launch::text;
use crate::local::{Call, End};
use quorate_contract::exit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a client tells its front.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Asked {
    /// JSON of a [`super::protocol::Question`].
    pub(super) question: serde_json::Value,
    /// The client's environment, for jobs that are to have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) env: Option<Vec<(String, String)>>,
    /// Rules of `--env`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) env_rules: Vec<String>,
}

/// Adds the verb.
pub(super) fn register(
    jobs: &Jobs,
    overlay: &Overlay,
    keeping: Option<&Keeping>,
    services: &mut Services,
) {
    let (jobs, overlay, keeping) = (jobs.clone(), overlay.clone(), keeping.cloned());
    services
        .on_verb(QUEUE, move |call| front(jobs.clone(), overlay.clone(), keeping.clone(), call));
}

async fn front(jobs: Jobs, overlay: Overlay, keeping: Option<Keeping>, mut call: Call) {
    let args = std::mem::take(&mut call.hello.args);
    let asked: Asked = match serde_json::from_value(args) {
        Ok(asked) => asked,
        Err(error) => {
            let _ = call.end(exit::USAGE, Some(format!("unreadable request: {error}"))).await;
            return;
        }
    };
    let question = match with_environment(asked, &jobs.pod().env) {
        Ok(question) => question,
        Err(error) => {
            let _ = call.end(exit::USAGE, Some(error)).await;
            return;
        }
    };
    let opening = Opening { user: call.uid };
    if let Some(keeping) = keeping {
        let (hear, say) = here(call.connection);
        service::serve_question(&keeping, opening, &question, hear, say).await;
        return;
    }
    match overlay.open(0, QUEUE, body(&opening)).await {
        Ok(channel) => {
            let (sender, receiver) = channel.split();
            if !send_parts(&sender, kind::ASK, &question).await {
                let why = "the launcher's broker was lost".to_owned();
                let _ = call.end(exit::BROKER_LOST, Some(why)).await;
                return;
            }
            relay(call, (sender, receiver), over, (exit::BROKER_LOST, None)).await;
        }
        Err(error) => {
            let why = format!("the queue cannot be reached: {error}");
            let _ = call.end(exit::UNAVAILABLE, Some(why)).await;
        }
    }
}

/// The end of a call over a channel.
fn over(last: u8, payload: &[u8]) -> Option<(i32, Option<String>)> {
    (last == kind::OVER).then(|| match serde_json::from_slice::<End>(payload) {
        Ok(End { code, error }) => (code, error),
        Err(error) => (exit::INTERNAL, Some(format!("unreadable end of a call: {error}"))),
    })
}

/// The question with what the client's environment changes against that of the pod.
fn with_environment(asked: Asked, pod: &Variables) -> Result<Vec<u8>, String> {
    let Asked { mut question, env, env_rules } = asked;
    let place = if question.get("session").is_some() { "/session" } else { "/submit/spec" };
    if let Some(spec) = question.pointer_mut(place) {
        let user: Variables = env
            .iter()
            .flatten()
            .map(|(name, value)| (text::decode(name), text::decode(value)))
            .collect();
        let mut difference = match env {
            Some(_) => Difference::between(pod, &user),
            None => Difference::default(),
        };
        for rule in &env_rules {
            difference.rule(rule, &user);
        }
        let Some(spec) = spec.as_object_mut() else {
            return Err("the specification of the job is no object".to_owned());
        };
        let set: BTreeMap<String, String> = difference.set.into_iter().collect();
        if !set.is_empty() {
            spec.insert("environment".to_owned(), serde_json::json!(set));
        }
        if !difference.unset.is_empty() {
            spec.insert("unset".to_owned(), serde_json::json!(difference.unset));
        }
    }
    serde_json::to_vec(&question).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_carries_what_differs_from_its_clients_pod() {
        let pod: Variables = [("PATH".into(), "/bin".into()), ("LANG".into(), "C".into())].into();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let asked = Asked {
            question: serde_json::json!({"submit": {"spec": {"name": "x"}}}),
            env: Some(vec![pair("PATH", "/bin"), pair("COLOUR", "blue")]),
            env_rules: vec!["SIZE=4".into()],
        };
        let question = with_environment(asked, &pod).unwrap();
        let question: serde_json::Value = serde_json::from_slice(&question).unwrap();
        let expected = serde_json::json!({"submit": {"spec": {
            "name": "x", "environment": {"COLOUR": "blue", "SIZE": "4"}, "unset": ["LANG"],
        }}});
        assert_eq!(question, expected);
    }

    #[test]
    fn other_questions_stay_as_they_are() {
        let question = serde_json::json!({"jobs": {}});
        let asked = Asked { question: question.clone(), env: None, env_rules: Vec::new() };
        let same = with_environment(asked, &Variables::new()).unwrap();
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&same).unwrap(), question);
    }
}
