//! The hello by which a PMIx client says who it is and how it packs its data. Owns its form; who
//! may come in is decided by [`super::Pmix`].

use super::wire::Encoding;

/// The longest hello that is read, bytes; real ones take about 150.
pub(crate) const LIMIT: usize = 64 << 10;

/// Data without descriptions of their types.
const NOT_DESCRIBED: u8 = 1;

/// What a client says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello<'a> {
    /// The namespace that it claims.
    pub(crate) namespace: &'a [u8],
    /// The rank that it claims.
    pub(crate) rank: u32,
    /// How it packs data.
    pub(crate) encoding: Encoding,
}

/// Why a hello is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HelloError {
    /// It ends early.
    #[error("the hello is not whole")]
    Truncated,
    /// A tool or another server.
    #[error("only clients are served, not processes of type {kind}")]
    Kind {
        /// The code of its type.
        kind: u8,
    },
    /// An encoding, data store or buffer type that is not served.
    #[error("the hello asks for an encoding that is not served")]
    Encoding,
}

/// Takes the hello's payload apart. What follows the fields is left alone: newer clients append to
/// it.
pub(crate) fn parse(payload: &[u8]) -> Result<Hello<'_>, HelloError> {
    let mut rest = payload;
    let security = text(&mut rest)?;
    let _ = security;
    let credential = number(&mut rest)? as usize;
    take(&mut rest, credential)?;
    let kind = take(&mut rest, 1)?[0];
    if kind != 0 {
        return Err(HelloError::Kind { kind });
    }
    let namespace = text(&mut rest)?;
    let rank = number(&mut rest)?;
    let _version = text(&mut rest)?;
    let encoding = Encoding::named(text(&mut rest)?).ok_or(HelloError::Encoding)?;
    let buffer = take(&mut rest, 1)?[0];
    let store = text(&mut rest)?;
    if buffer != NOT_DESCRIBED || store != b"hash" {
        return Err(HelloError::Encoding);
    }
    Ok(Hello { namespace, rank, encoding })
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], HelloError> {
    let (taken, after) = rest.split_at_checked(len).ok_or(HelloError::Truncated)?;
    *rest = after;
    Ok(taken)
}

fn number(rest: &mut &[u8]) -> Result<u32, HelloError> {
    let bytes = take(rest, 4)?;
    Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

fn text<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], HelloError> {
    let end = rest.iter().position(|&b| b == 0).ok_or(HelloError::Truncated)?;
    let text = take(rest, end)?;
    take(rest, 1)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(encoding: &str) -> Vec<u8> {
        let mut bytes = b"native\0\0\0\0\x08\0\0\0\0\0\0\0\0\0job-1\0\0\0\0\x02".to_vec();
        bytes.extend_from_slice(b"5.0.11\0");
        bytes.extend_from_slice(encoding.as_bytes());
        bytes.extend_from_slice(b"\0\x01hash\0");
        bytes
    }

    #[test]
    fn a_hello_says_who_and_how() {
        let said = hello("v41");
        let expected = Hello { namespace: b"job-1", rank: 2, encoding: Encoding::V41 };
        assert_eq!(parse(&said), Ok(expected));
        for cut in 0..said.len() {
            assert_eq!(parse(&said[..cut]), Err(HelloError::Truncated), "cut at {cut}");
        }
    }

    #[test]
    fn what_is_not_served_is_refused() {
        assert_eq!(parse(&hello("v20")), Err(HelloError::Encoding));
        let mut tool = hello("v3");
        tool[19] = 1;
        assert_eq!(parse(&tool), Err(HelloError::Kind { kind: 1 }));
    }
}
