//! A MiniCluster as it is kept between two looks at it: metadata, and the rest as it came, in JSON.
//!
//! Thousands of clusters are kept and few are looked at. The types that a pod template is read into
//! take several kilobytes each, whatever is in them, and text a few hundred bytes.

use std::borrow::Cow;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use quorate_api::MiniCluster;
use quorate_api::names::is_of_kueue;
use quorate_api::status::MiniClusterStatus;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::lean::Meta;

/// A MiniCluster. One that cannot be read must not stop the others, so that is found out by whoever
/// looks at it.
#[derive(Clone, Debug)]
pub struct Packed {
    metadata: ObjectMeta,
    spec: Box<str>,
    status: Option<Box<str>>,
}

impl Packed {
    /// The whole object, without the fields of its metadata that nobody here reads. The controller
    /// writes by patches of single fields, so nothing is lost.
    pub fn read(&self) -> Result<MiniCluster, serde_json::Error> {
        Ok(MiniCluster {
            metadata: self.metadata.clone(),
            spec: serde_json::from_str(&self.spec)?,
            status: self.status.as_deref().map(serde_json::from_str).transpose()?,
        })
    }

    /// The status, if there is one that can be read.
    pub fn status(&self) -> Option<MiniClusterStatus> {
        serde_json::from_str(self.status.as_deref()?).ok()
    }
}

impl<'de> Deserialize<'de> for Packed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Parts {
            metadata: Meta,
            spec: Option<Box<RawValue>>,
            status: Option<Box<RawValue>>,
        }
        let Parts { metadata, spec, status } = Parts::deserialize(deserializer)?;
        let mut metadata = ObjectMeta::from(metadata);
        if let Some(annotations) = &mut metadata.annotations {
            // kubectl writes the whole object there.
            annotations.retain(|key, _| is_of_kueue(key));
        }
        Ok(Self {
            metadata,
            spec: spec.map_or_else(|| "null".into(), Box::<str>::from),
            status: status.map(Box::<str>::from),
        })
    }
}

impl Resource for Packed {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(kind: &()) -> Cow<'_, str> {
        MiniCluster::kind(kind)
    }

    fn group(kind: &()) -> Cow<'_, str> {
        MiniCluster::group(kind)
    }

    fn version(kind: &()) -> Cow<'_, str> {
        MiniCluster::version(kind)
    }

    fn plural(kind: &()) -> Cow<'_, str> {
        MiniCluster::plural(kind)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
    use kube::core::ObjectList;
    use kube::core::watch::WatchEvent;
    use serde_json::json;

    const ANNOTATED: &str = "kubectl.kubernetes.io/last-applied-configuration";

    fn object() -> MiniCluster {
        serde_json::from_value(json!({
            "apiVersion": "quorate.dev/v1alpha1", "kind": "MiniCluster",
            "metadata": {
                "name": "hello", "namespace": "hpc", "uid": "u", "generation": 2,
                "labels": {"kueue.x-k8s.io/queue-name": "q", "own": "x"},
                "annotations": {
                    "kueue.x-k8s.io/podset-required-topology": "rack",
                    "provreq.kueue.x-k8s.io/maxRunDurationSeconds": "60",
                },
            },
            "spec": {
                "size": 3,
                "template": {"spec": {"containers": [{"name": "main", "image": "i"}]}},
            },
            "status": {"online": 2},
        }))
        .unwrap()
    }

    #[test]
    fn it_is_read_as_it_was_but_for_what_nobody_reads() {
        let mut written = object();
        let annotations = written.metadata.annotations.as_mut().unwrap();
        annotations.insert(ANNOTATED.to_owned(), "{}".to_owned());
        written.metadata.managed_fields = Some(vec![ManagedFieldsEntry::default()]);
        let text = serde_json::to_string(&written).unwrap();
        let packed: Packed = serde_json::from_str(&text).unwrap();
        assert_eq!(packed.read().unwrap(), object());
        assert_eq!(packed.status(), object().status);
        assert_eq!(packed.meta(), &object().metadata);
    }

    /// As the client reads them.
    #[test]
    fn lists_and_watches_bring_it() {
        let text = serde_json::to_string(&object()).unwrap();
        let list = format!(
            r#"{{"kind":"MiniClusterList","apiVersion":"quorate.dev/v1alpha1","metadata":{{}},"items":[{text}]}}"#
        );
        let list: ObjectList<Packed> = serde_json::from_str(&list).unwrap();
        assert_eq!(list.items[0].read().unwrap(), object());
        let event = format!(r#"{{"type":"ADDED","object":{text}}}"#);
        let event: WatchEvent<Packed> = serde_json::from_str(&event).unwrap();
        assert!(matches!(event, WatchEvent::Added(packed) if packed.read().unwrap() == object()));
    }

    #[test]
    fn one_that_cannot_be_read_is_there_by_its_name() {
        let text = r#"{"metadata":{"name":"odd"},"spec":{"size":"three"}}"#;
        let packed: Packed = serde_json::from_str(text).unwrap();
        assert_eq!(packed.meta().name.as_deref(), Some("odd"));
        assert!(packed.read().unwrap_err().to_string().contains("three"));
        let bare: Packed = serde_json::from_str(r#"{"metadata":{"name":"bare"}}"#).unwrap();
        assert!(bare.read().is_err());
    }
}
