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
        port_forward: true,
        cluster_domain: None,
    };
    let planned = plan(&document.validated, &context, &Seed::new([0; 32]));
    assert_eq!(check_jobset(&planned.jobset), []);
    assert!(planned.to_yaml(false).contains("<redacted>"));
}

#[test]
fn a_cluster_that_is_closed_to_port_forwards_says_so_to_its_agents_and_is_the_same_otherwise() {
    let text = "apiVersion: quorate.dev/v1alpha1\nkind: MiniCluster\nmetadata: {name: a}\n\
                spec: {size: 2, image: app}\n";
    let document = load(text, Target::Kubernetes).expect("it is valid");
    let planned = |port_forward| {
        let (agent_image, cluster_domain) = ("quorate/agent".into(), None);
        let context =
            Context { agent_image, agent_delivery: Delivery::Copy, port_forward, cluster_domain };
        plan(&document.validated, &context, &Seed::new([0; 32]))
    };
    let (open, mut closed) = (planned(true), planned(false));
    assert!(!open.config.queue.inside_only && closed.config.queue.inside_only);
    assert!(!open.to_yaml(false).contains("insideOnly"));
    assert!(closed.to_yaml(false).contains("insideOnly"));
    closed.config.queue.inside_only = false;
    assert_eq!((closed.config, closed.jobset), (open.config, open.jobset));
}
