//! What must hold in every state (protocol.md 14): 1 to 5, 7, 8, 11 and 12, judged of one node after each of its steps and of
//! all acceptors' ends after everything. (That a WRITE's source stays as it is, also 11, is seen where it is sent.)
//!
//! They need no past but the committed log and who was elected, which are part of the state. All entries of a model
//! take one slot, so that an index says where an entry is.

use std::sync::Arc;

use ringleader_core::crc;
use ringleader_core::entry::HEADER_LEN;
use ringleader_core::event::Event;
use ringleader_core::layout::{AnswerLine, Line, RequestLine, log, request_of, verdict};
use ringleader_core::proposer::{FollowerState, Role};
use ringleader_core::read::{Read, ReadTicket};
use ringleader_core::replica::{Replica, Status};
use ringleader_core::types::{Index, NodeId, Promise, Term};
use ringleader_core::verb::{Class, Verb};

use super::actions::{World, slot_offset};
use super::fabric::{GATES, GateState, ordered_pair};
use super::memory::{AreaKind, Lent, Words};
use super::state::{Committed, Life, State};
use crate::invariants::Violation;

/// What a node did in one step, as its host sees it.
#[derive(Clone, Default, Debug)]
pub struct Step {
    /// What it told its host.
    pub events: Vec<Event>,
    /// What it handed to its application.
    pub applied: Vec<(Index, Vec<u8>)>,
    /// What it posted, and what each WRITE is to carry.
    pub posted: Vec<(Verb, Option<Words>)>,
}

impl Step {
    pub(crate) fn take_events(&mut self, replica: &mut Replica<Lent>) {
        while let Some(event) = replica.poll_event() {
            self.events.push(event);
        }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.events.is_empty() && self.applied.is_empty() && self.posted.is_empty()
    }
}

/// Judges what a node is like after a step.
pub(crate) fn after_step(
    world: &World,
    state: &mut State,
    id: NodeId,
    before: &Status,
    step: &Step,
) -> Result<(), Violation> {
    let after = state.node(id).replica.status();
    if after.group == 0 {
        return Ok(());
    }
    points(id, before, &after)?;
    promise(state, id, before, &after)?;
    refusals(world, state, id, before, &after, step)?;
    for event in &step.events {
        match *event {
            Event::Elected { term } => elected(world, state, id, term, &after)?,
            Event::Committed { index, .. } => {
                learn(world, state, id, index, after.promise.term())?;
                if world.bounds.reads > 0 {
                    let record = Arc::make_mut(&mut state.record);
                    record.known = record.known.max(index);
                }
            }
            Event::ReadReady { how, number } => read(state, id, how, number, Some(before.applied.index))?,
            Event::ReadFailed { how, number, .. } => read(state, id, how, number, None)?,
            Event::Stuck { position } => {
                let what = format!("node {id}: what it knows committed changed at {position}");
                return Err(Violation::new(5, what));
            }
            _ => {}
        }
    }
    learn(world, state, id, after.anchor.index, after.promise.term())?;
    committed_prefix(world, state, id, before.anchor.index, after.anchor.index)?;
    final_bytes(world, state, id)?;
    for (index, payload) in &step.applied {
        applied(state, id, *index, payload)?;
    }
    if after.role == Role::Leader {
        matched(world, state, id, &after)?;
    }
    step.posted.iter().try_for_each(|(verb, _)| sent(world, id, verb, &after))
}

/// Invariant 1, as long as nobody has made the entry that takes its place in the next lap: what a node knows committed stays
/// as it is, whatever lands in its log.
pub(crate) fn final_bytes(world: &World, state: &State, id: NodeId) -> Result<(), Violation> {
    let made = State::ids().map(|node| state.node(node).replica.status().end.index.0).max().unwrap_or(0);
    let anchor = state.node(id).replica.status().anchor.index.0;
    let first = made.saturating_sub(world.bounds.slots) + 1;
    for index in first..=anchor {
        if !holds(world, state, id, index, &state.record.committed[index as usize - 1].slot) {
            let what = format!("entry {index}, known committed, was overwritten in the log of node {id}");
            return Err(Violation::new(1, what));
        }
    }
    Ok(())
}

/// Invariant 3: at most one writer, the local one included, can write a log area.
pub(crate) fn one_writer(state: &State) -> Result<(), Violation> {
    for acceptor in State::ids().filter(|id| state.node(*id).life != Life::Dead) {
        let mut writers: Vec<NodeId> = (0..GATES)
            .map(ordered_pair)
            .filter(|(of, to)| *of == acceptor && state.fabric.gate(*of, *to).state == GateState::Granted)
            .map(|(_, peer)| peer)
            .collect();
        if state.node(acceptor).replica.status().writer == acceptor {
            writers.push(acceptor);
        }
        if writers.len() > 1 {
            return Err(Violation::new(3, format!("the log of node {acceptor} has writers {writers:?}")));
        }
    }
    Ok(())
}

/// Invariant 5, first half, and that nothing of it falls.
fn points(id: NodeId, before: &Status, after: &Status) -> Result<(), Violation> {
    let (applied, anchor, commit) = (after.applied.position, after.anchor.position, after.commit);
    if applied > anchor || anchor > commit {
        let what = format!("node {id}: applied {applied}, anchor {anchor}, commit {commit} are out of order");
        return Err(Violation::new(5, what));
    }
    if applied < before.applied.position || anchor < before.anchor.position {
        return Err(Violation::new(5, format!("node {id}: applied or anchor fell")));
    }
    if after.base < before.base {
        return Err(Violation::new(12, format!("node {id}: its base fell")));
    }
    Ok(())
}

/// Invariant 8: no second candidate in a term, and nobody before the former writer is fenced.
fn promise(state: &State, id: NodeId, before: &Status, after: &Status) -> Result<(), Violation> {
    let (old, new) = (before.promise, after.promise);
    if old == new {
        return Ok(());
    }
    if new.term() < old.term() {
        return Err(Violation::new(8, format!("node {id}: its promise fell from {old} to {new}")));
    }
    let leads = state.record.elected.contains(&(new.term(), new.node()));
    if new.term() == old.term() && !leads {
        return Err(Violation::new(
            8,
            format!("node {id} promised term {} to nodes {} and {}", new.term(), old.node(), new.node()),
        ));
    }
    for (of, peer) in (0..GATES).map(ordered_pair).filter(|(of, _)| *of == id) {
        let gate = state.fabric.gate(of, peer).state;
        if gate == GateState::Granted {
            let what = format!("node {id} promised {new} while node {peer} can write its log");
            return Err(Violation::new(8, what));
        }
    }
    Ok(())
}

/// Invariant 8: a refusal changes no state.
fn refusals(
    world: &World,
    state: &State,
    id: NodeId,
    before: &Status,
    after: &Status,
    step: &Step,
) -> Result<(), Violation> {
    if before.promise == after.promise {
        return Ok(());
    }
    for (verb, source) in &step.posted {
        let RequestOf { peer, sequence } = match refused(verb, source.as_deref()) {
            Some(refused) => refused,
            None => continue,
        };
        let place = world.map.find(AreaKind::Control, request_of(peer), size_of::<RequestLine>() as u64);
        let asked = RequestLine::open(&state.node(id).words[place]);
        let same = asked.is_some_and(|line| {
            line.sequence == sequence && Promise::new(Term(line.term), peer) == after.promise
        });
        if same {
            let what = format!("node {id} refused node {peer}, and yet its promise became {}", after.promise);
            return Err(Violation::new(8, what));
        }
    }
    Ok(())
}

struct RequestOf {
    peer: NodeId,
    sequence: u64,
}

fn refused(verb: &Verb, source: Option<&[u64]>) -> Option<RequestOf> {
    if verb.id().class != Class::Answer {
        return None;
    }
    let line = AnswerLine::open(source?)?;
    matches!(line.verdict, verdict::BEHIND | verdict::LEASE | verdict::OLDER)
        .then_some(RequestOf { peer: verb.id().peer, sequence: line.sequence })
}

/// The slot of an entry in a node's log, or in its staging ring.
fn slot(world: &World, state: &State, id: NodeId, area: AreaKind, index: u64) -> [u64; 8] {
    let place = world.map.find(area, slot_offset(world.map.ring_len(), index), 64);
    let mut slot = [0; 8];
    slot.copy_from_slice(&state.node(id).words[place]);
    slot
}

/// Whether the bytes of a slot are the entry `index` behind an entry with this slot.
fn continues(slot: &[u64; 8], index: u64, before: Option<&[u64; 8]>, group: u128) -> bool {
    let (chain, term) = before.map_or((group as u32, 0), |before| (before[7] as u32, before[1]));
    let len = slot[3] as u32;
    let bytes: Vec<u8> = slot.iter().flat_map(|word| word.to_le_bytes()).collect();
    let end = HEADER_LEN as usize + len as usize;
    slot[0] == index
        && slot[1] >= term
        && end <= 56
        && (slot[7] >> 32) as u32 == (index - 1) as u32
        && slot[7] as u32 == crc::append(chain, &bytes[..end])
}

/// What a node takes for committed up to `index` is added to the record; `by`: the term in which it does.
fn learn(world: &World, state: &mut State, id: NodeId, index: Index, by: Term) -> Result<(), Violation> {
    while (state.record.committed.len() as u64) < index.0 {
        let index = state.record.committed.len() as u64 + 1;
        let group = state.node(id).replica.status().group;
        let last = state.record.committed.last().map(|entry| &entry.slot);
        let found = [AreaKind::Log, AreaKind::Staging]
            .map(|area| slot(world, state, id, area, index))
            .into_iter()
            .find(|slot| continues(slot, index, last, group));
        let Some(slot) = found else {
            let what =
                format!("node {id} takes entry {index} for committed and has nothing valid of that number");
            return Err(Violation::new(5, what));
        };
        held_by_majority(world, state, id, index, &slot)?;
        for (term, leader) in state.record.elected.iter().filter(|(term, _)| *term > by) {
            if state.node(*leader).life != Life::Dead && !holds(world, state, *leader, index, &slot) {
                return Err(Violation::new(
                    2,
                    format!(
                        "entry {index} is committed in term {by}, and node {leader}, leader of term {term}, has not got it"
                    ),
                ));
            }
        }
        Arc::make_mut(&mut state.record).committed.push(Committed { slot, by });
    }
    Ok(())
}

fn holds(world: &World, state: &State, id: NodeId, index: u64, wanted: &[u64; 8]) -> bool {
    slot(world, state, id, AreaKind::Log, index) == *wanted
}

/// Invariant 5, second half. Memory of the dead counts: it was counted on while they lived.
fn held_by_majority(
    world: &World,
    state: &State,
    id: NodeId,
    index: u64,
    slot: &[u64; 8],
) -> Result<(), Violation> {
    let held: Vec<u8> =
        State::ids().filter(|other| holds(world, state, *other, index, slot)).map(|id| id.0).collect();
    if held.len() < 2 {
        let what = format!("node {id} takes entry {index} for committed; only {held:?} hold it");
        return Err(Violation::new(5, what));
    }
    Ok(())
}

/// Invariant 1: logs committed up to an entry hold the same bytes up to it.
fn committed_prefix(
    world: &World,
    state: &State,
    id: NodeId,
    from: Index,
    to: Index,
) -> Result<(), Violation> {
    for index in from.0 + 1..=to.0 {
        let known = &state.record.committed[index as usize - 1];
        if !holds(world, state, id, index, &known.slot) {
            let what = format!("node {id} takes other bytes for the committed entry {index}");
            return Err(Violation::new(1, what));
        }
    }
    Ok(())
}

/// Invariant 7: a read sees what was acknowledged, or read, before it began.
fn read(state: &mut State, id: NodeId, how: Read, number: u64, saw: Option<Index>) -> Result<(), Violation> {
    let record = Arc::make_mut(&mut state.record);
    let ended =
        |read: &mut (NodeId, ReadTicket, Index)| read.0 == id && read.1.how == how && read.1.number <= number;
    for (_, ticket, must_see) in record.reading.extract_if(.., ended) {
        if let Some(saw) = saw.filter(|saw| *saw < must_see) {
            let what =
                format!("node {id} answers {ticket:?} from entry {saw}, and {must_see} was acknowledged");
            return Err(Violation::new(7, what));
        }
    }
    record.known = record.known.max(saw.unwrap_or_default());
    Ok(())
}

/// Invariant 5: what is applied is committed.
fn applied(state: &State, id: NodeId, index: Index, payload: &[u8]) -> Result<(), Violation> {
    let known = state.record.committed.get(index.0 as usize - 1);
    let same = known.is_some_and(|known| {
        let mut word = [0; 8];
        let len = payload.len().min(8);
        word[..len].copy_from_slice(&payload[..len]);
        known.slot[4] == u64::from_le_bytes(word)
    });
    if same {
        Ok(())
    } else {
        Err(Violation::new(5, format!("node {id} applies entry {index}, which is not what was committed")))
    }
}

/// Invariants 2 and 3: a term has one leader, and it has all that was committed before.
fn elected(
    world: &World,
    state: &mut State,
    id: NodeId,
    term: Term,
    after: &Status,
) -> Result<(), Violation> {
    if let Some((_, other)) = state.record.elected.iter().find(|(of, _)| *of == term) {
        return Err(Violation::new(3, format!("nodes {other} and {id} both lead term {term}")));
    }
    let slots = world.bounds.slots;
    for (index, entry) in (1..).zip(&state.record.committed).filter(|(_, entry)| entry.by < term) {
        let stands = slot(world, state, id, AreaKind::Log, index);
        // A later lap of the same log may have taken its place.
        let passed = stands[0] == index + slots && index + slots <= after.end.index.0;
        if stands != entry.slot && !passed {
            return Err(Violation::new(
                2,
                format!("node {id} leads term {term} and has not got the committed entry {index}"),
            ));
        }
    }
    Arc::make_mut(&mut state.record).elected.push((term, id));
    Ok(())
}

/// Invariant 11: what a leader takes for matched stands in that follower's log.
fn matched(world: &World, state: &State, id: NodeId, after: &Status) -> Result<(), Violation> {
    let ring_len = world.map.ring_len();
    for follower in State::ids().filter(|other| *other != id && state.node(*other).life != Life::Dead) {
        let Some(view) = &after.followers[follower.slot()] else { continue };
        // A later leader may replace what was matched and never committed.
        let later = state.node(follower).replica.status().promise.term() > after.promise.term();
        if view.state != FollowerState::Window || later {
            continue;
        }
        // What one more WRITE may have replaced by a later lap is not compared.
        let low = (view.matched.0 + 64).max(after.end.position.0).saturating_sub(ring_len);
        for position in (low..view.matched.0).step_by(64) {
            let index = position / 64 + 1;
            let there = slot(world, state, follower, AreaKind::Log, index);
            let here = [AreaKind::Log, AreaKind::Staging].map(|area| slot(world, state, id, area, index));
            if !here.contains(&there) {
                return Err(Violation::new(
                    11,
                    format!(
                        "leader {id} takes node {follower} for matched up to {}, which holds other bytes for entry {index}",
                        view.matched
                    ),
                ));
            }
        }
    }
    Ok(())
}

/// Invariant 12: what a leader sends lies in its log, at or above its base.
fn sent(world: &World, id: NodeId, verb: &Verb, after: &Status) -> Result<(), Violation> {
    let Verb::Write { id: request, from, to, len, .. } = *verb else { return Ok(()) };
    if request.class != Class::Entries {
        return Ok(());
    }
    if after.role != Role::Leader {
        return Err(Violation::new(3, format!("node {id} sends entries and does not lead")));
    }
    let base = after.base.0;
    let position = base + ((to - log::RING).wrapping_sub(base) & (world.map.ring_len() - 1));
    if from != to || position + u64::from(len) > after.end.position.0 {
        let what = format!("node {id} sends what is not in its log at or above its base {base}: {verb:?}");
        return Err(Violation::new(12, what));
    }
    Ok(())
}
