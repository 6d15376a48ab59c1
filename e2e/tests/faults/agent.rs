//! Controllers that were told of an agent what is not so: an image in which there is none, a way in which
//! it cannot come.

use crate::{IMAGE, LAB};
use quorate_e2e::proxy::Fate;
use quorate_e2e::{Controller, Namespace};

#[test]
fn an_agent_image_without_the_agent_in_it_is_explained_by_what_the_runtime_says() {
    let lab = &*LAB;
    let place = Namespace::new(lab, "agentless");
    let image = ["--agent-image=localhost/busybox:v1"];
    let _controller =
        Controller::start(lab, "agentless", &place.name, &image, Box::new(|_| Fate::Pass));
    place.minicluster("bare", &format!("{IMAGE}\nprogram: {{command: [\"true\"]}}"));
    let object = place.until("bare", "fails for the agent", |object| {
        object["status"]["failure"]["reason"] == "CannotRun"
    });
    let message = object["status"]["failure"]["message"].as_str().unwrap();
    for word in ["quorate-agent", "launcher-0-0", "no such file or directory"] {
        assert!(message.contains(word), "{message}");
    }
    // There is nothing to start again for: it fails, and stays explained when its pods are gone.
    let object = place.state("bare", "Failed");
    let said = lab.quorate(&["why", "bare", "-n", &place.name]);
    let first = format!("bare failed: {}.", object["status"]["message"].as_str().unwrap());
    assert_eq!((said.code, said.out.lines().next()), (0, Some(first.as_str())), "{said:?}");

    // The launcher of a queue is tried again, in case an image comes that has one.
    place.minicluster("queue", IMAGE);
    let object =
        place.until("queue", "is explained", |object| object["status"]["reason"] == "CannotRun");
    let message = object["status"]["message"].as_str().unwrap();
    assert!(message.contains("no such file or directory"), "{message}");
    assert_eq!(object["status"]["state"], "Pending", "{object}");
    place.kubectl(&["delete", "mc", "bare", "queue"]).unwrap();
}

/// The nodes' containerd is the distribution's, which is older than image volumes.
#[test]
fn a_runtime_without_image_volumes_is_named_with_the_way_out() {
    let lab = &*LAB;
    let place = Namespace::new(lab, "volumeless");
    let flag = ["--agent-delivery=image"];
    let controller =
        Controller::start(lab, "volumeless", &place.name, &flag, Box::new(|_| Fate::Pass));
    place.minicluster("refused", &format!("{IMAGE}\nprogram: {{command: [\"true\"]}}"));
    let object =
        place.until("refused", "is explained", |object| object["status"]["reason"] == "CannotRun");
    assert_eq!(
        object["status"]["message"],
        "launcher-0-0 cannot run container main: the node's container runtime knows no image volumes \
         (failed to mkdir \"\": mkdir : no such file or directory)"
    );
    let said = lab.quorate(&["why", "refused", "-n", &place.name]);
    assert!(said.out.contains("agent.delivery: copy"), "{said:?}");

    // As it says: the other way, and a new cluster.
    place.kubectl(&["delete", "mc", "refused"]).unwrap();
    place.gone("refused");
    drop(controller);
    let flag = ["--agent-delivery=copy"];
    let _controller =
        Controller::start(lab, "copying", &place.name, &flag, Box::new(|_| Fate::Pass));
    place.minicluster("refused", &format!("{IMAGE}\nprogram: {{command: [\"true\"]}}"));
    place.state("refused", "Succeeded");
    place.kubectl(&["delete", "mc", "refused"]).unwrap();
}
