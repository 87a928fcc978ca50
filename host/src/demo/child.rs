//! One node of a demo: a process that opens a replica, or one of each of several groups on one agent thread, and does what the
//! demo tells it over the socket it was born with.
//!
//! One thread (with a desk a group) talks to the demo and to the agent. It waits for the demo's bytes in `poll`, with a timeout
//! short enough for outcomes and events, and never spins: the agents need the processors.

mod load;

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use ringleader_core::event::Event;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};

use super::keeper::{Counters, Writer, keeper};
use super::reads::{Board, Readers};
use super::wire::{
    Commits, Frame, GroupSetup, Happening, Inbox, Measured, Order, Outbox, Quantiles, Report, Setup, State,
};
use super::{now_ns, proposal};
use crate::processes::die_with_parent;
use crate::{AgentOptions, AgentThread, Confirm, Handle, Idle, Node, Options, Outcome, Quorum, SubmitError};

/// How long the desk sleeps when nothing comes: with proposals on their way, and without.
const NAP_BUSY: Duration = Duration::from_micros(200);
const NAP_IDLE: Duration = Duration::from_millis(2);
/// How long a lead may take to be handed over.
const TRANSFER: Duration = Duration::from_secs(2);
/// A node tells how far it is at most this often.
const STATE_EVERY: Duration = Duration::from_millis(5);

/// Runs a node for the demo with process id `parent`, until it is told to end or the demo is gone.
pub fn run(parent: u32) -> ExitCode {
    match die_with_parent(parent) {
        Err(error) => {
            eprintln!("ringleader node: cannot bind its life to its parent's: {error}");
            return ExitCode::FAILURE;
        }
        Ok(true) => {}
        Ok(false) => {
            // A demo hands its nodes a socket: then it is dead, and there is nobody to be told.
            if !fstat(io::stdin()).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket)
            {
                eprintln!("ringleader node: is started by `ringleader demo`, not by hand");
            }
            return ExitCode::from(2);
        }
    }
    let socket = match io::stdin().as_fd().try_clone_to_owned() {
        Ok(socket) => UnixStream::from(socket),
        Err(error) => {
            eprintln!("ringleader node: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut line = Line { socket, inbox: Inbox::default(), outbox: Outbox::default() };
    match serve(&mut line) {
        Ok(code) => code,
        // The demo is gone, or ends without a word: nothing is left to be told.
        Err(_) => ExitCode::FAILURE,
    }
}

fn serve(line: &mut Line) -> io::Result<ExitCode> {
    let setup = loop {
        if let Some((_, Frame::Message(Order::Open(setup)))) = line.inbox.take::<Order>()? {
            break setup;
        }
        if !line.inbox.receive(&mut line.socket)? {
            return Ok(ExitCode::FAILURE);
        }
    };
    match Office::open(&setup) {
        Err(message) => {
            line.say(&Report::Refused { message })?;
            Ok(ExitCode::from(2))
        }
        Ok(mut office) => {
            line.say(&Report::Opened)?;
            while !office.closing {
                office.round(line)?;
            }
            office.close(line)
        }
    }
}

/// The socket to the demo.
struct Line {
    socket: UnixStream,
    inbox: Inbox,
    outbox: Outbox,
}

impl Line {
    fn say(&mut self, report: &Report) -> io::Result<()> {
        self.outbox.push(report);
        self.outbox.send(&mut self.socket)
    }

    /// Waits for bytes, at most for `nap`.
    fn wait(&mut self, nap: Duration) -> io::Result<()> {
        let nap = Timespec { tv_sec: 0, tv_nsec: i64::from(nap.subsec_nanos()) };
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        match poll(&mut fds, Some(&nap)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(()),
            done => done?,
        };
        if self.inbox.receive(&mut self.socket)? { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

/// A run of proposals that the desk hands to the agent as long as all of them are taken.
#[derive(Default)]
struct Stream {
    id: u32,
    /// What came from the demo and is not with the agent yet, with the number of the first.
    waiting: VecDeque<Vec<u8>>,
    next: u64,
    /// One was not taken: nothing after it may be, or an order that was broken would be acknowledged.
    over: bool,
    /// The demo knows that it is over.
    told: bool,
}

/// The desks of all groups.
struct Office {
    desks: Vec<Desk>,
    closing: bool,
}

impl Office {
    fn open(setup: &Setup) -> Result<Office, String> {
        let idle = if setup.busy { Idle::Busy } else { Idle::Adaptive };
        let options = AgentOptions { idle, groups: setup.groups.len(), ..AgentOptions::default() };
        let agent = AgentThread::start(&options).map_err(|error| error.to_string())?;
        let desks: Result<Vec<Desk>, String> =
            setup.groups.iter().map(|group| Desk::open(&agent, setup, group)).collect();
        Ok(Office { desks: desks?, closing: false })
    }

    /// Everything once: orders, proposals, outcomes, events; then what is to be said goes out in one piece.
    fn round(&mut self, line: &mut Line) -> io::Result<()> {
        let waiting = self.desks.iter().any(Desk::waits);
        line.wait(if waiting { NAP_BUSY } else { NAP_IDLE })?;
        while let Some((group, frame)) = line.inbox.take::<Order>()? {
            line.outbox.of(group);
            let Some(desk) = self.desks.get_mut(usize::from(group)) else { continue };
            match frame {
                Frame::Batch(batch) => {
                    let stream = &mut desk.stream;
                    let expected = stream.next + stream.waiting.len() as u64;
                    if batch.stream == stream.id && !stream.over && batch.first == expected {
                        stream.waiting.extend(batch.map(<[u8]>::to_vec));
                    }
                }
                Frame::Message(Order::Close) => self.closing = true,
                Frame::Message(Order::Load { groups, depth, from_ns, until_ns, size }) => {
                    let count = usize::from(groups).min(self.desks.len());
                    let report = load::run(&mut self.desks[..count], depth, from_ns..until_ns, size);
                    line.outbox.push(&report);
                }
                Frame::Message(order) => desk.obey(order, &mut line.outbox, &mut line.socket)?,
            }
        }
        for (group, desk) in self.desks.iter_mut().enumerate() {
            line.outbox.of(group as u8);
            desk.propose();
            desk.take_events(&mut line.outbox);
            desk.take_outcomes(&mut line.outbox)?;
            desk.tell_state(&mut line.outbox);
        }
        line.outbox.send(&mut line.socket)
    }

    fn close(self, line: &mut Line) -> io::Result<ExitCode> {
        for (group, desk) in self.desks.into_iter().enumerate() {
            line.outbox.of(group as u8);
            desk.close(line)?;
        }
        line.socket.shutdown(Shutdown::Write)?;
        Ok(ExitCode::SUCCESS)
    }
}

struct Desk {
    node: Node,
    handle: Handle,
    client: u64,
    counters: Arc<Counters>,
    writer: Option<Writer>,
    board: Board,
    readers: Option<Readers>,
    stream: Stream,
    /// Stream and number of each proposal that the agent has, in its order.
    outstanding: VecDeque<(u32, u64)>,
    commits: Option<Commits>,
    /// Earlier commits do not count.
    counting_from_ns: u64,
    told: State,
    told_at: Instant,
    told_broken: bool,
    payload: Vec<u8>,
}

impl Desk {
    fn open(agent: &AgentThread, setup: &Setup, group: &GroupSetup) -> Result<Desk, String> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&group.applied)
            .map_err(|error| format!("{}: {error}", group.applied.display()))?;
        let (keeper, writer, counters) =
            keeper(group.client, file).map_err(|error| format!("writing thread: {error}"))?;
        let members: Vec<u8> = (1..=setup.nodes).collect();
        let mut options = Options::new(group.regions.clone(), setup.node, members);
        if let Some(verbs) = &group.verbs {
            options.transport = verbs.transport(setup.node, "demo")?;
        }
        options.ring_len = setup.ring_len;
        options.snapshot_len = Some(setup.snapshot_len);
        options.timing = setup.profile.timing();
        options.quorum = if setup.stored { Quorum::Stored } else { Quorum::Live };
        options.confirm = if setup.readback { Confirm::Readback } else { Confirm::Completion };
        options.keep_region = setup.keep_region;
        let node = Node::open_on(agent, options, keeper).map_err(|error| error.to_string())?;
        let board = Board::open(&group.regions, setup.node).map_err(|error| error.to_string())?;
        Ok(Desk {
            handle: node.handle(),
            node,
            client: group.client,
            counters,
            writer: Some(writer),
            board,
            readers: None,
            stream: Stream { over: true, told: true, ..Stream::default() },
            outstanding: VecDeque::new(),
            commits: None,
            counting_from_ns: 0,
            told: State::default(),
            told_at: Instant::now(),
            told_broken: false,
            payload: Vec::new(),
        })
    }

    /// Whether it has proposals on their way.
    fn waits(&self) -> bool {
        !self.outstanding.is_empty() || !self.stream.waiting.is_empty()
    }

    fn obey(&mut self, order: Order, outbox: &mut Outbox, socket: &mut UnixStream) -> io::Result<()> {
        match order {
            // They are for all groups, and obeyed already.
            Order::Open(_) | Order::Close | Order::Load { .. } => {}
            Order::Transfer { to } => {
                if let Err(error) = self.node.transfer(to, TRANSFER) {
                    // Whoever asked sees who leads.
                    tracing::info!(to, %error, "not handed over");
                }
            }
            Order::Form { timeout_ms } => {
                outbox.push(&match self.node.form(Duration::from_millis(timeout_ms)) {
                    Ok(()) => Report::Formed,
                    Err(error) => Report::NotFormed { message: error.to_string() },
                })
            }
            Order::Measure { samples, size } => {
                let report = self.measure(samples, size, outbox, socket)?;
                outbox.push(&report);
            }
            Order::Begin { stream, first } => {
                if stream == 1 {
                    // What was committed until now was a measurement.
                    self.commits = None;
                    self.counting_from_ns = now_ns();
                }
                self.stream = Stream { id: stream, next: first, ..Stream::default() };
            }
            Order::Read { threads } => {
                let readers = (0..threads).map(|_| self.node.reader());
                let (dir, node) = (&self.node.options().dir, self.node.options().node);
                self.readers = Some(Readers::start(readers, dir, node, &self.counters)?);
            }
        }
        Ok(())
    }

    /// Measures in the agent's thread while this one goes on emptying the queue of events.
    fn measure(
        &mut self,
        samples: usize,
        size: usize,
        outbox: &mut Outbox,
        socket: &mut UnixStream,
    ) -> io::Result<Report> {
        let mut seen = Vec::new();
        let measured = thread::scope(|scope| {
            let job = scope.spawn(|| self.node.measure(samples, size));
            while !job.is_finished() {
                seen.extend(std::iter::from_fn(|| self.node.next_event()));
                thread::sleep(Duration::from_millis(1));
            }
            job.join()
        });
        for event in seen {
            self.take_event(event.at_ns, event.event, outbox);
        }
        outbox.send(socket)?;
        Ok(match measured {
            Ok(Ok(measurement)) => Report::Measured(Measured {
                samples: measurement.commit_ns.len(),
                commit_ns: quantiles(&measurement.commit_ns),
                floor_ns: quantiles(&measurement.floor_ns),
            }),
            Ok(Err(error)) => Report::NotMeasured { message: error.to_string() },
            Err(_) => Report::NotMeasured { message: "the measurement panicked".to_owned() },
        })
    }

    fn propose(&mut self) {
        while !self.stream.over {
            let Some(entry) = self.stream.waiting.front() else { return };
            proposal::encode(self.client, self.stream.next, entry, &mut self.payload);
            match self.handle.propose(&self.payload) {
                Ok(_) => {
                    self.outstanding.push_back((self.stream.id, self.stream.next));
                    self.stream.next += 1;
                    self.stream.waiting.pop_front();
                }
                Err(SubmitError::Full) => return,
                Err(_) => self.end_stream(),
            }
        }
    }

    fn end_stream(&mut self) {
        self.stream.over = true;
        self.stream.waiting.clear();
    }

    fn take_outcomes(&mut self, outbox: &mut Outbox) -> io::Result<()> {
        let mut up_to = None;
        while let Some((_, outcome)) = self.handle.poll() {
            let Some((stream, number)) = self.outstanding.pop_front() else { break };
            if stream != self.stream.id || self.stream.over {
                continue;
            }
            match outcome {
                Outcome::Committed { .. } => up_to = Some(number),
                _ => self.end_stream(),
            }
        }
        let stream = self.stream.id;
        if let Some(up_to) = up_to {
            // Before anybody is told: whoever reads from now on is to see it.
            self.board.note(up_to)?;
            outbox.push(&Report::Acked { stream, up_to });
        }
        if self.stream.over && !self.stream.told {
            self.stream.told = true;
            outbox.push(&Report::Ended { stream });
        }
        Ok(())
    }

    fn take_events(&mut self, outbox: &mut Outbox) {
        let before = self.commits;
        while let Some(event) = self.node.next_event() {
            self.take_event(event.at_ns, event.event, outbox);
        }
        if let Some(commits) = self.commits.filter(|_| self.commits != before) {
            outbox.push(&Report::Commits(commits));
        }
    }

    fn take_event(&mut self, at_ns: u64, event: Event, outbox: &mut Outbox) {
        let what = match event {
            Event::Committed { term, .. } => {
                if self.note_commit(term.0, at_ns) {
                    outbox.push(&Report::Saw { at_ns, what: Happening::FirstCommit { term: term.0 } });
                }
                return;
            }
            Event::Quiet { .. } => Happening::Quiet,
            Event::Campaign { term } => Happening::Campaign { term: term.0 },
            Event::Fenced { by } => Happening::Fenced { by: by.0 },
            Event::Elected { term } => Happening::Elected { term: term.0 },
            Event::GaveUp { term, .. } => Happening::GaveUp { term: term.0 },
            Event::Behind { node } => Happening::Behind { node: node.0 },
            Event::Forgetful { node } => Happening::Forgetful { node: node.0 },
            Event::Stuck { .. } => Happening::Stuck,
            _ => return,
        };
        outbox.push(&Report::Saw { at_ns, what });
    }

    /// Whether it is the first of its term.
    fn note_commit(&mut self, term: u64, at_ns: u64) -> bool {
        if at_ns < self.counting_from_ns {
            return false;
        }
        match &mut self.commits {
            Some(commits) if commits.term == term => {
                commits.longest_gap_ns = commits.longest_gap_ns.max(at_ns.saturating_sub(commits.last_ns));
                commits.last_ns = at_ns;
                false
            }
            commits => {
                *commits = Some(Commits { term, first_ns: at_ns, last_ns: at_ns, longest_gap_ns: 0 });
                true
            }
        }
    }

    fn state(&self) -> State {
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let written = read(&self.counters.written);
        let status = self.node.status();
        State {
            applied: read(&self.counters.applied),
            repeated: read(&self.counters.repeated),
            early: read(&self.counters.early),
            strange: read(&self.counters.strange),
            backlog: read(&self.counters.collected).saturating_sub(written),
            leads: if status.role == crate::Role::Leader { status.term } else { 0 },
            stale: self.readers.as_ref().map_or(0, Readers::stale),
        }
    }

    fn tell_state(&mut self, outbox: &mut Outbox) {
        if self.told_at.elapsed() < STATE_EVERY {
            return;
        }
        self.told_at = Instant::now();
        let state = self.state();
        if let Some(readers) = &self.readers {
            readers.set_leads(state.leads != 0);
        }
        if state != self.told {
            self.told = state;
            outbox.push(&Report::State(state));
        }
        if !self.told_broken && self.counters.broken.load(Ordering::Relaxed) {
            self.told_broken = true;
            let message = match self.writer.take().map(Writer::join) {
                Some(Err(error)) => error.to_string(),
                _ => "cannot be written".to_owned(),
            };
            outbox.push(&Report::Broken { message });
        }
    }

    fn close(mut self, line: &mut Line) -> io::Result<()> {
        let read = self.readers.as_mut().map(Readers::join);
        let mut state = self.state();
        drop(self.handle);
        let closed = self.node.close().map_err(|error| error.to_string());
        let written = self.writer.take().map_or(Ok(()), Writer::join).map_err(|error| error.to_string());
        state.applied = self.counters.applied.load(Ordering::Relaxed);
        state.backlog = 0;
        let read = match read.transpose() {
            Ok(tally) => {
                tally.map_or(Ok(()), |tally| line.say(&Report::Reads(tally)))?;
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        };
        for message in [closed, written, read].into_iter().filter_map(Result::err) {
            line.say(&Report::Broken { message })?;
        }
        line.say(&Report::Closed(state))
    }
}

fn quantiles(histogram: &hdrhistogram::Histogram<u64>) -> Quantiles {
    Quantiles {
        p50: histogram.value_at_quantile(0.5),
        p99: histogram.value_at_quantile(0.99),
        max: histogram.max(),
    }
}
