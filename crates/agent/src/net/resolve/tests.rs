use super::*;
use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// What the small server has, and what it was asked.
#[derive(Default)]
struct Zone {
    v4: HashMap<String, [u8; 4]>,
    v6: HashMap<String, Ipv6Addr>,
    /// Names whose UDP answers are cut.
    truncated: HashSet<String>,
    /// Names whose first UDP questions are dropped, with the number left.
    dropped: HashMap<String, u32>,
    /// Keeps what was absent, for ever, by all that a cache distinguishes: the bytes behind the id.
    absent: Option<HashSet<Vec<u8>>>,
    /// The answer code for questions of other types than A and AAAA, where it is always the same.
    addresses_alone: Option<u8>,
    asked: Vec<String>,
}

fn reply(zone: &mut Zone, question: &[u8], tcp: bool) -> Option<Vec<u8>> {
    let mut name = Vec::new();
    let mut at = 12;
    while question[at] != 0 {
        let length = usize::from(question[at]);
        name.push(String::from_utf8(question[at + 1..=at + length].to_vec()).unwrap());
        at += length + 1;
    }
    let name = name.join(".");
    let kind = u16::from_be_bytes([question[at + 1], question[at + 2]]);
    zone.asked.push(name.clone());
    if let Some(code) = zone.addresses_alone.filter(|_| kind > 28) {
        let mut bytes = question[..at + 5].to_vec();
        (bytes[2], bytes[3], bytes[11]) = (0x81, 0x80 | code, 0);
        return Some(bytes);
    }
    if let Some(left) = zone.dropped.get_mut(&name).filter(|left| !tcp && **left > 0) {
        *left -= 1;
        return None;
    }
    let mut known = zone.v4.contains_key(&name) || zone.v6.contains_key(&name);
    if let Some(absent) = &mut zone.absent {
        known &= !absent.contains(&question[2..]);
        if !known {
            absent.insert(question[2..].to_vec());
        }
    }
    let data: Vec<u8> = if !known {
        Vec::new()
    } else if kind == 28 {
        zone.v6.get(&name).map(|a| a.octets().to_vec()).unwrap_or_default()
    } else if kind == 1 {
        zone.v4.get(&name).map(|a| a.to_vec()).unwrap_or_default()
    } else {
        Vec::new()
    };
    let mut bytes = question[..at + 5].to_vec();
    let truncated = !tcp && zone.truncated.contains(&name);
    // An additional record of the question is not answered.
    bytes[11] = 0;
    bytes[2] = if truncated { 0x83 } else { 0x81 };
    bytes[3] = if known { 0x80 } else { 0x83 };
    if !data.is_empty() && !truncated {
        bytes[7] = 1;
        bytes.extend_from_slice(&[0xc0, 12, 0, question[at + 2], 0, 1, 0, 0, 0, 5, 0]);
        bytes.push(data.len() as u8);
        bytes.extend_from_slice(&data);
    }
    Some(bytes)
}

/// A DNS server on loopback, on one port for UDP and TCP.
async fn serve(zone: Zone) -> (SocketAddr, Arc<Mutex<Zone>>) {
    let zone = Arc::new(Mutex::new(zone));
    let (udp, tcp) = loop {
        let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let bound = tokio::net::TcpListener::bind(udp.local_addr().unwrap()).await;
        if let Ok(tcp) = bound {
            break (udp, tcp);
        }
    };
    let address = udp.local_addr().unwrap();
    let shared = zone.clone();
    tokio::spawn(async move {
        let mut buffer = [0; 512];
        loop {
            let (length, from) = udp.recv_from(&mut buffer).await.unwrap();
            let answer = reply(&mut shared.lock().unwrap(), &buffer[..length], false);
            if let Some(answer) = answer {
                udp.send_to(&answer, from).await.unwrap();
            }
        }
    });
    let shared = zone.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = tcp.accept().await.unwrap();
            let length = stream.read_u16().await.unwrap();
            let mut question = vec![0; usize::from(length)];
            stream.read_exact(&mut question).await.unwrap();
            let answer = reply(&mut shared.lock().unwrap(), &question, true).unwrap();
            stream.write_u16(answer.len() as u16).await.unwrap();
            stream.write_all(&answer).await.unwrap();
        }
    });
    (address, zone)
}

fn conf(server: SocketAddr) -> ResolvConf {
    let mut conf =
        ResolvConf::parse("search ns.svc.cluster.local svc.cluster.local\noptions ndots:5\n");
    conf.servers = vec![server];
    conf.timeout = Duration::from_millis(200);
    conf
}

#[tokio::test]
async fn both_families_are_asked_for() {
    let mut zone = Zone::default();
    zone.v4.insert("w.mc.ns.svc".into(), [10, 1, 2, 3]);
    zone.v6.insert("w.mc.ns.svc".into(), "fd00::7".parse().unwrap());
    let (server, _) = serve(zone).await;
    match ask_servers(&conf(server), "w.mc.ns.svc", Form::default()).await {
        Verdict::Found(found) => {
            let want: Vec<IpAddr> = vec!["10.1.2.3".parse().unwrap(), "fd00::7".parse().unwrap()];
            assert_eq!(found, want);
        }
        _ => panic!("the name is in the zone"),
    }
}

#[tokio::test]
async fn a_name_that_comes_later_is_found_at_once() {
    let (server, zone) = serve(Zone::default()).await;
    assert!(matches!(ask_servers(&conf(server), "w.mc", Form::default()).await, Verdict::None));
    zone.lock().unwrap().v4.insert("w.mc".into(), [10, 0, 0, 1]);
    assert!(matches!(ask_servers(&conf(server), "w.mc", Form::default()).await, Verdict::Found(_)));
}

#[tokio::test]
async fn a_name_that_was_asked_for_too_early_is_not_hidden_by_the_servers_memory() {
    let (server, zone) = serve(Zone { absent: Some(HashSet::new()), ..Zone::default() }).await;
    let look = |form| async move { ask_servers(&conf(server), "w.mc", form).await };
    assert!(matches!(look(Form::of_turn(0)).await, Verdict::None));
    zone.lock().unwrap().v4.insert("w.mc".into(), [10, 0, 0, 1]);
    assert!(matches!(look(Form::of_turn(0)).await, Verdict::None), "the server has forgotten");
    for turn in 1..4 {
        assert!(matches!(look(Form::of_turn(turn)).await, Verdict::Found(_)), "{turn}");
    }
}

const PACE: Pace = Pace {
    shortest: Duration::from_millis(1),
    longest: Duration::from_millis(5),
    patience: Duration::from_millis(100),
};

fn w() -> Names {
    Names { full: "w.mc".into(), service: "w.mc".into(), host: "w".into() }
}

/// The name comes after so many questions.
async fn comes_after(
    questions: usize,
    zone: Zone,
    resolver: &Resolver,
    pace: Pace,
) -> Result<Vec<IpAddr>, ResolveError> {
    let (server, zone) = serve(zone).await;
    let comes = async {
        while zone.lock().unwrap().asked.len() < questions {
            sleep(Duration::from_millis(1)).await;
        }
        zone.lock().unwrap().v4.insert("w.mc".into(), [10, 0, 0, 1]);
    };
    let conf = ResolvConf { search: Vec::new(), ..conf(server) };
    let names = w();
    tokio::join!(resolver.wait(&names, pace, || (None, conf.clone())), comes).0
}

#[tokio::test]
async fn a_name_is_found_as_soon_as_it_is_there_by_a_server_that_never_forgets() {
    let resolver = Resolver::default();
    let pace = Pace { patience: Duration::from_mins(1), ..PACE };
    let zone = Zone { absent: Some(HashSet::new()), ..Zone::default() };
    let found = comes_after(20, zone, &resolver, pace).await.unwrap();
    assert_eq!(found, ["10.0.0.1".parse::<IpAddr>().unwrap()]);
    assert!(resolver.waited_for().is_empty());
}

#[tokio::test]
async fn a_server_that_knows_addresses_alone_is_asked_for_them() {
    // NXDOMAIN for all else, then NOTIMP.
    for code in [3, 4] {
        let resolver = Resolver::default();
        let zone = Zone { addresses_alone: Some(code), ..Zone::default() };
        let mut found = comes_after(2, zone, &resolver, PACE).await;
        if found.is_err() {
            // As the broker does after a failed dial.
            let zone = Zone { addresses_alone: Some(code), ..Zone::default() };
            found = comes_after(0, zone, &resolver, PACE).await;
        }
        assert_eq!(found.unwrap(), ["10.0.0.1".parse::<IpAddr>().unwrap()], "{code}");
    }
}

#[tokio::test]
async fn a_name_that_does_not_come_is_said_to_be_missing() {
    let resolver = Resolver::default();
    let (server, _) = serve(Zone::default()).await;
    let error = resolver.wait(&w(), PACE, || (None, conf(server))).await.unwrap_err();
    assert!(matches!(&error, ResolveError::NotYet { name } if name == "w.mc"), "{error}");
    assert_eq!(resolver.waited_for().keys().collect::<Vec<_>>(), ["w.mc"]);
}

#[test]
fn questions_become_rarer_with_the_time_that_a_name_has_been_missing() {
    let pace = Pace {
        shortest: Duration::from_millis(20),
        longest: Duration::from_millis(300),
        patience: Duration::from_secs(1),
    };
    let pause = |missing| pace.pause(Duration::from_millis(missing)).as_millis();
    assert_eq!([0, 400, 2_000, 6_000, 60_000].map(pause), [20, 20, 100, 300, 300]);
    let large = Pace { shortest: Duration::from_secs(1), ..pace };
    assert_eq!(large.pause(Duration::ZERO), Duration::from_secs(1));
}

#[tokio::test]
async fn a_truncated_answer_is_fetched_by_tcp() {
    let mut zone = Zone::default();
    zone.v4.insert("w.mc".into(), [10, 0, 0, 1]);
    zone.truncated.insert("w.mc".into());
    let (server, _) = serve(zone).await;
    assert!(matches!(ask_servers(&conf(server), "w.mc", Form::default()).await, Verdict::Found(_)));
}

#[tokio::test]
async fn a_lost_question_is_asked_again() {
    let mut zone = Zone::default();
    zone.v4.insert("w.mc".into(), [10, 0, 0, 1]);
    zone.dropped.insert("w.mc".into(), 2);
    let (server, zone) = serve(zone).await;
    assert!(matches!(ask_servers(&conf(server), "w.mc", Form::default()).await, Verdict::Found(_)));
    assert!(zone.lock().unwrap().asked.len() > 2);
}

#[tokio::test]
async fn a_dead_server_is_passed_over() {
    let mut zone = Zone::default();
    zone.v4.insert("w.mc".into(), [10, 0, 0, 1]);
    let (server, _) = serve(zone).await;
    let mut conf = conf(server);
    let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    conf.servers.insert(0, silent.local_addr().unwrap());
    assert!(matches!(ask_servers(&conf, "w.mc", Form::default()).await, Verdict::Found(_)));
}

#[tokio::test]
async fn the_hosts_file_comes_first() {
    let dir = tempfile::tempdir().unwrap();
    let hosts = dir.path().join("hosts");
    std::fs::write(&hosts, "10.9.9.9 mc-worker-0-0.mc.ns.svc.cluster.local mc-worker-0-0\n")
        .unwrap();
    let resolver = Resolver::new(&hosts, Path::new("/nonexistent"));
    let names = Names {
        full: "mc-worker-0-0.mc.ns.svc.cluster.local".into(),
        service: "mc-worker-0-0.mc".into(),
        host: "mc-worker-0-0".into(),
    };
    let found = resolver.resolve(&names, PACE).await.unwrap();
    assert_eq!(found, vec!["10.9.9.9".parse::<IpAddr>().unwrap()]);
}

#[test]
fn a_pods_resolv_conf_is_understood() {
    let conf = ResolvConf::parse(
        "search hpc.svc.cluster.local svc.cluster.local cluster.local.\n\
         nameserver 10.96.0.10 # the cluster's\nnameserver nonsense\nnameserver fd00::a\n\
         options ndots:5 timeout:1 attempts:9 edns0\n",
    );
    let servers: Vec<String> = conf.servers.iter().map(ToString::to_string).collect();
    assert_eq!(servers, ["10.96.0.10:53", "[fd00::a]:53"]);
    assert_eq!((conf.ndots, conf.attempts, conf.timeout), (5, 5, Duration::from_secs(1)));
    assert_eq!(
        conf.candidates("w.mc"),
        ["w.mc.hpc.svc.cluster.local", "w.mc.svc.cluster.local", "w.mc.cluster.local", "w.mc"]
    );
    assert_eq!(ResolvConf::parse("").servers, ["127.0.0.1:53".parse().unwrap()]);
}

#[test]
fn hosts_lines_give_all_addresses_of_a_name() {
    let text = "# comment\n127.0.0.1 localhost\nfd00::1 a b # a\n10.0.0.1\tb A.\nbad b\n";
    let found: Vec<String> = hosts_lookup(text, "a").iter().map(ToString::to_string).collect();
    assert_eq!(found, ["10.0.0.1", "fd00::1"]);
    assert!(hosts_lookup(text, "c").is_empty());
}

#[test]
fn an_address_book_line_that_is_wrong_is_named() {
    let book = parse_address_book("0 127.0.0.1:99 # root\n\n1 [::1]:5\n").unwrap();
    assert_eq!(book[&1], "[::1]:5".parse().unwrap());
    let error = parse_address_book("0 127.0.0.1:99\none 127.0.0.1:5\n").unwrap_err();
    assert_eq!(error.line, 2);
}
