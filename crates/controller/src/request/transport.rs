//! The connections under the client: how long a network may be silent.
//!
//! What a process has sent stays with the kernel, which sends it again and again while a network is
//! cut, even when the process has given the request up and closed the connection. Healed a minute
//! later, the network would bring the server a write of a leader that lost its term long ago. So the
//! kernel is told to give up what nobody acknowledges within the grace that the lease leaves for a
//! write under way. The same bound finds watches whose other end is gone.

use super::ApiLayer;
use super::protobuf::ProtobufLayer;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::{Client, Config};
use std::time::Duration;
use tower::util::{MapErrLayer, option_layer};
use tower::{BoxError, Layer as _};

/// Without traffic for so long, a connection is asked whether its other end is there.
const QUIET: Duration = Duration::from_secs(15);

/// Bytes that a connection reads ahead at most. A watch of a busy cluster has always more to read, and
/// would let its buffer grow to half a megabyte.
const READ_AHEAD: usize = 64 * 1024;

/// A client whose requests pass `layer`. What was sent is acknowledged within `grace`, or its
/// connection ends. Requests are not sent again by themselves: whoever sent them knows how long to
/// wait, and for how many others.
pub fn client(config: &Config, layer: &ApiLayer, grace: Duration) -> Result<Client, kube::Error> {
    if config.proxy_url.is_some() {
        // It has connections of its own, or none: the error says so.
        let mut config = config.clone();
        config.default_retry = false;
        let builder = ClientBuilder::try_from(config)?;
        return Ok(builder.with_layer(&ProtobufLayer).with_layer(layer).build());
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(grace.max(QUIET)));
    tcp.set_keepalive(Some(QUIET));
    tcp.set_keepalive_interval(Some(grace.min(QUIET)));
    tcp.set_tcp_user_timeout(Some(grace));
    let tls = config.rustls_https_connector_with_connector(tcp)?;
    let http: legacy::Client<_, Body> =
        legacy::Client::builder(TokioExecutor::new()).http1_max_buf_size(READ_AHEAD).build(tls);
    let http = MapErrLayer::new(BoxError::from).layer(http);
    let http = config.extra_headers_layer()?.layer(http);
    let http = option_layer(config.auth_layer()?).layer(http);
    let http = config.base_uri_layer().layer(http);
    let builder = ClientBuilder::new(http, config.default_namespace.clone());
    Ok(builder.with_layer(&ProtobufLayer).with_layer(layer).build())
}
