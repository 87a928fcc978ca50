//! What the demo puts before each entry's bytes, so that a proposal can be made twice and is applied once.
//!
//! 17 bytes: client id u64, number u64, kind u8, little-endian. Numbers of a client are 1, 2, 3, …, and a number always
//! stands for the same bytes. Payloads that do not begin like this belong to somebody else (a measurement, say).

/// Bytes before the entry's own.
pub const HEADER_LEN: usize = 17;

const KIND_ENTRY: u8 = 1;

/// A proposal taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Proposal<'a> {
    /// Which of the client's entries.
    pub number: u64,
    /// The entry.
    pub bytes: &'a [u8],
}

/// Puts a proposal together in `out`.
pub fn encode(client: u64, number: u64, bytes: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&client.to_le_bytes());
    out.extend_from_slice(&number.to_le_bytes());
    out.push(KIND_ENTRY);
    out.extend_from_slice(bytes);
}

/// Whose entry a payload is, if it is one.
pub fn client_of(payload: &[u8]) -> Option<u64> {
    let (head, _) = payload.split_first_chunk::<HEADER_LEN>()?;
    let (from, rest) = head.split_first_chunk::<8>()?;
    (rest.last() == Some(&KIND_ENTRY)).then(|| u64::from_le_bytes(*from))
}

/// Takes a payload apart; `None` when it is not an entry of this client.
pub fn decode(client: u64, payload: &[u8]) -> Option<Proposal<'_>> {
    let (head, bytes) = payload.split_first_chunk::<HEADER_LEN>()?;
    let (from, rest) = head.split_first_chunk::<8>()?;
    let (number, kind) = rest.split_first_chunk::<8>()?;
    (u64::from_le_bytes(*from) == client && kind == [KIND_ENTRY])
        .then_some(Proposal { number: u64::from_le_bytes(*number), bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let mut payload = vec![9; 3];
        encode(7, 1 << 40, b"a\n", &mut payload);
        assert_eq!(payload.len(), HEADER_LEN + 2);
        assert_eq!(decode(7, &payload), Some(Proposal { number: 1 << 40, bytes: b"a\n" }));
        assert_eq!(decode(8, &payload), None);
        assert_eq!((client_of(&payload), client_of(&[0; 64])), (Some(7), None));
        assert_eq!(decode(7, &payload[..16]), None);
        payload[16] = 2;
        assert_eq!(decode(7, &payload), None);
        encode(7, 1, b"", &mut payload);
        assert_eq!(decode(7, &payload), Some(Proposal { number: 1, bytes: b"" }));
    }
}
