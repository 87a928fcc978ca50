//! A fault, as it was drawn, finds whom it may strike at this moment, and strikes.

use std::collections::BTreeSet;
use std::time::Duration;

use ringleader::Change;

use super::{Stage, Stop};
use crate::plan::{Fault, Whom};
use crate::totals::Happened;
use crate::wire::{Question, ask};

impl Stage<'_> {
    /// What was done, in words; `None` when there was nobody to do it to.
    pub(super) fn strike_with(&mut self, fault: &Fault) -> Result<Option<String>, Stop> {
        let ms = |ms: u64| Duration::from_millis(ms);
        match *fault {
            Fault::Kill(whom, back_ms) => {
                let Some(node) = self.find(whom, |stage, node| stage.may_lose(node)) else { return Ok(None) };
                self.group.kill(node)?;
                self.counts.add(Happened::Killed);
                self.lost(node, ms(back_ms));
                Ok(Some(format!("node {node} is killed")))
            }
            Fault::Close(whom, back_ms) => {
                let may_end = |stage: &Stage<'_>, node| stage.group.runs(node) && stage.may_lose(node);
                let Some(node) = self.find(whom, may_end) else { return Ok(None) };
                // It is killed when it does not end by itself; a node that closes answers nothing any more.
                let _ = ask(&self.dir, node, self.lately(), &Question::Close);
                self.group.kill(node)?;
                self.counts.add(Happened::Closed);
                self.lost(node, ms(back_ms));
                Ok(Some(format!("node {node} is told to end")))
            }
            Fault::Stop(whom, for_ms) => {
                let runs = |stage: &Stage<'_>, node| stage.group.runs(node);
                let Some(node) = self.find(whom, runs) else { return Ok(None) };
                self.stop(node, for_ms).map(Some)
            }
            Fault::StopMost(which, for_ms) => {
                let mut voters: Vec<u8> = self.committed("voter").collect();
                voters.retain(|node| self.group.runs(*node));
                if voters.is_empty() {
                    return Ok(None);
                }
                let count = (voters.len() / 2 + 1 + which as usize % 2).min(voters.len());
                let first = which as usize % voters.len();
                voters.rotate_left(first);
                let for_ms = for_ms.min(self.options.harmless_stop_ms());
                let mut said = Vec::new();
                for node in &voters[..count] {
                    said.push(self.stop(*node, for_ms)?);
                }
                Ok(Some(said.join(", ")))
            }
            Fault::Transfer(which) => {
                let leader = self.watch.leader(self.lately());
                let voters: Vec<u8> = self.committed("voter").filter(|node| Some(*node) != leader).collect();
                let Some(to) = pick(&voters, which).filter(|_| leader.is_some()) else { return Ok(None) };
                let timeout_ms = (self.lately() * 5).as_millis() as u64;
                self.begin_job(format!("transfer to {to}"), Question::Transfer { to, timeout_ms }, None);
                Ok(Some(format!("the lead is to go to {to}")))
            }
            Fault::Add(which) => {
                let spare: Vec<u8> =
                    (1..=self.round.members).filter(|node| !self.book.may_be_member(*node)).collect();
                let Some(node) = pick(&spare, which).filter(|node| !self.is_due(*node)) else {
                    return Ok(None);
                };
                // One that was removed, or whose addition failed, may be another life's: a fresh one is sure to be taken.
                self.group.kill(node)?;
                self.come_back(node, Duration::ZERO);
                self.begin_change(Change::Add { node, address: String::new() });
                Ok(Some(format!("node {node} is to come")))
            }
            Fault::Promote(which) => {
                let learners: Vec<u8> = self.committed("learner").collect();
                let change = pick(&learners, which).map(|node| Change::Promote { node });
                Ok(self.change_if_safe(change))
            }
            Fault::Remove(whom) => {
                let members = self.book.committed().members.len();
                let may_go = |stage: &Stage<'_>, node| stage.is_member(node);
                let change =
                    self.find(whom, may_go).filter(|_| members > 2).map(|node| Change::Remove { node });
                Ok(self.change_if_safe(change))
            }
        }
    }

    fn change_if_safe(&mut self, change: Option<Change>) -> Option<String> {
        let change =
            change.filter(|change| self.book.can_lose(&BTreeSet::new(), Some(change), &self.lives(false)))?;
        self.begin_change(change);
        Some("the members are to change".to_owned())
    }

    fn stop(&mut self, node: u8, for_ms: u64) -> Result<String, Stop> {
        let harmless_ms = self.options.harmless_stop_ms();
        let may_be_long = for_ms > harmless_ms && self.may_lose(node);
        let for_ms = if may_be_long { for_ms } else { for_ms.min(harmless_ms) };
        self.group.stop(node, Duration::from_millis(for_ms), may_be_long)?;
        self.counts.add(Happened::Stopped);
        Ok(format!("node {node} is stopped for {for_ms} ms"))
    }

    /// A process is gone, and another is to come.
    fn lost(&mut self, node: u8, back: Duration) {
        self.note_bare(node);
        self.come_back(node, back);
    }

    /// One of those whom a fault is meant for and may strike.
    fn find(&self, whom: Whom, may: impl Fn(&Stage<'_>, u8) -> bool) -> Option<u8> {
        let leader = self.watch.leader(self.lately());
        let all: Vec<u8> = self.group.alive().filter(|node| may(self, *node)).collect();
        match whom {
            Whom::Leader => leader.filter(|leader| all.contains(leader)),
            Whom::Follower(which) => {
                let others: Vec<u8> = all.into_iter().filter(|node| Some(*node) != leader).collect();
                pick(&others, which)
            }
            Whom::Any(which) => pick(&all, which),
        }
    }

    /// Whether the group goes on in the end without the memory of this node.
    fn may_lose(&self, node: u8) -> bool {
        self.book.can_lose(&BTreeSet::from([node]), None, &self.lives(false))
    }

    fn is_due(&self, node: u8) -> bool {
        self.starts.iter().any(|(_, due)| *due == node)
    }

    fn is_member(&self, node: u8) -> bool {
        self.book.committed().members.iter().any(|member| member.node == node)
    }

    /// Members with that role, as the newest configuration known committed has it.
    fn committed(&self, role: &str) -> impl Iterator<Item = u8> {
        let members = self.book.committed().members.iter();
        members.filter(move |member| member.role == role).map(|member| member.node)
    }
}

fn pick(of: &[u8], which: u64) -> Option<u8> {
    of.get((which % of.len().max(1) as u64) as usize).copied()
}
