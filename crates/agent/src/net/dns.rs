//! The part of the DNS message format (RFC 1035 section 4, RFC 3596) that a stub resolver for
//! addresses needs: questions for A and AAAA, answers with CNAME chains, and questions that only ask
//! whether there is such a name.
//!
//! Pure: bytes in, data out. Every length is checked; compression pointers must point backwards,
//! so that no message can make the reader loop.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The most bytes of a UDP message that we take. Without EDNS servers send at most 512 and
/// truncate what is longer; the rest is slack for those that do not.
pub const UDP_LIMIT: usize = 1232;
/// Answer records that are looked at in one message.
const RECORD_LIMIT: usize = 512;
/// CNAMEs that are followed within one message.
const CHAIN_LIMIT: usize = 8;

const TYPE_A: u16 = 1;
const TYPE_CNAME: u16 = 5;
const TYPE_AAAA: u16 = 28;
const TYPE_OPT: u16 = 41;
/// Types for private use (RFC 6895 section 3.1): nobody has records of them.
const PRIVATE_TYPES: std::ops::RangeInclusive<u16> = 65_280..=65_534;
const CLASS_IN: u16 = 1;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// A records.
    V4,
    /// AAAA records.
    V6,
    /// Only whether the name is there: records of one of 255 types that nobody has, by number. A name that
    /// exists has none of them, one that does not is said not to (RFC 2308 section 2). Caches keep
    /// answers apart by type, so the answer of each number is looked up anew, and that for addresses is
    /// not put into a cache before there are any.
    Presence(u8),
}

impl Family {
    fn code(self) -> u16 {
        match self {
            Self::V4 => TYPE_A,
            Self::V6 => TYPE_AAAA,
            Self::Presence(number) => {
                let count = PRIVATE_TYPES.end() - PRIVATE_TYPES.start() + 1;
                PRIVATE_TYPES.start() + u16::from(number) % count
            }
        }
    }
}

/// How a question is put: two bits that change nothing in the answer of a zone without signatures, and by
/// which caches keep answers apart. A name that was asked for too early stays absent in a cache for as
/// long as the zone says (seconds); asked for in another form, it is looked up anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// CD of RFC 4035 section 3.2.2: signatures need not be checked.
    pub checking_disabled: bool,
    /// DO of RFC 3225, which takes an OPT record of RFC 6891: signatures may come along.
    pub dnssec_ok: bool,
}

impl Form {
    /// The form of the `turn`-th question: all four in turn, the plain one first.
    pub fn of_turn(turn: u8) -> Self {
        Self { checking_disabled: turn & 1 != 0, dnssec_ok: turn & 2 != 0 }
    }
}

/// What a server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// These addresses; empty when the name exists without such a record.
    Addresses(Vec<IpAddr>),
    /// The name does not exist (NXDOMAIN).
    NoName,
    /// The answer did not fit: ask again by TCP.
    Truncated,
    /// The server cannot tell now (SERVFAIL, REFUSED, ...).
    Failed(u8),
}

/// Why bytes are not an answer to our question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DnsError {
    /// A name that cannot be asked for: a label is empty or longer than 63 bytes, or all are
    /// longer than 253.
    #[error("not a DNS name")]
    Name,
    /// Too short, a length or a pointer that leads nowhere.
    #[error("a malformed DNS message")]
    Malformed,
    /// Another id or question, or not an answer.
    #[error("an answer to another question")]
    Unrelated,
}

/// The bytes that ask about a name. The name has no final dot.
pub fn question(id: u16, name: &str, family: Family, form: Form) -> Result<Vec<u8>, DnsError> {
    if name.is_empty() || name.len() > 253 {
        return Err(DnsError::Name);
    }
    let mut bytes = Vec::with_capacity(name.len() + 29);
    bytes.extend_from_slice(&id.to_be_bytes());
    // Recursion desired; one question; perhaps one additional record.
    let checking = if form.checking_disabled { 0x10 } else { 0x00 };
    bytes.extend_from_slice(&[0x01, checking, 0, 1, 0, 0, 0, 0, 0, u8::from(form.dnssec_ok)]);
    for label in name.split('.') {
        let length = u8::try_from(label.len()).map_err(|_| DnsError::Name)?;
        if length == 0 || length > 63 {
            return Err(DnsError::Name);
        }
        bytes.push(length);
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    bytes.extend_from_slice(&family.code().to_be_bytes());
    bytes.extend_from_slice(&CLASS_IN.to_be_bytes());
    if form.dnssec_ok {
        // The root's name, OPT, what we take by UDP, no extended code, version 0, DO, no options.
        bytes.push(0);
        bytes.extend_from_slice(&TYPE_OPT.to_be_bytes());
        bytes.extend_from_slice(&(UDP_LIMIT as u16).to_be_bytes());
        bytes.extend_from_slice(&[0, 0, 0x80, 0, 0, 0]);
    }
    Ok(bytes)
}

/// Reads a server's answer to [`question`].
pub fn answer(bytes: &[u8], id: u16, name: &str, family: Family) -> Result<Answer, DnsError> {
    let mut reader = Reader { bytes, at: 0 };
    let header = reader.take(12)?;
    let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let flags = word(2);
    if word(0) != id || flags & 0x8000 == 0 || word(4) != 1 {
        return Err(DnsError::Unrelated);
    }
    let asked = reader.name()?;
    if !asked.eq_ignore_ascii_case(name)
        || reader.word()? != family.code()
        || reader.word()? != CLASS_IN
    {
        return Err(DnsError::Unrelated);
    }
    match flags & 0x000f {
        0 => {}
        3 => return Ok(Answer::NoName),
        code => return Ok(Answer::Failed(code as u8)),
    }
    if flags & 0x0200 != 0 {
        return Ok(Answer::Truncated);
    }
    let mut names = vec![asked];
    let mut addresses = Vec::new();
    for _ in 0..usize::from(word(6)).min(RECORD_LIMIT) {
        let record = reader.record()?;
        if record.class != CLASS_IN || !names.iter().any(|n| n.eq_ignore_ascii_case(&record.owner))
        {
            continue;
        }
        match (record.kind, record.data.len()) {
            (TYPE_CNAME, _) if names.len() < CHAIN_LIMIT => {
                let mut target = Reader { bytes, at: record.data_at };
                names.push(target.name()?);
            }
            (TYPE_A, 4) if family == Family::V4 => {
                let octets: [u8; 4] = record.data.try_into().expect("the length was matched");
                addresses.push(IpAddr::V4(Ipv4Addr::from(octets)));
            }
            (TYPE_AAAA, 16) if family == Family::V6 => {
                let octets: [u8; 16] = record.data.try_into().expect("the length was matched");
                addresses.push(IpAddr::V6(Ipv6Addr::from(octets)));
            }
            (TYPE_A | TYPE_AAAA, length) if length != 4 && length != 16 => {
                return Err(DnsError::Malformed);
            }
            _ => {}
        }
    }
    Ok(Answer::Addresses(addresses))
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

struct Record<'a> {
    owner: String,
    kind: u16,
    class: u16,
    data: &'a [u8],
    data_at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], DnsError> {
        let end = self.at.checked_add(count).ok_or(DnsError::Malformed)?;
        let part = self.bytes.get(self.at..end).ok_or(DnsError::Malformed)?;
        self.at = end;
        Ok(part)
    }

    fn word(&mut self) -> Result<u16, DnsError> {
        self.take(2).map(|b| u16::from_be_bytes([b[0], b[1]]))
    }

    fn record(&mut self) -> Result<Record<'a>, DnsError> {
        let owner = self.name()?;
        let kind = self.word()?;
        let class = self.word()?;
        self.take(4)?;
        let length = usize::from(self.word()?);
        let data_at = self.at;
        let data = self.take(length)?;
        Ok(Record { owner, kind, class, data, data_at })
    }

    /// A name, dotted, without the final dot; leaves the reader behind it.
    fn name(&mut self) -> Result<String, DnsError> {
        let mut name = String::new();
        let mut at = self.at;
        let mut after = None;
        loop {
            let length = *self.bytes.get(at).ok_or(DnsError::Malformed)?;
            match length {
                0 => break,
                1..=63 => {
                    let start = at + 1;
                    let end = start + usize::from(length);
                    let label = self.bytes.get(start..end).ok_or(DnsError::Malformed)?;
                    if !name.is_empty() {
                        name.push('.');
                    }
                    // Bytes beyond ASCII cannot match a name that we ask for.
                    name.extend(label.iter().map(|&b| char::from(b)));
                    if name.len() > 1024 {
                        return Err(DnsError::Malformed);
                    }
                    at = end;
                }
                0xc0.. => {
                    let low = *self.bytes.get(at + 1).ok_or(DnsError::Malformed)?;
                    let target = usize::from(length & 0x3f) << 8 | usize::from(low);
                    if target >= at {
                        return Err(DnsError::Malformed);
                    }
                    after.get_or_insert(at + 2);
                    at = target;
                }
                _ => return Err(DnsError::Malformed),
            }
        }
        self.at = after.unwrap_or(at + 1);
        Ok(name)
    }
}

#[cfg(test)]
mod tests;
