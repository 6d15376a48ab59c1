//! Watches that are late: a look knows what was written before it, and nothing is written twice.

use serde_json::{Value, json};

use crate::world::{CLUSTERS, JOBS, JOBSETS, World, hello, writes};

#[tokio::test]
async fn an_object_whose_watch_is_late_is_not_made_twice() {
    let world = World::new(hello());
    world.watch();
    world.look().await.unwrap();
    world.server.take_calls();
    // Nothing has come since, not even the JobSet.
    world.look().await.unwrap();
    let calls = world.server.take_calls();
    assert_eq!(writes(&calls), ["PATCH miniclusters/hello/status"], "{calls:?}");
}

/// Asks for something, looks twice while no watch brings anything, and once more after that: which
/// requests wrote to the object at the end of this path.
async fn writes_to(world: &World, object: &str, ask: impl FnOnce(&mut Value)) -> usize {
    world.change(&format!("{CLUSTERS}/hello"), |cluster| {
        ask(cluster);
        let generation = cluster["metadata"]["generation"].as_i64().unwrap();
        cluster["metadata"]["generation"] = json!(generation + 1);
    });
    world.server.take_calls();
    for _ in 0..2 {
        world.look().await.unwrap();
    }
    world.watch();
    world.look().await.unwrap();
    let calls = world.server.take_calls();
    calls.iter().filter(|call| *call == &format!("PATCH {object}")).count()
}

#[tokio::test]
async fn a_wish_to_suspend_or_to_resume_is_written_once_though_the_watch_is_late() {
    let world = World::new(hello());
    world.settle().await;
    for wish in [true, false, true] {
        let written =
            writes_to(&world, "jobsets/hello", |o| o["spec"]["suspend"] = json!(wish)).await;
        assert_eq!(written, 1, "{wish}");
    }
}

#[tokio::test]
async fn another_queue_is_written_once_though_the_watch_is_late() {
    let world = World::new(hello());
    let queue = |name: &'static str| {
        move |cluster: &mut Value| {
            cluster["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = json!(name);
        }
    };
    world.change(&format!("{CLUSTERS}/hello"), queue("small"));
    world.settle().await;
    // As Kueue has it until there is room.
    world.change(&format!("{JOBSETS}/hello"), |jobset| jobset["spec"]["suspend"] = json!(true));
    world.settle().await;
    for name in ["roomy", "small"] {
        assert_eq!(writes_to(&world, "jobsets/hello", queue(name)).await, 1, "{name}");
    }
}

#[tokio::test]
async fn a_size_is_written_once_though_the_watch_is_late() {
    let world = World::new(json!({"size": 3, "maxSize": 6, "image": "mpi"}));
    world.settle().await;
    let jobset = world.server.get(&format!("{JOBSETS}/hello")).unwrap();
    let labels = json!({
        "quorate.dev/cluster": "hello",
        "jobset.sigs.k8s.io/jobset-uid": jobset["metadata"]["uid"],
        "jobset.sigs.k8s.io/replicatedjob-name": "worker",
    });
    let job = json!({
        "metadata": {"name": "hello-worker-0", "namespace": "hpc", "labels": labels},
        "spec": {"parallelism": 2, "completions": 2, "template": {}},
    });
    world.server.store(&format!("{JOBS}/hello-worker-0"), job);
    world.settle().await;
    for size in [6, 4] {
        let written =
            writes_to(&world, "jobs/hello-worker-0", |o| o["spec"]["size"] = json!(size)).await;
        assert_eq!(written, 1, "{size}");
    }
}
