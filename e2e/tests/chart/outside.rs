//! The switch that closes queues to port-forwards.

use crate::{IMAGE, chart, stand};
use quorate_e2e::NAMESPACE;

#[test]
fn a_queue_that_is_closed_to_port_forwards_says_so_and_other_ways_stay() {
    let stand = stand();
    let lab = &stand.lab;
    let values = lab.cluster.folder().path("values.json").display().to_string();
    let upgrade = ["upgrade", "quorate", &chart(), "--values", &values];
    let (open, closed) = ("open", "closed");
    let spec = format!("size: 1\nslots: 1\n{IMAGE}");
    lab.minicluster(open, &spec);
    lab.state(open, "Ready");
    lab.helm(&[&upgrade[..], &["--set=outside.portForward=false"]].concat()).unwrap();
    lab.rolled_out();
    lab.minicluster(closed, &spec);
    lab.state(closed, "Ready");
    let submit = |name: &str, more: &[&str]| {
        let words = ["submit", "-v", "-n", NAMESPACE, name];
        lab.quorate(&[&words[..], more, &["--wait", "--", "true"]].concat())
    };
    let switch = "outside.portForward was false in the values of Quorate's chart";
    // Who may run commands in pods gets in; files have no other way.
    let said = submit(closed, &[]);
    assert_eq!((said.code, said.out.as_str()), (0, "1\n"), "{said:?}");
    assert!(said.err.contains(switch) && said.err.contains("trying exec"), "{said:?}");
    let file = std::env::current_exe().unwrap().with_file_name("chart-outside-file");
    std::fs::write(&file, "x").unwrap();
    let file = file.display().to_string();
    let said = submit(closed, &["--file", &file]);
    assert!(said.code == 1 && said.err.contains(switch), "{said:?}");
    // What was there before keeps what it was made with.
    let said = submit(open, &["--file", &file]);
    assert!(said.code == 0 && !said.err.contains(switch), "{said:?}");
    std::fs::remove_file(file).unwrap();
    lab.helm(&upgrade).unwrap();
    lab.rolled_out();
    lab.kubectl(&["delete", "mc", open, closed]).unwrap();
}
