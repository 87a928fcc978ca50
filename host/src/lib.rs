//! The host side of Ringleader: an application opens a [`Node`], proposes entries through [`Handle`]s, and is handed
//! every committed entry, in the same order on every node, through its [`StateMachine`].

mod agent;
pub mod app;
pub mod cli;
pub mod clock;
mod command;
pub mod demo;
mod errors;
mod events;
pub mod fabric;
mod handle;
mod idle;
pub mod inspect;
mod lane;
mod lanes;
mod measure;
mod memory;
mod node;
mod options;
mod pin;
mod shared;
mod status;

pub use app::{Entry, Session, StateMachine};
pub use errors::{CloseError, FormError, MeasureError, OpenError, SubmitError};
pub use events::TimedEvent;
pub use handle::{Handle, Outcome, Ticket};
pub use idle::Idle;
pub use measure::Measurement;
pub use node::Node;
pub use options::Options;
pub use ringleader_core::event::{Event, GiveUp};
pub use ringleader_core::proposer::Quorum;
pub use ringleader_core::timing::Timing;
pub use status::{Follower, FollowerState, Role, Status};
