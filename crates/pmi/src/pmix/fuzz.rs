//! Doors for [`crate::fuzz`] into this module's readers.

use super::modex::Modex;
use super::request::Request;
use super::wire::{Encoding, Reader};
use super::{hello, message};
use std::sync::Arc;

pub(crate) fn hello(input: &[u8]) {
    if let Ok(hello) = hello::parse(input) {
        assert!(hello.namespace.len() < input.len());
    }
}

pub(crate) fn request_v41(input: &[u8]) -> usize {
    request(input, Encoding::V41)
}

pub(crate) fn request_v3(input: &[u8]) -> usize {
    request(input, Encoding::V3)
}

/// Reads a request and tells how much of it is kept.
fn request(input: &[u8], encoding: Encoding) -> usize {
    match Request::parse(&mut Reader::new(input, encoding)) {
        // A block of both scopes is kept twice; what is kept of each is bounded.
        Ok(Request::Commit { local, remote }) => local.len().max(remote.len()),
        Ok(Request::Fence { procs }) => procs.len(),
        Ok(Request::Control(control)) => {
            // Refused or not, reading ends.
            let _ = control.cleanup(0, b"loopback-12345", |rank| rank < 2);
            control.len()
        }
        _ => 0,
    }
}

pub(crate) fn message(input: &[u8], limit: usize) {
    for message in [message::next(input, limit), message::first(input, limit)] {
        if let Ok(Some(message)) = message {
            assert!(message.taken <= input.len() && message.payload.len() <= limit);
        }
    }
}

/// A blob with the data of so many ranks.
pub(crate) fn blob(ranks: u32) -> Vec<u8> {
    let mut modex = Modex::new(8, ranks as usize);
    for index in 0..ranks as usize {
        modex.publish(index, Encoding::V41, b"local", &vec![b'r'; index * 20]);
    }
    modex.take_blob(&(0..ranks).collect::<Vec<_>>())
}

pub(crate) fn page(input: &Arc<[u8]>) {
    let mut modex = Modex::new(8, 1);
    // Refused or not, a lookup ends.
    let _ = modex.add_page(0, input, |rank| rank < 8);
    modex.remote(3, Encoding::V41);
}
