//! The acceptor of a node whose host is apart: what votes, fences and holds the log, in a process or on a DPU of its own.

use ringleader_core::options::Half;

use crate::agent_thread::AgentThread;
use crate::app::{Entry, StateMachine};
use crate::errors::{CloseError, OpenError};
use crate::events::TimedEvent;
use crate::metrics::Metrics;
use crate::node::{Node, View};
use crate::options::Options;
use crate::status::Status;

/// The acceptor of a node alone: see [`Options::half`]. It needs nobody to run but itself: its host may be dead, hang, or not have
/// come yet, and it votes all the same. A group is formed, changed and used by the hosts, whose [`Node`]s are opened with
/// [`Half::Proposer`].
///
/// Closed when it is dropped; [`Acceptor::close`] also says how that went.
#[derive(Debug)]
pub struct Acceptor(Node);

/// There is no application here, and nobody hands it anything.
struct Nothing;

impl StateMachine for Nothing {
    fn apply(&mut self, _entry: Entry<'_>) {}
}

impl Acceptor {
    /// Makes the region and starts the agent's thread. Of the options those about applications, reads and proposals say nothing
    /// here.
    pub fn open(options: Options) -> Result<Acceptor, OpenError> {
        let options = alone(options);
        options.check()?;
        let agent = AgentThread::of_one(options.node, options.pin, options.idle)?;
        Acceptor::open_on(&agent, options)
    }

    /// The same on a thread that is there, and may have the nodes of other groups: see [`AgentThread`].
    pub fn open_on(agent: &AgentThread, options: Options) -> Result<Acceptor, OpenError> {
        Node::open_half(agent, alone(options), Nothing).map(Acceptor)
    }

    pub(crate) fn node(&self) -> &Node {
        &self.0
    }

    /// As [`Node::status`]. It never leads, whatever its host does; its *applied* is what its host said last.
    pub fn status(&self) -> Status {
        self.0.status()
    }

    /// As [`Node::metrics`].
    pub fn metrics(&self) -> Metrics {
        self.0.metrics()
    }

    /// As [`Node::view`].
    pub fn view(&self) -> View {
        self.0.view()
    }

    /// As [`Node::next_event`].
    pub fn next_event(&self) -> Option<TimedEvent> {
        self.0.next_event()
    }

    /// The life of this node's memory.
    pub fn incarnation(&self) -> u64 {
        self.0.incarnation()
    }

    /// What it was opened with.
    pub fn options(&self) -> &Options {
        self.0.options()
    }

    /// Ends the agent and waits for it; the log is gone with it, and the node has lost its memory.
    pub fn close(self) -> Result<(), CloseError> {
        self.0.close()
    }
}

fn alone(options: Options) -> Options {
    Options { half: Half::Acceptor, ..options }
}
