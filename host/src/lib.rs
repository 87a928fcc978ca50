//! The host side of Ringleader: an application opens a [`Node`], proposes entries through [`Handle`]s, and is handed
//! every committed entry, in the same order on every node, through its [`StateMachine`].
//!
//! Every node of a group is opened with a [`StateMachine`] of its own. Each is handed the same committed entries in the
//! same order, so all have the same state. Proposals go to the node that leads; the others name it.
//!
//! # A group in one program
//!
//! ```
//! use std::sync::atomic::{AtomicU64, Ordering};
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use ringleader::{Entry, Node, Options, Outcome, Role};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir_in("/dev/shm")?;
//! # let dir = dir.path();
//! // Usually one node a process; all of them name the same directory.
//! let sum = Arc::new(AtomicU64::new(0));
//! let open = |node, sum: Arc<AtomicU64>| {
//!     let mut options = Options::new(dir, node, [1, 2, 3]);
//!     options.ring_len = 1 << 20;
//!     Node::open(options, move |entry: Entry<'_>| {
//!         sum.fetch_add(entry.payload.len() as u64, Ordering::Relaxed);
//!     })
//! };
//! let nodes = [open(1, sum.clone())?, open(2, Arc::default())?, open(3, Arc::default())?];
//! nodes[0].form(Duration::from_secs(10))?;
//!
//! // Proposals go to whoever leads. (One that is not known committed may still be: see below.)
//! loop {
//!     let leader = nodes.iter().find(|node| node.status().role == Role::Leader);
//!     if let Some(mut handle) = leader.map(Node::handle)
//!         && handle.propose(b"five!").is_ok()
//!         && let Some((_, Outcome::Committed { .. })) = handle.wait(Duration::from_secs(10))
//!     {
//!         break;
//!     }
//!     std::thread::sleep(Duration::from_millis(1));
//! }
//! while sum.load(Ordering::Relaxed) < 5 {
//!     std::thread::yield_now();
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Many groups on one thread
//!
//! A node has a thread of its own ([`Node::open`]), or shares one with nodes of other groups ([`Node::open_on`]): an
//! [`AgentThread`] hosts up to [`MAX_GROUPS`] of them on one processor, each with its own state machine, handles, memory and
//! end. A node that leads in one group may follow in another. Groups split a state into parts that are ordered apart from each
//! other, and what a single group leaves of a processor goes to the others.
//!
//! ```
//! # use std::time::Duration;
//! use ringleader::{AgentOptions, AgentThread, Entry, Node, Options};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir_in("/dev/shm")?;
//! # let dir = dir.path();
//!
//! let agent = AgentThread::start(&AgentOptions::default())?;
//! let open = |group: &str| {
//!     // Groups have a directory each. (A group of this node alone, to be short.)
//!     let mut options = Options::new(dir.join(group), 1, [1]);
//!     options.ring_len = 1 << 20;
//!     Node::open_on(&agent, options, |_: Entry<'_>| {})
//! };
//! let (orders, stock) = (open("orders")?, open("stock")?);
//! orders.form(Duration::from_secs(10))?;
//! stock.form(Duration::from_secs(10))?;
//! orders.close()?;
//! // The other one goes on.
//! assert_eq!((agent.groups(), stock.status().closed), (1, false));
//! # Ok(())
//! # }
//! ```
//!
//! - *One thread*: what a state machine does in [`StateMachine::apply`] keeps all groups waiting. A turn of a group that has nothing
//!   to do costs well below a microsecond (`ringleader bench turn`); a round of all turns should take a small part of a beat.
//! - *An end of one*: a group that is closed, or whose state machine panics ([`CloseError::Panicked`]), leaves its place, and the
//!   others go on; what takes time of its end is done on another thread. [`AgentThread::close_all`] ends all of them.
//! - *The end of all*: a writer that could not be fenced in time ends the process, for the kernel then fences it (docs/protocol.md,
//!   section 4), and a broken RDMA device ends every group on it.
//! - *Sleeping*: with [`config::Notify::Imm`] in every group the thread sleeps until a peer writes to any of them, unless one leads.
//!   On shared memory that takes Linux 5.16 or newer; else, and where groups with different transports meet on a thread, it looks
//!   every 100 microseconds.
//! - *RDMA*: the groups that choose a device in the same way share it, with one completion queue a plane, large enough for all of
//!   them ([`AgentOptions::groups`]). Each has protection domains, memory, queue pairs and an exchange (a port to listen at) of its
//!   own: no key of one group opens anything on a queue pair of another.
//!
//! # A proposal whose outcome is unknown
//!
//! When a leader falls or gives up, its handles report [`Outcome::Unknown`] for what was on its way: the next leader may
//! have it and commit it, or nobody ever will. To drop it may lose it, to propose it again may double it. No log can tell
//! the two apart for the application; the application makes doubles harmless:
//!
//! 1. Every client has an id, random or given out, that no other client has, also not after a restart that forgot how
//!    far it was. It numbers its proposals 1, 2, 3, … and puts id and number into the payload.
//! 2. The state machine keeps, as part of its state, the highest number it applied of each client. An entry whose number
//!    is not above it is a double and is passed over. (As all nodes apply the same entries, all pass over the same ones.)
//! 3. A client that gets [`Outcome::Unknown`] or [`Outcome::NotLeader`] looks for the leader and proposes again all that it
//!    knows no commit of, *in the order of their numbers*, under the same numbers, before anything new.
//!
//! The third rule needs the pipeline to have no gaps: were 5 lost and 6 committed, then 5, proposed again, would look like
//! a double. That is why a handle refuses everything behind the first proposal that was not committed until the
//! application has polled that outcome ([`Handle`]). A client with one proposal at a time never meets this.
//!
//! [`Session`] is the second rule in a few lines.
//!
//! # Reading
//!
//! What a state machine holds on some node may be old: the node may lag, or have been deposed without knowing. A
//! [`Reader`] ([`Node::reader`]) says when it may be looked at: [`ReadOutcome::Ready`] means that this node's state machine
//! has been handed everything that was acknowledged to anybody before the read was asked for.
//!
//! - [`Read::Quorum`] is for the leader, and costs one READ of a majority's promises, for all reads that wait together.
//! - [`Read::Follower`] is for any node, and takes none of the leader's processor.
//! - [`Read::Lease`] is for the leader, and READs nothing. It hangs on clocks: [`Options::lease_reads`] must allow it, with a
//!   bound on their drift.
//!
//! A read that fails has had no effect, and is simply asked again. Whatever a reader thread looks at must be there when
//! [`StateMachine::apply`] returns; state that another thread keeps is to be as far as `applied_index`.

mod acceptor;
mod agent;
mod agent_thread;
pub mod app;
pub mod bench;
pub mod cli;
pub mod clock;
mod command;
pub mod config;
pub mod demo;
pub mod doctor;
mod errors;
mod events;
pub mod exchange;
pub mod fabric;
mod handle;
pub mod health;
mod idle;
pub mod inspect;
pub mod kv;
mod lane;
mod lanes;
mod len;
pub mod logging;
mod measure;
pub mod members;
mod memory;
mod metrics;
pub mod neighbours;
mod node;
mod options;
mod pin;
mod placement;
pub mod processes;
mod profile;
mod random;
mod reader;
mod readers;
pub mod scratch;
mod seqlock;
pub mod service;
mod shared;
mod signals;
mod snapshots;
mod status;
mod stderr;
mod stranded;
mod sync;

pub use acceptor::Acceptor;
pub use agent_thread::{AgentOptions, AgentThread, MAX_GROUPS, Polled};
pub use app::{Entry, Session, StateMachine};
pub use errors::{CloseError, FormError, MeasureError, OpenError, SubmitError, TransferError};
pub use events::TimedEvent;
pub use handle::{Draft, Handle, Outcome, Ticket};
pub use idle::Idle;
pub use measure::{Measurement, ReadMeasurement};
pub use members::{Change, ChangeMembersError, Members, Readmit};
pub use metrics::Metrics;
pub use node::{Node, View};
#[cfg(feature = "verbs")]
pub use options::VerbsOptions;
pub use options::{Options, Transport};
pub use profile::Profile;
pub use reader::{LeaseReads, Read, ReadFailure, ReadOutcome, Reader};
pub use ringleader_core::event::{Event, GiveUp};
pub use ringleader_core::options::Half;
pub use ringleader_core::proposer::{Confirm, Quorum};
pub use ringleader_core::timing::Timing;
pub use ringleader_core::types::{Index, Position, Term};
pub use status::{CatchUp, Follower, FollowerState, HostState, Role, Status, Taking};

// No program has a core in which bugs can be planted.
const _: () = assert!(
    !ringleader_core::planted::IN_THIS_BUILD,
    "the feature `planted` of ringleader-core is for ringleader-tests alone: build this package without it"
);
