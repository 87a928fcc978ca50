//! Tells how a state was reached: each choice in a line, and below it what it changed at whom.

use std::fmt::Write as _;

use ringleader_core::layout::{AnswerLine, BeatLine, Line, RequestLine};
use ringleader_core::replica::Status;
use ringleader_core::types::{NodeId, Promise};
use ringleader_core::verb::{Class, Plane, Verb};

use super::actions::{Action, World};
use super::fabric::{GATES, PipeId, ordered_pair};
use super::search::{Choice, Task};
use super::state::State;
use crate::invariants::Violation;
use crate::words;

/// The lines of a story: the choices from the first state of `world` on, and what was found behind the last.
pub fn tell(world: &World, choices: &[Choice], found: &Violation) -> Vec<String> {
    let mut lines = Vec::new();
    let Ok(mut state) = world.first_state() else {
        return vec![format!("on the way to the first state: {found}")];
    };
    for (number, choice) in (1..).zip(choices) {
        let action = match *choice {
            Choice::Do(action) => action,
            Choice::Hold(task) => {
                lines.push(format!("{number:4}  held back from here on: {}", describe_task(task)));
                continue;
            }
        };
        lines.push(format!("{number:4}  {}", describe(&state, action)));
        match world.apply(&state, action) {
            Ok(Some(next)) => {
                lines.extend(changes(&state, &next).into_iter().map(|change| format!("        {change}")));
                state = next;
            }
            Ok(None) => {}
            Err(violation) => lines.push(format!("        {violation}")),
        }
    }
    if lines.last().is_none_or(|last| !last.contains(&found.what)) {
        lines.push(format!("      {found}"));
    }
    lines
}

fn describe_task(task: Task) -> String {
    let at = usize::from(task.0);
    if let Some(id) = PipeId::all().nth(at) {
        return format!("{} (its {:?} queue pair to node {})", id.from, id.plane, id.to);
    }
    let at = at - PipeId::all().count();
    if at < GATES {
        let (acceptor, peer) = ordered_pair(at);
        return format!("node {acceptor}'s end of the log queue pair of node {peer}");
    }
    format!("the ticks of node {}", at - GATES + 1)
}

fn describe(state: &State, action: Action) -> String {
    let way = |id: PipeId| format!("{} -> {}", id.from, id.to);
    let verb = |id: PipeId, at: usize| describe_verb(&state.fabric.pipe(id).ops[at].verb);
    let first = |id: PipeId| state.fabric.first_unlanded(id).unwrap_or(0);
    match action {
        Action::Tick(id) => format!("node {id} ticks"),
        Action::Wait(id) => format!("node {id} ticks after a long time"),
        Action::Propose(id) => format!("node {id} is given proposal {}", state.spent.proposals + 1),
        Action::Read(id) => format!("node {id} is asked for a read"),
        Action::Land(id, at, half) => {
            let half = if half == 0 { "first" } else { "second" };
            format!("{}: the {half} half of {} lands", way(id), verb(id, at))
        }
        Action::LandLate(_, at) => {
            let ghost = &state.fabric.ghosts[at];
            let passed = if ghost.passed { ", which passed before a fence," } else { "" };
            format!("{} -> {}: half a WRITE of a former queue pair{passed} lands", ghost.from, ghost.to)
        }
        Action::Complete(id) => {
            let status = state.fabric.pipe(id).ops[0].end.unwrap_or(ringleader_core::verb::Status::Success);
            format!("{}: {} completes ({status:?})", way(id), verb(id, 0))
        }
        Action::Fail(id) => format!("{}: {} fails", way(id), verb(id, first(id))),
        Action::FalseSuccess(id) => {
            format!("{}: {} is taken for a duplicate and acknowledged", way(id), verb(id, 0))
        }
        Action::Break(id) => format!("{}: the queue pair breaks at {}", way(id), verb(id, first(id))),
        Action::Step(id) => {
            let class = state.fabric.pipe(id).steps.front().map(|verb| verb.id().class);
            format!("{}: {:?} of the {:?} queue pair", way(id), class.unwrap_or(Class::Close), id.plane)
        }
        Action::Gate(acceptor, peer) => {
            let gate = state.fabric.gate(acceptor, peer);
            let class = gate.steps.front().map(|verb| verb.id().class);
            format!(
                "node {acceptor}'s end for node {peer}: {:?} ({:?})",
                class.unwrap_or(Class::Fence),
                gate.state
            )
        }
        Action::Crash(id) => format!("NODE {id} DIES, and its memory with it"),
        Action::Stop(id) => format!("NODE {id} IS STOPPED; its memory answers"),
    }
}

fn describe_verb(verb: &Verb) -> String {
    match *verb {
        Verb::Write { id, from, to, len, plane, .. } => {
            let place = if plane == Plane::Log && id.class == Class::Entries {
                format!(" [{from} -> {to}, +{len}]")
            } else {
                String::new()
            };
            format!("WRITE {:?} #{}{place}", id.class, id.number)
        }
        _ => format!("READ {:?} #{}", verb.id().class, verb.id().number),
    }
}

/// What differs between a state and the next, at whom.
fn changes(before: &State, after: &State) -> Vec<String> {
    let mut lines = Vec::new();
    for id in State::ids() {
        let (old, new) = (before.node(id).replica.status(), after.node(id).replica.status());
        let changed = status_changes(&old, &new);
        if !changed.is_empty() {
            lines.push(format!("node {id}: {changed}"));
        }
    }
    for id in PipeId::all() {
        let (old, new) = (&before.fabric.pipe(id).ops, &after.fabric.pipe(id).ops);
        for op in new.iter().filter(|op| !old.iter().any(|other| other.verb == op.verb)) {
            let line = op.source.as_deref().map(|words| describe_line(op.verb.id().class, words));
            lines.push(format!(
                "posted {} -> {}: {}{}",
                id.from,
                id.to,
                describe_verb(&op.verb),
                line.unwrap_or_default()
            ));
        }
    }
    lines
}

fn status_changes(old: &Status, new: &Status) -> String {
    let mut text = String::new();
    let mut note = |name: &str, old: String, new: String| {
        if old != new {
            let comma = if text.is_empty() { "" } else { ", " };
            write!(text, "{comma}{name} {old} -> {new}").expect("text has room");
        }
    };
    note("role", format!("{:?}", old.role), format!("{:?}", new.role));
    note("promise", old.promise.to_string(), new.promise.to_string());
    note("writer", nobody(old.writer), nobody(new.writer));
    note("end", old.end.position.to_string(), new.end.position.to_string());
    note("commit", old.commit.to_string(), new.commit.to_string());
    note("anchor", old.anchor.position.to_string(), new.anchor.position.to_string());
    note("applied", old.applied.position.to_string(), new.applied.position.to_string());
    for (slot, (old, new)) in old.followers.iter().zip(&new.followers).enumerate() {
        if let (Some(old), Some(new)) = (old, new) {
            note(&format!("follower {slot}"), format!("{:?}", old.state), format!("{:?}", new.state));
            note(&format!("matched {slot}"), old.matched.to_string(), new.matched.to_string());
        }
    }
    text
}

fn nobody(id: NodeId) -> String {
    if id == NodeId::NOBODY { "nobody".into() } else { id.to_string() }
}

fn describe_line(class: Class, words: &[u64]) -> String {
    let text = match class {
        Class::Request => RequestLine::open(words).map(|line| {
            let kind = words::request(line.kind);
            let last = (line.last_term, line.last_index);
            format!(
                "asks {kind} in term {} with last {last:?}; own end {}",
                line.term,
                end(line.qp_state, line.qp_epoch)
            )
        }),
        Class::Answer => AnswerLine::open(words).map(|line| {
            let verdict = words::answer(line.verdict);
            let (promise, last) = (Promise(line.promise), (line.last_term, line.last_index));
            format!(
                "{verdict}, promise {promise}, last {last:?}; its end {}",
                end(line.qp_state, line.qp_epoch)
            )
        }),
        Class::Beat => BeatLine::open(words).map(|line| {
            let leader = Promise(line.leader);
            format!("{leader}, commit {}, matched {}, flags {}", line.commit, line.matched, line.flags)
        }),
        Class::Entries => {
            let entry = |slot: &[u64]| format!("entry {} of term {}", slot[0], slot[1]);
            Some(words.chunks(8).map(entry).collect::<Vec<_>>().join(", "))
        }
        _ => None,
    };
    text.map(|text| format!(": {text}")).unwrap_or_default()
}

fn end(state: u8, epoch: u32) -> String {
    format!("{} {epoch}", words::end(state))
}
