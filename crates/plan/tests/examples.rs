//! Every example is valid and can be planned.

use quorate_api::{Target, load};
use quorate_plan::{Context, Seed, check_jobset, plan};

#[test]
fn every_example_is_planned() {
    insta::glob!("../../../examples", "*/minicluster.yaml", |path| {
        let text = std::fs::read_to_string(path).unwrap();
        let document = load(&text, Target::Local).unwrap_or_else(|f| panic!("{path:?}: {f:?}"));
        let context = Context { agent_image: "quorate/agent".into(), cluster_domain: None };
        let planned = plan(&document.validated, &context, &Seed::new([0; 32]));
        assert_eq!(check_jobset(&planned.jobset), []);
        assert!(planned.to_yaml(false).contains("<redacted>"));
        if std::env::var("SHOW").is_ok() {
            println!("{}", planned.to_yaml(false));
        }
    });
}
