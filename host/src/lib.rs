//! The host side of Ringleader: an application opens a [`Node`], proposes entries through [`Handle`]s, and is handed
//! every committed entry, in the same order on every node, through its [`StateMachine`].

pub mod app;
pub mod cli;
pub mod errors;
pub mod fabric;
pub mod idle;
pub mod measure;
pub mod node;
pub mod options;
pub mod status;

pub use app::{Entry, StateMachine};
pub use errors::{CloseError, FormError, MeasureError, OpenError, SubmitError};
pub use idle::Idle;
pub use measure::Measurement;
pub use node::{Handle, Node, Outcome, Ticket, TimedEvent};
pub use options::{Options, Quorum};
pub use ringleader_core::event::{Event, GiveUp};
pub use ringleader_core::timing::Timing;
pub use status::{Follower, FollowerState, Role, Status};
