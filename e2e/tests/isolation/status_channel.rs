//! Who hears the status of a cluster: whoever has its seed, and nobody else. The test speaks the
//! protocol itself, from a pod that the cluster's policy lets through to the port.

use crate::{CONTROLLER, LAB, idle_pod, launcher, state};
use base64::Engine as _;
use quorate_contract::keys::{Holder, Keyring, Seed};
use quorate_contract::observe;
use quorate_e2e::NAMESPACE;
use quorate_tls::{Identity, Pinned, server_name};
use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::Arc;

/// A connection to a port, carried through a pod.
struct Through {
    child: Child,
    to: ChildStdin,
    from: ChildStdout,
}

impl Through {
    fn new(pod: &str, address: &str) -> Self {
        let mut command = LAB.cluster.kubectl();
        // What hangs must not hang the test.
        let nc = ["timeout", "20", "nc", address, "8117"];
        command.args(["-n", "strangers", "exec", "-i", pod, "--"]).args(nc);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, to, from }
    }
}

impl Read for Through {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.from.read(room)
    }
}

impl Write for Through {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl Drop for Through {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The first line that a broker says to who shows the keys of this ring, or the error.
fn ask(pod: &str, address: &str, keyring: &Keyring) -> io::Result<String> {
    let mut through = Through::new(pod, address);
    through.write_all(&observe::PREAMBLE)?;
    through.flush()?;
    let peer = Pinned::new(keyring.public(Holder::Observed));
    let mut config = Identity::new(keyring, Holder::Observer).client(peer);
    config.alpn_protocols = vec![observe::ALPN.to_vec()];
    let session = rustls::ClientConnection::new(Arc::new(config), server_name()).unwrap();
    let mut stream = rustls::StreamOwned::new(session, through);
    let (mut line, mut byte) = (Vec::new(), [0]);
    while stream.read(&mut byte)? == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    Ok(String::from_utf8(line).unwrap())
}

/// Everything that a broker answers to bytes that are no handshake.
fn shout(pod: &str, address: &str, bytes: &[u8]) -> Vec<u8> {
    let mut through = Through::new(pod, address);
    let mut answer = Vec::new();
    // It may have hung up before all was said.
    let _ = through.write_all(bytes).and_then(|()| through.flush());
    through.read_to_end(&mut answer).unwrap();
    answer
}

#[test]
fn the_status_channel_answers_the_seeds_keys_and_nobody_else() {
    let name = "asked";
    idle_pod("strangers", "curious", CONTROLLER);
    LAB.minicluster(name, "size: 2\nimage: localhost/mpi-debian:v1");
    let uid = state(NAMESPACE, name, "Ready")["metadata"]["uid"].as_str().unwrap().to_owned();
    let address = launcher(NAMESPACE, name)["status"]["podIP"].as_str().unwrap().to_owned();
    let secret = LAB.of("secrets", name).remove(0);
    let seed = secret["data"]["seed"].as_str().unwrap();
    let seed = base64::engine::general_purpose::STANDARD.decode(seed).unwrap();
    let seed: [u8; 32] = seed.try_into().unwrap();
    let ring = |seed: [u8; 32], uid: &str| Keyring::new(&Seed::new(seed), uid);

    let ask = |keyring: &Keyring| ask("curious", &address, keyring);
    let told = LAB.eventually("the seed opens it", || ask(&ring(seed, &uid)).ok(), Option::is_some);
    let told: serde_json::Value = serde_json::from_str(&told.unwrap()).unwrap();
    assert_eq!(told["status"]["cluster"], name);
    assert_eq!(told["status"]["online"], 2);

    let mut other = seed;
    other[0] ^= 1;
    for (what, keyring) in [
        ("another seed", ring(other, &uid)),
        ("the seed with another cluster's UID", ring(seed, "6f9619ff-8b86-d011-b42d-00c04fc964ff")),
    ] {
        let refused = ask(&keyring).expect_err(what);
        // The stranger finds that the broker is not who it takes it for, before anything was said.
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData, "{what}: {refused}");
    }
    for (what, bytes) in [
        ("no preamble", b"GET / HTTP/1.1\r\n\r\n".as_slice()),
        ("a preamble and no TLS", b"QRO1{\"size\":1}\n".as_slice()),
        ("a rank without a key", b"QRT1\0\0\0\0\0\0\0\x01\0\0\0\0{\"hello\":{}}\n".as_slice()),
    ] {
        let answer = shout("curious", &address, bytes);
        // An alert of TLS (RFC 8446 section 6) has 7 bytes, and says nothing of the cluster.
        assert!(answer.is_empty() || (answer.len() == 7 && answer[0] == 21), "{what}: {answer:?}");
    }
    let status = LAB.get("minicluster", name).unwrap()["status"].clone();
    assert_eq!((&status["state"], &status["online"]), (&"Ready".into(), &2.into()), "{status}");
    LAB.kubectl(&["delete", "mc", name]).unwrap();
}
