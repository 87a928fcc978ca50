//! The load by which groups are counted: one client thread a node, with one proposal on its way, or so many, in each group that
//! the node leads. What a group cannot do alone, because each proposal waits for the one before it, several do side by side.

use std::ops::Range;

use super::Desk;
use crate::demo::now_ns;
use crate::demo::wire::Report;
use crate::idle::{Idle, Idler};
use crate::{Handle, Outcome, Role, SubmitError, clock};

/// A group under load.
struct Loaded {
    handle: Handle,
    /// Commits that count.
    commits: u64,
}

/// Proposes until the end of `window`; what was committed inside it counts.
pub(super) fn run(desks: &mut [Desk], depth: u64, window: Range<u64>, size: usize) -> Report {
    let payload = vec![0; size];
    let mut loaded: Vec<Option<Loaded>> = desks
        .iter()
        .map(|desk| {
            let leads = desk.node.status().role == Role::Leader;
            leads.then(|| Loaded { handle: desk.node.handle(), commits: 0 })
        })
        .collect();
    // The agents need the processors, too: it waits as they do.
    let mut idler = Idler::new(Idle::Adaptive);
    loop {
        let now = now_ns();
        if now >= window.end {
            break;
        }
        let mut progress = false;
        for place in &mut loaded {
            let Some(group) = place else { continue };
            let mut lost = false;
            while let Some((_, outcome)) = group.handle.poll() {
                progress = true;
                match outcome {
                    Outcome::Committed { .. } => group.commits += u64::from(window.contains(&now)),
                    _ => lost = true,
                }
            }
            while !lost && group.handle.outstanding() < depth {
                match group.handle.propose(&payload) {
                    Ok(_) => {}
                    Err(SubmitError::Full) if group.handle.outstanding() > 0 => break,
                    Err(_) => lost = true,
                }
            }
            if lost {
                // Whoever leads now was not told, and the figures show it.
                *place = None;
            }
        }
        if progress {
            idler.reset();
        } else {
            idler.wait(clock::now(), None, |_| false);
        }
    }
    let mut report = (0, 0);
    for group in loaded.iter_mut().flatten() {
        report = (report.0 + group.commits, report.1 + 1);
    }
    Report::Loaded { commits: report.0, groups: report.1 }
}
