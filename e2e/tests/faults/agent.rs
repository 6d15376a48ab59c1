//! A controller that was told an image of the agent in which there is none.

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
