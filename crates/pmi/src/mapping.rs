//! The value of `PMI_process_mapping`: which ranks share a node, in the vector form that MPICH's
//! process manager defined and Flux RFC 13 describes: `(vector,(first node,nodes,ranks per node),...)`.
//!
//! A reader deals ranks out block by block: a block `(f,n,p)` gives `p` ranks to each of the nodes
//! `f..f+n`. When the list is used up and ranks are left, MPICH starts it again; Intel MPI 2021
//! crashes, so the list is always whole.

use std::fmt::Write;

/// A run of equal nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    first: u32,
    nodes: u32,
    ranks: u32,
}

/// The vector form of a rank → node map.
pub(crate) fn vector(node_of: &[u32]) -> String {
    let mut text = String::from("(vector");
    for block in blocks(node_of) {
        write!(text, ",({},{},{})", block.first, block.nodes, block.ranks)
            .expect("writing to a string holds because strings do not fail");
    }
    text.push(')');
    text
}

/// Cuts the map into runs of one node, then joins runs of equal length on ascending nodes.
fn blocks(node_of: &[u32]) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for run in node_of.chunk_by(|a, b| a == b) {
        let (node, ranks) = (run[0], run.len() as u32);
        match blocks.last_mut() {
            Some(last) if last.ranks == ranks && node == last.first + last.nodes => last.nodes += 1,
            _ => blocks.push(Block { first: node, nodes: 1, ranks }),
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_cyclic_and_uneven_maps_have_the_known_forms() {
        assert_eq!(vector(&[0]), "(vector,(0,1,1))");
        assert_eq!(vector(&[0, 0, 1, 1]), "(vector,(0,2,2))");
        assert_eq!(vector(&[0, 0, 0, 1, 1, 1, 2]), "(vector,(0,2,3),(2,1,1))");
        assert_eq!(vector(&[1, 0, 0]), "(vector,(1,1,1),(0,1,2))");
    }

    #[test]
    fn a_cyclic_map_is_whole_since_intel_mpi_crashes_on_a_short_one() {
        assert_eq!(vector(&[0, 1, 0, 1]), "(vector,(0,2,1),(0,2,1))");
        assert_eq!(vector(&[0, 1, 0]), "(vector,(0,2,1),(0,1,1))");
    }
}
