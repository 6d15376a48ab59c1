//! Programs that run: direct launch, mpirun in a script, an image without a shell.

use crate::{LAB, spread};
use std::collections::BTreeSet;

/// Lines of the hello program, and the pods that they name.
fn pods_of_ranks(output: &str) -> (usize, BTreeSet<&str>) {
    let lines: Vec<&str> = output.lines().filter(|line| line.starts_with("rank ")).collect();
    (lines.len(), lines.iter().filter_map(|line| line.rsplit(' ').next()).collect())
}

fn hello(name: &str, program: &str) {
    LAB.minicluster(name, &format!("size: 4\nslots: 2\n{}{program}", spread(name)));
    // What people type: it has to end by itself.
    let object = format!("mc/{name}");
    let running = LAB.until(name, "quorate", |object| object["status"]["quorateTime"].is_string());
    assert_eq!(running["status"]["size"], 4);
    LAB.kubectl(&["wait", "--for=condition=Succeeded", &object, "--timeout=120s"]).unwrap();
    let output = LAB.output(name);
    let (ranks, pods) = pods_of_ranks(&output);
    assert_eq!((ranks, pods.len()), (8, 4), "{output}");
    let status = LAB.get("minicluster", name).unwrap()["status"].clone();
    assert_eq!(status["state"], "Succeeded");
    assert_eq!(status["exitCode"], 0);
    assert_eq!(status["attempt"], 0);
    assert!(status["completionTime"].is_string() && status["startTime"].is_string());
    assert!(status["failure"].is_null(), "{status}");
}

#[test]
fn mpich_ranks_meet_over_four_pods_by_direct_launch() {
    let name = "hello-mpich";
    hello(name, "program: {parallel: {command: [/opt/tests/mpich/hello, '4'], tasks: 8}}");
}

#[test]
fn open_mpi_ranks_meet_over_four_pods_by_direct_launch() {
    let name = "hello-ompi";
    hello(name, "program: {parallel: {command: [/opt/tests/openmpi/hello, '4'], tasks: 8}}");
}

#[test]
fn an_unchanged_mpirun_script_reaches_all_pods_without_ssh() {
    let script = "mpirun --oversubscribe -np 8 /opt/tests/openmpi/hello 4";
    hello("script-ompi", &format!("program: {{command: [bash, -c, '{script}']}}"));
}

#[test]
fn an_unchanged_mpiexec_of_mpich_reaches_all_pods_without_ssh() {
    let script = "/opt/mpich/bin/mpiexec -n 8 /opt/tests/mpich/hello 4";
    hello("script-mpich", &format!("program: {{command: [bash, -c, '{script}']}}"));
}

#[test]
fn pods_of_one_cluster_are_on_all_three_nodes() {
    let name = "nodes";
    LAB.minicluster(name, &format!("size: 4\n{}", spread(name)));
    LAB.state(name, "Ready");
    let pods = LAB.of("pods", name);
    let nodes: BTreeSet<&str> =
        pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
    assert_eq!((pods.len(), nodes.len()), (4, 3), "{nodes:?}");
    LAB.kubectl(&["delete", "mc", name]).unwrap();
}

#[test]
fn an_image_without_shell_or_library_runs() {
    let name = "static";
    let program = "program: {parallel: {command: [/program, '3'], tasks: 3}}";
    LAB.minicluster(
        name,
        &format!("size: 3\nslots: 1\nimage: localhost/static-program:v1\n{program}"),
    );
    LAB.state(name, "Succeeded");
    let output = LAB.output(name);
    assert_eq!(pods_of_ranks(&output).0, 3, "{output}");
}

#[test]
fn long_and_foreign_arguments_reach_the_program_unchanged() {
    let name = "arguments";
    let long = "x".repeat(1_000);
    let odd = "größe 大きさ $HOME `id` \\n *";
    LAB.minicluster(
        name,
        &format!(
            "image: localhost/mpi-debian:v1\nprogram: {{command: [printf, '[%s]', '{long}', '{odd}']}}"
        ),
    );
    LAB.state(name, "Succeeded");
    let output = LAB.output(name);
    assert!(output.contains(&format!("[{long}][{odd}]")), "{output}");
}

#[test]
fn sixteen_pods_come_up() {
    let name = "sixteen";
    let program = "program: {parallel: {command: [/opt/tests/mpich/hello, '16'], tasks: 16}}";
    LAB.minicluster(
        name,
        &format!("size: 16\nslots: 1\nimage: localhost/mpi-debian:v1\n{program}"),
    );
    LAB.state(name, "Succeeded");
    assert_eq!(pods_of_ranks(&LAB.output(name)).1.len(), 16);
}
