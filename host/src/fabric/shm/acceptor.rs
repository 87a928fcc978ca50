//! The acceptor's end of one log queue pair: closed, armed, granted, fencing (protocol.md 4).
//!
//! It owns this node's grant word for one peer, and watches that peer's busy word. Nothing here waits: a fence that
//! finds a copy under way is polled until the copy is over, its process is dead, or it is shot.

use std::sync::Arc;

use ringleader_core::mem::Memory;
use ringleader_core::types::NodeId;
use ringleader_core::verb::{RequestId, Status, Verb};

use super::fence;
use super::process::Process;
use super::region::{Directory, Found};
use crate::fabric::completions::Completions;
use crate::fabric::map::Mapped;

/// Verbs of one end that wait behind a fence. An acceptor has at most a few under way.
const WAITING: usize = 8;

/// A pause of this process must not be charged to the writer: one look counts for no more than this part of the limit.
const LOOKS_PER_LIMIT: u64 = 8;

#[derive(Debug)]
enum State {
    Closed,
    Armed { epoch: u32, process: Arc<Process> },
    Granted { epoch: u32, process: Arc<Process> },
    Fencing(Fencing),
}

#[derive(Debug)]
struct Fencing {
    id: RequestId,
    process: Arc<Process>,
    /// When it was looked at last.
    looked_ns: Option<u64>,
    /// How long the writer was seen in its copy.
    waited_ns: u64,
    shot: bool,
}

/// What a verb needs beside the end itself.
#[derive(Debug)]
pub(super) struct Context<'a> {
    /// Where the process is found that asks for a writer's place.
    pub(super) writers: Writers<'a>,
    /// This node's own tag: the number an initiator opens its end with.
    pub(super) tag: u32,
    pub(super) completions: &'a mut Completions,
}

/// Who may be a peer's writer: the process that this node is connected to, or its host, where the two are apart.
#[derive(Debug)]
pub(super) struct Writers<'a> {
    pub(super) directory: &'a Directory,
    pub(super) node: NodeId,
    pub(super) connected: Option<Arc<Process>>,
}

impl Writers<'_> {
    /// The one with this tag, if it lives.
    fn find(&self, tag: u64) -> Option<Arc<Process>> {
        let is_meant = |process: &Process| u64::from(process.tag) == tag && !process.is_dead();
        if let Some(process) = self.connected.as_ref().filter(|process| is_meant(process)) {
            return Some(Arc::clone(process));
        }
        // Whatever is wrong with that file, it is no host to be waited for.
        let host = Found::look_host(self.directory, self.node).ok()??.owner().ok()??;
        is_meant(&host).then(|| Arc::new(host))
    }
}

/// The acceptor's end of the log queue pair of one peer.
#[derive(Debug)]
pub(super) struct Acceptor {
    grant: Mapped,
    busy: Mapped,
    state: State,
    /// The highest epoch armed so far: none is used twice.
    last_epoch: u32,
    waiting: heapless::Deque<Verb, WAITING>,
}

impl Acceptor {
    /// The end over its two words.
    pub(super) fn new(grant: Mapped, busy: Mapped) -> Acceptor {
        Acceptor { grant, busy, state: State::Closed, last_epoch: 0, waiting: heapless::Deque::new() }
    }

    /// Whether a fence is under way, so that [`Acceptor::poll`] must be called.
    pub(super) fn is_fencing(&self) -> bool {
        matches!(self.state, State::Fencing(_))
    }

    /// Carries out an Arm, Grant or Fence, or keeps it until the fence before it is complete.
    pub(super) fn post(&mut self, verb: &Verb, context: &mut Context<'_>) {
        if !self.is_fencing() {
            self.carry_out(verb, context);
        } else if self.waiting.push_back(*verb).is_err() {
            context.completions.push(verb.id(), Status::Failed, 0);
        }
    }

    fn carry_out(&mut self, verb: &Verb, context: &mut Context<'_>) {
        match *verb {
            Verb::Arm { id, numbers } => {
                let status = self.arm(id.epoch.0, numbers, &context.writers);
                let value = if status == Status::Success { u64::from(context.tag) } else { 0 };
                context.completions.push(id, status, value);
            }
            Verb::Grant { id } => {
                let status = self.grant(id.epoch.0);
                context.completions.push(id, status, 0);
            }
            Verb::Fence { id } => self.fence(id, context),
            _ => unreachable!("only the verbs of an acceptor's end come here"),
        }
    }

    fn arm(&mut self, epoch: u32, numbers: u64, writers: &Writers<'_>) -> Status {
        // A granted end is fenced first; an epoch that was used may still be known to a writer.
        if matches!(self.state, State::Granted { .. }) || epoch <= self.last_epoch {
            return Status::Failed;
        }
        // The numbers are the initiator's tag: whoever asked must be the process that will be watched.
        let Some(process) = writers.find(numbers) else { return Status::Unreachable };
        self.last_epoch = epoch;
        self.state = State::Armed { epoch, process };
        Status::Success
    }

    fn grant(&mut self, wanted: u32) -> Status {
        match &self.state {
            State::Armed { epoch, process } if *epoch == wanted => {
                if process.is_dead() {
                    return Status::Unreachable;
                }
                fence::give(&self.grant.words()[0], fence::writer(process.tag, wanted));
                self.state = State::Granted { epoch: wanted, process: Arc::clone(process) };
                Status::Success
            }
            State::Granted { epoch, .. } if *epoch == wanted => Status::Success,
            _ => Status::Flushed,
        }
    }

    fn fence(&mut self, id: RequestId, context: &mut Context<'_>) {
        fence::take(&self.grant.words()[0]);
        match std::mem::replace(&mut self.state, State::Closed) {
            // Whoever was only armed never passed the check.
            State::Closed | State::Armed { .. } => context.completions.push(id, Status::Success, 0),
            State::Granted { process, .. } => {
                let fencing = Fencing { id, process, looked_ns: None, waited_ns: 0, shot: false };
                if self.is_over(&fencing) {
                    context.completions.push(id, Status::Success, 0);
                } else {
                    self.state = State::Fencing(fencing);
                }
            }
            State::Fencing(_) => unreachable!("verbs wait behind a fence"),
        }
    }

    fn is_over(&self, fencing: &Fencing) -> bool {
        fence::is_quiet(&self.busy.words()[0], fencing.process.tag) || fencing.process.is_dead()
    }

    /// Looks after the fence under way. Returns whether it shot the writer.
    pub(super) fn poll(&mut self, now_ns: u64, limit_ns: u64, context: &mut Context<'_>) -> bool {
        let state = std::mem::replace(&mut self.state, State::Closed);
        let State::Fencing(mut fencing) = state else {
            self.state = state;
            return false;
        };
        if self.is_over(&fencing) {
            context.completions.push(fencing.id, Status::Success, 0);
            while !self.is_fencing() {
                let Some(verb) = self.waiting.pop_front() else { break };
                self.carry_out(&verb, context);
            }
            return false;
        }
        let since_ns = fencing.looked_ns.map_or(0, |looked| now_ns.saturating_sub(looked));
        fencing.looked_ns = Some(now_ns);
        fencing.waited_ns = fencing.waited_ns.saturating_add(since_ns.min(limit_ns / LOOKS_PER_LIMIT));
        let shoots = fencing.waited_ns >= limit_ns && !fencing.shot;
        if shoots {
            fencing.shot = true;
            let (node, pid) = (fencing.id.peer.0, fencing.process.pid);
            match fencing.process.shoot() {
                Ok(()) => tracing::warn!(node, pid, "shot a writer that stayed in the middle of a copy"),
                Err(error) => tracing::error!(node, pid, %error, "cannot shoot a writer in mid-copy"),
            }
        }
        self.state = State::Fencing(fencing);
        shoots
    }
}
