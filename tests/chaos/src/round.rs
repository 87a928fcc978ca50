//! One round: a group is formed, clients begin, faults come as they were drawn, then all that is broken is mended, and
//! everything that was told is judged.

mod strike;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ringleader::Change;
use ringleader::demo::Carrier;
use ringleader::neighbours::Neighbours;
use ringleader::processes::{Fate, Signals};
use ringleader_tests::rng::Rng;

use crate::book::Book;
use crate::client::{Client, Load};
use crate::group::Group;
use crate::judge::judge;
use crate::plan::{Options, Round};
use crate::record::{Look, Moments, Record};
use crate::totals::{Counts, Happened};
use crate::watch::Watch;
use crate::wire::{Answer, How, Line, NodeStatus, Part, Question, Setup, ask};

/// Bytes of entries in a round: a list of as many of the smallest ones fits into a snapshot.
const ROOM: u64 = 7 << 20;
/// Between two looks at what is to be done.
const TICK: Duration = Duration::from_millis(4);
/// The bound of everything that is waited for, on shared memory.
const PATIENCE: Duration = Duration::from_secs(45);
/// What a node said is how it is, for so long.
const LATELY: Duration = Duration::from_millis(400);
/// Nobody asks more often than this to take back who lost its memory.
const READMIT_EVERY: Duration = Duration::from_millis(100);

/// How a round ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// All that was told is true, and the group got well.
    Well,
    /// More nodes were shot, or ended to fence others, than a group can lose: it has stopped, as it must. Nothing that was
    /// applied contradicts itself.
    Spent,
    /// Something was told that is not true.
    Wrong(String),
    /// The group did not get well in time.
    Stuck(String),
}

/// What became of a round.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub verdict: Verdict,
    /// What there was of everything.
    pub counts: Counts,
    /// What happened, a line each.
    pub events: Vec<String>,
}

/// Why there is no outcome.
#[derive(Debug)]
pub enum Error {
    /// The user ended it.
    Interrupted,
    /// Something of the machine.
    Io(io::Error),
    /// Something that nodes cannot do here.
    Impossible(String),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Io(error)
    }
}

/// Why a round goes no further.
enum Stop {
    Failed(Error),
    Ended(Verdict),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Failed(error.into())
    }
}

/// Plays a round in an empty directory. To be called by the thread that lives as long as the program; when it returns no
/// process is left.
pub fn play(
    program: &Path,
    round: &Round,
    options: &Options,
    dir: &Path,
    signals: &Signals,
) -> Result<Outcome, Error> {
    let neighbours = match options.carrier {
        Carrier::SharedMemory => None,
        _ => Some(Neighbours::arrange(round.members.into(), dir).map_err(Error::Impossible)?),
    };
    let devices = match &options.carrier {
        Carrier::Verbs { devices } => devices.clone(),
        Carrier::SharedMemory => Vec::new(),
    };
    let setup = Setup {
        dir: dir.to_owned(),
        node: 0,
        life: 0,
        members: round.members,
        founders: round.founders,
        ring_len: round.ring_len,
        profile: options.profile,
        readmits: round.readmits,
        lease_reads: round.lease_reads,
        stored: round.stored,
        wakes: round.wakes,
        readback: round.readback,
        part: if options.apart { Part::Host } else { Part::Whole },
        neighbours,
        plant: options.plant,
    };
    let slower = options.slower as u32;
    let every = Duration::from_millis(15) * slower;
    let (watch, watchers) = Watch::begin(dir, round.members, every, LATELY * slower);
    let mut stage = Stage {
        round,
        options,
        signals,
        dir: dir.to_owned(),
        group: Group::new(program.to_owned(), setup, devices),
        watch: Arc::clone(&watch),
        book: Book::default(),
        jobs: Vec::new(),
        clients: Vec::new(),
        is_over: Arc::default(),
        is_hopeless: Arc::default(),
        record: Record::default(),
        moments: Arc::default(),
        starts: Vec::new(),
        readmitted_at: Instant::now(),
        changed_at: Instant::now(),
        is_spent: false,
        bare: BTreeMap::new(),
        leaders: BTreeSet::new(),
        began: Instant::now(),
        counts: Counts::default(),
        events: Vec::new(),
    };
    let verdict = match stage.play() {
        Err(Stop::Ended(verdict)) => Ok(verdict),
        Err(Stop::Failed(error)) => Err(error),
        Ok(()) => Ok(Verdict::Well),
    };
    let outcome = stage.end(verdict);
    watch.end();
    for watcher in watchers {
        // One that panicked has said so.
        let _ = watcher.join();
    }
    outcome
}

/// Something that is asked of the leader, by a thread of its own.
struct Job {
    what: String,
    change: Option<Change>,
    done: mpsc::Receiver<Result<(), (String, bool)>>,
}

struct Stage<'a> {
    round: &'a Round,
    options: &'a Options,
    signals: &'a Signals,
    dir: PathBuf,
    group: Group,
    watch: Arc<Watch>,
    book: Book,
    jobs: Vec<Job>,
    clients: Vec<JoinHandle<Record>>,
    is_over: Arc<AtomicBool>,
    is_hopeless: Arc<AtomicBool>,
    record: Record,
    moments: Arc<Moments>,
    /// Nodes that are to be started, and when.
    starts: Vec<(Instant, u8)>,
    readmitted_at: Instant,
    /// When the last change ended: what was known of the members before says nothing of it.
    changed_at: Instant,
    /// More nodes were shot, or ended to fence others, than the group can lose.
    is_spent: bool,
    /// Nodes whose host came back with nothing, though their memory may have outlived it, until they have applied as much as was
    /// committed then.
    bare: BTreeMap<u8, u64>,
    /// Nodes that led, with their terms.
    leaders: BTreeSet<(u64, u8)>,
    began: Instant,
    counts: Counts,
    events: Vec<String>,
}

impl Stage<'_> {
    fn play(&mut self) -> Result<(), Stop> {
        self.form()?;
        self.begin_load();
        self.strike()?;
        self.mend()?;
        self.end_load()?;
        self.settle()?;
        self.look_at_all()
    }

    fn say(&mut self, what: impl std::fmt::Display) {
        self.events.push(format!("{:6} ms  {what}", self.began.elapsed().as_millis()));
    }

    fn patience(&self) -> Duration {
        PATIENCE * self.options.slower as u32
    }

    fn lately(&self) -> Duration {
        LATELY * self.options.slower as u32
    }

    fn form(&mut self) -> Result<(), Stop> {
        for node in 1..=self.round.founders {
            self.group.start(node)?;
        }
        let founders = self.round.founders;
        self.wait_for("the nodes to answer", |stage| {
            (1..=founders).all(|node| stage.watch.view(node).status.is_some())
        })?;
        let form = Question::Form { timeout_ms: self.patience().as_millis() as u64 };
        match ask(&self.dir, 1, self.patience(), &form) {
            Ok(Answer::Done) => {}
            other => return Err(self.stuck(&format!("the group was not formed: {other:?}"))),
        }
        self.wait_for("a first leader", |stage| {
            stage
                .watch
                .members(stage.lately())
                .is_some_and(|members| members.members.len() == usize::from(founders))
        })
    }

    fn begin_load(&mut self) {
        self.began = Instant::now();
        let mut rng = Rng::new(self.round.seed ^ 0x6c6f_6164);
        let load = Arc::new(Load {
            dir: self.dir.clone(),
            members: self.round.members,
            moments: Arc::clone(&self.moments),
            room: AtomicU64::new(ROOM),
            is_over: Arc::clone(&self.is_over),
            is_hopeless: Arc::clone(&self.is_hopeless),
            lease_reads: self.round.lease_reads,
            max_len: self.round.max_len,
            max_batch: self.round.max_batch,
            pause_us: self.round.pause_us * self.options.slower,
            patience: Duration::from_millis(self.round.patience_ms),
        });
        for id in 1..=self.round.clients {
            let (load, rng) = (Arc::clone(&load), rng.fork());
            self.clients.push(thread::spawn(move || Client::new(load, id, rng).run()));
        }
    }

    /// All faults, each at its time.
    fn strike(&mut self) -> Result<(), Stop> {
        let mut faults = self.round.faults.iter().peekable();
        let lasts = Duration::from_millis(self.round.lasts_ms);
        while self.began.elapsed() < lasts {
            self.tick()?;
            while let Some((_, fault)) =
                faults.next_if(|(at_ms, _)| Duration::from_millis(*at_ms) <= self.began.elapsed())
            {
                match self.strike_with(fault)? {
                    Some(how) => self.say(how),
                    None => {
                        self.counts.add(Happened::Passed);
                        self.say(format_args!("({fault}: nobody)"));
                    }
                }
            }
            thread::sleep(TICK);
        }
        Ok(())
    }

    /// What is to be done all the time: hears who ended, continues and starts whose time has come, takes back who may not come
    /// back by itself.
    fn tick(&mut self) -> Result<(), Stop> {
        if self.signals.is_raised() {
            return Err(Stop::Failed(Error::Interrupted));
        }
        for node in self.group.wake(false)? {
            self.say(format_args!("node {node} goes on"));
        }
        self.look_who_has_state();
        self.hear()?;
        for ended in self.group.ended()? {
            self.say(format_args!("node {}: {}", ended.node, ended.fate));
            match ended.fate {
                Fate::Closed => {}
                _ if ended.is_fence || ended.fate == Fate::Shot => {
                    self.counts.add(if ended.is_fence { Happened::Fenced } else { Happened::Shot });
                    let lost = BTreeSet::from([ended.node]);
                    self.is_spent |= !self.book.can_lose(&lost, None, &self.lives(true));
                    self.note_bare(ended.node);
                }
                fate => return Err(self.stuck(&format!("node {}: {fate}", ended.node))),
            }
            self.come_back(ended.node, Duration::from_millis(100));
        }
        let due: Vec<u8> =
            self.starts.extract_if(.., |(at, _)| *at <= Instant::now()).map(|(_, node)| node).collect();
        for node in due {
            if !self.group.lives(node) {
                self.watch.forget(node);
                self.group.start(node)?;
                self.counts.add(Happened::Restarted);
                self.say(format_args!("node {node} starts anew"));
            }
        }
        self.readmit();
        Ok(())
    }

    /// Takes in what the nodes say, and how what was asked has ended.
    fn hear(&mut self) -> Result<(), Stop> {
        for node in 1..=self.round.members {
            if let Some((status, asked)) = self.watch.view(node).status {
                self.group.handle_answer(node, asked);
                if status.leads && self.leaders.insert((status.term, node)) {
                    self.say(format_args!("node {node} leads in term {}", status.term));
                }
            }
        }
        if let Some(members) = self.watch.members(self.lately()) {
            self.book.handle_members(&members);
        }
        let mut ended = Vec::new();
        for (at, job) in self.jobs.iter().enumerate() {
            if let Ok(result) = job.done.try_recv() {
                ended.push((at, result));
            }
        }
        for (at, result) in ended.into_iter().rev() {
            let job = self.jobs.remove(at);
            self.changed_at = Instant::now();
            match result {
                Ok(()) => {
                    let what = if job.change.is_some() { Happened::Changed } else { Happened::Transferred };
                    self.counts.add(what);
                    self.say(format_args!("{}: done", job.what));
                    job.change.inspect(|change| self.book.end(change, false));
                }
                Err((why, unknown)) => {
                    self.say(format_args!("{}: {why}", job.what));
                    job.change.inspect(|change| self.book.end(change, !unknown));
                }
            }
        }
        Ok(())
    }

    /// The lives of the processes that are there; of those that others may shoot only when they are asked for.
    fn lives(&self, and_at_risk: bool) -> BTreeMap<u8, String> {
        let at_risk: BTreeSet<u8> = self.group.at_risk().filter(|_| !and_at_risk).collect();
        let life = |node: u8| Some((node, self.watch.view(node).status?.0.incarnation));
        let has_state = |node: &u8| !at_risk.contains(node) && !self.bare.contains_key(node);
        self.group.alive().filter(has_state).filter_map(life).collect()
    }

    /// A process of that node is gone, and with it what its application had.
    fn note_bare(&mut self, node: u8) {
        let committed = |node: u8| self.watch.view(node).status.map_or(0, |(status, _)| status.commit_index);
        let most = (1..=self.round.members).map(committed).max().unwrap_or(0);
        self.bare.insert(node, most);
        self.watch.forget(node);
    }

    fn look_who_has_state(&mut self) {
        let watch = &self.watch;
        let applied = |node: u8| watch.view(node).status.map_or(0, |(status, _)| status.applied_index);
        self.bare.retain(|node, most| applied(*node) < *most);
    }

    /// Asks something of whoever leads, beside everything else.
    fn begin_job(&mut self, what: String, question: Question, change: Option<Change>) {
        if let Some(change) = &change {
            self.book.begin(change);
        }
        let (sender, done) = mpsc::channel();
        let (watch, dir, patience) = (Arc::clone(&self.watch), self.dir.clone(), self.lately() * 10);
        let lately = self.lately();
        thread::spawn(move || {
            // When the round is over nobody waits for it.
            let _ = sender.send(ask_leader(&watch, &dir, &question, lately, patience));
        });
        self.jobs.push(Job { what, change, done });
    }

    fn begin_change(&mut self, change: Change) {
        let what = match &change {
            Change::Add { node, .. } => format!("add {node}"),
            Change::Promote { node } => format!("promote {node}"),
            Change::Remove { node } => format!("remove {node}"),
            Change::Readmit { node } => format!("readmit {node}"),
        };
        self.say(format_args!("{what}"));
        let timeout_ms = (self.lately() * 5).as_millis() as u64;
        let question = Question::Change { change: change.clone(), timeout_ms };
        self.begin_job(what, question, Some(change));
    }

    /// Where leaders do not do it by themselves, an operator takes back who lost its memory.
    fn readmit(&mut self) {
        if self.round.readmits || self.readmitted_at.elapsed() < READMIT_EVERY {
            return;
        }
        let Some(members) = self.watch.members(self.lately()) else { return };
        let is_asked = |node: u8| self.jobs.iter().any(|job| job.change == Some(Change::Readmit { node }));
        let lost = members.members.iter().find(|member| member.lost_memory && !is_asked(member.node));
        if let Some(node) = lost.map(|member| member.node) {
            self.readmitted_at = Instant::now();
            self.begin_change(Change::Readmit { node });
        }
    }

    fn come_back(&mut self, node: u8, after: Duration) {
        self.starts.push((Instant::now() + after, node));
    }

    /// Lets nothing be broken any more, and waits until the group is well while the clients go on.
    fn mend(&mut self) -> Result<(), Stop> {
        self.say("all faults are over");
        for node in self.group.wake(true)? {
            self.say(format_args!("node {node} goes on"));
        }
        for (at, _) in &mut self.starts {
            *at = Instant::now();
        }
        let begun = Instant::now();
        loop {
            self.tick()?;
            if self.is_well() {
                return Ok(());
            }
            // Whatever was asked for before has come about by then, or never will.
            self.bring_together(self.jobs.is_empty() && begun.elapsed() > self.lately() * 6)?;
            if begun.elapsed() > self.patience() {
                return Err(self.stuck("the group does not get well"));
            }
            thread::sleep(TICK);
        }
    }

    /// Starts members that have no process, and ends processes that are no members, when it is known who is.
    fn bring_together(&mut self, is_known: bool) -> Result<(), Stop> {
        let members = self.watch.members(self.lately());
        let members = members.as_ref().unwrap_or(self.book.committed());
        let ids: BTreeSet<u8> = members.members.iter().map(|member| member.node).collect();
        for node in 1..=self.round.members {
            let is_removed = self.watch.status(node, self.lately()).is_some_and(|status| status.removed);
            let lives = self.group.lives(node);
            if ids.contains(&node) && !lives && !self.starts.iter().any(|(_, due)| *due == node) {
                self.come_back(node, Duration::ZERO);
            }
            if lives && (is_removed || (is_known && !ids.contains(&node))) {
                self.say(format_args!("node {node} is no member, and ends"));
                self.group.kill(node)?;
                self.watch.forget(node);
            }
        }
        Ok(())
    }

    /// Whether all members run, in the lives that the leader's configuration names, and follow it.
    fn is_well(&self) -> bool {
        let lately = self.lately();
        let Some(leader) = self.watch.leader(lately) else { return false };
        let Some((members, known_at)) = self.watch.view(leader).members else { return false };
        let Some(leads) = self.watch.status(leader, lately) else { return false };
        let follows = |node: u8, incarnation: &str| {
            self.watch.status(node, lately).is_some_and(|status| {
                status.incarnation == incarnation
                    && status.term == leads.term
                    && status.leader == Some(leader)
            })
        };
        let ids: BTreeSet<u8> = members.members.iter().map(|member| member.node).collect();
        self.jobs.is_empty()
            && self.starts.is_empty()
            && known_at >= self.changed_at
            && known_at.elapsed() <= lately
            && members.index == members.committed_index
            && members
                .members
                .iter()
                .all(|member| member.role != "returning" && follows(member.node, &member.incarnation))
            && self.group.alive().eq(ids)
    }

    /// Waits for what the clients have begun.
    fn end_load(&mut self) -> Result<(), Stop> {
        self.is_over.store(true, Ordering::Relaxed);
        self.wait_for("the clients to hear what became of their commands", |stage| {
            stage.clients.iter().all(JoinHandle::is_finished)
        })?;
        self.join_clients();
        Ok(())
    }

    fn join_clients(&mut self) {
        for client in self.clients.drain(..) {
            match client.join() {
                Ok(record) => self.record.add(record),
                Err(_) => self.record.wrong.push("a client panicked".to_owned()),
            }
        }
    }

    /// Waits until all have applied everything.
    fn settle(&mut self) -> Result<(), Stop> {
        self.wait_for("all to apply everything", |stage| {
            let lately = stage.lately();
            let states: Option<Vec<NodeStatus>> =
                stage.group.alive().map(|node| stage.watch.status(node, lately)).collect();
            let Some(states) = states.filter(|_| stage.is_well()) else { return false };
            let first = (states[0].commit_index, states[0].listed);
            states.iter().all(|status| {
                (status.commit_index, status.listed) == first && status.applied_index == status.commit_index
            })
        })
    }

    /// At last each node is read from: by a follower's way, which all of them can.
    fn look_at_all(&mut self) -> Result<(), Stop> {
        let nodes: Vec<u8> = self.group.alive().collect();
        for node in nodes {
            self.wait_for("a last read", |stage| {
                let invoked = stage.moments.next();
                let how = How::Follower;
                let answer = ask(&stage.dir, node, stage.lately() * 10, &Question::Read { how });
                let Ok(Answer::Read { saw, digest }) = answer else { return false };
                let answered = stage.moments.next();
                stage.record.looks.push(Look { node, how, invoked, answered, saw, digest });
                true
            })?;
        }
        Ok(())
    }

    fn wait_for(&mut self, what: &str, mut so: impl FnMut(&mut Self) -> bool) -> Result<(), Stop> {
        let deadline = Instant::now() + self.patience();
        while !so(self) {
            self.tick()?;
            if Instant::now() > deadline {
                return Err(self.stuck(&format!("waits for {what}")));
            }
            thread::sleep(TICK);
        }
        Ok(())
    }

    /// The group does not get any further; how all nodes are goes with it.
    fn stuck(&mut self, why: &str) -> Stop {
        if self.is_spent {
            return Stop::Ended(Verdict::Spent);
        }
        for node in 1..=self.round.members {
            let lives = if self.group.runs(node) { "runs" } else { "does not run" };
            let view = self.watch.view(node);
            let status = view.status.map(|(status, at)| (at.elapsed().as_millis(), status));
            self.say(format_args!("node {node} {lives}: {status:?}"));
            if let Some((members, at)) = view.members {
                self.say(format_args!("    {} ms ago, as leader: {members}", at.elapsed().as_millis()));
            }
        }
        Stop::Ended(Verdict::Stuck(why.to_owned()))
    }

    /// Ends all processes and judges.
    fn end(mut self, verdict: Result<Verdict, Error>) -> Result<Outcome, Error> {
        self.is_over.store(true, Ordering::Relaxed);
        self.is_hopeless.store(true, Ordering::Relaxed);
        let whole = if matches!(verdict, Ok(Verdict::Well)) { self.group.lives_now() } else { Vec::new() };
        let nodes: Vec<u8> = self.group.alive().collect();
        for node in nodes {
            self.group.kill(node)?;
        }
        self.join_clients();
        let mut verdict = verdict?;
        let record = (verdict != Verdict::Spent).then_some(&self.record);
        if let Err(found) = judge(record, &self.group.applied(&whole)?) {
            verdict = match verdict {
                // Clients were told of entries that nobody had applied when everything was ended.
                Verdict::Stuck(why) => Verdict::Stuck(format!("{why}; {found}")),
                _ => Verdict::Wrong(found),
            };
        }
        self.counts.add_record(&self.record);
        self.counts.add_many(Happened::Leaders, self.leaders.len());
        let loads = |node| self.watch.view(node).status.map_or(0, |(status, _)| status.loads as usize);
        let loads = (1..=self.round.members).map(loads).sum();
        self.counts.add_many(Happened::Taken, loads);
        Ok(Outcome { verdict, counts: self.counts, events: self.events })
    }
}

/// Asks whoever leads, and whom that one names, until it is done or refused.
fn ask_leader(
    watch: &Watch,
    dir: &Path,
    question: &Question,
    lately: Duration,
    patience: Duration,
) -> Result<(), (String, bool)> {
    let mut next = None;
    let mut said = ("nobody leads".to_owned(), false);
    for _ in 0..8 {
        let Some(leader) = next.take().or_else(|| watch.leader(lately)) else {
            thread::sleep(lately / 8);
            continue;
        };
        let Ok(mut line) = Line::open(dir, leader, patience) else {
            thread::sleep(lately / 40);
            continue;
        };
        match line.ask(question) {
            Ok(Answer::Done) => return Ok(()),
            Ok(Answer::Refused { why, leader: Some(leader), .. }) => {
                (said, next) = ((why, false), Some(leader));
                thread::sleep(lately / 40);
            }
            Ok(Answer::Refused { why, unknown, .. }) => return Err((why, unknown)),
            Ok(other) => return Err((format!("{other:?}"), true)),
            Err(error) => return Err((error.to_string(), true)),
        }
    }
    Err(said)
}
