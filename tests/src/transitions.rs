//! Which transitions of the core's machines the runs of this process have exercised, and which never.
//!
//! The core counts them with its feature `marks`. What a simulated run cannot reach stands in a table with its reason, and is
//! named all the same; a change of a follower's state that protocol.md section 8 does not know is named, too.

use ringleader_core::mark::{self, Machine};
use ringleader_core::proposer::FollowerState::{
    self, Asking, Behind, Broken, Down, LetGo, Preparing, Window,
};

/// One transition.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Transition {
    /// Whose.
    pub machine: &'static str,
    /// From where to where, and why.
    pub text: String,
    /// How often it has happened.
    pub count: u64,
    /// Why no simulated run can reach it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<&'static str>,
}

/// What a leader does with a follower, and on what it leaves that (the table of protocol.md 8).
const FOLLOWER: &[(FollowerState, FollowerState, &str)] = &[
    (Down, Asking, "connected, or the leader was just elected"),
    (Down, Window, "the own node of a leader just elected"),
    (Down, Broken, "elected while requests of an earlier leadership are under way, and not connected"),
    (Asking, Preparing, "granted with an epoch"),
    (Asking, Window, "the own acceptor granted access"),
    (Asking, Broken, "its queue pair was fenced, broke, or holds requests of an earlier leadership"),
    (Asking, Down, "disconnected, or the leadership ended"),
    (Preparing, Window, "reached what is staged"),
    (Preparing, Behind, "it starts below the base"),
    (Preparing, Broken, "its queue pair was fenced or broke"),
    (Preparing, Down, "disconnected, or the leadership ended"),
    (Window, Broken, "a write failed or went silent, or it was fenced"),
    (Window, LetGo, "it lags"),
    (Window, Asking, "the own acceptor took the grant away"),
    (Window, Down, "disconnected, or the leadership ended"),
    (Broken, Asking, "its promise was read and is not above"),
    (Broken, Down, "disconnected, or the leadership ended"),
    (LetGo, Asking, "closed and drained"),
    (LetGo, Down, "disconnected, or the leadership ended"),
    (Behind, Asking, "it has taken a snapshot"),
    (Behind, Down, "the leadership ended"),
];

/// Transitions that no run of the simulator reaches, and why.
const UNREACHABLE: &[(&str, &str)] = &[
    ("candidate: asking the own acceptor -> ended: terms", "2^56 terms: only a damaged line leads there"),
    (
        "leader: leads -> yields: its first entry",
        "a safety net: who completes beats takes the first entry, too, but for one run in ten thousands",
    ),
    (
        "walker: confirmed -> damaged",
        "only by a writer that keeps to no protocol; the walker's unit tests are one",
    ),
    (
        "membership: a new group is made",
        "a new group loses what others held: no invariant holds over that; the core's tests make one",
    ),
    (
        "snapshot: leader: taking -> saving: its base",
        "payload is held back, and configurations are too small to fill a quarter of a ring; the bug `holds-nothing` does it",
    ),
    (
        "snapshot: leader: taking: a follower needs a newer",
        "only where an acceptor has begun its log behind a newer one, has that no more, and its host lost everything again",
    ),
    (
        "walker: fenced: the log has what",
        "a log longer than the snapshot of a leader that knows nothing committed: one seed in some thousand; the core's tests do it",
    ),
    (
        "snapshot: target: whole -> done: the log has",
        "as above, or a host that lost everything, and whose acceptor went on: one seed in some hundred that are apart; the core's tests do it",
    ),
    (
        "snapshot: target: an acceptor has one that its host",
        "an acceptor that falls behind twice while its host is dead: one seed in a thousand that are apart; the core's tests do it",
    ),
    (
        "snapshot: target: whole -> refused: older",
        "only where an acceptor has begun its log behind a newer one, has that no more, and its host lost everything again",
    ),
    (
        "snapshot: target: taking -> done: it has applied",
        "who has applied that much is behind no base, and is told of none, but by a leader who has not heard of it yet; the core's tests tell it",
    ),
    (
        "snapshot: target: taking -> lost: the source has another",
        "a source saves again only for another leader, who wants a newer one: in the middle of a taking that is rare; the core's tests do it",
    ),
    (
        "snapshot: target: taking -> refused: no room",
        "all nodes have the same; the core's tests make them different",
    ),
    ("snapshot: target: taking -> lost: the bytes", "only in damaged memory; the core's tests damage it"),
    ("applier: stuck: the kind", "only by an entry of a newer version; the core's tests make one"),
    ("applier: stuck: what is committed", "only in damaged memory; the core's tests damage it"),
    ("applier: stuck: the log is damaged", "only in damaged memory; the core's tests damage it"),
    (
        "applier: stuck: what comes next",
        "only of hosts that are apart and come back late; host/tests/apart.rs has one",
    ),
];

/// All transitions, with their counts up to now.
pub fn all() -> Vec<Transition> {
    let mut all = Vec::new();
    add::<mark::Acceptor>(&mut all);
    add::<mark::Inbound>(&mut all);
    add::<mark::Candidate>(&mut all);
    add::<mark::Leader>(&mut all);
    add::<mark::Reader>(&mut all);
    for (from, to, why) in FOLLOWER {
        let text = format!("{} -> {}: {why}", name(*from), name(*to));
        push(&mut all, "follower", text, mark::follower_count(*from, *to));
    }
    for from in mark::FOLLOWER_STATES {
        for to in mark::FOLLOWER_STATES {
            let known = from == to || FOLLOWER.iter().any(|(a, b, _)| (*a, *b) == (from, to));
            let count = mark::follower_count(from, to);
            if !known && count > 0 {
                push(
                    &mut all,
                    "follower",
                    format!("{} -> {}: UNKNOWN to protocol.md", name(from), name(to)),
                    count,
                );
            }
        }
    }
    add::<mark::Walker>(&mut all);
    add::<mark::Member>(&mut all);
    add::<mark::Snapshot>(&mut all);
    add::<mark::Applier>(&mut all);
    all
}

/// Those that never happened though they could.
pub fn never_reached(all: &[Transition]) -> Vec<String> {
    all.iter()
        .filter(|one| one.count == 0 && one.unreachable.is_none())
        .map(|one| format!("{}: {}", one.machine, one.text))
        .collect()
}

fn add<M: Machine>(all: &mut Vec<Transition>) {
    for mark in M::MARKS {
        push(all, M::NAME, mark.text().to_owned(), mark.count());
    }
}

fn push(all: &mut Vec<Transition>, machine: &'static str, text: String, count: u64) {
    let full = format!("{machine}: {text}");
    let unreachable = UNREACHABLE.iter().find(|(of, _)| full.starts_with(of)).map(|(_, why)| *why);
    all.push(Transition { machine, text, count, unreachable });
}

fn name(state: FollowerState) -> &'static str {
    match state {
        Down => "down",
        Asking => "asking",
        Preparing => "preparing",
        Window => "window",
        Broken => "broken",
        LetGo => "let go",
        Behind => "snapshot",
    }
}
