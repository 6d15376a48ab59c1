//! Whose the other end of a loopback connection is, as the kernel's table of sockets says it
//! (proc(5), `/proc/net/tcp`): what SO_PEERCRED says of a unix socket.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The uid that stands for users who have no number in this user namespace.
const OVERFLOW: u32 = 65_534;

/// The two ends of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    /// The caller's.
    pub(super) there: SocketAddr,
    /// This process's.
    pub(super) here: SocketAddr,
}

impl Peer {
    /// Whether both ends are of one host, without a way in from any network: the kernel takes no packet
    /// from a network that claims such an address.
    pub(super) fn is_loopback(self) -> bool {
        self.there.ip().to_canonical().is_loopback() && self.here.ip().to_canonical().is_loopback()
    }

    /// The uid of the caller's socket.
    pub(super) fn owner(self) -> io::Result<u32> {
        let v4 = self.there.ip().to_canonical().is_ipv4();
        // A socket of IPv6 may have an address of IPv4.
        let tables: &[&str] =
            if v4 { &["/proc/net/tcp", "/proc/net/tcp6"] } else { &["/proc/net/tcp6"] };
        for table in tables {
            let text = match std::fs::read_to_string(table) {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if let Some(uid) = self.find(&text) {
                return Ok(uid);
            }
        }
        Err(io::Error::new(io::ErrorKind::NotFound, "the kernel's table does not have its socket"))
    }

    fn find(self, table: &str) -> Option<u32> {
        let same = |a: SocketAddr, b: SocketAddr| {
            a.port() == b.port() && a.ip().to_canonical() == b.ip().to_canonical()
        };
        table.lines().skip(1).find_map(|line| {
            let mut words = line.split_ascii_whitespace().skip(1);
            let (local, remote) = (address(words.next()?)?, address(words.next()?)?);
            if !same(local, self.there) || !same(remote, self.here) {
                return None;
            }
            words.nth(4)?.parse().ok()
        })
    }
}

/// An address of the table: words of four bytes as this machine stores them, then the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let number = u32::from_str_radix(ip.get(at * 8..at * 8 + 8)?, 16).ok()?;
        Some(number.to_ne_bytes())
    };
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for at in 0..4 {
                bytes[at * 4..at * 4 + 4].copy_from_slice(&word(at)?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// Whether a user may call: this broker's own and root, as on the local socket. In a user namespace the
/// node's root, which forwards ports, has no number.
pub(super) fn may_call(uid: u32, own: u32, uid_map: &str) -> bool {
    let mut map = uid_map.split_ascii_whitespace();
    let is_whole = map.next() == Some("0") && map.next() == Some("0");
    uid == own || uid == 0 || (uid == OVERFLOW && !is_whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1FB5 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1
   1: 0100007F:1FB5 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 2 1
   2: 0100007F:C350 0100007F:1FB5 01 00000000:00000000 00:00000000 00000000  1007        0 3 1
";
    const TABLE6: &str = "\
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000001000000:C351 00000000000000000000000001000000:1FB5 01 00000000:00000000 00:00000000 00000000     3        0 4 1
   1: 0000000000000000FFFF00000100007F:C352 0000000000000000FFFF00000100007F:1FB5 01 00000000:00000000 00:00000000 00000000     5        0 4 1
";

    fn peer(there: &str, here: &str) -> Peer {
        Peer { there: there.parse().unwrap(), here: here.parse().unwrap() }
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn the_callers_end_is_found_and_not_this_ones() {
        assert_eq!(peer("127.0.0.1:50000", "127.0.0.1:8117").find(TABLE), Some(1007));
        // As a listener for both families sees it.
        assert_eq!(
            peer("[::ffff:127.0.0.1]:50000", "[::ffff:127.0.0.1]:8117").find(TABLE),
            Some(1007)
        );
        assert_eq!(peer("127.0.0.1:50001", "127.0.0.1:8117").find(TABLE), None);
        assert_eq!(peer("127.0.0.1:50000", "127.0.0.1:8118").find(TABLE), None);
        assert_eq!(peer("[::1]:50001", "[::1]:8117").find(TABLE6), Some(3));
        assert_eq!(peer("127.0.0.1:50002", "127.0.0.1:8117").find(TABLE6), Some(5));
    }

    #[test]
    fn addresses_of_networks_are_none_of_the_host() {
        assert!(peer("127.0.0.1:1", "127.0.0.1:2").is_loopback());
        assert!(peer("[::ffff:127.0.0.1]:1", "[::ffff:127.0.0.1]:2").is_loopback());
        assert!(peer("[::1]:1", "[::1]:2").is_loopback());
        assert!(!peer("10.0.0.3:1", "10.0.0.4:2").is_loopback());
        assert!(!peer("10.0.0.4:1", "127.0.0.1:2").is_loopback());
        assert!(!peer("[::ffff:10.0.0.4]:1", "[::ffff:10.0.0.4]:2").is_loopback());
    }

    #[test]
    fn the_own_user_and_root_may_call_and_another_user_may_not() {
        let whole = "         0          0 4294967295\n";
        let own = "         0     100000      65536\n";
        assert!(may_call(1000, 1000, whole) && may_call(0, 1000, whole));
        assert!(!may_call(1001, 1000, whole));
        assert!(!may_call(OVERFLOW, 1000, whole), "nobody is a user like any other");
        assert!(may_call(OVERFLOW, 1000, own), "the node's root, from within a user namespace");
        assert!(!may_call(1001, 1000, own));
    }
}
