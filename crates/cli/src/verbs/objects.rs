//! `quorate validate` and `quorate plan`: looking at a MiniCluster without running it.

use super::wanted::read;
use crate::args::{DeliveryArg, Loudness, ObjectFormat, PlanArgs, TargetArg, ValidateArgs};
use crate::refusal::Findings;
use crate::terminal::{print, write_stderr};
use quorate_api::{Target, load};
use quorate_contract::exit;
use quorate_plan::{Context, Delivery, Seed};
use serde_json::{Value, json};

pub(super) fn validate(args: &ValidateArgs, loudness: Loudness) -> anyhow::Result<i32> {
    let target = match args.target {
        TargetArg::Kubernetes => Target::Kubernetes,
        TargetArg::Local => Target::Local,
        TargetArg::Any => Target::Any,
    };
    let mut code = exit::OK;
    for file in &args.files {
        let file = file.to_string_lossy();
        match load(&read(&file)?, target) {
            Ok(document) => {
                for warning in &document.validated.warnings {
                    write_stderr(&format!("{}\n", warning.render(Some(&file))));
                }
                if !loudness.quiet {
                    let cluster = &document.validated;
                    write_stderr(&format!("{file}: {} is valid\n", cluster.name));
                }
            }
            Err(findings) => {
                let findings = Findings { file: Some(file.into_owned()), findings };
                write_stderr(&format!("{findings}\n"));
                code = exit::USAGE;
            }
        }
    }
    Ok(code)
}

pub(super) fn plan(args: &PlanArgs) -> anyhow::Result<i32> {
    let file = args.file.to_string_lossy();
    let document = load(&read(&file)?, Target::Any)
        .map_err(|findings| Findings { file: Some(file.clone().into_owned()), findings })?;
    for warning in &document.validated.warnings {
        write_stderr(&format!("{}\n", warning.render(Some(&file))));
    }
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    let context = Context {
        agent_image: args.agent_image.clone(),
        port_forward: true,
        agent_delivery: match args.agent_delivery {
            DeliveryArg::Copy => Delivery::Copy,
            DeliveryArg::Image => Delivery::Image,
        },
        cluster_domain: None,
    };
    let plan = quorate_plan::plan(&document.validated, &context, &Seed::new(seed));
    let yaml = plan.to_yaml(args.show_secret);
    let text = match args.output {
        ObjectFormat::Yaml => yaml,
        ObjectFormat::Json | ObjectFormat::Name => {
            let documents: Vec<Value> = serde_saphyr::from_multiple(&yaml)?;
            if args.output == ObjectFormat::Json {
                let list = json!({"apiVersion": "v1", "kind": "List", "items": documents});
                serde_json::to_string_pretty(&list)? + "\n"
            } else {
                documents.iter().map(name_of).collect()
            }
        }
    };
    print(&text)?;
    Ok(0)
}

/// `jobset.jobset.x-k8s.io/hello`, as kubectl prints names.
fn name_of(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&object["kind"]).to_lowercase();
    let version = text(&object["apiVersion"]);
    let group = version.split_once('/').map(|(group, _)| format!(".{group}")).unwrap_or_default();
    format!("{kind}{group}/{}\n", text(&object["metadata"]["name"]))
}
