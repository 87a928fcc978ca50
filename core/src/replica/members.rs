//! A replica's membership: which configuration is in force, how it is changed, who was lost, and what is made of a survivor
//! (protocol.md 5 and 10).
//!
//! What a change may be is for `membership`, what its leader does about it for `proposer::change`; here is who gets to hear.

use super::{Replica, Role, Ticket};
use crate::entry::{Kind, slot_len};
use crate::event::Event;
use crate::layout::{Line, RequestLine, control, request_kind, request_of};
use crate::mark::{self, mark};
use crate::mem::Memory;
use crate::membership::{Change, ChangeError, Configuration, Member, Readmit, Role as MemberRole};
use crate::options::Half;
use crate::planted::{self, Bug};
use crate::proposer::Work;
use crate::quorum::majority;
use crate::types::{Incarnation, Index, Instant, MAX_NODES, NodeId};

/// Why no new group was made of this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RecoverError {
    /// It belongs to no group.
    NotFormed,
    /// Group id 0 means no group.
    Group,
    /// Host and acceptor of this node are apart.
    Apart,
    /// It leads, or hears a leader.
    LeaderAlive {
        /// Who.
        leader: NodeId,
    },
    /// Its application is writing its state, or becoming that of a snapshot: until that is over nobody knows what it holds.
    Away,
    /// A majority of the voters run and are connected: the group can go on by itself.
    MajorityAlive {
        /// Voters that run, this one included.
        alive: usize,
        /// All voters.
        voters: usize,
    },
}

impl<M: Memory> Replica<M> {
    /// The configuration in force here.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// The configuration at the anchor: the newest one known committed.
    pub fn committed_configuration(&self) -> &Configuration {
        self.acceptor.roster().anchored()
    }

    /// The life of a node that was connected last; 0 when none was.
    pub fn found(&self, node: NodeId) -> Incarnation {
        self.found[node]
    }

    /// What this node does, as leader, about members that lost their memory.
    pub fn set_readmit(&mut self, readmit: Readmit) {
        self.readmit = readmit;
    }

    /// Whether this node ever asks for votes; it does when nothing is said. One that does not is an acceptor alone: it fences, votes,
    /// and holds the log. Where the newest log of those that are left is its own, nobody is elected before another one that has it
    /// is back.
    pub fn set_stands(&mut self, stands: bool) {
        self.proposer.set_stands(stands);
    }

    /// Connects to a node that may be a member, or become one, and was not among the peers that this one was made with. Members are
    /// connected to by themselves; but who belongs to no group yet does not know them, and where a connection takes both ends to
    /// want it, a leader that it was not told of could never let it in.
    pub fn connect_to(&mut self, node: NodeId) {
        if node.is_valid() && node != self.me.node {
            self.peers[node] = true;
        }
    }

    /// A node that this one has never heard of asks something of it: a member that came later, of whom this log does not tell
    /// yet. It is connected to, so that it can be answered; its header says whether it belongs here.
    pub(super) fn meet_stranger(&mut self, node: NodeId) {
        let at = request_of(node);
        let Some(line) = self.requests[node].look::<RequestLine, _>(&self.areas.control, at) else { return };
        let meant = line.to_boot == self.me.boot.0 && line.to_incarnation == self.me.incarnation.0;
        if meant && (self.configuration.is_formed() || line.kind == request_kind::FORMED) {
            mark(mark::Member::MetStranger);
            self.connect_to(node);
        }
    }

    /// Changes the configuration, as leader. It is in force at once, and committed when [`Event::Committed`] of the ticket's
    /// term reaches its index.
    pub fn change(&mut self, now: Instant, change: &Change) -> Result<Ticket, ChangeError> {
        self.now = self.now.max(now);
        let node = change.node();
        if !node.is_valid() {
            return Err(ChangeError::Node);
        }
        let Some(lead) = self.proposer.leadership() else {
            return Err(ChangeError::NotLeader { leader: self.leader() });
        };
        let (term, at) = (lead.term, (lead.end.index, lead.term));
        // A leader that took itself out leaves all else to its successor.
        if !self.configuration.names(self.me.node, self.me.incarnation) {
            return Err(ChangeError::Busy);
        }
        let connected = match node == self.me.node {
            true => Some(self.me.incarnation),
            // A connection may outlive the life at its other end, and that of a life before the last. It was taken out, perhaps, and
            // is not named any more: only the last one that was is.
            false if !self.is_known(node) && !self.is_seen_to_run(node) => None,
            false => self.links[node].is_up().then(|| self.links[node].peer().incarnation),
        };
        let mut next = self.configuration.changed(change, connected, at)?;
        if matches!(change, Change::Promote { .. }) {
            let caught_up = self.proposer.has_caught_up(&work!(self), node);
            caught_up.inspect_err(|_| mark(mark::Member::RefusedBehind))?;
        }
        let alive = self.left_by(change, &next);
        if alive < majority(next.voters()) && !matches!(change, Change::Add { .. }) {
            return Err(ChangeError::WouldStop { alive, voters: next.voters() });
        }
        self.proposer.may_change().inspect_err(|_| mark(mark::Member::RefusedBusy))?;
        let (payload, len) = next.payload();
        if slot_len(len) > self.me.max_entry {
            return Err(ChangeError::Full);
        }
        let staged = self.proposer.stage(&work!(self), Kind::CONFIG, &payload[..len]);
        let Ok(end) = staged else { return Err(ChangeError::Full) };
        next.index = end.index;
        if !planted::is(Bug::ConfigWhenCommitted) {
            self.put_configuration(next);
        }
        self.proposer.handle_change(&mut work!(self), change, end);
        Ok(Ticket { term, index: end.index })
    }

    /// How many of the voters that a change leaves would count. Where it makes more of them necessary, or takes away one of those whose
    /// host has what the application has, only such count: a group is not to be left to those of whom none could go on with that.
    fn left_by(&self, change: &Change, next: &Configuration) -> usize {
        let counts = |member: &Member| self.proposer.would_count(self.now, &self.watches, member);
        let has_state =
            |member: &Member| self.proposer.would_count_with_state(self.now, &self.watches, member);
        let mut leaving = self.configuration.members().filter(|member| member.node == change.node());
        let costs_state = matches!(change, Change::Promote { .. }) || leaving.any(has_state);
        next.members().filter(|member| if costs_state { has_state(member) } else { counts(member) }).count()
    }

    /// Whether the life that is connected is the one that is a member.
    fn is_known(&self, node: NodeId) -> bool {
        let link = &self.links[node];
        link.is_up() && self.configuration.names(node, link.peer().incarnation)
    }

    /// Whether the life that is connected was seen to run since this configuration is in force. Then all lives that were taken out
    /// before it are over, or it is the last of them.
    fn is_seen_to_run(&mut self, node: NodeId) -> bool {
        self.watches[node].prove(self.now, self.timing.beat_ns / 4)
    }

    /// A leader looks whether those run that may become members.
    fn look_at_strangers(&mut self) {
        for slot in 1..=MAX_NODES {
            let node = NodeId(slot as u8);
            if node != self.me.node && self.links[node].is_up() && !self.is_known(node) {
                self.is_seen_to_run(node);
            }
        }
    }

    /// Takes over what the log says, unless this node makes the log.
    pub(super) fn follow_configuration(&mut self) {
        let roster = self.acceptor.roster();
        let own = self.acceptor.knows_candidacy();
        let newest = match self.proposer.role() {
            Role::Leader if planted::is(Bug::ConfigWhenCommitted) => roster.anchored(),
            Role::Leader => &self.configuration,
            Role::Candidate if own => self.acceptor.candidacy(),
            // A host that is apart goes by what its acceptor has found, which is more than what it may READ.
            _ => self.touch.shown().unwrap_or(roster.in_force()),
        };
        let key = |of: &Configuration| (of.group, of.index, of.term);
        if key(newest) != key(&self.configuration) {
            let newest = newest.clone();
            self.put_configuration(newest);
        } else if self.block.anchor_index != roster.anchored().index.0 {
            self.show_block();
        }
        self.judge_removal();
    }

    fn put_configuration(&mut self, next: Configuration) {
        for member in next.members().filter(|member| member.node != self.me.node) {
            self.peers[member.node] = true;
            let link = &self.links[member.node];
            let known = link.is_up() && link.peer().incarnation == member.incarnation;
            // Of a life that was no member before nothing is known.
            let here = known && link.peer().group == next.group;
            let peer = self.proposer.peer_mut(member.node);
            peer.handle_formed(here || known && peer.formed);
        }
        // What ran when another configuration was in force may be the life that this one took out.
        for slot in 1..=MAX_NODES {
            self.watches[NodeId(slot as u8)].forget_proof();
        }
        self.events.push(Event::Members { index: next.index });
        self.configuration = next;
        self.show_block();
        self.judge_losses();
    }

    /// Shows what is in force, and how far it is known committed.
    pub(super) fn show_block(&mut self) {
        if self.half == Half::Proposer {
            return;
        }
        self.block = self.configuration.block();
        self.block.anchor_index = self.acceptor.roster().anchored().index.0;
        self.block_version = self.block_version.wrapping_add(2);
        self.block.write(&self.areas.control, control::CONFIG, self.block_version);
        if self.half == Half::Acceptor {
            let anchored = self.acceptor.roster().anchored().block();
            anchored.write(&self.areas.control, control::ANCHORED, self.block_version);
        }
    }

    // Who is heard, and who is told.

    /// Whether votes and accesses of the life that is connected are judged. Who is a member of this node's configuration is
    /// heard, and who is none *yet*, too: a log that is behind does not know of it, and its vote may be needed. Who was
    /// taken out for certain is armed, and otherwise ignored.
    pub(super) fn hears(&mut self, node: NodeId, kind: u8) -> bool {
        let peer = self.links[node].peer();
        if self.configuration.names(node, peer.incarnation) {
            return true;
        }
        // A leader that took itself out tells its successor to stand, which knows of that by now.
        if kind == request_kind::CAMPAIGN && self.acceptor.promise().node() == node {
            return true;
        }
        if !self.configuration.is_formed()
            || self.acceptor.roster().anchored().has_removed(node, peer.incarnation)
        {
            return false;
        }
        let same = peer.group == self.configuration.group;
        if !same && kind != request_kind::NONE {
            // It belonged to no group when its header was read, or to another: look again.
            self.fail_link(node);
        }
        same
    }

    /// A formed node tells a member that is only locked.
    pub(super) fn tell_locked(&mut self) {
        // Its host tells, as soon as there is one.
        if self.half == Half::Acceptor && self.host.boot().is_some() {
            return;
        }
        for member in self.configuration.members() {
            let node = member.node;
            if node == self.me.node
                || self.proposer.peer(node).formed
                || !self.links[node].is_up()
                || self.links[node].peer().incarnation != member.incarnation
            {
                continue;
            }
            let peer = self.proposer.peer_mut(node);
            let told = peer.is_asking_form() && peer.answer().is_some_and(|(answer, _)| answer.is_granted());
            if told {
                peer.ask_nothing();
                peer.formed = true;
                self.links[node].handle_formed(self.configuration.group);
            } else {
                let group = self.configuration.group;
                self.proposer.tell_formed(self.now, node, group, self.formed_hash);
            }
        }
    }

    // Removed.

    /// Whether the own log has taken this node out.
    fn judge_removal(&mut self) {
        let (me, life) = (self.me.node, self.me.incarnation);
        let anchored = self.acceptor.roster().anchored();
        // Of each node the last life that was removed is known; one before it may have been added again.
        if self.removed.is_some_and(|index| anchored.index > index) && anchored.names(me, life) {
            self.removed = None;
        }
        if self.removed.is_none() && anchored.has_removed(me, life) {
            mark(mark::Member::FoundRemoved);
            let index = anchored.index;
            self.take_out(index);
        }
    }

    fn take_out(&mut self, index: Index) {
        self.removed = Some(index);
        self.events.push(Event::Removed { index });
    }

    /// A node that hears no leader looks at the others, learners included: who was removed while it was away is told by nobody.
    pub(super) fn ask_around(&mut self) {
        if !self.acceptor.is_quiet() || self.removed.is_some() {
            return;
        }
        let own = self.acceptor.roster().anchored().index;
        for slot in 1..=MAX_NODES {
            let node = NodeId(slot as u8);
            if !self.links[node].is_up() {
                continue;
            }
            self.watches[node].want_every(self.now, self.timing.suspect_after_ns);
            let index = self.watches[node].line().map_or(0, |line| line.config_index);
            if index > own.0 {
                self.inquiry.want(node, Index(index));
            }
        }
    }

    pub(super) fn handle_inquiry(&mut self, node: NodeId, number: u32) {
        let Some(found) = self.inquiry.handle_block(node, number, &self.areas.staging) else { return };
        let (me, life) = (self.me.node, self.me.incarnation);
        let anchored = self.acceptor.roster().anchored();
        // What an entry said that was never committed counts for nothing here.
        let newer = found.group == self.configuration.group && found.index > anchored.index;
        let gone = found.has_removed(me, life) || anchored.names(me, life) && !found.names(me, life);
        if newer && gone && self.removed.is_none() {
            mark(mark::Member::ReadRemoved);
            self.take_out(found.index);
        }
    }

    // Lost.

    /// Voters that were found as other lives than the configuration names: what they held is gone.
    pub(super) fn lost_voters(&self) -> usize {
        self.configuration.members().filter(|member| self.is_lost(member)).count()
    }

    fn is_lost(&self, member: &Member) -> bool {
        let found = self.found[member.node];
        member.role == MemberRole::Voter
            && member.node != self.me.node
            && found != Incarnation(0)
            && found != member.incarnation
    }

    /// Tells the host when what is left is no majority.
    pub(super) fn judge_losses(&mut self) {
        let (lost, voters) = (self.lost_voters(), self.configuration.voters());
        let gone = voters > 0 && voters - lost < majority(voters);
        if gone && !self.majority_lost {
            mark(mark::Member::MajorityLost);
            self.events.push(Event::MajorityLost { lost, voters });
        }
        self.majority_lost = gone;
    }

    /// What a leader does by itself: readmits who lost its memory, if it may, and promotes who returns.
    pub(super) fn mend_members(&mut self) {
        if self.proposer.role() != Role::Leader {
            return;
        }
        self.look_at_strangers();
        if self.proposer.may_change().is_err() {
            return;
        }
        let mends = |member: &&Member| {
            let link = &self.links[member.node];
            let other = link.is_up() && link.peer().incarnation != member.incarnation;
            member.node != self.me.node
                && match member.role {
                    MemberRole::Returning if !other => true,
                    _ => other && self.readmit == Readmit::Auto,
                }
        };
        let wanted: heapless::Vec<Member, MAX_NODES> =
            self.configuration.members().filter(mends).copied().collect();
        for member in wanted {
            let node = member.node;
            let other = self.links[node].peer().incarnation != member.incarnation;
            let change = if other { Change::Readmit { node } } else { Change::Promote { node } };
            if self.change(self.now, &change).is_ok() {
                if !other {
                    mark(mark::Member::PromotedAgain);
                }
                return;
            }
        }
    }

    // A new group of a survivor.

    /// Makes a new group of this node alone, with the log as it stands here. For an operator, when a majority of the voters is
    /// gone for good: what only they held is lost, and what stands here above the commit becomes committed. The id is
    /// random; its low 32 bits are replaced by those of the former group, from which the log's chain began.
    pub fn force_new_group(&mut self, now: Instant, group: u128) -> Result<(), RecoverError> {
        self.now = self.now.max(now);
        if !self.configuration.is_formed() {
            return Err(RecoverError::NotFormed);
        }
        let low = u128::from(u32::MAX);
        let group = group & !low | self.configuration.group & low;
        if group & !low == 0 || group == self.configuration.group {
            return Err(RecoverError::Group);
        }
        self.may_recover()?;
        // Entries of the term that it stands for would say nothing in the new group.
        if self.proposer.role() == Role::Candidate {
            self.proposer.end_campaign(&mut work!(self), mark::Candidate::Superseded);
        }
        // Snapshots of the former group are none of this one's.
        self.target.forget();
        self.source.handle_wish(None);
        self.source.discard(&self.areas.snapshot);
        let term = self.acceptor.promise().term();
        let index = self.acceptor.walker().cursor().index;
        let me = Member::voter(self.me.node, self.me.incarnation);
        let configuration = Configuration::formed(group, [me]).at(index, term);
        mark(mark::Member::NewGroup);
        self.acceptor.handle_new_group(configuration.clone());
        self.removed = None;
        self.put_configuration(configuration);
        self.write_header();
        // Whoever is connected belongs to the former group, or is read anew.
        for slot in 1..=MAX_NODES {
            self.fail_link(NodeId(slot as u8));
        }
        self.events.push(Event::NewGroup { group });
        Ok(())
    }

    /// Whether the group of this node has certainly stopped, as far as can be seen from here.
    pub fn may_recover(&self) -> Result<(), RecoverError> {
        if self.half != Half::Whole {
            return Err(RecoverError::Apart);
        }
        if self.is_application_away() {
            return Err(RecoverError::Away);
        }
        let heard = !self.acceptor.is_quiet() && self.acceptor.promise().node() != NodeId::NOBODY;
        if matches!(self.proposer.role(), Role::Leader | Role::Yielding) || heard {
            return Err(RecoverError::LeaderAlive { leader: self.acceptor.promise().node() });
        }
        let runs = |member: &&Member| {
            let link = &self.links[member.node];
            let same = link.is_up() && link.peer().incarnation == member.incarnation;
            let moved = self.watches[member.node].moved_at();
            member.role == MemberRole::Voter
                && (member.node == self.me.node && member.incarnation == self.me.incarnation
                    || same && moved.is_some_and(|at| self.now.since(at) < self.timing.alive_within_ns))
        };
        let (alive, voters) =
            (self.configuration.members().filter(runs).count(), self.configuration.voters());
        if voters > 0 && alive >= majority(voters) {
            return Err(RecoverError::MajorityAlive { alive, voters });
        }
        Ok(())
    }
}
