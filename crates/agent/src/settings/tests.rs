use super::*;
use quorate_contract::config::{Bootstrap, Cluster, Group, MpiFlavor, Program, Slots, VERSION};

fn config() -> AgentConfig {
    AgentConfig {
        version: VERSION,
        cluster: Cluster {
            name: "hello".into(),
            namespace: "hpc".into(),
            uid: "u-1".into(),
            subdomain: "hello".into(),
            domain: None,
        },
        size: 3,
        min_size: 3,
        max_size: 3,
        groups: vec![
            Group {
                name: "launcher".into(),
                first_rank: 0,
                count: 1,
                pods_per_job: None,
                slots: Slots::Auto,
            },
            Group {
                name: "worker".into(),
                first_rank: 1,
                count: 2,
                pods_per_job: None,
                slots: Slots::Auto,
            },
        ],
        bootstrap: Bootstrap {
            fanout: 0,
            port: 8117,
            port_per_rank: false,
            timeout_seconds: 600,
            orphan_timeout_seconds: 15,
        },
        program: Program::None,
        mpi: MpiFlavor::Auto,
        names: Vec::new(),
        queue: quorate_contract::config::Queue::default(),
    }
}

struct Pod {
    dir: tempfile::TempDir,
    flags: Flags,
}

fn pod() -> Pod {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("agent.json"), config().render()).unwrap();
    std::fs::write(dir.path().join("seed"), [7; 32]).unwrap();
    let flags = Flags {
        config: Some(dir.path().join("agent.json")),
        seed_file: Some(dir.path().join("seed")),
        ..Flags::default()
    };
    Pod { dir, flags }
}

fn variables(pairs: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<String> {
    move |name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned())
}

const WORKER: &[(&str, &str)] =
    &[("QUORATE_GROUP", "worker"), ("JOB_COMPLETION_INDEX", "1"), ("QUORATE_ATTEMPT", "3")];

#[test]
fn rank_and_attempt_come_from_the_environment() {
    let pod = pod();
    let (settings, _) = Settings::read(&pod.flags, &variables(WORKER)).unwrap();
    assert_eq!((settings.rank, settings.attempt), (2, 3));
    assert_eq!(settings.display_name(), "worker-0-1");
}

#[test]
fn the_rank_counts_through_the_jobs_of_a_group() {
    let pod = pod();
    let mut config = config();
    (config.groups[1].count, config.groups[1].pods_per_job) = (6, Some(2));
    (config.size, config.min_size, config.max_size) = (7, 7, 7);
    std::fs::write(pod.dir.path().join("agent.json"), config.render()).unwrap();
    let of_job = |name: &str| match name {
        "QUORATE_JOB_INDEX" => Some("2".to_owned()),
        name => variables(WORKER)(name),
    };
    let (settings, _) = Settings::read(&pod.flags, &of_job).unwrap();
    assert_eq!((settings.rank, settings.display_name()), (6, "worker-2-1".into()));
    // No Job is named where a group has one only.
    let (settings, _) = Settings::read(&pod.flags, &variables(WORKER)).unwrap();
    assert_eq!(settings.display_name(), "worker-0-1");
}

#[test]
fn flags_override_the_environment() {
    let mut pod = pod();
    pod.flags.rank = Some(1);
    pod.flags.attempt = Some(8);
    let (settings, _) = Settings::read(&pod.flags, &variables(WORKER)).unwrap();
    assert_eq!((settings.rank, settings.attempt), (1, 8));
}

#[test]
fn each_error_names_what_is_wrong_and_the_way_out() {
    let fail = |pod: &Pod, variables: &dyn Fn(&str) -> Option<String>| {
        Settings::read(&pod.flags, variables).unwrap_err().to_string()
    };
    let mut missing = pod();
    missing.flags.config = Some(missing.dir.path().join("nowhere.json"));
    let text = fail(&missing, &variables(WORKER));
    assert!(text.contains("nowhere.json") && text.contains("--config"), "{text}");

    let short = pod();
    std::fs::write(short.dir.path().join("seed"), [7; 31]).unwrap();
    let text = fail(&short, &variables(WORKER));
    assert!(text.contains("31 bytes") && text.contains("32"), "{text}");

    let text = fail(&pod(), &variables(&[("QUORATE_ATTEMPT", "0")]));
    assert!(text.contains("QUORATE_GROUP") && text.contains("--rank"), "{text}");

    let text = fail(&pod(), &variables(&[("QUORATE_ATTEMPT", "first")]));
    assert!(text.contains("QUORATE_ATTEMPT") && text.contains("first"), "{text}");

    let text = fail(
        &pod(),
        &variables(&[
            ("QUORATE_GROUP", "actor"),
            ("JOB_COMPLETION_INDEX", "0"),
            ("QUORATE_ATTEMPT", "0"),
        ]),
    );
    assert!(text.contains("actor") && text.contains("worker (2)"), "{text}");

    let mut beyond = pod();
    beyond.flags.rank = Some(9);
    let text = fail(&beyond, &variables(WORKER));
    assert!(text.contains("rank 9") && text.contains('3'), "{text}");
}

#[test]
fn the_seed_has_no_printable_form() {
    let pod = pod();
    let (settings, seed) = Settings::read(&pod.flags, &variables(WORKER)).unwrap();
    let text = format!("{settings:?} {seed:?}");
    assert!(text.contains("Seed(redacted)"), "{text}");
    assert!(!text.contains("7, 7"), "{text}");
}
