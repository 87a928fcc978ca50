//! The thread that gives agents their turns: those of many groups, one after the other, round after round.
//!
//! Where there is no thread, a caller gives the rounds: [`AgentThread::poll`].
//!
//! What ends one of them, a close or a panic of its application, does not touch the others: its turn is caught, and what
//! takes time of its end is left to another thread. What a node does not survive as a process ends them all.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(feature = "verbs")]
use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvError, Sender, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ringleader_core::types::Instant;
use tracing::{Span, error, warn};

use crate::agent::{Agent, Turn};
use crate::app::StateMachine;
use crate::errors::{CloseError, OpenError};
#[cfg(feature = "verbs")]
use crate::fabric::verbs::{Choice, Device, VerbsError};
use crate::fabric::{self, Bell, Fabric, Mapped};
use crate::idle::{Idle, Idler};
use crate::options::Options;
use crate::pin;

/// Groups that one thread can host.
pub const MAX_GROUPS: usize = 64;

/// Who waits for a node without a thread, and has nothing to do for it, sleeps so long between two rounds.
const NAP: Duration = Duration::from_micros(50);

/// In a round of all groups together nobody applies longer than this: beats wait meanwhile. No group gets less than the
/// least, which is some entries.
const APPLY_NS: u64 = 500_000;
const APPLY_LEAST_NS: u64 = 20_000;

/// What an [`AgentThread`] is started with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AgentOptions {
    /// Ties the thread to this processor.
    pub pin: Option<usize>,
    /// What it does when no group has anything to do.
    pub idle: Idle,
    /// Groups that it has room for, 1..=[`MAX_GROUPS`]. On an RDMA device its completion queues are made for as many.
    pub groups: usize,
}

impl Default for AgentOptions {
    fn default() -> AgentOptions {
        AgentOptions { pin: None, idle: Idle::default(), groups: MAX_GROUPS }
    }
}

/// One thread that hosts nodes of many groups ([`Node::open_on`](crate::Node::open_on)), on one processor and, where it is
/// an RDMA device, with one device and one completion queue a plane.
///
/// A value of this type is a handle: the thread ends when the last of them, and the last node, is gone.
///
/// For programs with a loop of their own there is one without a thread: [`AgentThread::polled`].
#[derive(Clone, Debug)]
pub struct AgentThread(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// `None` only while it is dropped.
    commands: Option<Sender<Command>>,
    thread: Option<JoinHandle<()>>,
    /// What the thread would run, where there is none.
    runner: Option<Mutex<Runner>>,
    places: Arc<Places>,
    rounds: Arc<AtomicU64>,
    pin: Option<usize>,
    /// Devices that are open, and what they were chosen by.
    #[cfg(feature = "verbs")]
    devices: Mutex<Vec<(Choice, Weak<Device>)>>,
}

/// Which of its places are taken.
#[derive(Debug)]
struct Places {
    taken: Mutex<u64>,
    count: usize,
}

/// A group's place on the thread, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    at: usize,
}

/// What came of a round that a caller gave: see [`AgentThread::poll`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Polled {
    /// Something was done: the next round may find more.
    Progress,
    /// There was nothing to do. The next round is due after so long at the latest, as long as no peer writes here and nobody proposes
    /// or reads; never, while no node is hosted.
    Idle {
        /// From now on.
        due: Option<Duration>,
    },
    /// Another round is under way, on another thread, or because a state machine called this.
    Elsewhere,
}

enum Command {
    /// Give this one turns, too.
    Host(Box<dyn Hosted>),
    /// End all of them. The other end hears nothing, and that when the last one has ended.
    CloseAll(Sender<()>),
}

impl AgentThread {
    /// Starts it, without a group.
    pub fn start(options: &AgentOptions) -> Result<AgentThread, OpenError> {
        check_groups(options.groups)?;
        AgentThread::start_as("ringleader".to_owned(), options)
    }

    /// The thread of a node that has its own.
    pub(crate) fn of_one(node: u8, pin: Option<usize>, idle: Idle) -> Result<AgentThread, OpenError> {
        AgentThread::start_as(format!("ringleader-{node}"), &AgentOptions { pin, idle, groups: 1 })
    }

    fn start_as(name: String, options: &AgentOptions) -> Result<AgentThread, OpenError> {
        let AgentOptions { pin, idle, groups } = *options;
        pin.map_or(Ok(()), pin::check).map_err(OpenError::Thread)?;
        let (commands, receiver) = mpsc::channel();
        let rounds = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&rounds);
        let thread = thread::Builder::new()
            .name(name)
            .spawn(move || {
                if let Some(core) = pin
                    && let Err(error) = pin::pin(core)
                {
                    warn!(%error, "runs unpinned");
                }
                let (hosted, idler) = (Vec::with_capacity(groups), Idler::new(idle));
                Runner { hosted, commands: receiver, idler, rounds: counter }.run();
            })
            .map_err(OpenError::Thread)?;
        Ok(AgentThread::of(commands, Some(thread), None, groups, rounds, pin))
    }

    /// One without a thread, for a program that has its own loop: its nodes have their turns when [`AgentThread::poll`] is called,
    /// and while one of the calls of [`Node`](crate::Node) waits. A node that gets no turn for longer than a few beats is taken for
    /// dead by the others.
    ///
    /// What waits at a [`Handle`](crate::Handle) or a [`Reader`](crate::Reader) gives no turns: poll them between the rounds.
    /// [`AgentOptions::pin`] is for the caller's thread, and none of this one's business.
    pub fn polled(options: &AgentOptions) -> Result<AgentThread, OpenError> {
        check_groups(options.groups)?;
        let (commands, receiver) = mpsc::channel();
        let rounds = Arc::new(AtomicU64::new(0));
        let (hosted, idler) = (Vec::with_capacity(options.groups), Idler::of_caller(options.idle));
        let runner = Runner { hosted, commands: receiver, idler, rounds: Arc::clone(&rounds) };
        Ok(AgentThread::of(commands, None, Some(Mutex::new(runner)), options.groups, rounds, None))
    }

    fn of(
        commands: Sender<Command>,
        thread: Option<JoinHandle<()>>,
        runner: Option<Mutex<Runner>>,
        groups: usize,
        rounds: Arc<AtomicU64>,
        pin: Option<usize>,
    ) -> AgentThread {
        AgentThread(Arc::new(Inner {
            commands: Some(commands),
            thread,
            runner,
            places: Arc::new(Places { taken: Mutex::new(0), count: groups }),
            rounds,
            pin,
            #[cfg(feature = "verbs")]
            devices: Mutex::default(),
        }))
    }

    /// Gives a round: every node on it has a turn, and returns at once. `None` where there is a thread for that.
    ///
    /// State machines are called from in here. Whoever calls this is the thread to them: they may borrow nothing of another one.
    pub fn poll(&self) -> Option<Polled> {
        self.round(Runner::poll)
    }

    /// The same, and when there was nothing to do it rests as the thread would: it spins, then yields, then sleeps, all the longer
    /// the more often, `limit` at the most.
    pub fn poll_or_rest(&self, limit: Duration) -> Option<Polled> {
        self.round(|runner| runner.poll_or_rest(limit))
    }

    fn round(&self, give: impl FnOnce(&mut Runner) -> Polled) -> Option<Polled> {
        Some(match self.0.runner.as_ref()?.try_lock() {
            Ok(mut runner) => give(&mut runner),
            // Nothing of it is left half done: what panics in a turn is caught.
            Err(TryLockError::Poisoned(runner)) => give(&mut runner.into_inner()),
            Err(TryLockError::WouldBlock) => Polled::Elsewhere,
        })
    }

    /// Waits for what a node on it is to say. Where there is no thread, who waits gives the rounds.
    pub(crate) fn wait_for<T>(&self, answer: &Receiver<T>) -> Result<T, RecvError> {
        if self.0.runner.is_none() {
            return answer.recv();
        }
        loop {
            match answer.try_recv() {
                Ok(said) => return Ok(said),
                Err(TryRecvError::Disconnected) => return Err(RecvError),
                Err(TryRecvError::Empty) => self.pause(NAP),
            }
        }
    }

    /// Lets some time pass, `nap` at the most; where there is no thread, with rounds.
    pub(crate) fn pause(&self, nap: Duration) {
        match self.poll() {
            Some(Polled::Progress) => {}
            Some(Polled::Idle { due }) => thread::sleep(due.unwrap_or(NAP).min(NAP).min(nap)),
            Some(Polled::Elsewhere) | None => thread::sleep(nap),
        }
    }

    /// Groups that it hosts.
    pub fn groups(&self) -> usize {
        self.0.places.lock().count_ones() as usize
    }

    /// Groups that it has room for.
    pub fn room(&self) -> usize {
        self.0.places.count
    }

    /// Rounds so far, in each of which every group had a turn. A node answers nobody for longer than a round takes.
    pub fn rounds(&self) -> u64 {
        self.0.rounds.load(Ordering::Relaxed)
    }

    /// Closes every node on it as [`Node::close`](crate::Node::close) does, and waits for that; how it went, that call then
    /// tells of each. The thread goes on, and takes other nodes.
    pub fn close_all(&self) {
        let (done, all) = mpsc::channel();
        self.send(Command::CloseAll(done));
        // Each of them held the other end until it had ended.
        let _ = self.wait_for(&all);
    }

    /// A place for a node with these options.
    pub(crate) fn take_place(&self, options: &Options) -> Result<Place, OpenError> {
        if let (Some(wanted), is) = (options.pin, self.0.pin)
            && is != Some(wanted)
        {
            let is = is.map_or_else(|| "not pinned".to_owned(), |core| format!("pinned to {core}"));
            let text = format!("node {} on processor {wanted}: its agent thread is {is}", options.node);
            return Err(OpenError::Option(text));
        }
        let places = &self.0.places;
        let mut taken = places.lock();
        let at = taken.trailing_ones() as usize;
        if at >= places.count {
            return Err(OpenError::Room { groups: places.count });
        }
        *taken |= 1 << at;
        Ok(Place { places: Arc::clone(places), at })
    }

    /// The device of that choice, which the groups on this thread share; opened for as many as there is room for when none of them
    /// has it yet.
    #[cfg(feature = "verbs")]
    pub(crate) fn device(&self, choice: &Choice, peers: usize) -> Result<Arc<Device>, VerbsError> {
        let mut devices = self.0.devices.lock().unwrap_or_else(PoisonError::into_inner);
        devices.retain(|(_, device)| device.strong_count() > 0);
        let open =
            devices.iter().find(|(chosen, _)| chosen == choice).and_then(|(_, device)| device.upgrade());
        if let Some(device) = open {
            return Ok(device);
        }
        let device = Device::open(choice, self.room(), peers)?;
        devices.push((choice.clone(), Arc::downgrade(&device)));
        Ok(device)
    }

    pub(crate) fn host(&self, guest: Box<dyn Hosted>) {
        self.send(Command::Host(guest));
    }

    fn send(&self, command: Command) {
        let commands = self.0.commands.as_ref().expect("only a drop takes it");
        assert!(commands.send(command).is_ok(), "an agent thread lives as long as there is a handle to it");
    }
}

fn check_groups(groups: usize) -> Result<(), OpenError> {
    if (1..=MAX_GROUPS).contains(&groups) {
        return Ok(());
    }
    Err(OpenError::Option(format!("an agent thread for {groups} groups: they are 1 to {MAX_GROUPS}")))
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.commands = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            error!("an agent thread panicked");
        }
    }
}

impl Places {
    fn lock(&self) -> MutexGuard<'_, u64> {
        // Whoever panicked with it changed nothing halfway.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Its number, on a thread that has room for several.
    pub(crate) fn of_several(&self) -> Option<usize> {
        (self.places.count > 1).then_some(self.at)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *self.places.lock() &= !(1 << self.at);
    }
}

/// What has turns on an agent thread.
pub(crate) trait Hosted: Send {
    /// See [`Agent::turn`].
    fn turn(&mut self, apply_ns: u64) -> Turn;

    /// See [`Agent::fall_asleep`].
    fn fall_asleep(&mut self) -> Option<Bell<'_>>;

    /// See [`Agent::wake_up`].
    fn wake_up(&mut self);

    /// What its lines in the log are marked with.
    fn span(&self) -> &Span;

    /// It gets no turn any more. Takes no time.
    fn close(&self);

    /// Ends it for good, on any thread.
    fn end(self: Box<Self>, panicked: bool);
}

/// What came of the end of one, once it has ended.
pub(crate) type Ended = Receiver<Result<(), CloseError>>;

/// An agent with a place on a thread.
pub(crate) struct Guest<F, S, E> {
    agent: Agent<Mapped, F, S>,
    /// Has the fabric's last word.
    last: E,
    ended: Sender<Result<(), CloseError>>,
    span: Span,
    place: Place,
}

impl<F, S, E> Guest<F, S, E>
where
    F: Fabric + Send + 'static,
    S: StateMachine,
    E: FnOnce(F) -> Result<(), CloseError> + Send + 'static,
{
    /// What came of its end can be had from the other value.
    pub(crate) fn new(
        agent: Agent<Mapped, F, S>,
        last: E,
        span: Span,
        place: Place,
    ) -> (Guest<F, S, E>, Ended) {
        let (ended, receiver) = mpsc::channel();
        (Guest { agent, last, ended, span, place }, receiver)
    }
}

impl<F, S, E> Hosted for Guest<F, S, E>
where
    F: Fabric + Send + 'static,
    S: StateMachine,
    E: FnOnce(F) -> Result<(), CloseError> + Send + 'static,
{
    fn turn(&mut self, apply_ns: u64) -> Turn {
        self.agent.turn(apply_ns)
    }

    fn fall_asleep(&mut self) -> Option<Bell<'_>> {
        self.agent.fall_asleep()
    }

    fn wake_up(&mut self) {
        self.agent.wake_up();
    }

    fn span(&self) -> &Span {
        &self.span
    }

    fn close(&self) {
        self.agent.close();
    }

    fn end(self: Box<Self>, panicked: bool) {
        let Guest { agent, last, ended, span, place } = *self;
        let _span = span.entered();
        let result = if panicked {
            // Its region stays, and peers find it closed.
            drop(agent);
            Err(CloseError::Panicked)
        } else {
            let orphaned = agent.is_orphaned();
            let ended = last(agent.finish());
            if orphaned { ended.and(Err(CloseError::Orphaned)) } else { ended }
        };
        // Whoever hears of the end finds the place free. The node may have been dropped without asking.
        drop(place);
        let _ = ended.send(result);
    }
}

/// The thread's own side, or that of who polls.
struct Runner {
    hosted: Vec<Box<dyn Hosted>>,
    commands: Receiver<Command>,
    idler: Idler,
    rounds: Arc<AtomicU64>,
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner").field("hosted", &self.hosted.len()).finish_non_exhaustive()
    }
}

/// What a round came to.
enum Round {
    Progress,
    Idle { now: Instant, until: Option<Instant>, may_sleep: bool },
}

impl Runner {
    /// Until every handle is gone, and every node.
    fn run(mut self) {
        loop {
            match self.hosted.len() {
                0 => match self.commands.recv() {
                    Ok(command) => self.handle(command),
                    Err(_) => return,
                },
                // Marked once and not in each turn.
                1 => {
                    let span = self.hosted[0].span().clone();
                    let _span = span.enter();
                    while self.hosted.len() == 1 {
                        self.round();
                    }
                }
                _ => self.round(),
            }
        }
    }

    fn handle(&mut self, command: Command) {
        match command {
            Command::Host(guest) => self.hosted.push(guest),
            Command::CloseAll(done) => {
                self.hosted.drain(..).for_each(|guest| end(guest, false, Some(done.clone())));
            }
        }
    }

    /// A turn of each, and a step of waiting when none of them had anything to do.
    fn round(&mut self) {
        let round = self.turns();
        self.rest(&round, u64::MAX);
    }

    /// A turn of each, for who has the thread to itself.
    fn poll(&mut self) -> Polled {
        let round = self.marked();
        round.polled()
    }

    fn poll_or_rest(&mut self, limit: Duration) -> Polled {
        let round = self.marked();
        self.rest(&round, u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
        round.polled()
    }

    /// Turns whose lines in the log are marked, also where one node is alone.
    fn marked(&mut self) -> Round {
        let span = if let [alone] = &*self.hosted { alone.span().clone() } else { Span::none() };
        span.in_scope(|| self.turns())
    }

    /// A step of waiting, after a round that found nothing to do.
    fn rest(&mut self, round: &Round, limit_ns: u64) {
        let &Round::Idle { now, until, may_sleep } = round else { return self.idler.reset() };
        let bound = (limit_ns < u64::MAX).then(|| now.after(limit_ns));
        let until = until.into_iter().chain(bound).min();
        let hosted = &mut self.hosted;
        self.idler.wait(now, until, |ns| may_sleep && sleep(hosted, ns));
    }

    fn turns(&mut self) -> Round {
        match self.commands.try_recv() {
            Ok(command) => self.handle(command),
            // Each node holds a handle: those that are hosted are being closed, and want their turn for that.
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => {}
        }
        // Nobody else writes it.
        self.rounds.store(self.rounds.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let count = self.hosted.len();
        let apply_ns = (APPLY_NS / count.max(1) as u64).max(APPLY_LEAST_NS);
        let (mut progress, mut may_all_sleep) = (false, true);
        let (mut at, mut latest, mut until) = (0, Instant(0), None::<Instant>);
        while let Some(guest) = self.hosted.get_mut(at) {
            // The others go on when it panics. It gets no turn any more, and so nobody sees what it left half done.
            let turn = catch_unwind(AssertUnwindSafe(|| match count {
                1 => guest.turn(apply_ns),
                _ => guest.span().clone().in_scope(|| guest.turn(apply_ns)),
            }));
            match turn {
                Ok(Turn::Progress) => progress = true,
                Ok(Turn::Idle { now, until: due, may_sleep }) => {
                    latest = latest.max(now);
                    until = until.into_iter().chain(due).min();
                    may_all_sleep &= may_sleep;
                }
                Ok(Turn::Ended) | Err(_) => {
                    progress = true;
                    end(self.hosted.remove(at), turn.is_err(), None);
                    continue;
                }
            }
            at += 1;
        }
        if progress { Round::Progress } else { Round::Idle { now: latest, until, may_sleep: may_all_sleep } }
    }
}

impl Round {
    fn polled(&self) -> Polled {
        match *self {
            Round::Progress => Polled::Progress,
            Round::Idle { now, until, .. } => {
                Polled::Idle { due: until.map(|until| Duration::from_nanos(until.since(now))) }
            }
        }
    }
}

/// Sleeps until a peer writes to any of them; false at once when that cannot be.
fn sleep(hosted: &mut [Box<dyn Hosted>], ns: u64) -> bool {
    let count = hosted.len();
    let mut bells: heapless::Vec<Bell<'_>, MAX_GROUPS> = heapless::Vec::new();
    for bell in hosted.iter_mut().map_while(|guest| guest.fall_asleep()) {
        // As many as there can be groups fit.
        let _ = bells.push(bell);
    }
    let asleep = bells.len();
    let slept = asleep == count && fabric::sleep(&bells, ns);
    drop(bells);
    hosted[..asleep].iter_mut().for_each(|guest| guest.wake_up());
    slept
}

/// Ends one: what takes time (memory is given back, queue pairs are destroyed, the application is dropped) on a thread of its
/// own, for the beats of the others do not wait. `done` is dropped when it has ended.
fn end(guest: Box<dyn Hosted>, panicked: bool, done: Option<Sender<()>>) {
    guest.close();
    let ending = Arc::new(Mutex::new(Some((guest, done))));
    let carry_out = {
        let ending = Arc::clone(&ending);
        move || {
            let taken = ending.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some((guest, _done)) = taken {
                guest.end(panicked);
            }
        }
    };
    if let Err(error) = thread::Builder::new().name("rl-ending".to_owned()).spawn(carry_out.clone()) {
        warn!(%error, "no thread to end a node on: the others wait for it");
        // What panics now has panicked with nobody to tell.
        let _ = catch_unwind(AssertUnwindSafe(carry_out));
    }
}
