//! The value of `PMI_process_mapping`: which ranks share a node, in the vector form that MPICH's
//! process manager defined and Flux RFC 13 repeats: `(vector,(first node,nodes,ranks per node),...)`.
//!
//! A reader deals ranks out block by block: a block `(f,n,p)` gives `p` ranks to each of the nodes
//! `f..f+n`. When the list is used up and ranks are left, it starts again. Some readers take the
//! block that begins with node 0 for the start, so only lists with one such block, the first, are
//! left short.

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
    let blocks = blocks(node_of);
    let period = period(&blocks, node_of);
    let mut text = String::from("(vector");
    for block in &blocks[..period] {
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

/// The length of the shortest list that, started again whenever it is used up, deals `node_of`; the
/// last round may break off anywhere.
fn period(blocks: &[Block], node_of: &[u32]) -> usize {
    let starts = |blocks: &[Block]| blocks.iter().filter(|block| block.first == 0).count();
    (1..blocks.len())
        .take_while(|&period| blocks[0].first == 0 && starts(&blocks[..period]) == 1)
        .find(|&period| deal(&blocks[..period]).zip(node_of).all(|(dealt, &node)| dealt == node))
        .unwrap_or(blocks.len())
}

/// The endless map that a list of blocks stands for.
fn deal(blocks: &[Block]) -> impl Iterator<Item = u32> {
    let round = |block: &Block| {
        let ranks = block.ranks as usize;
        (block.first..block.first + block.nodes).flat_map(move |n| std::iter::repeat_n(n, ranks))
    };
    blocks.iter().cycle().flat_map(round)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a vector as an MPI library does.
    fn read(text: &str, size: usize) -> Vec<u32> {
        let list = text.strip_prefix("(vector,").unwrap().strip_suffix(')').unwrap();
        let blocks: Vec<Block> = list
            .split("),(")
            .map(|block| {
                let numbers = block.trim_matches(['(', ')']).split(',');
                let numbers: Vec<u32> = numbers.map(|n| n.parse().unwrap()).collect();
                Block { first: numbers[0], nodes: numbers[1], ranks: numbers[2] }
            })
            .collect();
        deal(&blocks).take(size).collect()
    }

    #[test]
    fn block_cyclic_and_uneven_maps_have_the_known_forms() {
        assert_eq!(vector(&[0, 0, 1, 1]), "(vector,(0,2,2))");
        assert_eq!(vector(&[0, 1, 0, 1]), "(vector,(0,2,1))");
        assert_eq!(vector(&[0, 1, 0]), "(vector,(0,2,1))");
        assert_eq!(vector(&[0, 0, 0, 1, 1, 1, 2]), "(vector,(0,2,3),(2,1,1))");
        assert_eq!(vector(&[0]), "(vector,(0,1,1))");
        // Wrapping is clear only from the block with node 0 on.
        assert_eq!(vector(&[1, 0, 1, 0]), "(vector,(1,1,1),(0,2,1),(0,1,1))");
    }

    #[test]
    fn small_maps_all_read_back_as_they_were() {
        for size in 1..=7u32 {
            for code in 0..3u32.pow(size) {
                let map: Vec<u32> = (0..size).map(|rank| code / 3u32.pow(rank) % 3).collect();
                let text = vector(&map);
                assert_eq!(read(&text, map.len()), map, "{text}");
            }
        }
    }
}
