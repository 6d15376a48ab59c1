//! `quorate ls` on Kubernetes.

use super::refuse::Asked;
use super::session::Session;
use super::words::{self, Columns};
use crate::args::{Format, LsArgs};
use crate::terminal::{print, write_stderr};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::ListParams;
use quorate_api::MiniCluster;

/// Lists MiniClusters.
pub fn ls(args: &LsArgs) -> anyhow::Result<i32> {
    super::block_on(async {
        let session = Session::open(&args.place).await?;
        let api: Api<MiniCluster> =
            if args.all_namespaces { Api::all(session.client.clone()) } else { session.clusters() };
        let list = api.list(&ListParams::default()).await;
        let list = list.map_err(|error| session.refuse(&error, &Asked::clusters("list")))?;
        let mut clusters = list.items;
        for name in &args.names {
            if !clusters.iter().any(|one| one.metadata.name.as_ref() == Some(name)) {
                return Err(session.unknown(name).await?.into());
            }
        }
        if !args.names.is_empty() {
            clusters.retain(|one| {
                one.metadata.name.as_ref().is_some_and(|name| args.names.contains(name))
            });
        }
        let columns =
            Columns { namespaces: args.all_namespaces, wide: args.output == Format::Wide };
        let text = match args.output {
            Format::Json => {
                serde_json::to_string_pretty(&words::list_data(&clusters, Timestamp::now()))? + "\n"
            }
            Format::Yaml => {
                serde_saphyr::to_string(&words::list_data(&clusters, Timestamp::now()))?
            }
            Format::Name => clusters
                .iter()
                .filter_map(|one| one.metadata.name.as_ref())
                .map(|name| format!("{name}\n"))
                .collect(),
            Format::Table | Format::Wide if clusters.is_empty() => {
                let place = if args.all_namespaces {
                    "in any namespace".to_owned()
                } else {
                    session.place()
                };
                write_stderr(&format!("no clusters {place}\n"));
                return Ok(0);
            }
            Format::Table | Format::Wide => words::list(&clusters, columns, Timestamp::now()),
        };
        print(&text)?;
        Ok(0)
    })
}
