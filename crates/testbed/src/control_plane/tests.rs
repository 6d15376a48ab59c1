use super::*;
use crate::layout::Shape;
use std::collections::BTreeMap;

fn plan(shape: Shape) -> Plan {
    Plan {
        shape,
        core: "/core".into(),
        etcd: "/etcd".into(),
        runtime: None,
        kwok: None,
        addons: BTreeMap::new(),
        pause: "/images/pause.tar".into(),
    }
}

fn flag<'a>(recipes: &'a [Recipe], name: &str, flag: &str) -> Option<&'a str> {
    let recipe = recipes.iter().find(|recipe| recipe.name == name).unwrap();
    let prefix = format!("--{flag}=");
    recipe.arguments.iter().find_map(|argument| argument.strip_prefix(&prefix))
}

#[test]
fn the_slowest_chain_is_started_first() {
    let folder = Folder::at("/clusters/t", "t");
    let names: Vec<_> =
        recipes(&folder, &plan(Shape::default())).into_iter().map(|recipe| recipe.name).collect();
    assert_eq!(names, ["etcd", "apiserver", "kcm", "scheduler", "coredns", "jobset"]);
    let played = Plan { kwok: Some("/kwok".into()), ..plan(Shape::default()) };
    assert_eq!(recipes(&folder, &played).last().unwrap().name, "kwok");
}

#[test]
fn lost_nodes_are_noticed_fast_only_if_asked_for() {
    let folder = Folder::at("/clusters/t", "t");
    let fast = recipes(&folder, &plan(Shape { fast_eviction: true, ..Shape::default() }));
    assert_eq!(flag(&fast, "kcm", "node-monitor-grace-period"), Some("9s"));
    assert_eq!(flag(&fast, "apiserver", "default-unreachable-toleration-seconds"), Some("3"));
    let usual = recipes(&folder, &plan(Shape::default()));
    assert_eq!(flag(&usual, "kcm", "node-monitor-grace-period"), None);
    assert_eq!(flag(&usual, "apiserver", "default-unreachable-toleration-seconds"), None);
}

#[test]
fn the_api_server_writes_down_who_asked_what() {
    let folder = Folder::at("/clusters/t", "t");
    let all = recipes(&folder, &plan(Shape::default()));
    assert_eq!(flag(&all, "apiserver", "audit-log-path"), Some("/clusters/t/log/audit.log"));
    assert_eq!(flag(&all, "apiserver", "audit-policy-file"), Some("/clusters/t/audit-policy.json"));
}
