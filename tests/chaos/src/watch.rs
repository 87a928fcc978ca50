//! What the nodes say of themselves, asked again and again by a thread a node: who leads, who is in the group, how far each is.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ringleader::Members;

use crate::wire::{Answer, Line, NodeStatus, Question};

/// What a node said last.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// How it is, and since when that is known.
    pub status: Option<(NodeStatus, Instant)>,
    /// Who is in the group, as it knew it when it led.
    pub members: Option<(Members, Instant)>,
    /// The process that says so.
    life: u32,
}

/// See the module.
#[derive(Debug)]
pub struct Watch {
    dir: PathBuf,
    every: Duration,
    patience: Duration,
    /// By node.
    views: Mutex<Vec<View>>,
    is_over: AtomicBool,
}

impl Watch {
    /// Watches nodes 1 to `members` of a round, with so long between two looks, until the watch is over.
    pub fn begin(
        dir: &Path,
        members: u8,
        every: Duration,
        patience: Duration,
    ) -> (Arc<Watch>, Vec<JoinHandle<()>>) {
        let watch = Arc::new(Watch {
            dir: dir.to_owned(),
            every,
            patience,
            views: Mutex::new(vec![View::default(); usize::from(members) + 1]),
            is_over: AtomicBool::new(false),
        });
        let threads = (1..=members).map(|node| {
            let watch = Arc::clone(&watch);
            thread::spawn(move || watch.look_at(node))
        });
        let threads = threads.collect();
        (watch, threads)
    }

    /// No more.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Another process is, or will be, this node: what the former one said is forgotten.
    pub fn forget(&self, node: u8) {
        let view = &mut self.views()[usize::from(node)];
        *view = View { life: view.life + 1, ..View::default() };
    }

    /// What a node said last.
    pub fn view(&self, node: u8) -> View {
        self.views()[usize::from(node)].clone()
    }

    /// How a node was lately.
    pub fn status(&self, node: u8, lately: Duration) -> Option<NodeStatus> {
        let (status, at) = self.view(node).status?;
        (at.elapsed() <= lately).then_some(status)
    }

    /// Who leads, of those heard lately.
    pub fn leader(&self, lately: Duration) -> Option<u8> {
        let views = self.views();
        let leads = |view: &View| {
            let (status, at) = view.status.as_ref()?;
            (status.leads && at.elapsed() <= lately).then_some(status.term)
        };
        let leader = views.iter().enumerate().filter_map(|(node, view)| Some((leads(view)?, node))).max();
        leader.map(|(_, node)| node as u8)
    }

    /// Who is in the group, as the leader said lately.
    pub fn members(&self, lately: Duration) -> Option<Members> {
        let leader = self.leader(lately)?;
        let (members, at) = self.view(leader).members?;
        (at.elapsed() <= lately).then_some(members)
    }

    fn views(&self) -> MutexGuard<'_, Vec<View>> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look_at(&self, node: u8) {
        let mut line = None;
        while !self.is_over.load(Ordering::Relaxed) {
            let life = self.view(node).life;
            if self.ask(node, life, &mut line).is_none() {
                line = None;
            }
            thread::sleep(self.every);
        }
    }

    /// `None` when the connection is of no more use.
    fn ask(&self, node: u8, life: u32, line: &mut Option<Line>) -> Option<()> {
        let line = match line {
            Some(line) => line,
            None => line.insert(Line::open(&self.dir, node, self.patience).ok()?),
        };
        // What is answered was so after this.
        let asked = Instant::now();
        let Ok(Answer::Status(status)) = line.ask(&Question::Status) else { return None };
        let members = if status.leads {
            match line.ask(&Question::Members) {
                Ok(Answer::Members(members)) => Some((members, asked)),
                _ => return None,
            }
        } else {
            None
        };
        let view = &mut self.views()[usize::from(node)];
        if view.life == life {
            view.status = Some((*status, asked));
            view.members = members.or(view.members.take());
        }
        Some(())
    }
}
