//! What a PMIx client is told about its job at the start: sizes, nodes, and where each rank is.
//! Owns the keys and their order. Most of it is the same on all nodes and for all clients, and is
//! packed once.

use super::wire::{Encoding, Writer, types};
use crate::layout::{Job, Layout};
use std::sync::Arc;

/// The answer to the job info request: this node's part, then the job's part.
pub(crate) fn pack(layout: &Layout, encoding: Encoding) -> Vec<Arc<[u8]>> {
    let job = layout.job();
    let slot = match encoding {
        Encoding::V3 => &job.process_info[0],
        Encoding::V41 => &job.process_info[1],
    };
    let shared = slot.get_or_init(|| job_part(job, encoding).into());
    vec![node_part(layout, encoding).into(), shared.clone()]
}

fn node_part(layout: &Layout, encoding: Encoding) -> Vec<u8> {
    let job = layout.job();
    let mut out = Writer::new(encoding);
    out.pack(1).string(job.namespace());
    let mut pairs = Pairs(&mut out);
    pairs.number("pmix.job.size", job.size());
    pairs.number("pmix.max.size", job.size());
    pairs.number("pmix.univ.size", job.universe());
    pairs.number("pmix.num.nodes", job.hosts().len() as u32);
    pairs.number("pmix.job.napps", 1);
    pairs.string("pmix.jobid", job.namespace());
    pairs.string("pmix.nlist", &job.hosts().join(","));
    let peers = layout.local_ranks();
    pairs.number("pmix.local.size", peers.len() as u32);
    pairs.number("pmix.node.size", peers.len() as u32);
    pairs.string("pmix.lpeers", &list(peers));
    pairs.rank("pmix.lldr", peers[0]);
    pairs.number("pmix.nodeid", layout.node());
    pairs.string("pmix.hname", layout.host());
    // Where session directories go, instead of one per user and host in /tmp.
    pairs.string("pmix.tmpdir", layout.tmp_dir());
    pairs.string("pmix.nsdir", layout.tmp_dir());
    out.finish()
}

fn job_part(job: &Job, encoding: Encoding) -> Vec<u8> {
    let mut out = Writer::new(encoding);
    for (node, host) in job.hosts().iter().enumerate() {
        let peers = job.ranks_of(node as u32);
        out.pack(1).string("pmix.node.arr").u16(types::DATA_ARRAY).u16(types::INFO).size(5);
        // Elements of an array are directives: key, flags, type, value.
        out.string("pmix.hname").u32(0).u16(types::STRING).string(host);
        out.string("pmix.nodeid").u32(0).u16(types::UINT32).u32(node as u32);
        out.string("pmix.lpeers").u32(0).u16(types::STRING).string(&list(peers));
        out.string("pmix.lldr").u32(0).u16(types::PROC_RANK).u32(peers[0]);
        out.string("pmix.local.size").u32(0).u16(types::UINT32).u32(peers.len() as u32);
    }
    for rank in 0..job.size() {
        let node = job.node_of(rank).unwrap_or_default();
        let local_rank = job.local_rank_of(rank).unwrap_or_default() as u16;
        let mut blob = Writer::new(encoding);
        blob.pack(1).u32(rank);
        let mut pairs = Pairs(&mut blob);
        pairs.short("pmix.lrank", local_rank);
        pairs.short("pmix.nrank", local_rank);
        pairs.number("pmix.appnum", job.app());
        pairs.string("pmix.hname", &job.hosts()[node as usize]);
        pairs.number("pmix.nodeid", node);
        pairs.rank("pmix.grank", rank);
        out.pack(1).string("pmix.pblob").u16(types::BYTE_OBJECT).object(&blob.finish());
    }
    out.finish()
}

/// Key-values, each a pack of its own.
struct Pairs<'a>(&'a mut Writer);

impl Pairs<'_> {
    fn number(&mut self, key: &str, value: u32) {
        self.0.pack(1).string(key).u16(types::UINT32).u32(value);
    }

    fn short(&mut self, key: &str, value: u16) {
        self.0.pack(1).string(key).u16(types::UINT16).u16(value);
    }

    fn rank(&mut self, key: &str, value: u32) {
        self.0.pack(1).string(key).u16(types::PROC_RANK).u32(value);
    }

    fn string(&mut self, key: &str, value: &str) {
        self.0.pack(1).string(key).u16(types::STRING).string(value);
    }
}

fn list(ranks: &[u32]) -> String {
    let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
    ranks.join(",")
}
