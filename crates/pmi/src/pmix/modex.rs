//! What ranks publish through PMIx, as one node holds it: the buckets of local ranks, and the
//! pieces that other nodes have sent. Owns the blob's format; does not look into key-values.
//!
//! A blob is the format byte 2, then for each rank that has published since the blob before: rank,
//! code of the encoding, packed key-values ([`crate::varint`]).

use super::wire::Encoding;
use crate::kvs::BadBlob;
use crate::varint::{self, Reader};
use std::sync::Arc;

const FORMAT: u8 = 2;
const NONE: u32 = u32::MAX;

/// A local rank's data: packed key-values by scope.
#[derive(Clone, Debug, Default)]
struct Buckets {
    encoding: Option<Encoding>,
    /// For ranks of this node.
    local: Vec<u8>,
    /// For ranks of other nodes.
    remote: Vec<u8>,
    /// How much of `remote` was sent.
    sent: usize,
    /// Something was published since the last blob, be it empty.
    fresh: bool,
}

/// A part of what a remote rank has published.
#[derive(Clone, Copy, Debug)]
struct Piece {
    page: u32,
    start: u32,
    end: u32,
    next: u32,
    encoding: Encoding,
}

/// The data of all ranks.
#[derive(Debug)]
pub(crate) struct Modex {
    own: Vec<Buckets>,
    pages: Vec<Arc<[u8]>>,
    pieces: Vec<Piece>,
    /// The first and last piece of each rank of the job; made with the first page.
    chains: Vec<(u32, u32)>,
    ranks: u32,
}

impl Modex {
    /// Data of a job of `ranks` ranks, `local` of them on this node.
    pub(crate) fn new(ranks: u32, local: usize) -> Self {
        let own = vec![Buckets::default(); local];
        Self { own, pages: Vec::new(), pieces: Vec::new(), chains: Vec::new(), ranks }
    }

    /// What is new in the buckets of a commit: clients send all that they ever put, every time.
    pub(crate) fn news<'a>(
        &self,
        index: usize,
        local: &'a [u8],
        remote: &'a [u8],
    ) -> (&'a [u8], &'a [u8]) {
        let known = &self.own[index];
        let new = |bytes: &'a [u8], known: &[u8]| bytes.strip_prefix(known).unwrap_or(bytes);
        (new(local, &known.local), new(remote, &known.remote))
    }

    /// A local rank publishes key-values for this node and for others, beside those before.
    pub(crate) fn publish(
        &mut self,
        index: usize,
        encoding: Encoding,
        local: &[u8],
        remote: &[u8],
    ) {
        let buckets = &mut self.own[index];
        buckets.encoding = Some(encoding);
        buckets.local.extend_from_slice(local);
        buckets.remote.extend_from_slice(remote);
        buckets.fresh = true;
    }

    /// A local rank begins anew: what it has published is gone.
    pub(crate) fn forget(&mut self, index: usize) {
        self.own[index] = Buckets::default();
    }

    /// What a local rank has published for ranks of this node; `None` before it does.
    pub(crate) fn local(&self, index: usize, encoding: Encoding) -> Option<Found<'_>> {
        let buckets = &self.own[index];
        let published = buckets.encoding?;
        Some(Found::when(published == encoding, vec![&buckets.local]))
    }

    /// What a local rank has published for other nodes, as a blob of its own; `None` before it
    /// does.
    pub(crate) fn blob_of(&self, index: usize, rank: u32) -> Option<Vec<u8>> {
        let buckets = &self.own[index];
        let encoding = buckets.encoding?;
        let mut blob = vec![FORMAT];
        put_part(&mut blob, rank, encoding, &buckets.remote);
        Some(blob)
    }

    /// What a remote rank has published; `None` while nothing is known.
    pub(crate) fn remote(&self, rank: u32, encoding: Encoding) -> Option<Found<'_>> {
        let (mut place, _) = *self.chains.get(rank as usize)?;
        let mut found = Vec::new();
        let mut same = true;
        while let Some(piece) = self.pieces.get(place as usize) {
            same &= piece.encoding == encoding;
            let page = &self.pages[piece.page as usize];
            found.push(&page[piece.start as usize..piece.end as usize]);
            place = piece.next;
        }
        (!found.is_empty()).then(|| Found::when(same, found))
    }

    /// What local ranks have published since the last call; empty when nothing was.
    pub(crate) fn take_blob(&mut self, ranks: &[u32]) -> Vec<u8> {
        let mut blob = Vec::new();
        for (buckets, &rank) in self.own.iter_mut().zip(ranks) {
            let (true, Some(encoding)) = (buckets.fresh, buckets.encoding) else { continue };
            if blob.is_empty() {
                blob.push(FORMAT);
            }
            put_part(&mut blob, rank, encoding, &buckets.remote[buckets.sent..]);
            buckets.sent = buckets.remote.len();
            buckets.fresh = false;
        }
        blob
    }

    /// Takes another node's blob in. `accept` tells which ranks may be in it.
    pub(crate) fn add_page(
        &mut self,
        node: u32,
        page: &Arc<[u8]>,
        accept: impl Fn(u32) -> bool,
    ) -> Result<(), BadBlob> {
        if page.is_empty() {
            return Ok(());
        }
        self.index_page(page, accept).ok_or(BadBlob { node })
    }

    fn index_page(&mut self, page: &Arc<[u8]>, accept: impl Fn(u32) -> bool) -> Option<()> {
        u32::try_from(page.len()).ok()?;
        if page[0] != FORMAT {
            return None;
        }
        if self.chains.is_empty() {
            self.chains = vec![(NONE, NONE); self.ranks as usize];
        }
        let number = self.pages.len() as u32;
        self.pages.push(page.clone());
        let mut reader = Reader::new(page, 1);
        while !reader.is_done() {
            let rank = u32::try_from(reader.number()?).ok().filter(|&rank| accept(rank))?;
            let encoding = match reader.number()? {
                3 => Encoding::V3,
                41 => Encoding::V41,
                _ => return None,
            };
            let len = reader.bytes()?.len();
            let (start, end) = ((reader.at() - len) as u32, reader.at() as u32);
            let place = self.pieces.len() as u32;
            self.pieces.push(Piece { page: number, start, end, next: NONE, encoding });
            let (first, last) = self.chains.get_mut(rank as usize)?;
            match self.pieces.get_mut(*last as usize) {
                Some(before) => before.next = place,
                None => *first = place,
            }
            *last = place;
        }
        Some(())
    }
}

fn put_part(blob: &mut Vec<u8>, rank: u32, encoding: Encoding, bytes: &[u8]) {
    varint::put(blob, u64::from(rank));
    varint::put(blob, if encoding == Encoding::V3 { 3 } else { 41 });
    varint::put_bytes(blob, bytes);
}

/// What a rank has published, from the point of view of one who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// Packed key-values, in pieces.
    Data(Vec<&'a [u8]>),
    /// They are packed in an encoding that the asker does not read.
    Foreign,
}

impl<'a> Found<'a> {
    fn when(readable: bool, pieces: Vec<&'a [u8]>) -> Self {
        if readable { Self::Data(pieces) } else { Self::Foreign }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(found: Option<Found<'_>>) -> Option<Vec<u8>> {
        found.map(|found| match found {
            Found::Data(pieces) => pieces.concat(),
            Found::Foreign => b"foreign".to_vec(),
        })
    }

    #[test]
    fn data_goes_where_its_scope_says_and_is_sent_once() {
        let (mut here, mut there) = (Modex::new(4, 2), Modex::new(4, 2));
        here.publish(1, Encoding::V41, b"L", b"R");
        assert_eq!(text(here.local(1, Encoding::V41)), Some(b"L".to_vec()));
        assert_eq!(here.local(0, Encoding::V41), None);
        let page = here.take_blob(&[0, 1]).into();
        there.add_page(0, &page, |rank| rank < 2).unwrap();
        here.publish(1, Encoding::V41, b"l", b"r");
        there.add_page(0, &here.take_blob(&[0, 1]).into(), |rank| rank < 2).unwrap();
        assert_eq!(text(there.remote(1, Encoding::V41)), Some(b"Rr".to_vec()));
        assert_eq!(text(there.remote(1, Encoding::V3)), Some(b"foreign".to_vec()));
        assert_eq!(there.remote(0, Encoding::V41), None);
        assert!(here.take_blob(&[0, 1]).is_empty());
    }

    #[test]
    fn what_is_committed_again_is_not_sent_again() {
        let mut here = Modex::new(2, 1);
        here.publish(0, Encoding::V41, b"ab", b"AB");
        assert_eq!(here.news(0, b"abc", b"ABC"), (&b"c"[..], &b"C"[..]));
        // Values that changed come after the old ones, which readers take for the last word.
        assert_eq!(here.news(0, b"xb", b"AB"), (&b"xb"[..], &b""[..]));
    }

    #[test]
    fn an_empty_publication_is_one() {
        let (mut here, mut there) = (Modex::new(2, 1), Modex::new(2, 1));
        here.publish(0, Encoding::V3, b"", b"");
        there.add_page(0, &here.take_blob(&[0]).into(), |_| true).unwrap();
        assert_eq!(text(there.remote(0, Encoding::V3)), Some(Vec::new()));
    }

    #[test]
    fn damaged_and_false_blobs_are_refused() {
        let mut here = Modex::new(2, 1);
        here.publish(0, Encoding::V3, b"", b"data");
        let blob = here.take_blob(&[0]);
        for cut in 2..blob.len() {
            let cut = blob[..cut].into();
            assert!(Modex::new(2, 1).add_page(1, &cut, |_| true).is_err());
        }
        let page = blob.into();
        assert!(Modex::new(2, 1).add_page(1, &page, |rank| rank == 1).is_err());
    }
}
