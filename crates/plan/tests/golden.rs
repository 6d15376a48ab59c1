//! Every object of a set of MiniClusters, one for each feature: `golden/<case>.yaml` and, beside it,
//! what it becomes. `cargo xtask golden` writes them anew. A file with `# delivery: image` in it is
//! planned with the agent's image as a volume.

use quorate_api::{Target, load};
use quorate_plan::{Context, Delivery, Seed, check_jobset, plan};

#[test]
fn the_objects_are_as_they_were() {
    let seed = Seed::new([7; 32]);
    insta::glob!("golden/*.yaml", |path| {
        let text = std::fs::read_to_string(path).unwrap();
        let as_image = text.lines().any(|line| line == "# delivery: image");
        let context = Context {
            agent_image: "quorate/agent:golden".to_owned(),
            agent_delivery: if as_image { Delivery::Image } else { Delivery::Copy },
            port_forward: true,
            cluster_domain: Some("cluster.local".to_owned()),
        };
        let document =
            load(&text, Target::Kubernetes).unwrap_or_else(|found| panic!("{path:?}: {found:#?}"));
        let planned = plan(&document.validated, &context, &seed);
        assert_eq!(check_jobset(&planned.jobset), [], "{path:?}");
        assert_eq!(
            planned,
            plan(&document.validated, &context, &seed),
            "equal input, equal output"
        );
        // Exclusive topology of JobSet would hold workers back until the launcher has its node.
        assert!(!planned.to_yaml(false).contains("alpha.jobset.sigs.k8s.io"), "{path:?}");
        insta::with_settings!({
            snapshot_path => "golden",
            prepend_module_to_snapshot => false,
            omit_expression => true,
        }, {
            insta::assert_snapshot!("plan", planned.to_yaml(false));
        });
    });
}
