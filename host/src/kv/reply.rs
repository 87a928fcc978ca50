//! What a client is answered, and how that is written in the version of the protocol that it speaks.
//!
//! The bytes are made by the crate `redis-protocol`. Not: which answer it is.

use std::borrow::Cow;

use redis_protocol::error::RedisProtocolError;
use redis_protocol::resp2::encode::{encode as encode_owned_2, encode_borrowed as encode_2};
use redis_protocol::resp2::types::{BorrowedFrame as Borrowed2, OwnedFrame as Owned2, Resp2Frame as _};
use redis_protocol::resp3::encode::complete::{encode as encode_owned_3, encode_borrowed as encode_3};
use redis_protocol::resp3::types::{
    BorrowedFrame as Borrowed3, FrameMap, OwnedFrame as Owned3, Resp3Frame as _,
};

/// The version of the protocol that a client speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Protocol {
    /// Which every client begins with.
    #[default]
    Resp2,
    /// After `HELLO 3`.
    Resp3,
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Reply<'a> {
    /// A word, such as OK.
    Status(&'static str),
    /// Its first word is a code that clients branch on. One line.
    Error(Cow<'static, str>),
    Int(i64),
    Bulk(Cow<'a, [u8]>),
    Nil,
    Array(Vec<Reply<'a>>),
    /// In RESP2 an array of keys and values in turn.
    Map(Vec<(Reply<'a>, Reply<'a>)>),
}

impl Reply<'_> {
    pub(super) const OK: Reply<'static> = Reply::Status("OK");

    /// An error with this text.
    pub(super) fn error(text: impl Into<Cow<'static, str>>) -> Reply<'static> {
        Reply::Error(text.into())
    }

    /// A text of this server's.
    pub(super) fn text(text: impl Into<String>) -> Reply<'static> {
        Reply::Bulk(Cow::Owned(text.into().into_bytes()))
    }

    /// 1 or 0.
    pub(super) fn flag(is_so: bool) -> Reply<'static> {
        Reply::Int(i64::from(is_so))
    }

    /// Bytes that it takes, roughly and never less by more than a tenth of what its values are.
    pub(super) fn len(&self) -> usize {
        match self {
            Reply::Status(text) => text.len() + 3,
            Reply::Error(text) => text.len() + 3,
            Reply::Bulk(bytes) => bytes.len() + 16,
            Reply::Int(_) | Reply::Nil => 24,
            Reply::Array(items) => 16 + items.iter().map(Reply::len).sum::<usize>(),
            Reply::Map(pairs) => 16 + pairs.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>(),
        }
    }

    /// Writes it behind what is in `out`.
    pub(super) fn encode(&self, protocol: Protocol, out: &mut Vec<u8>) {
        match protocol {
            Protocol::Resp2 => self.encode_2(out),
            Protocol::Resp3 => self.encode_3(out),
        }
    }

    fn encode_2(&self, out: &mut Vec<u8>) {
        if let Some(frame) = self.scalar_2() {
            append(out, frame.encode_len(false), |room| encode_2(room, &frame, false));
        } else if let Reply::Array(items) = self
            && let Some(frames) = items.iter().map(Reply::scalar_2).collect::<Option<Vec<_>>>()
        {
            let frame = Borrowed2::Array(&frames);
            append(out, frame.encode_len(false), |room| encode_2(room, &frame, false));
        } else {
            let frame = self.owned_2();
            append(out, frame.encode_len(false), |room| encode_owned_2(room, &frame, false));
        }
    }

    fn encode_3(&self, out: &mut Vec<u8>) {
        if let Some(frame) = self.scalar_3() {
            append(out, frame.encode_len(false), |room| encode_3(room, &frame, false));
        } else if let Reply::Array(items) = self
            && let Some(frames) = items.iter().map(Reply::scalar_3).collect::<Option<Vec<_>>>()
        {
            let frame = Borrowed3::Array { data: &frames, attributes: None };
            append(out, frame.encode_len(false), |room| encode_3(room, &frame, false));
        } else {
            let frame = self.owned_3();
            append(out, frame.encode_len(false), |room| encode_owned_3(room, &frame, false));
        }
    }

    fn scalar_2(&self) -> Option<Borrowed2<'_>> {
        Some(match self {
            Reply::Status(text) => Borrowed2::SimpleString(text.as_bytes()),
            Reply::Error(text) => Borrowed2::Error(text),
            Reply::Int(number) => Borrowed2::Integer(*number),
            Reply::Bulk(bytes) => Borrowed2::BulkString(bytes),
            Reply::Nil => Borrowed2::Null,
            Reply::Array(_) | Reply::Map(_) => return None,
        })
    }

    fn scalar_3(&self) -> Option<Borrowed3<'_>> {
        Some(match self {
            Reply::Status(text) => Borrowed3::SimpleString { data: text.as_bytes(), attributes: None },
            Reply::Error(text) => Borrowed3::SimpleError { data: text, attributes: None },
            Reply::Int(number) => Borrowed3::Number { data: *number, attributes: None },
            Reply::Bulk(bytes) => Borrowed3::BlobString { data: bytes, attributes: None },
            Reply::Nil => Borrowed3::Null,
            Reply::Array(_) | Reply::Map(_) => return None,
        })
    }

    /// For answers that are seldom given.
    fn owned_2(&self) -> Owned2 {
        match self {
            Reply::Status(text) => Owned2::SimpleString(text.as_bytes().to_vec()),
            Reply::Error(text) => Owned2::Error(text.clone().into_owned()),
            Reply::Int(number) => Owned2::Integer(*number),
            Reply::Bulk(bytes) => Owned2::BulkString(bytes.to_vec()),
            Reply::Nil => Owned2::Null,
            Reply::Array(items) => Owned2::Array(items.iter().map(Reply::owned_2).collect()),
            Reply::Map(pairs) => Owned2::Array(
                pairs.iter().flat_map(|(key, value)| [key.owned_2(), value.owned_2()]).collect(),
            ),
        }
    }

    fn owned_3(&self) -> Owned3 {
        match self {
            Reply::Status(text) => Owned3::SimpleString { data: text.as_bytes().to_vec(), attributes: None },
            Reply::Error(text) => Owned3::SimpleError { data: text.clone().into_owned(), attributes: None },
            Reply::Int(number) => Owned3::Number { data: *number, attributes: None },
            Reply::Bulk(bytes) => Owned3::BlobString { data: bytes.to_vec(), attributes: None },
            Reply::Nil => Owned3::Null,
            Reply::Array(items) => {
                Owned3::Array { data: items.iter().map(Reply::owned_3).collect(), attributes: None }
            }
            Reply::Map(pairs) => {
                let pairs = pairs.iter().map(|(key, value)| (key.owned_3(), value.owned_3()));
                Owned3::Map { data: pairs.collect::<FrameMap<_, _>>(), attributes: None }
            }
        }
    }
}

/// Makes room for a frame behind what is in `out`, and has it written there.
fn append(out: &mut Vec<u8>, len: usize, write: impl FnOnce(&mut [u8]) -> Result<usize, RedisProtocolError>) {
    let before = out.len();
    out.resize(before + len, 0);
    let written = write(&mut out[before..]).expect("the frame has said how long it is");
    out.truncate(before + written);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(reply: &Reply<'_>, protocol: Protocol) -> String {
        let mut out = b"before".to_vec();
        reply.encode(protocol, &mut out);
        let text = String::from_utf8(out).expect("text");
        text.strip_prefix("before").expect("is kept").to_owned()
    }

    #[test]
    fn answers_have_the_bytes_that_the_protocol_gives_them() {
        let bulk = |text: &'static str| Reply::Bulk(Cow::Borrowed(text.as_bytes()));
        let pair = vec![(bulk("a"), Reply::Int(1))];
        let table: [(Reply<'_>, &str, &str); 9] = [
            (Reply::OK, "+OK\r\n", "+OK\r\n"),
            (Reply::error("ERR no"), "-ERR no\r\n", "-ERR no\r\n"),
            (Reply::Int(-7), ":-7\r\n", ":-7\r\n"),
            (bulk(""), "$0\r\n\r\n", "$0\r\n\r\n"),
            (Reply::Nil, "$-1\r\n", "_\r\n"),
            (Reply::Array(vec![]), "*0\r\n", "*0\r\n"),
            (
                Reply::Array(vec![bulk("xy"), Reply::Nil]),
                "*2\r\n$2\r\nxy\r\n$-1\r\n",
                "*2\r\n$2\r\nxy\r\n_\r\n",
            ),
            (Reply::Map(pair.clone()), "*2\r\n$1\r\na\r\n:1\r\n", "%1\r\n$1\r\na\r\n:1\r\n"),
            (
                Reply::Array(vec![Reply::Map(pair)]),
                "*1\r\n*2\r\n$1\r\na\r\n:1\r\n",
                "*1\r\n%1\r\n$1\r\na\r\n:1\r\n",
            ),
        ];
        for (reply, two, three) in table {
            assert_eq!(bytes(&reply, Protocol::Resp2), two);
            assert_eq!(bytes(&reply, Protocol::Resp3), three);
            assert!(reply.len() >= two.len() * 9 / 10, "{reply:?}");
        }
    }
}
