//! Whether the leader is silent: beats first, then its progress line as an excuse (protocol.md 7).
//!
//! A stopped leader's memory still answers and a dead one's does not, so what excuses is movement of `liveness`, never an
//! answer. A READ that does not come back counts as a miss: nothing here waits for the transport.

#[cfg(feature = "model")]
use crate::canonical::{Canonical, Counter, Space};
use crate::layout::progress_flags;
use crate::link::Link;
use crate::timing::Timing;
use crate::types::{Instant, NodeId, Promise};
use crate::watch::Watch;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Beats come, or came a short while ago.
    Hearing,
    /// The leader is suspect; its progress line is being read. `baseline` is its liveness at the first reading.
    Probing { since: Instant, baseline: Option<u64> },
    /// It is silent.
    Quiet,
}

/// The view an acceptor has of the leader that its promise names.
#[derive(Clone, Debug)]
pub(crate) struct Detector {
    state: State,
    heard_at: Instant,
    excuses: u32,
}

impl Detector {
    pub(crate) fn new(now: Instant) -> Detector {
        Detector { state: State::Hearing, heard_at: now, excuses: 0 }
    }

    /// Of an acceptor that is elsewhere, and says so.
    pub(crate) fn quiet(now: Instant) -> Detector {
        Detector { state: State::Quiet, ..Detector::new(now) }
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.state == State::Quiet
    }

    /// A beat moved, or a grant was given: suspicion starts here.
    pub(crate) fn handle_heard(&mut self, now: Instant) {
        *self = Detector::new(now);
    }

    /// Looks at the clock and at the leader's last reading. Returns whether the leader became quiet just now.
    ///
    /// `leader` is the watch and link of the promise's leader; `None` when that is nobody or this node itself.
    pub(crate) fn tick(
        &mut self,
        now: Instant,
        timing: &Timing,
        leader: Option<(&mut Watch, &Link)>,
    ) -> bool {
        match self.state {
            State::Quiet => return false,
            State::Hearing => {
                if now.since(self.heard_at) < timing.suspect_after_ns {
                    return false;
                }
                self.state = State::Probing { since: now, baseline: None };
            }
            State::Probing { .. } => {}
        }
        let State::Probing { since, baseline } = self.state else { return false };
        let silent = match leader {
            Some((watch, link)) if link.is_up() && self.excuses < timing.max_excuses => {
                let reading = watch.line().filter(|_| watch.read_at() >= since);
                let alive = reading.filter(|line| {
                    let needed = progress_flags::LEADER | progress_flags::HOST_ALIVE;
                    line.flags & needed == needed && baseline.is_some_and(|before| before != line.liveness)
                });
                if alive.is_some() {
                    let excuses = self.excuses + 1;
                    *self = Detector { excuses, ..Detector::new(now) };
                    return false;
                }
                if let (None, Some(line)) = (baseline, reading) {
                    self.state = State::Probing { since, baseline: Some(line.liveness) };
                }
                watch.want();
                now.since(since) >= timing.probe_deadline_ns
            }
            // No leader to ask, no way to ask it, or asked often enough.
            _ => true,
        };
        if silent {
            self.state = State::Quiet;
        }
        silent
    }
}

/// Which leader a detector of `node` should ask.
pub(crate) fn leader_to_probe(node: NodeId, promise: Promise) -> Option<NodeId> {
    Some(promise.node()).filter(|leader| *leader != NodeId::NOBODY && *leader != node && leader.is_valid())
}

#[cfg(feature = "model")]
impl Detector {
    /// `leader`: whose beats are listened for.
    pub(crate) fn canonical(&self, leader: NodeId, out: &mut impl Canonical) {
        let Detector { state, heard_at, excuses } = *self;
        match state {
            State::Hearing => out.plain(0u8),
            State::Quiet => out.plain(1u8),
            State::Probing { since, baseline } => {
                out.plain((2u8, baseline.is_some()));
                out.mark(since);
                out.count(Space::own(Counter::Liveness, leader), baseline.unwrap_or(0));
            }
        }
        out.moment(heard_at);
        out.plain(excuses);
    }
}
