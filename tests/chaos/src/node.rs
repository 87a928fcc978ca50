//! One node as a process: it opens a replica by the library, with the list as its state machine, and does what it is asked
//! over its socket, a thread a connection.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{self, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use ringleader::config::Notify;
use ringleader::processes::die_with_parent;
use ringleader::{
    Acceptor, ChangeMembersError, Confirm, Entry, Half, Handle, LeaseReads, Node, Options, Outcome, Quorum,
    ReadOutcome, Reader, Readmit, Role, StateMachine, TransferError,
};
use ringleader_core::membership::ChangeError;

use crate::list::{Applied, Command, List, RECORD_LEN};
use crate::wire::{Answer, How, Line, NodeStatus, NotRead, Part, Plant, Question, Setup, WriteEnd};

/// How long an acknowledgement waits for what its command came to.
const EFFECT_WITHIN: Duration = Duration::from_millis(50);
/// Every read has ended long before, but for the time that its process was stopped.
const ENDLESS: Duration = Duration::from_secs(30);
/// Bytes of the longest list, saved.
const SNAPSHOT_LEN: u64 = 4 << 20;
/// A planted mistake is made once in so many cases.
const PLANTED_EVERY: u64 = 50;

/// The list, and who waits for it to grow.
struct Shared {
    list: Mutex<List>,
    grew: Condvar,
    /// States of other nodes that this one has taken.
    loads: AtomicU64,
}

impl Shared {
    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a command took effect, once the entry is applied here.
    fn effect(&self, index: u64, client: u32, number: u32) -> Option<u64> {
        let deadline = Instant::now() + EFFECT_WITHIN;
        let mut list = self.list();
        while list.last() < index {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            list = self.grew.wait_timeout(list, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        list.effect(client, number)
    }
}

/// The list as a replica's state machine.
struct Machine {
    shared: Arc<Shared>,
    /// What a killed process has applied is judged, too: it is written down at once.
    file: File,
    plant: Option<Plant>,
    node: u8,
}

impl StateMachine for Machine {
    fn apply(&mut self, entry: Entry<'_>) {
        let command = Command::decode(entry.payload).unwrap_or(Command { client: 0, number: 0, attempt: 0 });
        let applied = Applied { index: entry.index.0, term: entry.term.0, command };
        let is_planted = applied.index.is_multiple_of(PLANTED_EVERY);
        let times = match self.plant {
            Some(Plant::Doubled) if is_planted => 2,
            Some(Plant::Skipped) if is_planted && self.node == 1 => 0,
            _ => 1,
        };
        let mut list = self.shared.list();
        for _ in 0..times {
            list.apply(applied);
            self.file.write_all(&applied.record()).expect("the file of applied entries is written");
        }
        self.shared.grew.notify_all();
    }

    fn save(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let bytes = self.shared.list().save();
        out.write_all(&bytes)
    }

    fn load(&mut self, state: &[u8]) -> io::Result<()> {
        let mut list = self.shared.list();
        // What is here already is its beginning; if not, that is judged by the file.
        let known = list.applied().len() * RECORD_LEN;
        self.file.write_all(state.get(known..).unwrap_or_default())?;
        *list = List::load(state);
        self.shared.loads.fetch_add(1, Ordering::Relaxed);
        self.shared.grew.notify_all();
        Ok(())
    }
}

/// What the connections share.
struct Served {
    setup: Setup,
    shared: Arc<Shared>,
    /// `None` once it is closed.
    node: RwLock<Option<Node>>,
}

/// Runs a node for the process `parent`, until it is told to end.
pub fn run(parent: u32, setup: &str) -> ExitCode {
    let setup = die_with_parent(parent).map_err(|error| error.to_string()).and_then(|bound| {
        if !bound {
            return Err("is started by `chaos`, not by hand".to_owned());
        }
        serde_json::from_str::<Setup>(setup).map_err(|error| error.to_string())
    });
    let ran = setup.and_then(|setup| match setup.part {
        Part::Acceptor => hold(&setup),
        _ => Served::open(setup)?.listen().map_err(|error| error.to_string()),
    });
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("chaos node: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Options of this process.
fn options_of(setup: &Setup) -> Result<Options, String> {
    let mut options = Options::new(&setup.dir, setup.node, (1..=setup.members).collect::<Vec<u8>>());
    options.founders = (1..=setup.founders).collect();
    options.ring_len = setup.ring_len;
    options.snapshot_len = Some(SNAPSHOT_LEN);
    options.half = if setup.part == Part::Host { Half::Proposer } else { Half::Whole };
    options.confirm = if setup.readback { Confirm::Readback } else { Confirm::Completion };
    options.timing = setup.profile.timing();
    options.readmit = if setup.readmits { Readmit::Auto } else { Readmit::Ask };
    options.lease_reads = setup.lease_reads.then_some(LeaseReads { clocks_drift_below_ppm: 1000 });
    options.quorum = if setup.stored { Quorum::Stored } else { Quorum::Live };
    options.notify = if setup.wakes { Notify::Imm } else { Notify::Poll };
    if let Some(neighbours) = &setup.neighbours {
        options.transport = neighbours.transport(setup.node, "chaos")?;
    }
    Ok(options)
}

/// An acceptor, until it is killed.
fn hold(setup: &Setup) -> Result<(), String> {
    let acceptor = Acceptor::open(options_of(setup)?).map_err(|error| error.to_string())?;
    while !acceptor.status().closed {
        while acceptor.next_event().is_some() {}
        thread::sleep(Duration::from_millis(50));
    }
    Err("the acceptor has ended".to_owned())
}

impl Served {
    fn open(setup: Setup) -> Result<Arc<Served>, String> {
        let file = File::create(Setup::applied(&setup.dir, setup.node, setup.life));
        let file = file.map_err(|error| error.to_string())?;
        let shared =
            Arc::new(Shared { list: Mutex::default(), grew: Condvar::new(), loads: AtomicU64::new(0) });
        let options = options_of(&setup)?;
        let machine = Machine { shared: Arc::clone(&shared), file, plant: setup.plant, node: setup.node };
        let node = Node::open(options, machine).map_err(|error| error.to_string())?;
        Ok(Arc::new(Served { setup, shared, node: RwLock::new(Some(node)) }))
    }

    fn listen(self: Arc<Self>) -> io::Result<()> {
        let path = Setup::socket(&self.setup.dir, self.setup.node);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        for socket in UnixListener::bind(path)?.incoming() {
            let (served, socket) = (Arc::clone(&self), socket?);
            // The asker that does not wait for an answer any more has closed its end.
            thread::spawn(move || drop(Connection::new(&served).serve(socket)));
        }
        Ok(())
    }

    /// Something done with the node, unless it is closed.
    fn with<T>(&self, what: impl FnOnce(&Node) -> T) -> Option<T> {
        self.node.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(what)
    }

    fn status(&self) -> Answer {
        let listed = self.shared.list().last();
        let status = self.with(|node| {
            let status = node.status();
            let follower = |follower: &ringleader::Follower| {
                let at = (follower.matched_position, follower.applied_position);
                let counts = if follower.counts { "counts" } else { "does not count" };
                format!("{} {:?} {at:?} {counts}", follower.node, follower.state)
            };
            NodeStatus {
                loads: self.shared.loads.load(Ordering::Relaxed),
                incarnation: format!("{:016x}", node.incarnation()),
                formed: status.formed,
                leads: status.role == Role::Leader,
                term: status.term,
                leader: status.leader,
                commit_index: status.commit_index,
                applied_index: status.applied_index,
                listed,
                removed: status.removed,
                voters: status.voters,
                lost: status.lost,
                followers: status.followers.iter().map(follower).collect::<Vec<_>>().join("; "),
            }
        });
        status.map_or_else(closed, |status| Answer::Status(Box::new(status)))
    }

    /// Closes the node and ends the process. What other threads had under way ends unanswered, as in a crash.
    fn close(&self) -> ! {
        let node = self.node.write().unwrap_or_else(PoisonError::into_inner).take();
        match node.map(Node::close) {
            None | Some(Ok(())) => process::exit(0),
            Some(Err(error)) => {
                eprintln!("chaos node: did not close: {error}");
                process::exit(1)
            }
        }
    }
}

fn closed() -> Answer {
    Answer::Refused { why: "the node is closed".to_owned(), unknown: true, leader: None }
}

/// One asker.
struct Connection<'a> {
    served: &'a Served,
    handle: Option<Handle>,
    reader: Option<Reader>,
    asked: u64,
}

impl Connection<'_> {
    fn new(served: &Served) -> Connection<'_> {
        Connection { served, handle: None, reader: None, asked: 0 }
    }

    fn serve(mut self, socket: UnixStream) -> io::Result<()> {
        let mut line = Line::on(socket);
        loop {
            let question: Question = line.hear()?;
            self.asked += 1;
            let answer = self.answer(question);
            line.say(&answer)?;
        }
    }

    fn answer(&mut self, question: Question) -> Answer {
        let served = self.served;
        let within = Duration::from_millis;
        match question {
            Question::Write { client, first, attempt, count, len } => {
                self.write(client, first, attempt, count, len)
            }
            Question::Read { how } => self.read(how),
            Question::Status => served.status(),
            Question::Members => match served.with(Node::members) {
                Some(Ok(members)) => Answer::Members(members),
                _ => closed(),
            },
            Question::Change { change, timeout_ms } => {
                let done = served.with(|node| node.change_members(&change, within(timeout_ms)));
                done.map_or_else(closed, |done| {
                    done.map_or_else(|error| change_refused(&error), |()| Answer::Done)
                })
            }
            Question::Transfer { to, timeout_ms } => {
                let done = served.with(|node| node.transfer(to, within(timeout_ms)));
                done.map_or_else(closed, |done| done.map_or_else(transfer_refused, |()| Answer::Done))
            }
            Question::Form { timeout_ms } => match served.with(|node| node.form(within(timeout_ms))) {
                Some(Ok(())) => Answer::Done,
                Some(Err(error)) => Answer::Refused { why: error.to_string(), unknown: false, leader: None },
                None => closed(),
            },
            Question::Close => served.close(),
        }
    }

    /// Proposes all of them before it looks at the first outcome: a handle leaves no gaps, and nor may this.
    fn write(&mut self, client: u32, first: u32, attempt: u64, count: u32, len: u32) -> Answer {
        let shared = &self.served.shared;
        if self.handle.is_none() {
            self.handle = self.served.with(Node::handle);
        }
        let Some(handle) = &mut self.handle else { return closed() };
        let mut payload = Vec::new();
        let mut proposed = 0;
        let mut lost = None;
        for at in 0..count {
            let command = Command { client, number: first + at, attempt: attempt + u64::from(at) };
            if self.served.setup.plant == Some(Plant::Lost) && command.attempt.is_multiple_of(PLANTED_EVERY) {
                lost = Some(at);
                break;
            }
            command.encode(len as usize, &mut payload);
            if handle.propose(&payload).is_err() {
                break;
            }
            proposed += 1;
        }
        let mut ends = Vec::new();
        while ends.len() < proposed {
            let number = first + ends.len() as u32;
            ends.push(match handle.wait(ENDLESS) {
                Some((_, Outcome::Committed { index })) => {
                    WriteEnd::Committed { index, effect: shared.effect(index, client, number) }
                }
                Some((_, Outcome::NotLeader { leader })) => WriteEnd::NotProposed { leader },
                // A proposal of a stopped group waits until it is known to be stopped; then it ends like this, too.
                Some((_, _)) => WriteEnd::Unknown,
                None => continue,
            });
        }
        if lost.is_some() {
            ends.push(WriteEnd::Committed { index: shared.list().last() + 1, effect: None });
        }
        ends.resize(count as usize, WriteEnd::NotProposed { leader: None });
        Answer::Written(ends)
    }

    fn read(&mut self, how: How) -> Answer {
        let look = |shared: &Shared| {
            let list = shared.list();
            Answer::Read { saw: list.last(), digest: list.digest() }
        };
        if self.served.setup.plant == Some(Plant::Stale) && how == How::Follower {
            return look(&self.served.shared);
        }
        if self.reader.is_none() {
            self.reader = self.served.with(Node::reader);
        }
        let Some(reader) = &mut self.reader else { return Answer::NotRead(NotRead::NotThere) };
        match reader.read(how.read(), ENDLESS) {
            Some(ReadOutcome::Ready { .. }) => look(&self.served.shared),
            Some(ReadOutcome::Failed(why)) => Answer::NotRead(NotRead::Failed(why.to_string())),
            Some(ReadOutcome::NotLeader { leader }) => Answer::NotRead(NotRead::NotLeader(leader)),
            Some(ReadOutcome::NoLeaseReads) => Answer::NotRead(NotRead::NotAllowed),
            Some(_) => Answer::NotRead(NotRead::NotThere),
            None => {
                self.reader = None;
                Answer::NotRead(NotRead::Endless)
            }
        }
    }
}

fn change_refused(error: &ChangeMembersError) -> Answer {
    let leader = match error {
        ChangeMembersError::Refused(ChangeError::NotLeader { leader }) if leader.is_valid() => Some(leader.0),
        _ => None,
    };
    let unknown = !matches!(error, ChangeMembersError::Refused(_) | ChangeMembersError::Address);
    Answer::Refused { why: error.to_string(), unknown, leader }
}

fn transfer_refused(error: TransferError) -> Answer {
    let leader = match error {
        TransferError::NotLeader { leader } => leader,
        _ => None,
    };
    Answer::Refused { why: error.to_string(), unknown: error == TransferError::Timeout, leader }
}
