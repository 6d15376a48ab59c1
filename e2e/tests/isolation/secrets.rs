//! Key material is in the Secret, in the files that pods mount of it, and nowhere else.

use crate::{LAB, launcher, name_of, objects, state};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use quorate_contract::keys::{Holder, Keyring, Seed};
use quorate_e2e::NAMESPACE;
use quorate_testbed::Node;
use std::fmt::Write as _;

/// One way to write a secret down, and what it looks like then.
type Needle = (String, Vec<u8>);

/// A secret as it is, as hexadecimal digits and as base64 of any alignment.
fn needles(what: &str, secret: &[u8], all: &mut Vec<Needle>) {
    let mut hex = String::new();
    for byte in secret {
        write!(hex, "{byte:02x}").unwrap();
    }
    all.push((format!("{what}, raw"), secret.to_vec()));
    all.push((format!("{what}, upper hex"), hex.to_uppercase().into_bytes()));
    all.push((format!("{what}, hex"), hex.into_bytes()));
    for engine in [STANDARD, URL_SAFE] {
        for before in 0..3 {
            let text = engine.encode([&vec![0; before], secret].concat());
            // The first and last characters also depend on the neighbours.
            let inner = &text.as_bytes()[4..text.len() - 4];
            all.push((format!("{what}, base64 after {before}"), inner.to_vec()));
        }
    }
    let list: Vec<String> = secret.iter().map(u8::to_string).collect();
    all.push((format!("{what}, as a list"), list.join(",").into_bytes()));
    all.push((format!("{what}, as a list with spaces"), list.join(", ").into_bytes()));
}

fn found<'a>(needles: &'a [Needle], text: &[u8]) -> Vec<&'a str> {
    let is_in = |needle: &[u8]| text.windows(needle.len()).any(|window| window == needle);
    needles.iter().filter(|(_, needle)| is_in(needle)).map(|(what, _)| what.as_str()).collect()
}

/// Everything that people and other pods may come to read, with a name for each part.
fn readable() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut add = |what: String, text: String| all.push((what, text.into_bytes()));
    let kinds = "mc,jobsets,jobs,pods,configmaps,events,events.v1.events.k8s.io,networkpolicies,\
                 services,endpointslices,leases,deployments,replicasets";
    let objects = LAB.kubectl(&["get", kinds, "-A", "-o", "json", "--show-managed-fields"]);
    add("objects".into(), objects.unwrap());
    let template = "jsonpath={range .items[*]}{.metadata.namespace} {.metadata.name}{\"\\n\"}{end}";
    let pods = LAB.kubectl(&["get", "pods", "-A", "-o", template]).unwrap();
    for line in pods.lines() {
        let (space, pod) = line.split_once(' ').unwrap();
        for previous in ["--previous=false", "--previous"] {
            let words = ["-n", space, "logs", pod, "--all-containers", previous];
            // A pod may be gone by now, and few have a life before.
            if let Ok(log) = LAB.kubectl(&words) {
                add(format!("log of {space}/{pod}"), log);
            }
        }
    }
    for node in 1..=3 {
        // Processes of all pods of the node, the controllers' too.
        let script = "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null; true";
        let mut command = LAB.cluster.exec(Some(Node(node))).unwrap();
        let output = command.args(["sh", "-c", script]).output().unwrap();
        all.push((format!("processes of n{node}"), output.stdout));
    }
    let audit = LAB.cluster.folder().audit_log();
    all.push(("requests".into(), std::fs::read(audit).unwrap()));
    all
}

#[test]
fn key_material_is_in_no_log_event_object_environment_argument_or_status() {
    let image = "image: localhost/mpi-debian:v1";
    let (name, failing) = ("scanned", "scanned-failing");
    LAB.minicluster(name, &format!("size: 3\nslots: 1\n{image}"));
    let program = "program: {parallel: {command: [sh, -c, 'echo fails; exit 3'], tasks: 2}}";
    let policy = "failurePolicy: {maxRestarts: 1}";
    LAB.minicluster(failing, &format!("size: 2\nslots: 1\n{image}\n{policy}\n{program}"));
    state(NAMESPACE, name, "Ready");
    let pod = launcher(NAMESPACE, name);
    let run = ["exec", name_of(&pod), "-c", "main", "--", "/quorate/bin/quorate-agent", "run"];
    let hello = ["-n", "3", "/opt/tests/mpich/hello", "3"];
    let output = LAB.kubectl(&[run.as_slice(), hello.as_slice()].concat()).unwrap();
    assert_eq!(output.lines().filter(|line| line.starts_with("rank ")).count(), 3, "{output}");
    // The most talkative that an agent can be.
    let overlay = ["exec", name_of(&pod), "-c", "main", "--", "/quorate/bin/quorate-agent"];
    let told = LAB.kubectl(&[&overlay[..], &["overlay", "status", "-o", "json"]].concat()).unwrap();
    assert!(told.contains("\"online\""), "{told}");
    let failed = state(NAMESPACE, failing, "Failed");
    assert_eq!(failed["status"]["attempt"], 1, "{failed}");

    let mut all = Vec::new();
    for cluster in [name, failing] {
        let uid = LAB.get("minicluster", cluster).unwrap()["metadata"]["uid"].clone();
        let secret = objects(NAMESPACE, "secrets", cluster).remove(0);
        let text = secret["data"]["seed"].as_str().unwrap();
        let seed: [u8; 32] = STANDARD.decode(text).unwrap().try_into().unwrap();
        let mut own = Vec::new();
        needles(&format!("{cluster}'s seed"), &seed, &mut own);
        assert!(!found(&own, text.as_bytes()).is_empty(), "the search finds what is there");
        let ring = Keyring::new(&Seed::new(seed), uid.as_str().unwrap());
        let ranks = (0..3).flat_map(|rank| (0..2).map(move |attempt| (rank, attempt)));
        let ranks = ranks.map(|(rank, attempt)| Holder::Rank { rank, attempt });
        for holder in ranks.chain([Holder::Observer, Holder::Observed]) {
            // PKCS #8 of Ed25519 ends with the 32 bytes of the secret.
            let der = ring.pkcs8(holder);
            needles(&format!("{cluster}'s key of {holder:?}"), &der[der.len() - 32..], &mut own);
        }
        all.extend(own);
    }
    let parts = readable();
    let text = |what: &str| -> String {
        let wanted = parts.iter().filter(|(name, _)| name.starts_with(what));
        wanted.map(|(_, text)| String::from_utf8_lossy(text).into_owned()).collect()
    };
    // What is searched is what it is taken for.
    let scanned_pod = name_of(&pod);
    assert!(text("objects").contains(scanned_pod));
    assert!(text(&format!("log of {NAMESPACE}/{failing}")).contains("fails"));
    assert!(text("log of quorate-system/").contains("caches filled"));
    let processes = text("processes of n");
    for word in ["QUORATE_GROUP", "quorate-agent", "--agent-image", "QUORATE_IDENTITY"] {
        assert!(processes.contains(word), "{word} is in no process");
    }
    for (what, text) in &parts {
        assert_eq!(found(&all, text), Vec::<&str>::new(), "{what}");
    }
    LAB.kubectl(&["delete", "mc", name, failing]).unwrap();
}
