//! The search: depth first over all choices, on all threads, with every state seen once for what can still come of it.
//!
//! Bounded by *deviations* it follows a fixed schedule (queue pairs in order, then acceptors' ends, then nodes) that may be
//! left so many times: by holding back what is due until nothing else can happen, by letting something held back
//! happen early, by another order on one queue pair, by a proposal, a time-out, a crash or a stop before all is calm.
//! When all is calm, every choice is free. (What happens to a node before a step that does not touch it comes to the same
//! behind that step, and is tried only there.) Without that bound, everything that can happen is tried in every state.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::actions::{Action, World};
use super::fabric::{GATES, PIPES, PipeId};
use super::memory::NODES;
use super::state::{Life, State};
use crate::invariants::Violation;
use ringleader_core::types::NodeId;

const SHARDS: usize = 64;
const UNBOUNDED: u8 = u8::MAX;
/// Counted up to this.
pub const REACHED: usize = 5;

/// The way to a state.
#[derive(Debug)]
pub struct Way {
    choice: Choice,
    before: Option<Arc<Way>>,
}

impl Way {
    /// All choices on it, the first one first.
    pub fn choices(end: &Option<Arc<Way>>) -> Vec<Choice> {
        let mut found = Vec::new();
        let mut at = end;
        while let Some(way) = at {
            found.push(way.choice);
            at = &way.before;
        }
        found.reverse();
        found
    }
}

impl Drop for Way {
    // Not by recursion: a way can be longer than a stack is deep.
    fn drop(&mut self) {
        let mut next = self.before.take();
        while let Some(way) = next.and_then(|way| Arc::try_unwrap(way).ok()) {
            next = { way }.before.take();
        }
    }
}

/// One choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// It happens.
    Do(Action),
    /// What the fixed schedule would do next is held back.
    Hold(Task),
}

/// Something that makes steps: its place among all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Task(pub u8);

impl Task {
    fn all() -> impl Iterator<Item = Task> {
        (0..PIPES + GATES + NODES as usize).map(|at| Task(at as u8))
    }

    fn of(action: Action) -> Option<Task> {
        let at = match action {
            Action::Land(id, ..)
            | Action::Complete(id)
            | Action::Fail(id)
            | Action::FalseSuccess(id)
            | Action::Step(id) => id.at(),
            Action::Gate(acceptor, peer) => PIPES + super::fabric::pair_at(acceptor, peer),
            Action::Tick(node) => PIPES + GATES + node.slot() - 1,
            _ => return None,
        };
        Some(Task(at as u8))
    }

    fn bit(self) -> u32 {
        1 << self.0
    }
}

/// What a search came to.
#[derive(Debug)]
pub struct Outcome {
    /// Distinct states.
    pub states: u64,
    /// Choices tried.
    pub steps: u64,
    /// States in which nothing more could happen within the bounds.
    pub ends: u64,
    /// Longest way.
    pub longest: u64,
    /// States with so many candidacies, elections, and entries committed since the first state.
    pub reached: [[u64; REACHED]; 3],
    /// All of the bounded space was seen.
    pub exhausted: bool,
    /// What was found, and the way there.
    pub found: Option<(Violation, Vec<Choice>)>,
}

/// What others may look at while a search runs.
#[derive(Debug, Default)]
pub struct Progress {
    /// Distinct states so far.
    pub states: AtomicU64,
    /// Choices tried so far.
    pub steps: AtomicU64,
    /// States at the end of ways.
    pub ends: AtomicU64,
    /// Longest way so far.
    pub longest: AtomicU64,
    /// States with so many candidacies, elections, and entries committed, since the first state.
    pub reached: [[AtomicU64; REACHED]; 3],
    /// Set from outside to end it.
    pub stop: AtomicBool,
}

#[derive(Default)]
struct Whole(u64);

impl Hasher for Whole {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are hashes already")
    }

    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
}

type Seen = HashMap<u128, u8, BuildHasherDefault<Whole>>;

struct Frame {
    state: State,
    way: Option<Arc<Way>>,
    depth: u64,
    left: u8,
    todo: Vec<Offer>,
}

/// A choice, what it costs, and its outcome where that had to be found out already.
struct Offer {
    choice: Choice,
    cost: u8,
    ready: Option<State>,
}

struct Search<'a> {
    world: &'a World,
    progress: &'a Progress,
    max_states: u64,
    /// Elections and committed entries of the first state.
    base: (usize, usize),
    seen: Vec<Mutex<Seen>>,
    /// Frames that wait for a thread that has nothing to do.
    shared: Mutex<Vec<Frame>>,
    waiting: AtomicUsize,
    threads: usize,
    stop: AtomicBool,
    cut: AtomicBool,
    found: Mutex<Option<(Violation, Vec<Choice>)>>,
}

/// Searches all that is within the bounds of `world`, up to so many states.
pub fn search(world: &World, max_states: u64, threads: usize, progress: &Progress) -> Outcome {
    let first = world.first_state();
    let base =
        first.as_ref().map_or((0, 0), |first| (first.record.elected.len(), first.record.committed.len()));
    let search = Search {
        base,
        world,
        progress,
        max_states,
        seen: (0..SHARDS).map(|_| Mutex::default()).collect(),
        shared: Mutex::default(),
        waiting: AtomicUsize::new(0),
        threads: threads.max(1),
        stop: AtomicBool::new(false),
        cut: AtomicBool::new(false),
        found: Mutex::new(None),
    };
    match first {
        Ok(first) => {
            let left = world.bounds.deviations.unwrap_or(UNBOUNDED);
            match search.enter(first, None, 0, left) {
                Ok(frame) => search.shared.lock().expect("nobody has it yet").extend(frame),
                Err(found) => search.report(found, &None),
            }
        }
        Err(found) => search.report(found, &None),
    }
    std::thread::scope(|scope| {
        for _ in 0..search.threads {
            scope.spawn(|| search.work());
        }
    });
    Outcome {
        states: progress.states.load(Ordering::Relaxed),
        steps: progress.steps.load(Ordering::Relaxed),
        ends: progress.ends.load(Ordering::Relaxed),
        longest: progress.longest.load(Ordering::Relaxed),
        reached: std::array::from_fn(|what| {
            std::array::from_fn(|count| progress.reached[what][count].load(Ordering::Relaxed))
        }),
        exhausted: !search.cut.load(Ordering::Relaxed),
        found: search.found.into_inner().expect("no thread panics with it"),
    }
}

impl Search<'_> {
    fn work(&self) {
        let mut stack: Vec<Frame> = Vec::new();
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            if self.progress.stop.load(Ordering::Relaxed) {
                self.cut.store(true, Ordering::Relaxed);
                self.stop.store(true, Ordering::Relaxed);
                return;
            }
            let Some(frame) = stack.last_mut() else {
                match self.take() {
                    Some(frame) => stack.push(frame),
                    None => return,
                }
                continue;
            };
            let Some(offer) = frame.todo.pop() else {
                stack.pop();
                continue;
            };
            let left = if frame.left == UNBOUNDED { UNBOUNDED } else { frame.left - offer.cost };
            let entered = self.follow(frame, offer, left);
            match entered {
                Ok(Some(next)) => stack.push(next),
                Ok(None) => {}
                Err((found, way)) => self.report(found, &way),
            }
            self.donate(&mut stack);
        }
    }

    /// Gives the oldest frame away when somebody waits: what is behind it is the largest part.
    fn donate(&self, stack: &mut Vec<Frame>) {
        if self.waiting.load(Ordering::Relaxed) == 0 || stack.len() < 2 {
            return;
        }
        if let Some(at) =
            stack.iter().position(|frame| !frame.todo.is_empty()).filter(|at| at + 1 < stack.len())
        {
            let frame = stack.remove(at);
            self.shared.lock().expect("no thread panics with it").push(frame);
        }
    }

    fn take(&self) -> Option<Frame> {
        let mut counted = false;
        loop {
            {
                let mut shared = self.shared.lock().expect("no thread panics with it");
                if let Some(frame) = shared.pop() {
                    if counted {
                        self.waiting.fetch_sub(1, Ordering::Relaxed);
                    }
                    return Some(frame);
                }
                if !counted {
                    counted = true;
                    self.waiting.fetch_add(1, Ordering::Relaxed);
                }
                if self.waiting.load(Ordering::Relaxed) == self.threads {
                    self.stop.store(true, Ordering::Relaxed);
                }
            }
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
    }

    fn report(&self, found: Violation, way: &Option<Arc<Way>>) {
        let mut first = self.found.lock().expect("no thread panics with it");
        first.get_or_insert((found, Way::choices(way)));
        self.cut.store(true, Ordering::Relaxed);
        self.stop.store(true, Ordering::Relaxed);
    }

    fn follow(
        &self,
        frame: &Frame,
        offer: Offer,
        left: u8,
    ) -> Result<Option<Frame>, (Violation, Option<Arc<Way>>)> {
        self.progress.steps.fetch_add(1, Ordering::Relaxed);
        let way = Some(Arc::new(Way { choice: offer.choice, before: frame.way.clone() }));
        let next = match (offer.ready, offer.choice) {
            (Some(next), _) => Some(next),
            (None, Choice::Hold(task)) => {
                let mut next = frame.state.clone();
                next.held |= task.bit();
                Some(next)
            }
            (None, Choice::Do(action)) => match self.world.apply(&frame.state, action) {
                Ok(next) => next,
                Err(found) => return Err((found, way)),
            },
        };
        let Some(mut next) = next else { return Ok(None) };
        if let Choice::Do(action) = offer.choice
            && let Some(task) = Task::of(action)
        {
            next.held &= !task.bit();
        }
        self.enter(next, way.clone(), frame.depth + 1, left).map_err(|found| (found, way))
    }

    /// A frame for a state, unless all that can come of it was seen.
    fn enter(
        &self,
        mut state: State,
        way: Option<Arc<Way>>,
        depth: u64,
        left: u8,
    ) -> Result<Option<Frame>, Violation> {
        let hash = state.hash();
        {
            let shard = (hash >> 64) as usize % SHARDS;
            let mut seen = self.seen[shard].lock().expect("no thread panics with it");
            match seen.get_mut(&hash) {
                Some(best) if *best >= left => return Ok(None),
                Some(best) => *best = left,
                None => {
                    seen.insert(hash, left);
                    self.count(&state);
                    if self.progress.states.fetch_add(1, Ordering::Relaxed) + 1 >= self.max_states {
                        self.cut.store(true, Ordering::Relaxed);
                        self.stop.store(true, Ordering::Relaxed);
                    }
                }
            }
        }
        self.progress.longest.fetch_max(depth, Ordering::Relaxed);
        let todo =
            if left == UNBOUNDED { self.everything(&state) } else { self.scheduled(&mut state, left)? };
        if todo.is_empty() {
            self.progress.ends.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Some(Frame { state, way, depth, left, todo }))
    }

    fn count(&self, state: &State) {
        let counts = [
            usize::from(state.spent.candidates),
            state.record.elected.len() - self.base.0,
            state.record.committed.len() - self.base.1,
        ];
        for (reached, count) in self.progress.reached.iter().zip(counts) {
            reached[count.min(REACHED - 1)].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// All that can happen.
    fn everything(&self, state: &State) -> Vec<Offer> {
        let choices = self.world.choices(state).into_iter();
        choices.map(|action| Offer { choice: Choice::Do(action), cost: 0, ready: None }).collect()
    }

    /// What the fixed schedule does, and all that may happen instead. The last one is tried first.
    fn scheduled(&self, state: &mut State, left: u8) -> Result<Vec<Offer>, Violation> {
        let mut due = None;
        let mut held = Vec::new();
        for task in Task::all() {
            let is_held = state.held & task.bit() != 0;
            if due.is_some() && !is_held {
                continue;
            }
            let mut actions = Vec::new();
            let mut ready = None;
            let at = usize::from(task.0);
            if at < PIPES {
                let id = PipeId::all().nth(at).expect("a place of a posting end");
                self.world.pipe_actions(state, id, &mut actions);
            } else if at < PIPES + GATES {
                self.world.gate_actions(state, at - PIPES, &mut actions);
            } else {
                let id = NodeId((at - PIPES - GATES + 1) as u8);
                if state.node(id).life == Life::Running && !state.node(id).idle {
                    match self.world.apply(state, Action::Tick(id))? {
                        Some(next) => ready = Some(next),
                        None => state.node_mut(id).idle = true,
                    }
                }
                actions.extend(ready.is_some().then_some(Action::Tick(id)));
            }
            if actions.is_empty() {
                continue;
            }
            if is_held {
                held.push((actions, ready));
            } else {
                due = Some((task, actions, ready));
            }
        }
        // What comes first in the list is tried last: early deviations before late ones.
        let mut offers = Vec::new();
        let mut offer =
            |choice, cost, ready| offers.extend((cost <= left).then_some(Offer { choice, cost, ready }));
        let price = u8::from(due.is_some());
        let mut rest = Vec::new();
        if let Some((task, actions, mut ready)) = due {
            // A crash of somebody, or anything else at it, before a step that does not touch it, is the same behind that step.
            let touched = touches(actions[0]);
            for (at, action) in actions.into_iter().enumerate() {
                offer(Choice::Do(action), u8::from(at > 0), ready.take());
            }
            self.world.fault_actions(state, &mut rest);
            self.world.input_actions(state, &mut rest);
            rest.retain(|action| touches(*action).iter().any(|node| touched.contains(node)));
            offer(Choice::Hold(task), 1, None);
        } else {
            self.world.fault_actions(state, &mut rest);
            self.world.input_actions(state, &mut rest);
        }
        rest.into_iter().for_each(|action| offer(Choice::Do(action), price, None));
        for (actions, mut ready) in held {
            for (at, action) in actions.into_iter().enumerate() {
                offer(Choice::Do(action), price + u8::from(at > 0), ready.take());
            }
        }
        Ok(offers)
    }
}

/// The nodes that a step depends on or changes, with their queue pairs.
fn touches(action: Action) -> [NodeId; 2] {
    match action {
        Action::Tick(id)
        | Action::Wait(id)
        | Action::Propose(id)
        | Action::Read(id)
        | Action::Crash(id)
        | Action::Stop(id) => [id, id],
        Action::Gate(acceptor, peer) => [acceptor, peer],
        Action::Land(id, ..)
        | Action::Complete(id)
        | Action::Fail(id)
        | Action::FalseSuccess(id)
        | Action::Break(id)
        | Action::Step(id) => [id.from, id.to],
        Action::LandLate(to, _) => [to, to],
    }
}
