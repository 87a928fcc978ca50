//! Invariant 5 in every beat: its `commit` is never above its `matched`, nor that above what its leader takes the follower
//! for. The follower's anchor, and so its application, follows the beat.

use ringleader_core::layout::{BeatLine, Line, log};
use ringleader_core::types::NodeId;
use ringleader_core::verb::{Class, Verb};

use super::Violation;
use crate::view::Member;

/// A leader sends a beat.
pub fn posted(member: &Member, verb: &Verb) -> Result<(), Violation> {
    let Verb::Write { id, from, .. } = *verb else { return Ok(()) };
    match BeatLine::read(&member.home.staging, from) {
        Some(beat) if id.class == Class::Beat => check(member, id.peer, &beat),
        _ => Ok(()),
    }
}

/// A node stepped: the beat that stands in its own log, if it is its own.
pub fn after_step(member: &Member) -> Result<(), Violation> {
    match BeatLine::read(&member.home.log, log::BEAT) {
        Some(beat) if member.seen.leads && beat.leader == member.seen.promise.0 => {
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
