//! Other containers in the launcher's pod: they see the local socket if they mount it, and only those of
//! the cluster's own user, and root, are served.

use crate::LAB;
use quorate_e2e::NAMESPACE;

const AGENT: &str = "/quorate/bin/quorate-agent";
const SOCKET: &str = "/quorate/run/agent.sock";

/// What a command in a container of the launcher's pod says, or its error.
fn inside(pod: &str, container: &str, words: &[&str]) -> Result<String, String> {
    LAB.kubectl(&[&["-n", NAMESPACE, "exec", pod, "-c", container, "--"], words].concat())
}

#[test]
fn a_side_car_of_another_user_is_turned_away_by_name() {
    let name = "neighbours";
    let side_car = |name: &str, uid: u32| {
        format!(
            "{{name: {name}, image: 'localhost/mpi-debian:v1', command: [sleep, '3600'],\n           \
             securityContext: {{runAsUser: {uid}, runAsGroup: {uid}}},\n           \
             volumeMounts: [{{name: quorate-bin, mountPath: /quorate/bin}}, {{name: quorate-run, mountPath: /quorate/run}}]}}"
        )
    };
    LAB.minicluster(
        name,
        &format!(
            "size: 1\nslots: 1\nlauncher:\n  template:\n    spec:\n      containers:\n      \
             - {{name: main, image: 'localhost/mpi-debian:v1', securityContext: {{runAsUser: 2000, runAsGroup: 2000}}}}\n      \
             - {}\n      - {}\n",
            side_car("stranger", 3000),
            side_car("friend", 2000)
        ),
    );
    LAB.state(name, "Ready");
    let pods = LAB.of("pods", name);
    let pod = pods[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let ask = [AGENT, "jobs", "--socket", SOCKET];
    let submit = [AGENT, "submit", "--socket", SOCKET, "true"];
    // The socket's mode keeps others away.
    let refused = inside(&pod, "stranger", &ask).unwrap_err();
    assert!(refused.contains("Permission denied"), "{refused}");
    // Whoever opens it to all has opened it to nobody: the broker knows its callers.
    inside(&pod, "main", &["chmod", "666", SOCKET]).unwrap();
    for words in [&ask[..], &submit[..]] {
        let refused = inside(&pod, "stranger", words).unwrap_err();
        assert!(
            refused.contains("this broker belongs to uid 2000, not to uid 3000"),
            "{words:?}: {refused}"
        );
    }
    // One of the same user is served, and sees that nothing of the other was taken.
    assert_eq!(inside(&pod, "friend", &submit), Ok("1".into()));
    LAB.kubectl(&["delete", "mc", name]).unwrap();
}
