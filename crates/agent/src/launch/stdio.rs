//! Output and input of tasks: lines stay whole, bytes stay what they are, memory stays bounded.
//!
//! Owns: cutting a task's output into pieces that end at line ends ([`Lines`]), laying the pieces
//! of many tasks into one stream with labels if wanted ([`Merge`]), and the last lines of a task
//! for the report ([`Tail`]). Pure; it must not read or write descriptors.

use std::collections::VecDeque;
use std::fmt::Display;

#[cfg(test)]
mod tests;

/// The longest line that is kept whole. A longer one, or output without line ends, goes on in
/// pieces of this size.
pub const LINE_LIMIT: usize = 32 * 1024;

/// Cuts one task's stream into pieces of whole lines.
#[derive(Debug, Default)]
pub struct Lines {
    pending: Vec<u8>,
}

impl Lines {
    /// Takes what was read. `emit` gets pieces that end with a line end, or that are longer than
    /// [`LINE_LIMIT`] without one. All pieces together are the input.
    pub fn push(&mut self, bytes: &[u8], mut emit: impl FnMut(Vec<u8>)) {
        match bytes.iter().rposition(|b| *b == b'\n') {
            Some(end) => {
                let mut piece = std::mem::take(&mut self.pending);
                piece.extend_from_slice(&bytes[..=end]);
                emit(piece);
                self.pending.extend_from_slice(&bytes[end + 1..]);
            }
            None => self.pending.extend_from_slice(bytes),
        }
        if self.pending.len() >= LINE_LIMIT {
            emit(std::mem::take(&mut self.pending));
        }
    }

    /// The rest at the end of the stream, or when the line must not wait any longer.
    pub fn finish(&mut self) -> Option<Vec<u8>> {
        (!self.pending.is_empty()).then(|| std::mem::take(&mut self.pending))
    }
}

/// Lays pieces of several tasks into one stream. `Who` is what a task is called in labels.
#[derive(Debug)]
pub struct Merge<Who = u32> {
    label: bool,
    /// The task whose line is not ended yet.
    open: Option<Who>,
}

impl<Who: Copy + PartialEq + Display> Merge<Who> {
    /// With `label` each line starts with `RANK: `.
    pub fn new(label: bool) -> Self {
        Self { label, open: None }
    }

    /// Appends to `out` what has to be written for a piece of a task's output. Without labels
    /// that is the piece itself, byte for byte. With labels a line that another task breaks into
    /// is ended first, and its rest gets a label of its own, so that no line shows two tasks.
    pub fn piece(&mut self, rank: Who, bytes: &[u8], out: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        if !self.label {
            out.extend_from_slice(bytes);
            return;
        }
        if self.open.is_some_and(|open| open != rank) {
            out.push(b'\n');
            self.open = None;
        }
        for line in bytes.split_inclusive(|b| *b == b'\n') {
            if self.open.is_none() {
                out.extend_from_slice(format!("{rank}: ").as_bytes());
            }
            out.extend_from_slice(line);
            self.open = (!line.ends_with(b"\n")).then_some(rank);
        }
    }
}

/// How much of one input all of several readers have taken.
#[derive(Debug)]
pub struct Slowest {
    /// By reader; `None` is gone and holds nobody up.
    taken: Vec<Option<u64>>,
    told: u64,
}

impl Slowest {
    /// So many readers that have taken nothing.
    pub fn new(readers: usize) -> Self {
        Self { taken: vec![Some(0); readers], told: 0 }
    }

    /// A reader has taken more. Gives by how much the slowest has moved on.
    pub fn took(&mut self, reader: usize, bytes: u64) -> u64 {
        if let Some(taken) = self.taken.get_mut(reader).and_then(Option::as_mut) {
            *taken += bytes;
        }
        let slowest = self.taken.iter().flatten().min().copied().unwrap_or(self.told);
        let more = slowest - self.told.min(slowest);
        self.told += more;
        more
    }

    /// A reader takes no more.
    pub fn gone(&mut self, reader: usize) {
        if let Some(taken) = self.taken.get_mut(reader) {
            *taken = None;
        }
    }
}

/// The last lines of a task's output, for the report of its failure.
#[derive(Debug, Default)]
pub struct Tail {
    lines: VecDeque<String>,
    pending: Vec<u8>,
}

impl Tail {
    /// Lines that are kept.
    pub const LINES: usize = 10;
    /// Bytes of a line that are kept.
    pub const WIDTH: usize = 200;

    /// Takes a piece of output. Costs no more than its last few kilobytes.
    pub fn push(&mut self, bytes: &[u8]) {
        /// Nothing before this can be among the last lines in full.
        const LOOK: usize = (Tail::LINES + 1) * Tail::WIDTH;
        let mut bytes = bytes;
        if bytes.len() > LOOK {
            bytes = &bytes[bytes.len() - LOOK..];
            self.pending.clear();
            // What starts in the middle of a line starts at the next one, if there is one.
            if let Some(start) = bytes.iter().position(|b| *b == b'\n') {
                bytes = &bytes[start + 1..];
            }
        }
        for line in bytes.split_inclusive(|b| *b == b'\n') {
            let room = Self::WIDTH.saturating_sub(self.pending.len());
            self.pending.extend_from_slice(&line[..line.len().min(room)]);
            if line.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let text = String::from_utf8_lossy(&self.pending);
        let text: String = text.trim_end().chars().filter(|c| !c.is_control()).collect();
        self.pending.clear();
        if !text.is_empty() {
            if self.lines.len() == Self::LINES {
                self.lines.pop_front();
            }
            self.lines.push_back(text);
        }
    }

    /// The lines, oldest first.
    pub fn into_lines(mut self) -> Vec<String> {
        if !self.pending.is_empty() {
            self.end_line();
        }
        self.lines.into()
    }
}
