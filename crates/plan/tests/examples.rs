//! Every example is valid and can be planned.

use quorate_api::{Target, load};
use quorate_plan::{Context, Delivery, Seed, check_jobset, plan};

#[test]
fn every_example_is_planned() {
    insta::glob!("../../../examples", "*/minicluster.yaml", |path| {
        let text = std::fs::read_to_string(path).unwrap();
        planned(&text, Target::Local);
    });
    insta::glob!("../../../examples", "kubernetes/*.yaml", |path| {
        let text = std::fs::read_to_string(path).unwrap();
        planned(&text, Target::Kubernetes);
    });
}

#[track_caller]
fn planned(text: &str, target: Target) {
    let document = load(text, target).map_err(|findings| format!("{findings:?}"));
    let document = document.expect("examples are valid");
    let context = Context {
        agent_image: "quorate/agent".into(),
        agent_delivery: Delivery::Copy,
        cluster_domain: None,
    };
    let planned = plan(&document.validated, &context, &Seed::new([0; 32]));
    assert_eq!(check_jobset(&planned.jobset), []);
    assert!(planned.to_yaml(false).contains("<redacted>"));
}
