use super::*;
use quorate_contract::keys::Seed;
use tokio::net::TcpListener;

fn tls(seed: u8, rank: u32, attempt: u32) -> Tls {
    Tls::new(Keyring::new(&Seed::new([seed; 32]), "u-1"), rank, attempt)
}

type Accepted = Result<(Stream, u32), TlsError>;
type Outcome = (Result<Stream, TlsError>, Accepted);

fn broker(caller: Result<Caller, TlsError>) -> Accepted {
    match caller? {
        Caller::Broker { stream, rank } => Ok((stream, rank)),
        Caller::Observer(_) => panic!("a broker was taken for an observer"),
        Caller::Outsider(_) => panic!("a broker was taken for somebody outside"),
    }
}

async fn meet(dialer: &Tls, to: u32, acceptor: &Tls) -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let accept = async {
        let (tcp, _) = listener.accept().await.unwrap();
        broker(acceptor.accept(tcp).await)
    };
    tokio::join!(dialer.dial(address, to), accept)
}

#[tokio::test]
async fn both_sides_prove_their_ranks_and_bytes_flow() {
    let (dialed, accepted) = meet(&tls(1, 5, 2), 0, &tls(1, 0, 2)).await;
    let (mut dialed, (mut accepted, rank)) = (dialed.unwrap(), accepted.unwrap());
    assert_eq!(rank, 5);
    dialed.write_all(b"up").await.unwrap();
    dialed.flush().await.unwrap();
    let mut two = [0; 2];
    accepted.read_exact(&mut two).await.unwrap();
    assert_eq!(&two, b"up");
    let (_, connection) = accepted.get_ref();
    assert_eq!(connection.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
}

#[tokio::test]
async fn another_seed_is_refused_by_both_sides() {
    let (dialed, accepted) = meet(&tls(1, 5, 0), 0, &tls(2, 0, 0)).await;
    assert!(matches!(dialed, Err(TlsError::NotTheRank { rank: 0, .. })), "{dialed:?}");
    assert!(matches!(accepted, Err(TlsError::WrongKey { from: 5, .. })), "{accepted:?}");
}

#[tokio::test]
async fn a_stale_attempt_is_proved_and_then_refused() {
    let (dialed, accepted) = meet(&tls(1, 5, 0), 0, &tls(1, 0, 1)).await;
    assert!(matches!(dialed, Err(TlsError::Stale { rank: 0, attempt: 0 })), "{dialed:?}");
    let error = accepted.unwrap_err();
    assert!(matches!(error, TlsError::OtherAttempt { from: 5, .. }), "{error:?}");
    assert_eq!(error.to_string(), "attempt 0, now 1");
}

#[tokio::test]
async fn a_stale_attempt_with_another_seed_proves_nothing() {
    let (dialed, accepted) = meet(&tls(2, 5, 0), 0, &tls(1, 0, 1)).await;
    assert!(matches!(dialed, Err(TlsError::NotTheRank { .. })), "{dialed:?}");
    assert!(matches!(accepted, Err(TlsError::WrongKey { .. })), "{accepted:?}");
}

#[tokio::test]
async fn a_caller_with_the_seed_but_another_ranks_key_is_refused() {
    // The caller claims rank 5 and has the key of rank 6.
    let mut impostor = tls(1, 6, 0);
    impostor.rank = 5;
    let (dialed, accepted) = meet(&impostor, 0, &tls(1, 0, 0)).await;
    assert!(matches!(dialed, Err(TlsError::Refused { rank: 0 })), "{dialed:?}");
    assert!(matches!(accepted, Err(TlsError::WrongKey { from: 5, .. })), "{accepted:?}");
}

#[tokio::test]
async fn a_dialer_that_reached_another_rank_does_not_take_it() {
    let mut misled = tls(1, 7, 0);
    // It answers for the wrong rank on purpose, past the check of the preamble.
    misled.rank = 0;
    let (dialed, _) = meet(&tls(1, 5, 0), 0, &misled).await;
    assert!(matches!(dialed, Err(TlsError::NotTheRank { .. })), "{dialed:?}");
    let (_, accepted) = meet(&tls(1, 5, 0), 0, &tls(1, 7, 0)).await;
    assert!(matches!(accepted, Err(TlsError::Misled { from: 5, to: 0 })), "{accepted:?}");
}

#[tokio::test]
async fn what_is_no_broker_is_turned_away() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut tcp = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    tcp.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let (accepted, _) = listener.accept().await.unwrap();
    let outcome = tls(1, 0, 0).accept(accepted).await;
    assert!(matches!(outcome, Err(TlsError::NotABroker)));
}

/// What an observer with this seed comes to, and what the acceptor makes of it.
async fn observe(seed: u8, acceptor: &Tls) -> (io::Result<Stream>, Result<Caller, TlsError>) {
    let keyring = Keyring::new(&Seed::new([seed; 32]), "u-1");
    let peer = Pinned::new(keyring.public(Holder::Observed));
    let mut config = Identity::new(&keyring, Holder::Observer).client(peer);
    config.alpn_protocols = vec![observe::ALPN.to_vec()];
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let dial = async {
        let mut tcp = TcpStream::connect(address).await?;
        tcp.write_all(&observe::PREAMBLE).await?;
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect(server_name(), tcp).await.map(TlsStream::Client)
    };
    let accept = async {
        let (tcp, _) = listener.accept().await.unwrap();
        acceptor.accept(tcp).await
    };
    tokio::join!(dial, accept)
}

#[tokio::test]
async fn an_observer_proves_the_seed_to_a_broker_of_any_rank_and_attempt() {
    for (rank, attempt) in [(0, 0), (0, 7), (3, 1)] {
        let (dialed, accepted) = observe(1, &tls(1, rank, attempt)).await;
        assert!(dialed.is_ok() && matches!(accepted, Ok(Caller::Observer(_))), "{accepted:?}");
        let dialed = dialed.unwrap();
        let (_, connection) = dialed.get_ref();
        assert_eq!(connection.alpn_protocol(), Some(observe::ALPN));
    }
}

#[tokio::test]
async fn an_observer_with_another_seed_is_refused() {
    let (dialed, accepted) = observe(2, &tls(1, 0, 0)).await;
    assert_eq!(cause(&dialed.unwrap_err()), Cause::WrongKey);
    assert!(matches!(accepted, Err(TlsError::NotAnObserver)), "{accepted:?}");
}
