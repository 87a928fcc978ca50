//! The applications of a group's nodes: they are handed entries, write their state, and become another's, in the time that it takes
//! them; now and then they cannot.

use ringleader_core::event::Event;
use ringleader_core::types::NodeId;

use super::{Cluster, at, of};
use crate::application::Application;
use crate::fabric::{SimArea, is_host, node_of};
use crate::history;
use crate::invariants::Violation;

/// Entries a loop applies at most.
const APPLY_BATCH: usize = 64;

/// What an application has been told to do, and is not through with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    event: Event,
    until_ns: u64,
}

impl Cluster {
    /// A node's application is told to save or to load; it takes its time.
    pub(super) fn begin_job(&mut self, id: NodeId, event: Event) {
        let takes = self.rng.within(self.plan.job_ns);
        let until_ns = self.now_ns().saturating_add(takes);
        self.nodes[at(id)].job = Some(Job { event, until_ns });
        if let Event::SaveSnapshot { .. } = event {
            self.fabric.faults.snapshots_saved += 1;
            // Some of it is there at once, whole or not.
            let node = &self.nodes[at(id)];
            let _ = node.application.save(self.plan.state_len / 2, self.area(id));
        }
    }

    /// It is through with it, if it is.
    pub(super) fn end_job(&mut self, id: NodeId) -> Result<(), Violation> {
        let now_ns = self.now_ns();
        let Some(job) = self.nodes[at(id)].job else { return Ok(()) };
        if now_ns < job.until_ns.max(self.nodes[at(id)].stalled_until_ns) {
            return Ok(());
        }
        self.nodes[at(id)].job = None;
        let fails = self.rng.chance(self.plan.job_fails_ppm);
        self.fabric.faults.snapshots_failed += u64::from(fails);
        let now = self.nodes[at(id)].clock_read;
        match job.event {
            Event::SaveSnapshot { number } => {
                let saved = self.nodes[at(id)].application.save(self.plan.state_len, self.area(id)).ok();
                if let Some(replica) = &mut self.nodes[at(id)].replica {
                    replica.handle_saved(now, number, saved.filter(|_| !fails));
                }
                self.see(id);
                Ok(())
            }
            Event::LoadSnapshot { number, len } => self.load(id, number, len, fails),
            _ => Ok(()),
        }
    }

    fn load(&mut self, id: NodeId, number: u32, len: u64, fails: bool) -> Result<(), Violation> {
        let now = self.nodes[at(id)].clock_read;
        let loaded = self.area(id).lend_loading(len).and_then(Application::load);
        let Some(loaded) = loaded else {
            return Err(Violation::new(5, format!("node {id} is to load {len} bytes that are no state")));
        };
        let node = &mut self.nodes[at(id)];
        if !fails {
            node.application = loaded;
        }
        if let Some(replica) = &mut node.replica {
            replica.handle_loaded(now, number, !fails);
        }
        self.see(id);
        if fails {
            return Ok(());
        }
        self.fabric.faults.snapshots_loaded += 1;
        self.watch.loaded(node_of(id), &loaded, &self.members)
    }

    /// Hands its application what is committed.
    pub(super) fn apply(&mut self, id: NodeId) -> Result<(), Violation> {
        let stalled = self.nodes[at(id)].stalled_until_ns > self.now_ns();
        for _ in 0..if stalled { 0 } else { APPLY_BATCH } {
            let mut applied = None;
            let more = self.nodes[at(id)].replica.as_mut().is_some_and(|replica| {
                replica.apply(|entry| applied = Some((entry.index, history::hash(entry.payload))))
            });
            if !more {
                break;
            }
            if let Some((index, payload)) = applied {
                self.nodes[at(id)].application.apply(index, payload);
                // The history must know what the anchor has passed before applications are compared with it.
                if self.watch.history.at(index).is_none() {
                    self.watch.after_step(node_of(id), &self.members, &self.fabric, &mut self.client)?;
                }
                self.watch.applied(node_of(id), index, payload, &self.members)?;
            }
        }
        Ok(())
    }

    fn area(&self, id: NodeId) -> &SimArea {
        if is_host(id) {
            return &self.nodes[at(id)].snapshot;
        }
        &self.members[of(id)].home.snapshot
    }
}
