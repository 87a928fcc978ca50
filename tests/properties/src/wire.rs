//! Frames between the demo and its nodes: what comes in is the same whatever the cuts, and nonsense is an error.

use arbitrary::Unstructured;
use ringleader::demo::wire::{Frame, Inbox, Order, Report};

use crate::choice::{roll, with};

/// Arbitrary bytes in arbitrary pieces, read as orders and as reports.
pub fn wire(bytes: &[u8]) {
    with(bytes, |u| {
        let frames = frames(u)?;
        let whole = [read::<Order>(&[&frames]), read::<Report>(&[&frames])];
        let mut pieces = Vec::new();
        let mut rest = frames.as_slice();
        while !u.is_empty() && !rest.is_empty() {
            let (piece, behind) = rest.split_at(roll(u, rest.len() as u64 + 1)? as usize);
            pieces.push(piece);
            rest = behind;
        }
        pieces.push(rest);
        assert_eq!([read::<Order>(&pieces), read::<Report>(&pieces)], whole);
        Ok(())
    });
}

/// Bytes that are frames in part: lengths that fit, known kinds, JSON that is nearly right.
fn frames(u: &mut Unstructured<'_>) -> arbitrary::Result<Vec<u8>> {
    const ORDERS: [&str; 4] =
        [r#""Close""#, r#"{"Form":{"timeout_ms":5}}"#, r#"{"Begin":{"stream":1,"first":2}}"#, r#""Opened""#];
    let mut frames = Vec::new();
    for _ in 0..roll(u, 6)? {
        // Kind and group.
        let mut body = vec![*u.choose(b"jp?")?, roll(u, 65)? as u8];
        match roll(u, 3)? {
            0 => body.extend(u.choose(&ORDERS)?.bytes()),
            1 => body.extend(u.arbitrary::<[u8; 20]>()?),
            _ => {
                body.extend(u.arbitrary::<[u8; 12]>()?);
                for _ in 0..roll(u, 3)? {
                    body.extend((roll(u, 6)? as u32).to_le_bytes());
                    body.extend([7; 3]);
                }
            }
        }
        if roll(u, 4)? == 0 {
            let at = roll(u, body.len() as u64)? as usize;
            body[at] = u.arbitrary()?;
        }
        let len = if roll(u, 8)? == 0 { u.arbitrary()? } else { body.len() as u32 };
        frames.extend(len.to_le_bytes());
        frames.extend(body);
    }
    Ok(frames)
}

fn read<T: serde::de::DeserializeOwned + std::fmt::Debug>(pieces: &[&[u8]]) -> Vec<String> {
    let mut inbox = Inbox::default();
    let mut seen = Vec::new();
    for piece in pieces {
        if !inbox.receive(&mut &**piece).expect("a slice is read without errors") {
            continue;
        }
        loop {
            match inbox.take::<T>() {
                Ok(None) => break,
                Ok(Some((group, Frame::Message(message)))) => seen.push(format!("{group}: {message:?}")),
                Ok(Some((group, Frame::Batch(batch)))) => {
                    let (stream, first) = (batch.stream, batch.first);
                    seen.push(format!("{group}: {stream} {first} {:?}", batch.collect::<Vec<_>>()));
                }
                Err(error) => seen.push(error.to_string()),
            }
        }
    }
    seen
}
