//! The cluster's own network: one bridge in the keeper's network namespace, one veth pair per pod.
//! Addresses exist in these namespaces only; nothing outside is touched.
//!
//! Messages of the kernel's route protocol (rtnetlink(7)) are encoded by `netlink-packet-route`,
//! sent in batches over a plain socket: a request per link would cost a system call and a wait
//! each, a batch costs one of both. No asynchronous runtime is needed for that.

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    BridgePortState, InfoBridgePort, InfoData, InfoKind, InfoPortData, InfoVeth, LinkAttribute,
    LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily as SocketFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind,
    recv, send, socket,
};
use nix::unistd::Pid;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, OwnedFd};

/// Requests sent before their answers are read: few enough for the socket's buffers.
const BATCH: usize = 32;
/// Indexes are chosen by us, so that no link must be looked up. The loop-back is always 1.
const LOOPBACK_INDEX: u32 = 1;
const BRIDGE_INDEX: u32 = 2;
const POD_LINK_INDEX: u32 = 2;
const FIRST_PORT_INDEX: u32 = 16;
/// The cluster's addresses: 10.244.0.0/16, the bridge is the first.
const PREFIX: u8 = 16;

/// Why the network could not be made.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// No route socket.
    #[error("cannot open a route socket")]
    Socket(#[source] Errno),
    /// The kernel refused a request.
    #[error("the kernel refused to {doing}")]
    Refused {
        /// What was asked for.
        doing: String,
        /// What it said.
        #[source]
        source: Errno,
    },
    /// An answer could not be read.
    #[error("the kernel's answer to a route request is not readable")]
    Answer,
}

/// A pod's address by its place in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodAddress(u16);

impl PodAddress {
    /// The address of the pod with this ordinal (0-based over the whole cluster); `None` when the
    /// network has no more.
    pub fn new(ordinal: u32) -> Option<Self> {
        let host = ordinal.checked_add(2)?;
        (host < 0xffff).then_some(Self(host as u16))
    }

    /// As dotted quad.
    pub fn ip(self) -> Ipv4Addr {
        address(self.0)
    }

    fn mac(self) -> Vec<u8> {
        let [high, low] = self.0.to_be_bytes();
        vec![0x02, 0x51, 0, 0, high, low]
    }
}

fn address(host: u16) -> Ipv4Addr {
    let [high, low] = host.to_be_bytes();
    Ipv4Addr::new(10, 244, high, low)
}

/// The bridge and its route socket, in the keeper's network namespace.
#[derive(Debug)]
pub struct ClusterNetwork {
    route: RouteSocket,
}

impl ClusterNetwork {
    /// Makes the bridge in the calling process's network namespace.
    pub fn create() -> Result<Self, NetworkError> {
        let mut route = RouteSocket::open()?;
        let mut bridge = LinkMessage::default();
        bridge.header.index = BRIDGE_INDEX;
        up(&mut bridge);
        bridge.attributes.push(LinkAttribute::IfName("quorate".into()));
        bridge.attributes.push(LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Bridge)]));
        route.run(vec![
            Request::create(RouteNetlinkMessage::NewLink(bridge), || "make a bridge".into()),
            Request::create(new_address(BRIDGE_INDEX, address(1)), || {
                "give the bridge its address".into()
            }),
            link_up(LOOPBACK_INDEX, "start the loop-back"),
        ])?;
        Ok(Self { route })
    }

    /// Gives processes with network namespaces of their own a link to the bridge.
    /// A replaced pod may get its predecessor's address once that one's namespace is gone.
    pub fn attach(&mut self, pods: &[(Pid, PodAddress)]) -> Result<(), NetworkError> {
        let requests = pods.iter().map(|(pid, address)| {
            let mut peer = LinkMessage::default();
            peer.header.index = POD_LINK_INDEX;
            peer.attributes.push(LinkAttribute::IfName("eth0".into()));
            peer.attributes.push(LinkAttribute::Address(address.mac()));
            peer.attributes.push(LinkAttribute::NetNsPid(pid.as_raw() as u32));
            let mut port = LinkMessage::default();
            up(&mut port);
            port.header.index = FIRST_PORT_INDEX + u32::from(address.0);
            port.attributes.push(LinkAttribute::IfName(format!("pod{}", address.0)));
            port.attributes.push(LinkAttribute::Controller(BRIDGE_INDEX));
            port.attributes.push(LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Veth),
                LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
            ]));
            let ip = address.ip();
            Request::create(RouteNetlinkMessage::NewLink(port), move || {
                format!("link a pod to {ip}")
            })
        });
        self.route.run(requests.collect()).map(drop)
    }

    /// Whether the bridge passes packets to and from all of these pods. A packet that comes too
    /// early is lost, and the sender waits a whole second before it tries again.
    pub fn forwards(&mut self, pods: &[PodAddress]) -> Result<bool, NetworkError> {
        let requests = pods.iter().map(|address| {
            let mut port = LinkMessage::default();
            port.header.index = FIRST_PORT_INDEX + u32::from(address.0);
            Request {
                flags: 0,
                message: RouteNetlinkMessage::GetLink(port),
                doing: Box::new(|| "tell the state of a link".into()),
            }
        });
        let links = self.route.run(requests.collect())?;
        Ok(links.len() == pods.len() && links.iter().all(is_forwarding))
    }

    /// Removes the link of a pod that has ended, so that its address is free at once: the kernel
    /// takes its time to remove an ended network namespace.
    pub fn detach(&mut self, address: PodAddress) -> Result<(), NetworkError> {
        let mut port = LinkMessage::default();
        port.header.index = FIRST_PORT_INDEX + u32::from(address.0);
        match self.route.run(vec![Request {
            flags: 0,
            message: RouteNetlinkMessage::DelLink(port),
            doing: Box::new(|| "remove the link of an ended pod".into()),
        }]) {
            Err(NetworkError::Refused { source: Errno::ENODEV, .. }) => Ok(()),
            other => other.map(drop),
        }
    }
}

/// Configures a pod's end of its link; runs in the pod, after [`ClusterNetwork::attach`].
pub(super) fn configure_pod(pod: PodAddress) -> Result<(), NetworkError> {
    let mut route = RouteSocket::open()?;
    let mut default = RouteMessage::default();
    default.header = RouteHeader {
        address_family: AddressFamily::Inet,
        table: RouteHeader::RT_TABLE_MAIN,
        protocol: RouteProtocol::Boot,
        scope: RouteScope::Universe,
        kind: RouteType::Unicast,
        ..RouteHeader::default()
    };
    default.attributes.push(RouteAttribute::Gateway(RouteAddress::Inet(address(1))));
    route.run(vec![
        link_up(LOOPBACK_INDEX, "start the loop-back"),
        // A veth cannot be up before it has its other end, so not at its creation.
        link_up(POD_LINK_INDEX, "start the pod's link"),
        Request::create(new_address(POD_LINK_INDEX, pod.ip()), || "set the pod's address".into()),
        Request::create(RouteNetlinkMessage::NewRoute(default), || "set the pod's route".into()),
    ])?;
    Ok(())
}

fn is_forwarding(link: &LinkMessage) -> bool {
    let infos = link.attributes.iter().filter_map(|attribute| match attribute {
        LinkAttribute::LinkInfo(infos) => Some(infos),
        _ => None,
    });
    infos.flatten().any(|info| match info {
        LinkInfo::PortData(InfoPortData::BridgePort(port)) => {
            port.contains(&InfoBridgePort::State(BridgePortState::Forwarding))
        }
        _ => false,
    })
}

fn up(link: &mut LinkMessage) {
    link.header.flags |= LinkFlags::Up;
    link.header.change_mask |= LinkFlags::Up;
}

fn link_up(index: u32, doing: &'static str) -> Request {
    let mut link = LinkMessage::default();
    link.header.index = index;
    up(&mut link);
    Request {
        flags: 0,
        message: RouteNetlinkMessage::SetLink(link),
        doing: Box::new(|| doing.into()),
    }
}

fn new_address(index: u32, ip: Ipv4Addr) -> RouteNetlinkMessage {
    let mut message = AddressMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.prefix_len = PREFIX;
    message.header.index = index;
    message.attributes.push(AddressAttribute::Local(IpAddr::V4(ip)));
    message.attributes.push(AddressAttribute::Address(IpAddr::V4(ip)));
    message.attributes.push(AddressAttribute::Broadcast(Ipv4Addr::new(10, 244, 255, 255)));
    RouteNetlinkMessage::NewAddress(message)
}

struct Request {
    flags: u16,
    message: RouteNetlinkMessage,
    doing: Box<dyn FnOnce() -> String>,
}

impl Request {
    fn create(message: RouteNetlinkMessage, doing: impl FnOnce() -> String + 'static) -> Self {
        Self { flags: NLM_F_CREATE | NLM_F_EXCL, message, doing: Box::new(doing) }
    }
}

#[derive(Debug)]
struct RouteSocket {
    fd: OwnedFd,
}

impl RouteSocket {
    fn open() -> Result<Self, NetworkError> {
        let fd = socket(
            SocketFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkRoute,
        )
        .map_err(NetworkError::Socket)?;
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, 0)).map_err(NetworkError::Socket)?;
        Ok(Self { fd })
    }

    /// Sends requests and waits for all of their acknowledgements; the first refusal is the error.
    /// Gives the links that were asked for.
    fn run(&mut self, requests: Vec<Request>) -> Result<Vec<LinkMessage>, NetworkError> {
        let mut links = Vec::new();
        let mut requests = requests.into_iter().peekable();
        while requests.peek().is_some() {
            let mut bytes = Vec::new();
            let mut doing = Vec::new();
            for request in requests.by_ref().take(BATCH) {
                let mut header = NetlinkHeader::default();
                header.flags = NLM_F_REQUEST | NLM_F_ACK | request.flags;
                header.sequence_number = doing.len() as u32;
                let mut message =
                    NetlinkMessage::new(header, NetlinkPayload::from(request.message));
                message.finalize();
                let start = bytes.len();
                bytes.resize(start + message.buffer_len().next_multiple_of(4), 0);
                message.serialize(&mut bytes[start..]);
                doing.push(Some(request.doing));
            }
            send(self.fd.as_raw_fd(), &bytes, MsgFlags::empty()).map_err(NetworkError::Socket)?;
            self.acknowledge(doing, &mut links)?;
        }
        Ok(links)
    }

    fn acknowledge(
        &self,
        mut doing: Vec<Option<Box<dyn FnOnce() -> String>>>,
        links: &mut Vec<LinkMessage>,
    ) -> Result<(), NetworkError> {
        let mut buffer = vec![0_u8; 64 * 1024];
        let mut refused = None;
        let mut open = doing.len();
        while open > 0 {
            let length = recv(self.fd.as_raw_fd(), &mut buffer, MsgFlags::empty())
                .map_err(NetworkError::Socket)?;
            let mut rest = &buffer[..length];
            while !rest.is_empty() {
                let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                    .map_err(|_| NetworkError::Answer)?;
                let size = (message.header.length as usize).next_multiple_of(4);
                let number = message.header.sequence_number as usize;
                match message.payload {
                    NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => {
                        links.push(link);
                    }
                    NetlinkPayload::Error(answer) => {
                        open -= 1;
                        if let Some(code) = answer.code
                            && refused.is_none()
                            && let Some(doing) = doing.get_mut(number).and_then(Option::take)
                        {
                            refused = Some(NetworkError::Refused {
                                doing: doing(),
                                source: Errno::from_raw(-code.get()),
                            });
                        }
                    }
                    _ => {}
                }
                rest = rest.get(size..).unwrap_or_default();
            }
        }
        refused.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_follow_the_ordinal_and_end_with_the_network() {
        let first = PodAddress::new(0).unwrap();
        assert_eq!(first.ip(), Ipv4Addr::new(10, 244, 0, 2));
        assert_eq!(first.mac(), [0x02, 0x51, 0, 0, 0, 2]);
        assert_eq!(PodAddress::new(254).unwrap().ip(), Ipv4Addr::new(10, 244, 1, 0));
        assert!(PodAddress::new(0xffff).is_none());
        assert!(PodAddress::new(u32::MAX).is_none());
    }
}
