//! A client: a thread that writes its commands in their order and reads in between, of all nodes, and records what it is told.
//!
//! It tries a command until it knows that it is committed, and lets none out: the group is judged by that, and its end of the
//! round waits for it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use ringleader_tests::rng::Rng;

use crate::list::Command;
use crate::record::{Attempt, Look, Moments, Record};
use crate::wire::{Answer, How, Line, NotRead, Question, WriteEnd};

/// What all clients of a round share.
#[derive(Debug)]
pub struct Load {
    /// Where the nodes are asked.
    pub dir: PathBuf,
    /// They are 1 to this.
    pub members: u8,
    /// Orders what the clients do.
    pub moments: Arc<Moments>,
    /// Bytes that may still go into the log.
    pub room: AtomicU64,
    /// Commands begun come to their end, and no others are begun.
    pub is_over: Arc<AtomicBool>,
    /// Nothing is waited for any more.
    pub is_hopeless: Arc<AtomicBool>,
    /// Whether leases may be read by.
    pub lease_reads: bool,
    /// Most bytes of a payload.
    pub max_len: u64,
    /// Most commands in one question.
    pub max_batch: u64,
    /// What a client does between two questions, at most.
    pub pause_us: u64,
    /// How long it waits for an answer.
    pub patience: Duration,
}

/// What the log adds to a payload, and what it is rounded up to.
const OVERHEAD: u64 = 32 + 8 + 64;

/// See the module.
#[derive(Debug)]
pub struct Client {
    load: Arc<Load>,
    id: u32,
    rng: Rng,
    lines: Vec<Option<Line>>,
    /// Who is said to lead.
    leader: u8,
    /// Commands begun and not known to be committed: the first of them, and so many.
    number: u32,
    open: u32,
    attempts: u64,
    record: Record,
}

impl Client {
    /// A client of that number, 1, 2, 3, ….
    pub fn new(load: Arc<Load>, id: u32, rng: Rng) -> Client {
        let lines = (0..=load.members).map(|_| None).collect();
        Client { load, id, rng, lines, leader: 1, number: 1, open: 0, attempts: 0, record: Record::default() }
    }

    /// Writes and reads until the load is over and all its commands are committed; what it was told.
    pub fn run(mut self) -> Record {
        while !self.load.is_hopeless.load(Ordering::Relaxed) {
            let is_over = self.load.is_over.load(Ordering::Relaxed);
            if is_over && self.open == 0 {
                break;
            }
            if !is_over && self.rng.chance(400_000) {
                self.read();
            } else {
                self.write(is_over);
            }
            thread::sleep(Duration::from_micros(self.rng.below(self.load.pause_us + 1)));
        }
        self.record
    }

    fn write(&mut self, is_over: bool) {
        let len = self.rng.within((crate::list::MIN_LEN as u64, self.load.max_len));
        if self.open == 0 {
            self.open = 1 + self.rng.below(self.load.max_batch) as u32;
        }
        let needed = u64::from(self.open) * (len + OVERHEAD);
        let room = self.load.room.load(Ordering::Relaxed);
        // What was begun may be in the log already, and is to be known: it goes on, whatever room there is.
        let is_begun = self.record.attempts.last().is_some_and(|last| last.command.number >= self.number);
        if !is_begun && (is_over || room < needed) {
            self.open = 0;
            return;
        }
        // Clients that look at the same time may take a little more than there is.
        self.load.room.store(room.saturating_sub(needed), Ordering::Relaxed);
        let (first, count) = (self.number, self.open);
        let attempt = u64::from(self.id) << 40 | (self.attempts + 1);
        self.attempts += u64::from(count);
        let invoked = self.load.moments.next();
        let begun = self.record.attempts.len();
        for at in 0..count {
            let command = Command { client: self.id, number: first + at, attempt: attempt + u64::from(at) };
            let attempt = Attempt { command, invoked, acknowledged: None, effect: None };
            self.record.attempts.push(attempt);
        }
        let question = Question::Write { client: self.id, first, attempt, count, len: len as u32 };
        match self.ask(self.leader, &question) {
            Ok(Answer::Written(ends)) => self.written(begun, &ends),
            Ok(_) | Err(_) => self.look_elsewhere(None),
        }
    }

    fn written(&mut self, begun: usize, ends: &[WriteEnd]) {
        let now = self.load.moments.next();
        let mut is_broken = false;
        for (attempt, end) in self.record.attempts[begun..].iter_mut().zip(ends) {
            match *end {
                WriteEnd::Committed { index, effect } => {
                    attempt.acknowledged = Some((now, index));
                    attempt.effect = effect;
                    if is_broken {
                        self.record.wrong.push(format!("{attempt:?} is committed, and one before it is not"));
                    } else {
                        self.number += 1;
                        self.open -= 1;
                    }
                }
                WriteEnd::Unknown => is_broken = true,
                WriteEnd::NotProposed { leader } => {
                    if !is_broken {
                        is_broken = true;
                        match leader {
                            Some(leader) => self.leader = leader,
                            None => self.leader = 0,
                        }
                    }
                }
            }
        }
        if is_broken {
            self.look_elsewhere(Some(self.leader).filter(|leader| *leader != 0));
        }
    }

    fn read(&mut self) {
        let how = self.rng.pick(&How::ALL);
        let node = if how == How::Follower { self.any() } else { self.leader };
        let invoked = self.load.moments.next();
        let answer = self.ask(node, &Question::Read { how });
        let answered = self.load.moments.next();
        match answer {
            Ok(Answer::Read { saw, digest }) => {
                if how == How::Lease && !self.load.lease_reads {
                    self.record.wrong.push(format!("node {node} read by a lease that was not allowed"));
                }
                self.record.looks.push(Look { node, how, invoked, answered, saw, digest });
            }
            Ok(Answer::NotRead(why)) => {
                self.record.not_read += 1;
                match why {
                    NotRead::Endless => {
                        self.record.wrong.push(format!("a {how:?} read of node {node} does not end"));
                    }
                    NotRead::NotAllowed if self.load.lease_reads => {
                        self.record.wrong.push(format!("node {node} refuses to read by its lease"));
                    }
                    NotRead::NotLeader(leader) => self.look_elsewhere(leader),
                    _ => {}
                }
            }
            Ok(_) | Err(_) if how != How::Follower => self.look_elsewhere(None),
            Ok(_) | Err(_) => {}
        }
    }

    fn look_elsewhere(&mut self, leader: Option<u8>) {
        match leader.filter(|leader| (1..=self.load.members).contains(leader)) {
            Some(leader) => self.leader = leader,
            None => {
                self.leader = self.any();
                thread::sleep(Duration::from_millis(self.rng.within((1, 8))));
            }
        }
    }

    fn any(&mut self) -> u8 {
        self.rng.within((1, u64::from(self.load.members))) as u8
    }

    fn ask(&mut self, node: u8, question: &Question) -> io::Result<Answer> {
        let place = &mut self.lines[usize::from(node)];
        let line = match place {
            Some(line) => line,
            None => place.insert(Line::open(&self.load.dir, node, self.load.patience)?),
        };
        let answer = line.ask(question);
        if answer.is_err() {
            // An answer that comes late is nobody's.
            *place = None;
        }
        answer
    }
}
