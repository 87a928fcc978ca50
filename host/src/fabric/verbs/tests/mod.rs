//! Tests on a device. They are always compiled, and run where there is one: `make lab` runs them on soft-RoCE in a virtual
//! machine, with `--ignored`. What a software NIC cannot show: posted writes of a bus, and what a firmware does in RESET.

mod fabric;
mod fence;
mod groups;
mod host_log;
mod limits;

use super::Choice;
use super::trial::rig::{Hub, Node};

const A: u8 = 1;
const B: u8 = 2;

/// Two nodes that know each other.
fn two() -> (Node, Node) {
    // What went wrong at the device is only logged. A second test finds the subscriber there.
    let _ = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).without_time().try_init();
    let hub = Hub::default();
    let node = |node, peer| Node::new(&hub, node, &[peer], &Choice::default(), None).expect("a device");
    (node(A, B), node(B, A))
}
