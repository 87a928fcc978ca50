//! The agent of one node: runs a replica, a fabric and an application to completion, turn after turn. Not: the thread that
//! gives it its turns, and whoever else has turns there (`agent_thread`).
//!
//! Every turn reaps completions, takes proposals, lets the core look at its memory, tells the application, applies, and
//! posts what the core wants: in this order, so that the application hears of a commit before the beat that spreads it
//! is posted. Nothing is allocated between a proposal and its commit; other threads are reached through lanes, a
//! channel that is only looked at, and atomics.

use std::process;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};

use ringleader_core::event::Event;
use ringleader_core::mem::Memory;
use ringleader_core::membership::{Change, ChangeError};
use ringleader_core::proposer::Role as CoreRole;
use ringleader_core::replica::{ProposeError, Replica, Ticket};
use ringleader_core::types::{Epoch, Instant, NodeId};
use ringleader_core::verb::{Class, Completion, RequestId, Status as VerbStatus};
use tracing::{debug, error, info, trace, warn};

use crate::app::StateMachine;
use crate::clock;
use crate::command::Command;
use crate::errors::FormError;
use crate::events::{Events, TimedEvent};
use crate::fabric::{Bell, Fabric};
use crate::lanes::{Lanes, Refusal};
use crate::measure::Measuring;
use crate::members::Members;
use crate::metrics::Metrics;
use crate::reader::ReadOutcome;
use crate::readers::Readers;
use crate::shared::Shared;
use crate::snapshots::{Machine, Outcome};
use crate::status::{FollowerState, FollowerWords, Role, TakingWords, Words};
use crate::stranded::Stranded;
use zerocopy::FromZeros;

/// Completions taken at once.
const REAP: usize = 64;
/// Proposals taken of one lane in one turn.
const PROPOSE: usize = 64;
/// Reads taken of one reader in one turn.
const READ: usize = 256;
/// Entries applied in one turn, and how many of them between two looks at the clock.
const APPLY: usize = 1024;
const APPLY_BETWEEN: usize = 16;
/// The status is posted at most this often while there is work.
const POST_STATUS_NS: u64 = 20_000;

/// See the head of this file.
pub(crate) struct Agent<M: Memory, F, S> {
    pub(crate) replica: Replica<M>,
    pub(crate) fabric: F,
    pub(crate) node: NodeId,
    /// Nodes of the group, this one included.
    pub(crate) max_payload: usize,
    /// Boxed: it changes hands around every sample.
    pub(crate) measuring: Option<Box<Measuring>>,
    pub(crate) done: [Completion; REAP],
    machine: Machine<S>,
    lanes: Lanes,
    readers: Readers,
    commands: Receiver<Command>,
    events: Events,
    shots: fn(&F) -> u64,
    shared: Arc<Shared>,
    /// Whom proposals are sent to that this node cannot take.
    leader: Option<u8>,
    form_refusals: u64,
    transfer_failures: u64,
    metrics: Metrics,
    stranded: Stranded,
    status_is_old: bool,
    status_posted: Instant,
}

/// What an agent is made of.
pub(crate) struct Parts<M: Memory, F, S> {
    pub(crate) node: NodeId,
    pub(crate) replica: Replica<M>,
    pub(crate) fabric: F,
    pub(crate) machine: S,
    pub(crate) commands: Receiver<Command>,
    pub(crate) events: Events,
    /// Writers that the fabric shot.
    pub(crate) shots: fn(&F) -> u64,
    pub(crate) shared: Arc<Shared>,
}

/// What came of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// Something was done: the next turn may find more.
    Progress,
    /// There was nothing to do, and nothing has to be done before `until`.
    Idle {
        now: Instant,
        until: Option<Instant>,
        /// Whether only what is written by a peer can change that.
        may_sleep: bool,
    },
    /// It has ended: there is no turn after it.
    Ended,
}

impl<M: Memory + Clone + Send + 'static, F: Fabric, S: StateMachine> Agent<M, F, S> {
    pub(crate) fn new(parts: Parts<M, F, S>) -> Agent<M, F, S> {
        let id = RequestId { peer: NodeId::NOBODY, class: Class::Connect, epoch: Epoch(0), number: 0 };
        let mut agent = Agent {
            max_payload: parts.shared.max_payload,
            replica: parts.replica,
            fabric: parts.fabric,
            node: parts.node,
            measuring: None,
            done: [Completion { id, status: VerbStatus::Failed, value: 0 }; REAP],
            machine: Machine::new(parts.machine),
            lanes: Lanes::new(),
            readers: Readers::new(),
            commands: parts.commands,
            events: parts.events,
            shots: parts.shots,
            shared: parts.shared,
            leader: None,
            stranded: Stranded::default(),
            form_refusals: 0,
            transfer_failures: 0,
            metrics: Metrics::default(),
            status_is_old: true,
            status_posted: Instant(0),
        };
        agent.post_status(clock::now());
        agent
    }

    /// Does what there is to do. Applies for `apply_ns` nanoseconds at the most: beats wait meanwhile.
    pub(crate) fn turn(&mut self, apply_ns: u64) -> Turn {
        if !self.take_commands() {
            return Turn::Ended;
        }
        self.metrics.turns += 1;
        let mut now = clock::now();
        let mut progress = self.reap(now);
        progress |= self.take_proposals(now);
        if self.take_reads(now) {
            progress = true;
            // A lease is judged by a time that was read after the reads it answers had arrived.
            now = clock::now();
        }
        if let Some((number, outcome)) = self.machine.poll() {
            self.handle_outcome(now, number, outcome);
            progress = true;
        }
        self.replica.handle_tick(now);
        progress |= self.tell(now);
        if self.apply(now, apply_ns) {
            progress = true;
            // Reads that waited for it.
            self.tell(now);
        }
        progress |= self.post_verbs(now);
        if self.measuring.is_some() {
            self.measure();
            progress = true;
        }
        self.status_is_old |= progress;
        if self.status_is_old && (!progress || now.since(self.status_posted) >= POST_STATUS_NS) {
            self.post_status(now);
        }
        if self.fabric.is_dead() {
            error!("the fabric carries nothing any more: the node ends");
            return Turn::Ended;
        }
        if self.is_orphaned() {
            return Turn::Ended;
        }
        if progress {
            return Turn::Progress;
        }
        // Who leads waits for proposals too, which wake nobody.
        let may_sleep = self.leader != Some(self.node.0) && !self.readers.any_waits();
        Turn::Idle { now, until: self.replica.poll_timeout(), may_sleep }
    }

    /// Whether this host belongs to a life of its acceptor that is over.
    pub(crate) fn is_orphaned(&self) -> bool {
        self.replica.is_orphaned()
    }

    /// Before the thread sleeps: what rings when a peer writes here. `None`: it cannot, or there is something to do.
    pub(crate) fn fall_asleep(&mut self) -> Option<Bell<'_>> {
        self.fabric.fall_asleep()
    }

    /// After that, also when nobody slept.
    pub(crate) fn wake_up(&mut self) {
        self.fabric.wake_up();
    }

    /// Whoever waits for an outcome, or asks for the status, learns that no more will come.
    pub(crate) fn close(&self) {
        self.shared.closed.store(true, Ordering::Relaxed);
    }

    /// Ends what is on its way; gives the fabric back, which still has the region.
    pub(crate) fn finish(mut self) -> F {
        self.machine.take_back();
        self.lanes.close();
        self.readers.close();
        self.fabric
    }

    /// Serves the channel; false when the agent is to end.
    fn take_commands(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Lane(end)) => self.lanes.add(end),
                Ok(Command::Reader(end)) => self.readers.add(end),
                Ok(Command::Transfer { to, reply }) => {
                    let begun = self.replica.transfer(clock::now(), NodeId(to));
                    // Who asked may have stopped waiting.
                    let _ = reply.send(begun);
                }
                Ok(Command::Form { group, reply }) => self.form(group, &reply),
                Ok(Command::Change { change, reply }) => self.change(&change, &reply),
                Ok(Command::Members { reply }) => {
                    let _ = reply.send(Members::of(&self.replica));
                }
                Ok(Command::Readmit(readmit)) => self.replica.set_readmit(readmit),
                Ok(Command::NewGroup { group, reply }) => {
                    let made = match group {
                        Some(group) => self.replica.force_new_group(clock::now(), group),
                        None => self.replica.may_recover(),
                    };
                    let _ = reply.send(made);
                }
                Ok(Command::Measure { samples, size, reply }) => self.start_measuring(samples, size, reply),
                Ok(Command::MeasureReads { samples, reply }) => self.start_measuring_reads(samples, reply),
                #[cfg(feature = "doca")]
                Ok(Command::Orphan) => self.replica.handle_acceptor_gone(),
                Ok(Command::Close) | Err(TryRecvError::Disconnected) => return false,
                Err(TryRecvError::Empty) => return true,
            }
        }
    }

    fn change(&mut self, change: &Change, reply: &Sender<Result<Ticket, ChangeError>>) {
        if let Change::Add { node, .. } = *change {
            self.replica.connect_to(node);
        }
        let _ = reply.send(self.replica.change(clock::now(), change));
    }

    fn form(&mut self, group: u128, reply: &Sender<Result<(), FormError>>) {
        let begun = self.replica.form(clock::now(), group).map_err(|error| match error {
            ringleader_core::replica::FormError::InGroup => FormError::InGroup,
            _ => FormError::NotFresh,
        });
        // Who asked may have stopped waiting.
        let _ = reply.send(begun);
    }

    pub(crate) fn reap(&mut self, now: Instant) -> bool {
        let count = self.fabric.reap(&mut self.done);
        for done in &self.done[..count] {
            self.metrics.verbs_failed += u64::from(done.status != VerbStatus::Success);
            self.replica.handle_completion(now, *done);
        }
        count > 0
    }

    fn take_proposals(&mut self, now: Instant) -> bool {
        let (replica, metrics) = (&mut self.replica, &mut self.metrics);
        let moved = self.lanes.propose(PROPOSE, self.leader, |payload| match replica.propose(now, payload) {
            Ok(ticket) => {
                metrics.proposed += 1;
                Ok((ticket.term, ticket.index))
            }
            Err(ProposeError::NotLeader { leader }) => Err(Refusal::NotLeader(named(leader))),
            Err(ProposeError::Full) => Err(Refusal::Full),
            Err(error) => unreachable!("a handle takes no payload that fits no entry: {error:?}"),
        });
        moved > 0
    }

    fn take_reads(&mut self, now: Instant) -> bool {
        let replica = &mut self.replica;
        self.readers.take(READ, |how| replica.read(now, how)) > 0
    }

    /// Tells the application's threads what happened.
    pub(crate) fn tell(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some(event) = self.replica.poll_event() {
            any = true;
            self.handle_event(now, event);
        }
        any
    }

    fn handle_event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Committed { term, index, position } => {
                if let Some(measuring) = &mut self.measuring {
                    measuring.handle_commit(term, index);
                }
                self.metrics.committed += self.lanes.committed(term, index);
                trace!(%term, %index, %position, "committed");
            }
            Event::ReadReady { how, number } => {
                if let Some(measuring) = &mut self.measuring {
                    measuring.handle_read(how, number);
                }
                let applied_index = self.replica.applied().index.0;
                self.metrics.reads += self.readers.ended(how, number, ReadOutcome::Ready { applied_index });
                // As many as there are reads: of interest to nobody else.
                return;
            }
            Event::ReadFailed { how, number, why } => {
                debug!(?how, number, ?why, "reads end without an answer");
                if let Some(measuring) = &mut self.measuring {
                    measuring.handle_gave_up();
                }
                self.metrics.reads_failed += self.readers.ended(how, number, ReadOutcome::Failed(why));
            }
            Event::TransferFailed { to } => {
                warn!(%to, "was not elected: leads on");
                self.transfer_failures += 1;
            }
            Event::GaveUp { term, reason } => {
                info!(%term, ?reason, "gave up the lead");
                self.metrics.gave_up += 1;
                self.metrics.unknown += self.lanes.gave_up(term);
                if let Some(measuring) = &mut self.measuring {
                    measuring.handle_gave_up();
                }
            }
            Event::Promised { promise } => {
                debug!(%promise, "promised");
                self.leader = named(promise.node());
            }
            Event::Elected { term } => {
                info!(%term, "leads");
                self.metrics.elected += 1;
                self.leader = Some(self.node.0);
            }
            Event::FormRefused => {
                warn!("a node refused to form a group with this one");
                self.form_refusals += 1;
            }
            Event::Formed { group } => {
                info!(group = format_args!("{group:032x}"), "formed");
                self.fabric.handle_formed(group);
            }
            // The fence is repeated until the port is up again; it promises nothing before it is done.
            Event::Abort { .. } if self.fabric.is_cut_off() => return,
            Event::Abort { writer } => {
                error!(%writer, "a writer could not be fenced in time: the process ends, which is a fence");
                process::abort();
            }
            Event::Stuck { position } => warn!(%position, "the log cannot be applied any further"),
            Event::Behind { node } => info!(%node, "a follower fell below the ring: it needs a snapshot"),
            Event::SaveSnapshot { number } => {
                if let Some(outcome) = self.machine.save(&self.replica.areas().snapshot, number) {
                    self.handle_outcome(now, number, outcome);
                }
            }
            Event::LoadSnapshot { number, len } => {
                if let Some(outcome) = self.machine.load(&self.replica.areas().snapshot, number, len) {
                    self.handle_outcome(now, number, outcome);
                }
            }
            Event::Forgetful { node } => {
                warn!(%node, "a member came back without its memory and is kept out: ringleader member readmit")
            }
            Event::Members { index } => {
                let configuration = self.replica.configuration();
                info!(%index, voters = configuration.voters(), members = configuration.members().count(), "members");
            }
            Event::Removed { index } => warn!(%index, "this node was removed from its group"),
            Event::MajorityLost { lost, voters } => error!(
                lost,
                voters,
                "too many voters came back without their memory: the group has stopped for good: ringleader recover"
            ),
            Event::NewGroup { group } => {
                warn!(group = format_args!("{group:032x}"), "a new group was made of this node");
                self.fabric.handle_formed(group);
            }
            Event::HostUp => info!("its host is up"),
            Event::HostDown => warn!("its host is silent, and marked down"),
            Event::Orphaned => {
                error!(
                    "the acceptor of this node came back without its memory: its host ends, and is to be started anew"
                );
            }
            Event::Campaign { term } => {
                debug!(%term, "stands");
                self.metrics.campaigns += 1;
            }
            other => debug!(event = ?other),
        }
        self.events.push(TimedEvent { at_ns: now.0, event });
    }

    /// The application has saved its state, or loaded another's, or could not.
    fn handle_outcome(&mut self, now: Instant, number: u32, outcome: Outcome) {
        match outcome {
            Outcome::Saved(saved) => {
                self.metrics.saved += u64::from(saved.is_some());
                self.replica.handle_saved(now, number, saved);
            }
            Outcome::Loaded(loaded) => {
                self.metrics.loaded += u64::from(loaded);
                self.replica.handle_loaded(now, number, loaded);
            }
        }
    }

    fn apply(&mut self, now: Instant, apply_ns: u64) -> bool {
        for count in 0..APPLY {
            if count > 0 && count % APPLY_BETWEEN == 0 && clock::now().since(now) > apply_ns {
                return true;
            }
            let Some(machine) = self.machine.here() else { return count > 0 };
            let metrics = &mut self.metrics;
            let applied = self.replica.apply(|entry| {
                metrics.applied += 1;
                metrics.applied_bytes += entry.payload.len() as u64;
                machine.apply(entry);
            });
            if !applied {
                return count > 0;
            }
        }
        true
    }

    /// Posts what the core wants. A fabric may carry a verb out while it is posted: its completion is looked for before the
    /// next verb, so that a commit is told as soon as a majority has it.
    pub(crate) fn post_verbs(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some(verb) = self.replica.poll_verb() {
            any = true;
            self.metrics.verbs += 1;
            self.fabric.post(&verb);
            if self.reap(now) {
                self.tell(now);
            }
        }
        self.fabric.ring();
        any
    }

    fn post_status(&mut self, now: Instant) {
        let status = self.replica.status();
        let mut words = Words::new_zeroed();
        words.incarnation = self.replica.incarnation().0;
        words.formed = u64::from(status.group != 0);
        words.group_low = status.group as u64;
        words.group_high = (status.group >> 64) as u64;
        words.role = match status.role {
            CoreRole::Leader => Role::Leader,
            CoreRole::Candidate => Role::Candidate,
            // It has given up, and takes no proposals any more.
            CoreRole::Yielding | CoreRole::Follower => Role::Follower,
        } as u64;
        words.term = status.promise.term().0;
        words.leader = u64::from(status.leader.0);
        words.commit_index = status.commit_index.0;
        words.commit_position = status.commit.0;
        words.applied_index = status.applied.index.0;
        words.applied_position = status.applied.position.0;
        words.end_position = status.end.position.0;
        words.removed = u64::from(status.removed);
        words.voters = self.replica.configuration().voters() as u64;
        words.lost = status.lost as u64;
        words.reached = u64::from(status.reached);
        words.met_group = u64::from(status.met_group);
        words.form_refusals = self.form_refusals;
        words.transfer_failures = self.transfer_failures;
        words.events_dropped = self.events.dropped();
        words.shots = (self.shots)(&self.fabric);
        words.taking = TakingWords::of(status.taking);
        words.acceptor_silent = u64::from(status.acceptor_silent);
        if let Some(host) = status.host {
            words.host_boot = host.boot.0;
            words.host_alive = u64::from(host.is_alive);
            words.host_leads = u64::from(host.leads);
        }
        words.metrics = self.metrics;
        self.stranded.look(&status.followers);
        let followers = status.followers.iter().enumerate().filter(|(node, _)| *node != self.node.slot());
        for (node, follower) in followers {
            let Some(follower) = follower else { continue };
            words.followers[node] = FollowerWords {
                known: 1,
                state: FollowerState::from(follower.state) as u64,
                matched_position: follower.matched.0,
                applied_position: follower.applied.0,
                counts: u64::from(follower.counts),
                ..FollowerWords::new_zeroed()
            };
            words.followers[node].set_catch_up(follower.catch_up);
        }
        self.shared.board.post(&words);
        self.status_is_old = false;
        self.status_posted = now;
    }
}

/// A node id as the library shows it.
fn named(node: NodeId) -> Option<u8> {
    (node != NodeId::NOBODY).then_some(node.0)
}
