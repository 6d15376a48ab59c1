//! The broker's end of the local socket: takes calls and hands them to their verbs.

use super::connection::{Call, Connection, Hello};
use super::{blocking, kind};
use crate::broker::Services;
use quorate_contract::exit;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};

/// A client that has not said by then what it wants is dropped.
const HELLO_WAIT: Duration = Duration::from_secs(5);

/// Makes the socket. What an earlier broker left at the path is replaced.
pub fn bind(path: &Path) -> io::Result<UnixListener> {
    let listener = blocking::bind(path)?;
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

/// Takes calls until it is dropped.
pub async fn serve(listener: UnixListener, services: Arc<OnceLock<Services>>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let services = services.clone();
                tokio::spawn(async move { take(stream, &services).await });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot take a local call");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn take(stream: UnixStream, services: &OnceLock<Services>) {
    let Ok(peer) = stream.peer_cred() else { return };
    let mut connection = Connection::new(stream);
    let own = nix::unistd::geteuid().as_raw();
    if peer.uid() != own && peer.uid() != 0 {
        let text = format!("this broker belongs to uid {own}, not to uid {}", peer.uid());
        return refuse(connection, exit::UNAVAILABLE, text).await;
    }
    let opening = tokio::time::timeout(HELLO_WAIT, connection.recv()).await;
    let Ok(Ok(Some((kind::CALL, payload)))) = opening else { return };
    let hello: Hello = match serde_json::from_slice(&payload) {
        Ok(hello) => hello,
        Err(error) => {
            let text = format!("an unreadable call: {error}");
            return refuse(connection, exit::USAGE, text).await;
        }
    };
    let handler = services.get().and_then(|services| services.verbs.get(&hello.verb).cloned());
    let pid = peer.pid().unwrap_or_default();
    if let Some(handler) = handler {
        handler(Call { hello, uid: peer.uid(), pid, connection }).await;
    } else {
        let text = format!("this broker does not know the verb {}", hello.verb);
        refuse(connection, exit::USAGE, text).await;
    }
}

/// Ends a call that is not taken and stays until the client has gone: a socket that closes while
/// the client still writes breaks the client's connection before it can read why. What comes
/// meanwhile is dropped unread.
async fn refuse(mut connection: Connection, code: i32, text: String) {
    if connection.end(code, Some(text)).await.is_ok() {
        let _ = tokio::time::timeout(HELLO_WAIT, connection.drain()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_client_that_still_writes_when_it_is_refused_reads_why() {
        let (here, there) = UnixStream::pair().unwrap();
        let server = tokio::spawn(async move { take(there, &OnceLock::new()).await });
        let mut client = Connection::new(here);
        client.send(kind::CALL, b"no JSON").await.unwrap();
        let (end, payload) = client.recv().await.unwrap().unwrap();
        assert_eq!(end, kind::END);
        assert!(String::from_utf8_lossy(&payload).contains("unreadable call"));
        client
            .send(kind::CALL, &vec![0; 100_000])
            .await
            .expect("the broker is there until we have gone");
        drop(client);
        server.await.unwrap();
    }
}
