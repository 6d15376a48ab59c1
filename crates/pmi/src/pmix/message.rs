//! Messages of PMIx between a client and its server: a header of 16 bytes, then packed data. Owns
//! the header; what is packed is [`super::wire`]'s.

/// Bytes of a header: index (i32), tag (u32), length (u32), padding (u32).
pub(crate) const HEADER: usize = 16;

/// A header announces more than is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of {length} bytes is longer than {limit}")]
pub(crate) struct TooLong {
    /// Bytes announced.
    pub(crate) length: usize,
    /// Bytes allowed.
    pub(crate) limit: usize,
}

/// A whole message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    /// The tag, which the answer repeats.
    pub(crate) tag: u32,
    /// The packed data.
    pub(crate) payload: &'a [u8],
    /// Bytes that header and data take.
    pub(crate) taken: usize,
}

/// The first message in `buffer`; `None` while it is not whole.
pub(crate) fn next(buffer: &[u8], limit: usize) -> Result<Option<Message<'_>>, TooLong> {
    let Some(header) = buffer.first_chunk::<HEADER>() else { return Ok(None) };
    body(buffer, word(header, 4), word(header, 8) as usize, limit)
}

/// The very first message of a client, the hello. Its length is in the order of the client's
/// machine, which is this one; that of others is taken as well.
pub(crate) fn first(buffer: &[u8], limit: usize) -> Result<Option<Message<'_>>, TooLong> {
    let Some(header) = buffer.first_chunk::<HEADER>() else { return Ok(None) };
    let length = word(header, 8);
    let length = (length.min(length.swap_bytes())) as usize;
    body(buffer, word(header, 4), length, limit)
}

fn body(
    buffer: &[u8],
    tag: u32,
    length: usize,
    limit: usize,
) -> Result<Option<Message<'_>>, TooLong> {
    if length > limit {
        return Err(TooLong { length, limit });
    }
    let taken = HEADER + length;
    Ok(buffer.get(HEADER..taken).map(|payload| Message { tag, payload, taken }))
}

fn word(header: &[u8; HEADER], at: usize) -> u32 {
    u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

/// The header of an answer.
pub(crate) fn header(index: u32, tag: u32, length: usize) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&index.to_be_bytes());
    header[4..8].copy_from_slice(&tag.to_be_bytes());
    // Longer answers do not exist: what is packed is bounded far below.
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    header[8..12].copy_from_slice(&length.to_be_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_out_of_the_stream() {
        let mut stream = header(3, 101, 5).to_vec();
        stream.extend_from_slice(b"hello, world");
        let message = next(&stream, 100).unwrap().unwrap();
        assert_eq!((message.tag, message.payload, message.taken), (101, &b"hello"[..], 21));
        for cut in 0..21 {
            assert_eq!(next(&stream[..cut], 100), Ok(None));
        }
        assert_eq!(next(&stream, 4), Err(TooLong { length: 5, limit: 4 }));
    }

    #[test]
    fn the_first_length_is_read_in_both_orders() {
        for length in [5u32.to_be_bytes(), 5u32.to_le_bytes()] {
            let mut stream = header(0, 0, 0).to_vec();
            stream[8..12].copy_from_slice(&length);
            stream.extend_from_slice(b"hello");
            assert_eq!(first(&stream, 100).unwrap().unwrap().payload, b"hello");
        }
    }
}
