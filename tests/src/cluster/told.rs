//! What replicas tell and ask for in a round: events, to whom they matter, and verbs.

use ringleader_core::event::Event;
use ringleader_core::replica::Replica;
use ringleader_core::types::NodeId;
use ringleader_core::verb::Class;

use super::{Cluster, at, of};
use crate::fabric::{is_host, node_of};
use crate::invariants::Violation;

impl Cluster {
    /// Hears what a replica has to tell; its application applies then.
    pub(super) fn events(&mut self, id: NodeId) -> Result<bool, Violation> {
        while let Some(event) = self.nodes[at(id)].replica.as_mut().and_then(Replica::poll_event) {
            if !matches!(event, Event::Committed { .. }) {
                self.note(|| format!("node {id}: {event:?}"));
            }
            let kind = match event {
                Event::GaveUp { reason, .. } => format!("gave up: {reason:?}"),
                other => format!("{other:?}").split([' ', '{']).next().unwrap_or_default().to_owned(),
            };
            *self.events.entry(kind).or_default() += 1;
            match event {
                Event::GaveUp { term, .. } => self.forget(node_of(id), Some(term)),
                Event::Behind { node } => self.nodes[at(node)].behind = true,
                Event::SaveSnapshot { .. } | Event::LoadSnapshot { .. } => self.begin_job(id, event),
                Event::Abort { .. } => {
                    self.fabric.faults.aborts += 1;
                    self.nodes[at(id)].aborted = true;
                }
                // What a host has to apply next is a lap behind in its acceptor's ring.
                Event::Stuck { position }
                    if is_host(id)
                        && self.plan.snapshot_len == 0
                        && self.members[of(node_of(id))].parts.0.anchor.position.0
                            > position.0 + self.plan.ring_len => {}
                Event::Stuck { position } => {
                    return Err(Violation::new(5, format!("node {id} is stuck at {position}")));
                }
                _ => {}
            }
            // The event may speak of what status showed only after the last look.
            self.see(id);
            let now_ns = self.fabric.now_ns();
            // Of an acceptor's events none is about the group but its promises, which are judged by its memory.
            if self.proposes(id) {
                self.watch.event(node_of(id), &event, &self.members, now_ns, &mut self.client)?;
            }
            self.read_event(id, &event)?;
            if let Event::Committed { index, .. } = event {
                self.note(|| format!("node {id} commits up to entry {index}"));
            }
        }
        if self.proposes(id) {
            self.reads_end(id)?;
            self.apply(id)?;
        }
        Ok(true)
    }

    /// Posts verbs; false when it stopped in the middle.
    pub(super) fn verbs(&mut self, id: NodeId) -> Result<bool, Violation> {
        while let Some(verb) = self.nodes[at(id)].replica.as_mut().and_then(Replica::poll_verb) {
            if verb.id().class == Class::Beat {
                // The beat may say what a verb before it has moved.
                self.see(id);
            }
            self.watch.posted(node_of(id), &verb, &self.members)?;
            self.fabric.post(id, verb);
            if self.springs_on(id, &verb) {
                return Ok(false);
            }
            if self.rng.chance(self.plan.stutter_ppm / 4) {
                self.fabric.faults.stutters += 1;
                return Ok(false);
            }
        }
        Ok(true)
    }
}
