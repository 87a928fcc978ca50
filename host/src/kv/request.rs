//! What a client sends, cut into commands: arrays of bulk strings, and lines for people at a terminal.
//!
//! Two steps. [`Cutter`] looks how far the next command goes, and never at the same byte twice, so that a command that comes in
//! many pieces costs no more than one that comes whole; it also judges every count and length before anything is reserved for it,
//! and lets nothing else through than a flat array of bulk strings. [`arguments`] decodes such an array by `redis-protocol`.

use std::fmt;
use std::ops::Range;

use redis_protocol::resp2::decode::decode_range;
use redis_protocol::resp2::types::RangeFrame;

/// Bytes of the longest line: a count, a length, or a command typed by hand.
const MAX_LINE: usize = 64 << 10;
/// Digits of the longest count or length.
const MAX_DIGITS: usize = 20;

/// What a client may send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Limits {
    /// Bytes of a command as it is sent.
    pub(super) len: usize,
    /// Arguments of a command, its name included.
    pub(super) count: usize,
}

/// Why nothing that this client sends can be told apart any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Malformed {
    /// Neither count nor length where one has to be.
    Number,
    /// No bulk string where one has to be; the byte that is there.
    Type(u8),
    /// No line end behind a bulk string.
    End,
    /// More arguments, or bytes, than a command may have.
    TooLarge,
    /// A line without an end.
    Line,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ERR Protocol error: ")?;
        match self {
            Malformed::Number => f.write_str("invalid count or length"),
            Malformed::Type(byte) => write!(f, "expected '$', got '{}'", byte.escape_ascii()),
            Malformed::End => f.write_str("expected CRLF behind a bulk string"),
            Malformed::TooLarge => f.write_str("a command with too many arguments or too many bytes"),
            Malformed::Line => f.write_str("too big inline request"),
        }
    }
}

/// A command that is there whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cut {
    /// An array, of so many bytes.
    Array(usize),
    /// A line, of so many bytes, its end included.
    Line(usize),
}

/// How far the next command has been looked at.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Cutter {
    at: usize,
    /// Of an array: bulk strings to come. Not known before its first line was there.
    left: Option<usize>,
}

impl Cutter {
    /// The next command in `bytes`, which begin where the last command ended; `None` when it is not there whole. They may only
    /// grow until it is.
    pub(super) fn cut(&mut self, bytes: &[u8], limits: Limits) -> Result<Option<Cut>, Malformed> {
        match bytes.first() {
            None => return Ok(None),
            Some(b'*') => {}
            Some(_) => return self.line(bytes, limits.len.min(MAX_LINE)),
        }
        let mut left = match self.left {
            Some(left) => left,
            None => {
                let Some((count, end)) = number(bytes, 1)? else { return Ok(None) };
                // An empty command, also one that is nil, is passed over by Redis.
                let count = usize::try_from(count.max(0)).map_err(|_| Malformed::TooLarge)?;
                if count > limits.count {
                    return Err(Malformed::TooLarge);
                }
                self.at = end;
                count
            }
        };
        while left > 0 {
            self.left = Some(left);
            let Some(kind) = bytes.get(self.at) else { return Ok(None) };
            if *kind != b'$' {
                return Err(Malformed::Type(*kind));
            }
            let Some((len, body)) = number(bytes, self.at + 1)? else { return Ok(None) };
            let len = usize::try_from(len).map_err(|_| Malformed::Number)?;
            let end = body.checked_add(len).and_then(|end| end.checked_add(2)).ok_or(Malformed::TooLarge)?;
            if end > limits.len {
                return Err(Malformed::TooLarge);
            }
            let Some(there) = bytes.get(body + len..end) else { return Ok(None) };
            if there != b"\r\n" {
                return Err(Malformed::End);
            }
            self.at = end;
            left -= 1;
        }
        let len = self.at;
        *self = Cutter::default();
        Ok(Some(Cut::Array(len)))
    }

    fn line(&mut self, bytes: &[u8], max: usize) -> Result<Option<Cut>, Malformed> {
        match bytes[self.at..].iter().position(|byte| *byte == b'\n') {
            Some(at) if self.at + at <= max => {
                let len = self.at + at + 1;
                *self = Cutter::default();
                Ok(Some(Cut::Line(len)))
            }
            None if bytes.len() <= max => {
                self.at = bytes.len();
                Ok(None)
            }
            _ => Err(Malformed::Line),
        }
    }
}

/// A number and its line end, at `at`; and where that is over.
fn number(bytes: &[u8], at: usize) -> Result<Option<(i64, usize)>, Malformed> {
    let rest = &bytes[at.min(bytes.len())..];
    let Some(end) = rest.iter().take(MAX_DIGITS + 1).position(|byte| *byte == b'\r') else {
        return if rest.len() <= MAX_DIGITS { Ok(None) } else { Err(Malformed::Number) };
    };
    match rest.get(end + 1) {
        None => return Ok(None),
        Some(b'\n') => {}
        Some(_) => return Err(Malformed::Number),
    }
    let digits = str::from_utf8(&rest[..end]).map_err(|_| Malformed::Number)?;
    let number = digits.parse().map_err(|_| Malformed::Number)?;
    Ok(Some((number, at + end + 2)))
}

/// Where the arguments of a command are in its bytes. Behind a [`Cutter`] it never fails.
pub(super) fn arguments(bytes: &[u8], cut: Cut, out: &mut Vec<Range<usize>>) -> Result<(), Malformed> {
    out.clear();
    match cut {
        Cut::Line(_) => {
            let mut begun = None;
            for (at, byte) in bytes.iter().enumerate() {
                match (begun, byte.is_ascii_whitespace()) {
                    (None, false) => begun = Some(at),
                    (Some(start), true) => {
                        out.push(start..at);
                        begun = None;
                    }
                    _ => {}
                }
            }
            Ok(())
        }
        Cut::Array(_) => match decode_range(bytes) {
            Ok(Some((RangeFrame::Array(frames), _))) => {
                for frame in frames {
                    let RangeFrame::BulkString((start, end)) = frame else { return Err(Malformed::Number) };
                    out.push(start..end);
                }
                Ok(())
            }
            Ok(Some((RangeFrame::Null, _))) => Ok(()),
            _ => Err(Malformed::Number),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: Limits = Limits { len: 1000, count: 10 };

    /// All commands of what comes in pieces of `size` bytes, and what ended it.
    fn commands(bytes: &[u8], size: usize) -> (Vec<Vec<Vec<u8>>>, Option<Malformed>) {
        let (mut there, mut cutter, mut out, mut ranges) =
            (Vec::new(), Cutter::default(), Vec::new(), Vec::new());
        for piece in bytes.chunks(size) {
            there.extend_from_slice(piece);
            loop {
                let cut = match cutter.cut(&there, LIMITS) {
                    Ok(Some(cut)) => cut,
                    Ok(None) => break,
                    Err(malformed) => return (out, Some(malformed)),
                };
                let (Cut::Array(len) | Cut::Line(len)) = cut;
                assert!((1..=there.len()).contains(&len));
                arguments(&there[..len], cut, &mut ranges).expect("what was cut is decoded");
                out.push(ranges.iter().map(|range| there[range.clone()].to_vec()).collect());
                there.drain(..len);
            }
        }
        (out, None)
    }

    fn said(bytes: &[u8]) -> Malformed {
        let (_, malformed) = commands(bytes, bytes.len().max(1));
        malformed.expect("refused")
    }

    #[test]
    fn commands_come_out_however_they_arrive() {
        let bytes =
            b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\nPING\r\n\r\n*0\r\n*-1\r\n  set  a\tb\n*1\r\n$0\r\n\r\n";
        let expected: Vec<Vec<Vec<u8>>> = vec![
            vec![b"GET".to_vec(), b"a\r\nb".to_vec()],
            vec![b"PING".to_vec()],
            vec![],
            vec![],
            vec![],
            vec![b"set".to_vec(), b"a".to_vec(), b"b".to_vec()],
            vec![vec![]],
        ];
        for size in 1..=bytes.len() {
            assert_eq!(commands(bytes, size), (expected.clone(), None), "{size}");
        }
    }

    #[test]
    fn what_is_no_command_is_refused_before_room_is_made_for_it() {
        assert_eq!(said(b"*x\r\n"), Malformed::Number);
        assert_eq!(said(b"*1\n$3\r\n"), Malformed::Number);
        assert_eq!(said(b"*11\r\n"), Malformed::TooLarge);
        assert_eq!(said(b"*1000000000000\r\n"), Malformed::TooLarge);
        assert_eq!(said(b"*99999999999999999999999999\r\n"), Malformed::Number);
        assert_eq!(said(b"*1\r\n$1000\r\n"), Malformed::TooLarge);
        assert_eq!(said(b"*1\r\n$9223372036854775807\r\n"), Malformed::TooLarge);
        assert_eq!(said(b"*1\r\n$-1\r\n"), Malformed::Number);
        assert_eq!(said(b"*1\r\n:5\r\n"), Malformed::Type(b':'));
        assert_eq!(said(b"*1\r\n*1\r\n"), Malformed::Type(b'*'));
        assert_eq!(said(b"*1\r\n$2\r\nabc\r\n"), Malformed::End);
        assert_eq!(said(&[b'a'; LIMITS.len + 1]), Malformed::Line);
        let far = Limits { len: usize::MAX, count: 10 };
        assert_eq!(Cutter::default().cut(&[b'a'; MAX_LINE + 1], far), Err(Malformed::Line));
        assert_eq!(Cutter::default().cut(&[b'a'; MAX_LINE], far), Ok(None));
        let text = Malformed::Type(b'\n').to_string();
        assert!(!text.contains('\n'), "{text}");
    }

    proptest! {
        /// Whatever comes in whatever pieces, it is cut in the same way, and nothing panics.
        #[test]
        fn pieces_change_nothing(bytes in bytes_of_clients(), size in 1_usize..40) {
            prop_assert_eq!(commands(&bytes, size), commands(&bytes, bytes.len().max(1)));
        }

        /// What a client writes is what is read.
        #[test]
        fn arrays_are_read_as_they_were_written(
            args in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..10),
        ) {
            let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
            for arg in &args {
                bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
                bytes.extend_from_slice(arg);
                bytes.extend_from_slice(b"\r\n");
            }
            prop_assert_eq!(commands(&bytes, 7), (vec![args], None));
        }
    }

    /// Bytes near to what clients send.
    fn bytes_of_clients() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just(b"*2\r\n".to_vec()),
            Just(b"*1\r\n$4\r\nPING\r\n".to_vec()),
            Just(b"$3\r\nGET\r\n".to_vec()),
            Just(b"$1\r\na\r\n".to_vec()),
            Just(b"\r\n".to_vec()),
            Just(b"PING\n".to_vec()),
            proptest::collection::vec(any::<u8>(), 0..6),
        ];
        proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }
}
