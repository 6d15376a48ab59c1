//! Every example is valid and can be planned.

use quorate_api::{Target, load};
use quorate_plan::{Context, Seed, check_jobset, plan};

#[test]
fn every_example_is_planned() {
    every("*/minicluster.yaml", Target::Local);
    every("kubernetes/*.yaml", Target::Kubernetes);
}

fn every(pattern: &str, target: Target) {
    insta::glob!("../../../examples", pattern, |path| {
        let text = std::fs::read_to_string(path).unwrap();
        let document = load(&text, target).unwrap_or_else(|f| panic!("{path:?}: {f:?}"));
        let context = Context { agent_image: "quorate/agent".into(), cluster_domain: None };
        let planned = plan(&document.validated, &context, &Seed::new([0; 32]));
        assert_eq!(check_jobset(&planned.jobset), []);
        assert!(planned.to_yaml(false).contains("<redacted>"));
        if std::env::var("SHOW").is_ok() {
            println!("{}", planned.to_yaml(false));
        }
    });
}
