//! The key-value space of PMI-1 and PMI-2 as one node holds it: what local ranks have put, and the
//! pages that other nodes have sent. Owns the blob's format and an index over it that copies
//! nothing; knows neither wire.
//!
//! A blob is the format byte 1, the number of pairs, then key and value of each pair
//! ([`crate::varint`]). It holds the pairs put since the blob before.

use crate::varint::{self, Reader};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

const FORMAT: u8 = 1;
const NONE: u32 = u32::MAX;

/// A blob that another node sent cannot be read: another version, or damaged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key-value pairs of node {node} cannot be read")]
pub(crate) struct BadBlob {
    /// The node that sent it.
    pub(crate) node: u32,
}

/// Where a pair of a page is, and the next pair whose key has the same hash.
#[derive(Clone, Copy, Debug)]
struct Entry {
    page: u32,
    at: u32,
    next: u32,
}

/// A key and its value.
type Pair = (Box<[u8]>, Box<[u8]>);

/// The pairs of a job.
#[derive(Debug, Default)]
pub(crate) struct Kvs {
    own: Vec<Pair>,
    own_index: HashMap<Box<[u8]>, usize>,
    /// Pairs of `own` that are changed since the last blob, encoded, and their number.
    fresh: Vec<u8>,
    fresh_count: u64,
    pages: Vec<Arc<[u8]>>,
    entries: Vec<Entry>,
    heads: HashMap<u64, u32, BuildHasherDefault<Ready>>,
}

impl Kvs {
    /// Stores a pair of a local rank; visible here at once, elsewhere with the next blob.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) {
        if let Some(&place) = self.own_index.get(key) {
            self.own[place].1 = value.into();
        } else {
            self.own_index.insert(key.into(), self.own.len());
            self.own.push((key.into(), value.into()));
        }
        varint::put_bytes(&mut self.fresh, key);
        varint::put_bytes(&mut self.fresh, value);
        self.fresh_count += 1;
    }

    /// The value of a key: what a local rank put, else what came last.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        if let Some(&place) = self.own_index.get(key) {
            return Some(&self.own[place].1);
        }
        let mut place = *self.heads.get(&hash(key))?;
        loop {
            let entry = self.entries.get(place as usize)?;
            let (found, value) = self.pair(*entry)?;
            if found == key {
                return Some(value);
            }
            place = entry.next;
        }
    }

    /// The pair number `index` in an order that only grows; `None` after the last.
    pub(crate) fn nth(&self, index: usize) -> Option<(&[u8], &[u8])> {
        match self.own.get(index) {
            Some((key, value)) => Some((key, value)),
            None => self.pair(*self.entries.get(index - self.own.len())?),
        }
    }

    fn pair(&self, entry: Entry) -> Option<(&[u8], &[u8])> {
        let mut reader = Reader::new(&self.pages[entry.page as usize], entry.at as usize);
        Some((reader.bytes()?, reader.bytes()?))
    }

    /// The pairs put since the last call; empty when there are none.
    pub(crate) fn take_blob(&mut self) -> Vec<u8> {
        if self.fresh_count == 0 {
            return Vec::new();
        }
        let mut blob = Vec::with_capacity(self.fresh.len() + 8);
        blob.push(FORMAT);
        varint::put(&mut blob, self.fresh_count);
        blob.append(&mut self.fresh);
        self.fresh_count = 0;
        blob
    }

    /// Takes the blobs of other nodes in, all or none being the caller's affair: after an error the
    /// job is over.
    pub(crate) fn add_pages<'a>(
        &mut self,
        pages: impl Iterator<Item = (u32, &'a Arc<[u8]>)> + Clone,
    ) -> Result<(), BadBlob> {
        let pages = pages.filter(|(_, page)| !page.is_empty());
        // Growing step by step would cost more than the filling.
        let pairs: usize = pages.clone().filter_map(|(_, page)| pairs_of(page)).sum();
        self.entries.reserve(pairs);
        self.heads.reserve(pairs);
        for (node, page) in pages {
            self.index_page(page).ok_or(BadBlob { node })?;
        }
        Ok(())
    }

    fn index_page(&mut self, page: &Arc<[u8]>) -> Option<()> {
        u32::try_from(page.len()).ok()?;
        let count = pairs_of(page).filter(|_| page[0] == FORMAT)?;
        let mut reader = Reader::new(page, 1);
        reader.number()?;
        let number = self.pages.len() as u32;
        self.pages.push(page.clone());
        for _ in 0..count {
            let at = reader.at() as u32;
            let key = reader.bytes()?;
            reader.bytes()?;
            let place = self.entries.len() as u32;
            let before = self.heads.insert(hash(key), place).unwrap_or(NONE);
            self.entries.push(Entry { page: number, at, next: before });
        }
        reader.is_done().then_some(())
    }
}

/// The number of pairs that a blob says it has, if it can have so many: each takes two bytes.
fn pairs_of(page: &[u8]) -> Option<usize> {
    let count = usize::try_from(Reader::new(page, 1).number()?).ok()?;
    (count <= page.len() / 2).then_some(count)
}

/// A hash for keys of a job's own ranks, who gain nothing from collisions.
fn hash(key: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    let (words, rest) = key.as_chunks::<8>();
    let mut hash = words.iter().fold(key.len() as u64, |h, w| mix(h, u64::from_le_bytes(*w)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    hash = mix(hash, u64::from_le_bytes(last));
    hash ^ hash >> 32
}

/// Passes a hash through that is one already.
#[derive(Debug, Default)]
struct Ready(u64);

impl Hasher for Ready {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash(bytes);
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(kvs: &mut Kvs, node: u32, blob: Vec<u8>) -> Result<(), BadBlob> {
        kvs.add_pages(std::iter::once((node, &blob.into())))
    }

    #[test]
    fn pairs_are_seen_here_at_once_and_elsewhere_with_the_blob() {
        let (mut here, mut there) = (Kvs::default(), Kvs::default());
        here.put(b"a", b"1");
        here.put(b"b", b"2");
        assert_eq!(here.get(b"a"), Some(&b"1"[..]));
        assert_eq!(there.get(b"a"), None);
        add(&mut there, 0, here.take_blob()).unwrap();
        assert_eq!(there.get(b"a"), Some(&b"1"[..]));
        assert_eq!(there.get(b"c"), None);
        assert!(here.take_blob().is_empty(), "a pair is sent once");
        here.put(b"a", b"3");
        add(&mut there, 0, here.take_blob()).unwrap();
        assert_eq!(there.get(b"a"), Some(&b"3"[..]), "the later page wins");
        assert_eq!(there.get(b"b"), Some(&b"2"[..]));
    }

    #[test]
    fn keys_with_one_hash_are_kept_apart() {
        // A key and the same key padded with the zeros that hashing pads with.
        let mut here = Kvs::default();
        for n in 0..2000u32 {
            here.put(format!("key-{n}").as_bytes(), format!("value-{n}").as_bytes());
        }
        let mut there = Kvs::default();
        add(&mut there, 0, here.take_blob()).unwrap();
        // Force one chain over all of them.
        there.heads.clear();
        for (place, entry) in there.entries.iter_mut().enumerate() {
            entry.next = if place == 0 { NONE } else { place as u32 - 1 };
        }
        let last = there.entries.len() as u32 - 1;
        for n in 0..2000u32 {
            there.heads.insert(hash(format!("key-{n}").as_bytes()), last);
        }
        for n in 0..2000u32 {
            let value = format!("value-{n}");
            assert_eq!(there.get(format!("key-{n}").as_bytes()), Some(value.as_bytes()));
        }
        there.heads.insert(hash(b"absent"), last);
        assert_eq!(there.get(b"absent"), None);
    }

    #[test]
    fn damaged_blobs_are_refused() {
        let mut kvs = Kvs::default();
        kvs.put(b"key", b"value");
        let blob = kvs.take_blob();
        for cut in 1..blob.len() {
            assert!(add(&mut Kvs::default(), 3, blob[..cut].to_vec()).is_err(), "cut at {cut}");
        }
        let mut longer = blob.clone();
        longer.push(0);
        assert!(add(&mut Kvs::default(), 3, longer).is_err());
        let mut other = blob;
        other[0] = 9;
        assert_eq!(add(&mut Kvs::default(), 3, other), Err(BadBlob { node: 3 }));
    }

    #[test]
    fn all_pairs_can_be_walked() {
        let (mut here, mut there) = (Kvs::default(), Kvs::default());
        there.put(b"x", b"9");
        there.put(b"y", b"8");
        here.put(b"a", b"1");
        add(&mut here, 1, there.take_blob()).unwrap();
        let all: Vec<_> = (0..).map_while(|n| here.nth(n)).map(|(k, _)| k.to_vec()).collect();
        assert_eq!(all, [b"a".to_vec(), b"x".to_vec(), b"y".to_vec()]);
    }
}
