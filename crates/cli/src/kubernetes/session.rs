//! The connection to one Kubernetes cluster and one namespace of it.

use super::refuse::{self, Asked};
use crate::args::Place;
use crate::refusal::Refusal;
use crate::verbs::targets::some;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use quorate_api::MiniCluster;
use std::time::Duration;

/// How long a server may take to accept a connection: a person waits.
const CONNECT: Duration = Duration::from_secs(5);

/// A connection.
#[derive(Clone)]
pub(super) struct Session {
    pub(super) client: Client,
    /// The namespace that is meant.
    pub(super) namespace: String,
    /// The context's name, where there is a kubeconfig.
    pub(super) context: Option<String>,
    /// The server, for errors.
    url: String,
    /// The flags that led here, for commands in hints.
    pub(super) flags: String,
}

impl Session {
    /// Reads the kubeconfig and prepares a connection; nothing is sent yet.
    pub(super) async fn open(place: &Place) -> anyhow::Result<Self> {
        let (mut config, context) = config(place).await?;
        config.connect_timeout = Some(CONNECT);
        let namespace = place.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let url = config.cluster_url.to_string();
        let client = Client::try_from(config).map_err(|error| {
            Refusal::new(format!("cannot prepare the connection to {url}: {error}"))
                .hint("look at the kubeconfig: `kubectl config view --minify`")
        })?;
        Ok(Self { client, namespace, context, url, flags: place.words() })
    }

    /// MiniClusters of the namespace.
    pub(super) fn clusters(&self) -> Api<MiniCluster> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Pods of the namespace.
    pub(super) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The error that a person gets for one of the client.
    pub(super) fn refuse(&self, error: &kube::Error, asked: &Asked<'_>) -> anyhow::Error {
        refuse::refuse(error, asked, &self.url, &self.namespace).into()
    }

    /// A MiniCluster by name.
    pub(super) async fn cluster(&self, name: &str) -> anyhow::Result<MiniCluster> {
        let asked = Asked::clusters("get");
        match self.clusters().get_opt(name).await {
            Ok(Some(cluster)) => Ok(cluster),
            // The resource itself may be unknown to the server; a list tells.
            Ok(None) => Err(self.unknown(name).await?.into()),
            Err(error) => Err(self.refuse(&error, &asked)),
        }
    }

    /// The refusal of a name that there is not, with those that there are.
    pub(super) async fn unknown(&self, name: &str) -> anyhow::Result<Refusal> {
        let names = self.names().await?;
        let refusal = Refusal::usage(format!(
            "there is no MiniCluster {name} in namespace {}",
            self.namespace
        ));
        Ok(if names.is_empty() {
            refusal.hint(format!(
                "the namespace has none; `quorate ls -A{}` lists those of all namespaces",
                self.flags_without_namespace()
            ))
        } else {
            refusal.hint(format!("the MiniClusters are {}", some(&names)))
        })
    }

    /// All MiniClusters of the namespace by name.
    pub(super) async fn names(&self) -> anyhow::Result<Vec<String>> {
        let list = self.clusters().list(&ListParams::default()).await;
        let list = list.map_err(|error| self.refuse(&error, &Asked::clusters("list")))?;
        Ok(list.items.into_iter().filter_map(|cluster| cluster.metadata.name).collect())
    }

    fn flags_without_namespace(&self) -> &str {
        self.flags.split(" -n ").next().unwrap_or_default()
    }

    /// Where this is, for headings: `in hpc of lab`.
    pub(super) fn place(&self) -> String {
        match &self.context {
            Some(context) => format!("in namespace {} of {context}", self.namespace),
            None => format!("in namespace {}", self.namespace),
        }
    }
}

async fn config(place: &Place) -> anyhow::Result<(Config, Option<String>)> {
    let wanted = place.reach.context.clone().filter(|context| !context.is_empty());
    let read = match &place.reach.kubeconfig {
        Some(file) => Kubeconfig::read_from(file),
        None => Kubeconfig::read(),
    };
    let kubeconfig = match read {
        Ok(kubeconfig) => kubeconfig,
        Err(error) => {
            // In a pod the service account is all there is.
            if place.reach.kubeconfig.is_none()
                && wanted.is_none()
                && let Ok(config) = Config::incluster()
            {
                return Ok((config, None));
            }
            return Err(Refusal::usage(format!("there is no usable kubeconfig: {error}"))
                .hint("name one with --kubeconfig FILE or KUBECONFIG; without flags, clusters run on this machine")
                .into());
        }
    };
    let names: Vec<String> = kubeconfig.contexts.iter().map(|one| one.name.clone()).collect();
    if let Some(context) = &wanted
        && !names.contains(context)
    {
        let refusal = Refusal::usage(format!("the kubeconfig has no context {context}"));
        return Err(if names.is_empty() {
            refusal.hint("it has none at all")
        } else {
            refusal.hint(format!("its contexts are {}", some(&names)))
        }
        .into());
    }
    let context = wanted.or_else(|| kubeconfig.current_context.clone());
    if context.as_deref().unwrap_or_default().is_empty() {
        return Err(Refusal::usage("the kubeconfig has no current context")
            .hint(format!("choose one with --context: {}", some(&names)))
            .into());
    }
    let options = KubeConfigOptions { context: context.clone(), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| {
        Refusal::usage(format!("the kubeconfig is not usable: {error}"))
            .hint("look at it with `kubectl config view --minify`")
    })?;
    Ok((config, context))
}
