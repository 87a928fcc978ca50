//! Invariant 5 in every beat: its `commit` is never above its `matched`, nor that above what its leader takes the follower
//! for. The follower's anchor, and so its application, follows the beat.

use ringleader_core::layout::{BeatLine, Line, log};
use ringleader_core::types::{LogPoint, NodeId};
use ringleader_core::verb::{Class, Verb};

use super::Violation;
use crate::history::{self, History};
use crate::view::Member;

/// A leader, or one that gave up, sends a beat: which one.
pub fn posted(member: &Member, verb: &Verb) -> Result<Option<BeatLine>, Violation> {
    let Verb::Write { id, from, .. } = *verb else { return Ok(None) };
    match BeatLine::read(&member.home.staging, from) {
        Some(beat) if id.class == Class::Beat => check(member, id.peer, &beat).map(|()| Some(beat)),
        _ => Ok(None),
    }
}

/// What a follower is told is committed has been committed, and stands in its log as it was; `from`: compared up to there. A
/// follower that has promised to another since does not hear of it any more.
pub fn holds(
    poster: &Member,
    follower: &Member,
    beat: &BeatLine,
    from: LogPoint,
    history: &History,
    ring_len: u64,
) -> Result<(), Violation> {
    if !follower.belongs() || follower.seen.promise.0 != beat.leader {
        return Ok(());
    }
    if beat.commit > history.end().position.0 {
        return Err(Violation::new(
            5,
            format!(
                "node {} tells node {} that all up to {} is committed; nobody has committed more than {}",
                poster.id,
                follower.id,
                beat.commit,
                history.end().position
            ),
        ));
    }
    let mut at = from;
    // It may end in the middle of an entry: what is matched does.
    while let Some(known) = history.at(at.index.next()).filter(|known| known.next.position.0 <= beat.commit) {
        let here = history::read(&follower.home.log, ring_len, &at).ok();
        if here.as_ref().is_none_or(|here| here.fingerprint != known.fingerprint) {
            return Err(Violation::new(
                5,
                format!(
                    "node {} tells node {} that all up to {} is committed; it has {here:?}, committed is {known:?}",
                    poster.id, follower.id, beat.commit
                ),
            ));
        }
        at = known.next;
    }
    Ok(())
}

/// A node stepped: the beat that stands in its own log, if it is its own.
pub fn after_step(member: &Member) -> Result<(), Violation> {
    match BeatLine::read(&member.home.log, log::BEAT) {
        // To an acceptor that is apart it was posted, like to others, and judged then.
        Some(beat) if member.seen.leads && beat.leader == member.seen.leading.0 && !member.seen.is_apart => {
            check(member, member.id, &beat)
        }
        _ => Ok(()),
    }
}

fn check(leader: &Member, follower: NodeId, beat: &BeatLine) -> Result<(), Violation> {
    let matched = leader.seen.followers[follower.slot()].matched;
    if beat.commit > beat.matched || leader.seen.leads && beat.matched > matched.0 {
        return Err(Violation::new(
            5,
            format!(
                "node {} tells node {follower} commit {} and matched {}, and takes it for matched up to {matched}",
                leader.id, beat.commit, beat.matched
            ),
        ));
    }
    Ok(())
}
