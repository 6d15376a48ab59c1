//! What became of a planned JobSet in the cluster. An API server keeps no field that the definition in it
//! does not know, and says nothing; webhooks may take fields away as well. Fields with other values are
//! no concern: whoever admits workloads changes some on purpose.

use quorate_api::jobset::JobSet;
use serde_json::Value;

/// Paths of what was planned and is not in the stored object, such as
/// `spec.replicatedJobs[1].template.spec.template.spec.affinity`.
pub fn dropped(planned: &JobSet, stored: &JobSet) -> Vec<String> {
    let value = |jobset: &JobSet| serde_json::to_value(&jobset.spec).expect("a spec is plain data");
    let mut paths = Vec::new();
    look(&value(planned), &value(stored), "spec", &mut paths);
    paths
}

fn look(planned: &Value, stored: &Value, path: &str, paths: &mut Vec<String>) {
    match (planned, stored) {
        (Value::Object(planned), Value::Object(stored)) => {
            for (key, value) in planned.iter().filter(|(_, value)| !is_empty(value)) {
                let path = format!("{path}.{key}");
                match stored.get(key) {
                    Some(other) => look(value, other, &path, paths),
                    None => paths.push(path),
                }
            }
        }
        (Value::Array(planned), Value::Array(stored)) => {
            for (index, value) in planned.iter().enumerate() {
                let path = format!("{path}[{index}]");
                match stored.get(index) {
                    Some(other) => look(value, other, &path, paths),
                    None => paths.push(path),
                }
            }
        }
        _ => {}
    }
}

/// Nothing and an empty list or object are the same to the API.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn jobset(pod: &Value) -> JobSet {
        let job = json!({"completions": 2, "template": {"spec": pod}});
        serde_json::from_value(json!({
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "hello"},
            "spec": {"replicatedJobs": [{"name": "worker", "template": {"spec": job}}]},
        }))
        .unwrap()
    }

    #[test]
    fn what_a_definition_does_not_know_is_named() {
        let pod = json!({
            "containers": [{"name": "main", "image": "a"}, {"name": "side", "image": "b"}],
            "schedulerName": "mine",
            "tolerations": [],
        });
        let planned = jobset(&pod);
        assert_eq!(dropped(&planned, &planned), Vec::<String>::new());
        let fewer = jobset(&json!({"containers": [{"name": "main"}]}));
        let at = "spec.replicatedJobs[0].template.spec.template.spec";
        let expected = ["containers[0].image", "containers[1]", "schedulerName"];
        assert_eq!(dropped(&planned, &fewer), expected.map(|path| format!("{at}.{path}")));
    }

    #[test]
    fn what_others_add_or_change_is_theirs() {
        let planned = jobset(&json!({"containers": [{"name": "main", "image": "a"}]}));
        let more = jobset(&json!({
            "containers": [{"name": "main", "image": "mirror/a"}],
            "nodeSelector": {"pool": "gold"},
        }));
        assert_eq!(dropped(&planned, &more), Vec::<String>::new());
    }
}
