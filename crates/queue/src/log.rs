//! The event log as bytes: one line per entry, each with its own check sum (docs/spec/eventlog.md).
//!
//! Owns the format and what is made of damaged bytes. It reads and writes no file.
//!
//! A line is `<crc> <json>\n`: eight hexadecimal digits of the CRC-32 (ISO-HDLC, as in gzip) of the
//! JSON text, a space, the [`Entry`] as JSON without line breaks. The last line of a log may be torn by
//! a crash and is dropped; a damaged line elsewhere is set aside, with the job it may have been of.

use crate::event::{Entry, Event};
use crate::id::JobId;

/// The longest line that is read; longer ones are damage.
pub const MAX_LINE: usize = 64 << 20;

/// Appends an entry to a buffer.
pub fn encode(entry: &Entry, buffer: &mut Vec<u8>) {
    let start = buffer.len();
    buffer.extend_from_slice(b"00000000 ");
    json(entry, buffer);
    let sum = crc32fast::hash(&buffer[start + 9..]);
    for (digit, place) in buffer[start..start + 8].iter_mut().zip((0..8).rev()) {
        *digit = b"0123456789abcdef"[(sum >> (4 * place)) as usize & 15];
    }
    buffer.push(b'\n');
}

/// The text that serde makes of an entry. Most of what happens to a job says no more than its name;
/// their texts are put together here, since a log has millions of them.
fn json(entry: &Entry, buffer: &mut Vec<u8>) {
    let bare = match &entry.event {
        Event::Depend {} | Event::Start {} | Event::Free {} | Event::Clean {} => None,
        Event::Priority { priority } => Some(*priority),
        _ => {
            return serde_json::to_writer(buffer, entry)
                .expect("entries hold nothing that JSON cannot say");
        }
    };
    buffer.extend_from_slice(b"{\"time\":");
    number(entry.time.0, buffer);
    if let Some(job) = entry.job {
        buffer.extend_from_slice(b",\"job\":");
        number(job.0, buffer);
    }
    buffer.extend_from_slice(b",\"event\":{\"");
    buffer.extend_from_slice(entry.event.name().as_bytes());
    buffer.extend_from_slice(b"\":{");
    if let Some(priority) = bare {
        buffer.extend_from_slice(b"\"priority\":");
        number(priority.into(), buffer);
    }
    buffer.extend_from_slice(b"}}}");
}

fn number(mut number: u64, buffer: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    buffer.extend_from_slice(&digits[first..]);
}

/// What a log holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// The entries, in order.
    pub entries: Vec<Entry>,
    /// Damaged lines, in order.
    pub damage: Vec<Damage>,
    /// Where the whole lines end: what is behind was torn by a crash and must be cut off before
    /// anything is appended.
    pub end: usize,
    /// Bytes behind that place.
    pub torn: usize,
}

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Its number, from 1.
    pub line: usize,
    /// The job it was of, if that can still be read: what happened to that job cannot be known.
    pub job: Option<JobId>,
    /// What is wrong with it.
    pub what: &'static str,
    /// Its bytes, to be set aside.
    pub bytes: Vec<u8>,
}

/// Reads a log.
pub fn decode(bytes: &[u8]) -> Contents {
    let mut contents = Contents::default();
    for (at, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let Some(line) = line.strip_suffix(b"\n") else {
            contents.torn = line.len();
            break;
        };
        contents.end += line.len() + 1;
        match entry(line) {
            Ok(entry) => contents.entries.push(entry),
            Err(what) => contents.damage.push(Damage {
                line: at + 1,
                job: job_of(line),
                what,
                bytes: line.to_vec(),
            }),
        }
    }
    contents
}

fn entry(line: &[u8]) -> Result<Entry, &'static str> {
    if line.len() > MAX_LINE {
        return Err("it is too long");
    }
    let Some((sum, json)) = line.split_at_checked(9) else { return Err("it is too short") };
    let digits = std::str::from_utf8(&sum[..8]).ok().filter(|_| sum[8] == b' ');
    let Some(sum) = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) else {
        return Err("it does not start with a check sum");
    };
    if crc32fast::hash(json) != sum {
        return Err("its check sum is another");
    }
    serde_json::from_slice(json).map_err(|_| "it is not an entry that this version knows")
}

/// The job in a line that may be damaged: a guess, so that the job can be set aside.
fn job_of(line: &[u8]) -> Option<JobId> {
    let text = String::from_utf8_lossy(line);
    let (_, rest) = text.split_once("\"job\":")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests;
