//! One step of one node: a call of the core, what a host does behind it, and the judgement of both.

use std::sync::Arc;

use ringleader_core::event::Event;
use ringleader_core::mem::Area;
use ringleader_core::replica::{Replica, Status};
use ringleader_core::types::{Instant, NodeId};
use ringleader_core::verb::{Source, Verb};

use super::actions::World;
use super::canonical::{form_of, form_of_words};
use super::fabric::PipeId;
use super::invariants::{self, Step};
use super::memory::{AreaKind, Lent, Words};
use super::state::{State, leads};
use crate::invariants::Violation;

/// What a replica did in one step.
struct Did {
    replica: Replica<Lent>,
    words: Option<Words>,
    step: Step,
}

impl World {
    /// A node makes a step; says whether anything changed.
    pub(crate) fn step_node(
        &self,
        state: &mut State,
        id: NodeId,
        posts: bool,
        input: impl FnOnce(&mut Replica<Lent>, Instant),
    ) -> Result<bool, Violation> {
        let node = state.node(id);
        let now = Instant(node.clock);
        let before = node.replica.status();
        let mut replica = (*node.replica).clone();
        let run = || {
            let mut step = Step::default();
            input(&mut replica, now);
            step.take_events(&mut replica);
            if posts {
                while replica.apply(|entry| step.applied.push((entry.index, entry.payload.to_vec()))) {}
                while let Some(verb) = replica.poll_verb() {
                    step.posted.push((verb, source_of(&verb)));
                }
            }
            step
        };
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.map.lend(&node.words, run)));
        let (step, words) = ran.map_err(|panic| {
            let what = panic.downcast_ref::<String>().cloned();
            let what = what.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            Violation::new(0, format!("node {id}: {}", what.unwrap_or_else(|| "it panicked".into())))
        })?;
        let did = Did { replica, words, step };
        self.settle_step(state, id, &before, did)
    }

    fn settle_step(
        &self,
        state: &mut State,
        id: NodeId,
        before: &Status,
        did: Did,
    ) -> Result<bool, Violation> {
        let Did { replica, words, step } = did;
        let form = form_of(&replica);
        let node = state.node_mut(id);
        let words = words.unwrap_or_else(|| Arc::clone(&node.words));
        let image = form_of_words(&self.map, id, leads(&replica), &words);
        if form == *node.form && image == *node.image && step.is_nothing() {
            // The same in all that matters: stay with what there was, so that nothing seems to move.
            node.idle = true;
            return Ok(false);
        }
        (node.words, node.image) = (words, Arc::new(image));
        (node.replica, node.form, node.idle) = (Arc::new(replica), Arc::new(form), false);
        let campaigns = step.events.iter().filter(|event| matches!(event, Event::Campaign { .. })).count();
        state.spent.candidates = state.spent.candidates.saturating_add(campaigns as u8);
        self.check_sources(state, id)?;
        invariants::after_step(self, state, id, before, &step)?;
        if !step.posted.is_empty() {
            state.on_fabric(|fabric| {
                step.posted.into_iter().for_each(|(verb, source)| fabric.post(id, verb, source));
            });
        }
        Ok(true)
    }

    /// Invariant 11: no source byte changes while a request that reads it is outstanding. Judged after each step of the
    /// poster, so that whenever a half is sent it carries what was posted.
    fn check_sources(&self, state: &State, id: NodeId) -> Result<(), Violation> {
        let ops = PipeId::all().filter(|pipe| pipe.from == id).flat_map(|pipe| &state.fabric.pipe(pipe).ops);
        for op in ops {
            if let (Verb::Write { source, from, len, .. }, Some(posted)) = (op.verb, &op.source) {
                let local = if source == Source::Staging { AreaKind::Staging } else { AreaKind::Log };
                if state.node(id).words[self.map.find(local, from, u64::from(len))] != posted[..] {
                    let what =
                        format!("node {id}: the source of {:?} changed while it was outstanding", op.verb);
                    return Err(Violation::new(11, what));
                }
            }
        }
        Ok(())
    }
}

/// What a WRITE is to carry, as it stands in the memory of the replica that runs.
fn source_of(verb: &Verb) -> Option<Words> {
    let Verb::Write { source, from, len, .. } = *verb else { return None };
    let areas = Lent::areas();
    let area: &Area<Lent> = if source == Source::Staging { &areas.staging } else { &areas.log };
    let mut words = vec![0; len as usize / 8];
    area.read(from, &mut words);
    Some(words.into())
}
