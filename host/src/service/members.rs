//! What a running node is asked about the members of its group, and how it answers over its socket.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::control::Answer;
use crate::members::{Change, NewGroupError};
use crate::{Node, Role};

/// Makes a change, and gives up waiting when the node is to end.
pub(super) fn change(node: &Node, change: &Change, timeout: Duration, stop: &AtomicBool) -> Answer {
    match node.change_members_unless(change, timeout, || stop.load(Ordering::Relaxed)) {
        Ok(()) => list(node),
        Err(error) => Answer::Failed { why: error.to_string() },
    }
}

/// Who is in the group.
pub(super) fn list(node: &Node) -> Answer {
    match node.members() {
        Ok(members) => Answer::Members(members),
        Err(error) => Answer::Failed { why: error.to_string() },
    }
}

/// What making a new group of this node would mean; and makes it, when it is to be forced.
pub(super) fn recover(node: &Node, force: bool) -> Answer {
    let failed = |error: NewGroupError| Answer::Failed { why: error.to_string() };
    if let Err(error) = node.may_force_new_group() {
        return failed(error);
    }
    let before = node.status();
    if force {
        if let Err(error) = node.force_new_group() {
            return failed(error);
        }
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(10) && node.status().role != Role::Leader {
            thread::sleep(Duration::from_millis(5));
        }
    }
    let after = node.status();
    Answer::Recovery {
        forced: force,
        group: format!("{:032x}", before.group),
        new_group: if force { format!("{:032x}", after.group) } else { String::new() },
        commit_index: before.commit_index,
        voters: before.voters,
        lost: before.lost,
    }
}
