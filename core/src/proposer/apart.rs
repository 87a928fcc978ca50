//! A proposer whose own acceptor is apart (protocol.md 13): where its leader line goes, and what it may say before that is there.
//!
//! A follower read trusts that what was acknowledged stands in the leader's line. That line is in the acceptor's memory: a commit is
//! reported when the WRITE of the line that tells of it has completed.

use crate::event::GiveUp;
use crate::layout::{LeaderLine, control, staging};
use crate::mailbox::{Outbox, Route};
use crate::mem::Memory;
use crate::planted::{self, Bug};
use crate::proposer::{Proposer, Role, Work};
use crate::types::{LogPoint, Term};
use crate::verb::{Class, Verb};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Apart {
    pub(crate) line: Outbox<LeaderLine>,
    /// What the newest line says, the one that is on its way, and the last one that is there.
    pub(crate) says: (Term, LogPoint),
    flying: (Term, LogPoint),
    shown: (Term, LogPoint),
}

impl Apart {
    pub(crate) fn new() -> Apart {
        let nothing = (Term(0), LogPoint::default());
        Apart { line: Outbox::new(), says: nothing, flying: nothing, shown: nothing }
    }
}

impl Proposer {
    /// The commit that may be reported.
    pub(crate) fn shown_commit(&self) -> LogPoint {
        match self.apart.shown {
            _ if self.here == self.me.node || planted::is(Bug::CommitBeforeLine) => self.lead.committed,
            (term, committed) if term == self.lead.term => committed,
            _ => self.lead.own_start,
        }
    }

    pub(crate) fn poll_own_line<M: Memory>(&mut self, on: &Work<M>) -> Option<Verb> {
        let me = self.me.node;
        let link = &on.links[me];
        if !link.is_up() {
            return None;
        }
        let route = Route { class: Class::Line, from: staging::LEADER, to: control::LEADER };
        let verb = self.apart.line.poll(on.now, link.connection(), &on.areas.staging, me, route)?;
        self.apart.flying = self.apart.says;
        Some(verb)
    }

    pub(crate) fn handle_line_written(&mut self, number: u32) {
        self.apart.line.handle_success(number);
        self.apart.shown = self.apart.flying;
    }

    pub(crate) fn handle_own_link_down(&mut self) {
        self.apart.line.handle_down();
    }

    /// Something is asked and not answered: answers are looked for all the time.
    pub(crate) fn is_asking(&self) -> bool {
        self.peers.iter().any(|peer| peer.is_waiting() || peer.outbound.is_opening())
    }

    /// The own acceptor cannot be reached, or is another one: nothing can be said of commits any more.
    pub(crate) fn handle_own_lost<M: Memory>(&mut self, on: &mut Work<M>) {
        match self.role {
            Role::Leader => self.give_up(on, GiveUp::OwnAcceptor),
            Role::Candidate => self.end_campaign(on, crate::mark::Candidate::OwnLate),
            Role::Follower | Role::Yielding => {}
        }
    }
}
