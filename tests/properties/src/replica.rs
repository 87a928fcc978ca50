//! A group of three among which a stranger writes: everywhere, also lines whose CRC is right, as any node, with any fields.

use arbitrary::{Result, Unstructured};
use ringleader_core::crc;
use ringleader_core::layout::{
    AnswerLine, BeatLine, ConfigBlock, Header, LeaderLine, Line, ProgressLine, RequestLine, SnapshotLine,
    answer_of, control, log, request_of, snapshot, staging, verdict,
};
use ringleader_core::mem::Area;
use ringleader_core::replica::Status;
use ringleader_core::types::{Instant, NodeId};
use ringleader_core::verb::{Completion, RequestId, Status as VerbStatus};
use zerocopy::IntoBytes;

use crate::choice::{about, roll, with, word};
use crate::group::{Group, MS, RING, Words};

/// Turns of the group's loop a run has at the most.
const TURNS: u64 = 1500;

/// No bytes and no completions make a replica panic or work without end; what it promised, knows committed and has
/// applied never goes back. (Overflow checks are on in tests; a turn of the group fails when it has no end.)
pub fn replica(bytes: &[u8]) {
    with(bytes, |u| {
        let mut group = Group::new();
        for _ in 0..roll(u, 20)? {
            scribble(u, &mut group)?;
        }
        let _ = group.nodes[0].replica.form(Instant(0), 0x1234);
        let mut turns = roll(u, 2)? * 300;
        (0..turns).for_each(|_| group.turn());
        let mut before = all(&group);
        while !u.is_empty() && turns < TURNS {
            for _ in 0..roll(u, 4)? {
                scribble(u, &mut group)?;
            }
            match roll(u, 12)? {
                0 => group.now += 60 * MS,
                1 => group.now += word(u)? % (1 << 40),
                2 => {
                    let node = &mut group.nodes[roll(u, 3)? as usize];
                    node.stopped = !node.stopped;
                }
                3 => group.nodes[roll(u, 3)? as usize].arm_failures = 1,
                4 => {
                    let done = completion(u, &group)?;
                    let now = Instant(group.now);
                    group.nodes[roll(u, 3)? as usize].replica.handle_completion(now, done);
                }
                _ => {
                    let now = Instant(group.now);
                    let payload = vec![7; roll(u, 3000)? as usize];
                    for node in &mut group.nodes {
                        let _ = node.replica.propose(now, &payload);
                    }
                }
            }
            for _ in 0..=roll(u, 8)? * roll(u, 8)? {
                group.turn();
                turns += 1;
            }
            let after = all(&group);
            for (before, after) in before.iter().zip(&after) {
                assert!(after.promise.term() >= before.promise.term(), "{after:?} after {before:?}");
                assert!(after.anchor.position >= before.anchor.position, "{after:?} after {before:?}");
                assert!(after.applied.position >= before.applied.position, "{after:?} after {before:?}");
                assert!(after.base >= before.base, "{after:?} after {before:?}");
                assert!(after.applied.position <= after.anchor.position, "{after:?}");
            }
            before = after;
        }
        Ok(())
    });
}

fn all(group: &Group) -> Vec<Status> {
    group.nodes.iter().map(|node| node.replica.status()).collect()
}

/// Numbers that mean something, or are just beyond what does.
fn meaning(u: &mut Unstructured<'_>, group: &Group) -> Result<u64> {
    let status = group.nodes[roll(u, 3)? as usize].replica.status();
    Ok(match roll(u, 12)? {
        0 => word(u)?,
        1 => RING - 64 + roll(u, 3)? * 64,
        2 => status.promise.0.wrapping_add(roll(u, 3)? * 256),
        3 => about(u, status.end.position.0, 64)?,
        4 => about(u, status.end.index.0, 1)?,
        5 => about(u, status.anchor.position.0, 64)?,
        6 => 20 + roll(u, 5)?,
        7 => 10 + roll(u, 5)?,
        8 => roll(u, 8)? << 32 | roll(u, 8)?,
        9 => u64::MAX << 8 | roll(u, 16)?,
        10 => 0x1234,
        _ => roll(u, 4)?,
    })
}

/// One WRITE of the stranger.
fn scribble(u: &mut Unstructured<'_>, group: &mut Group) -> Result<()> {
    let target = roll(u, 3)? as usize;
    let areas = group.nodes[target].areas.clone();
    let peer = NodeId(1 + roll(u, 3)? as u8);
    match roll(u, 17)? {
        14 => line::<SnapshotLine>(u, group, &areas.snapshot, snapshot::HEADER),
        15 => offer(u, group, &areas.snapshot, target),
        16 => line::<ConfigBlock>(u, group, &areas.snapshot, snapshot::CONFIG),
        0 => line::<ProgressLine>(u, group, &areas.control, control::PROGRESS),
        1 => line::<BeatLine>(u, group, &areas.log, log::BEAT),
        2 => line::<Header>(u, group, &areas.control, control::HEADER),
        3 => line::<ConfigBlock>(u, group, &areas.control, control::CONFIG),
        4 => line::<LeaderLine>(u, group, &areas.control, control::LEADER),
        5 => line::<ProgressLine>(u, group, &areas.staging, staging::progress(peer.slot())),
        6 => {
            areas.control.store(roll(u, control::LEN / 8)? * 8, meaning(u, group)?);
            Ok(())
        }
        7 | 8 => {
            let end = group.nodes[0].replica.status().end.position.0;
            let near = end.saturating_sub(roll(u, 32)? * 64) + roll(u, 8)? * 8;
            areas.log.store(log::RING + near % RING, meaning(u, group)?);
            Ok(())
        }
        9 => line::<RequestLine>(u, group, &areas.control, request_of(peer)),
        10 => line::<AnswerLine>(u, group, &areas.control, answer_of(peer)),
        11 => {
            let line = request(u, group, &areas.control, peer, target)?;
            line.write(&areas.control, request_of(peer), u.arbitrary()?);
            Ok(())
        }
        _ => {
            let line = answer(u, group, &areas.control, peer)?;
            line.write(&areas.control, answer_of(peer), u.arbitrary()?);
            Ok(())
        }
    }
}

/// A request as `peer` might make it, if it were mad.
fn request(
    u: &mut Unstructured<'_>,
    group: &Group,
    area: &Area<Words>,
    peer: NodeId,
    target: usize,
) -> Result<RequestLine> {
    let before = RequestLine::read(area, request_of(peer)).unwrap_or_default();
    let status = group.nodes[target].replica.status();
    let source_boot = 21 + roll(u, 3)?;
    Ok(RequestLine {
        from_boot: 20 + u64::from(peer.0),
        to_boot: 21 + target as u64,
        to_incarnation: 11 + target as u64,
        sequence: about(u, before.sequence.wrapping_add(1), 1)?,
        term: about(u, status.promise.term().0, 1)?,
        last_term: about(u, status.end.term.0, 1)?,
        last_index: about(u, status.end.index.0, 1)?,
        hash: if roll(u, 4)? == 0 { word(u)? } else { before.hash },
        qp_numbers: if roll(u, 4)? == 0 { word(u)? } else { before.qp_numbers },
        qp_epoch: about(u, u64::from(before.qp_epoch), 1)? as u32,
        kind: roll(u, 9)? as u8,
        source: if roll(u, 4)? == 0 { roll(u, 17)? as u8 } else { 1 + roll(u, 3)? as u8 },
        position: about(u, status.end.position.0, 64)?,
        counts: roll(u, 3)?,
        source_boot: about(u, source_boot, 1)?,
        number: if roll(u, 4)? == 0 { word(u)? } else { 1 },
        chain: u64::from(status.end.chain.0),
        qp_state: if roll(u, 2)? == 0 { roll(u, 7)? as u8 } else { before.qp_state },
        ..before
    })
}

/// A snapshot that may be had of a node, of any point, with whatever bytes: its CRC is right for some of them.
fn offer(u: &mut Unstructured<'_>, group: &Group, area: &Area<Words>, target: usize) -> Result<()> {
    let status = group.nodes[roll(u, 3)? as usize].replica.status();
    let configuration = group.nodes[target].replica.configuration();
    configuration.block().write(area, snapshot::CONFIG, 1);
    let block = ConfigBlock::read(area, snapshot::CONFIG).expect("just written");
    let len = roll(u, 3)? * 8;
    let bytes = area.lend_loading(len).expect("it is not so long");
    SnapshotLine {
        group_low: status.group as u64,
        group_high: (status.group >> 64) as u64,
        boot: 21 + target as u64,
        number: 1,
        index: about(u, status.end.index.0, 1)?,
        term: about(u, status.end.term.0, 1)?,
        position: about(u, status.end.position.0, 64)?,
        len: if roll(u, 4)? == 0 { word(u)? } else { len },
        chain: status.end.chain.0,
        bytes_crc: crc::append(0, bytes),
        config_crc: block.crc,
        ..SnapshotLine::default()
    }
    .write(area, snapshot::HEADER, u.arbitrary()?);
    Ok(())
}

/// An answer as `peer` might give it, if it were mad: what was asked is answered, with any log behind it.
fn answer(u: &mut Unstructured<'_>, group: &Group, area: &Area<Words>, peer: NodeId) -> Result<AnswerLine> {
    let before = AnswerLine::read(area, answer_of(peer)).unwrap_or_default();
    let status = group.nodes[roll(u, 3)? as usize].replica.status();
    let point = |u: &mut Unstructured<'_>| -> Result<(u64, u64, u64)> {
        let unit = 8 << roll(u, 4)?;
        let near = if roll(u, 2)? == 0 { status.anchor } else { status.end };
        Ok((about(u, near.term.0, 1)?, about(u, near.index.0, 1)?, about(u, near.position.0, unit)?))
    };
    let (last, anchor) = (point(u)?, point(u)?);
    Ok(AnswerLine {
        sequence: if roll(u, 4)? == 0 { about(u, before.sequence, 1)? } else { before.sequence },
        promise: if roll(u, 2)? == 0 { about(u, status.promise.0, 1)? } else { before.promise },
        last_term: last.0,
        last_index: last.1,
        last_position: last.2,
        anchor_term: anchor.0,
        anchor_index: anchor.1,
        anchor_position: anchor.2,
        applied: about(u, status.applied.position.0, 64)?,
        durable: word(u)?,
        qp_epoch: if roll(u, 4)? == 0 {
            about(u, u64::from(before.qp_epoch), 1)? as u32
        } else {
            before.qp_epoch
        },
        anchor_chain: if roll(u, 2)? == 0 { status.anchor.chain.0 } else { u.arbitrary()? },
        verdict: if roll(u, 2)? == 0 { roll(u, 11)? as u8 } else { verdict::GRANTED },
        snapshot_number: roll(u, 3)?,
        snapshot_len: meaning(u, group)?,
        fetched: meaning(u, group)?,
        qp_state: if roll(u, 4)? == 0 { roll(u, 7)? as u8 } else { before.qp_state },
        ..before
    })
}

/// Changes fields of a line and seals it again. Most stay what they are, so that some lines get past the first comparisons.
fn line<L: Line>(u: &mut Unstructured<'_>, group: &Group, area: &Area<Words>, offset: u64) -> Result<()> {
    let mut words = L::ZERO;
    area.read(offset, words.as_mut());
    for _ in 0..roll(u, 6)? {
        // The fields stand in the first half of every line.
        let field = roll(u, L::WORDS as u64 / 2 + 2)? as usize;
        words.as_mut()[field] = meaning(u, group)?;
    }
    let line = L::read_from_bytes(words.as_ref().as_bytes()).expect("as long as the line");
    line.write(area, offset, u.arbitrary()?);
    Ok(())
}

/// A completion of something that nobody posted, or of something still under way.
fn completion(u: &mut Unstructured<'_>, group: &Group) -> Result<Completion> {
    let word = if roll(u, 2)? == 0 { word(u)? } else { roll(u, 4)? << 32 | roll(u, 1 << 16)? };
    let id = RequestId::unpack(word);
    let status = match roll(u, 5)? {
        0 => VerbStatus::Flushed,
        1 => VerbStatus::Refused,
        2 => VerbStatus::Unreachable,
        3 => VerbStatus::Failed,
        _ => VerbStatus::Success,
    };
    Ok(Completion { id, status, value: meaning(u, group)? })
}
