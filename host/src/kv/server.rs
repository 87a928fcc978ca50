//! The server of one node: one thread that takes commands from all clients, has them go through the log or waits until it may read,
//! carries out what was committed, and answers. Not: a client's bytes (`client`), nor what commands mean.
//!
//! A turn goes round once. What clients have sent by then goes out in one entry, or is read together, so that the more there is to do
//! the less each costs. Nobody is waited for: the thread sleeps when nothing is left to do, until a client or the agent wakes it.

use std::borrow::Cow;
use std::io;
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle};
use tracing::{debug, info, warn};

use super::batch;
use super::client::{CHUNK, Client, turn_away};
use super::clients::Clients;
use super::cluster;
use super::command::{self, Answer, Request, Write, is, parse};
use super::execute::{self, Bounds};
use super::facts::Facts;
use super::machine::{Piece, Shared, entries};
use super::reads::{Asked, Failure, Place, Reads};
use super::reply::Reply;
use super::request::{Cut, Limits, arguments};
use super::store::Store;
use super::table::{Command, Kind};
use super::writes::{Origin, Writes};
use crate::members::Members;
use crate::{Node, Read, Role, Status};

pub(super) const LISTENER: Token = Token(usize::MAX);
pub(super) const WAKER: Token = Token(usize::MAX - 1);
/// What else the thread waits for.
pub(super) const OTHERS: [Token; 2] = [Token(usize::MAX - 2), Token(usize::MAX - 3)];

/// Commands taken of a client in one turn, and bytes of reads that were put off and are made for it.
const TURN: usize = 256;
const TURN_LEN: usize = 8 << 20;
/// Bytes of reads that are asked for together.
const READ_LEN: usize = 1 << 20;
/// Arguments of a command.
pub(super) const MAX_ARGS: usize = 1 << 20;
/// What a client may send before it has shown the password.
const STRANGER: Limits = Limits { len: 16 << 10, count: 16 };
/// How long it may take for that.
const STRANGER_TIME: Duration = Duration::from_secs(10);
/// How long a client may take none of its answers.
const STUCK: Duration = Duration::from_secs(60);
/// How long a write waits for somebody to lead.
const HOLD: Duration = Duration::from_secs(5);
/// Writes of one client on their way that are answered with a value.
const HEAVY: usize = 8;
/// How long a client may be silent before its machine is asked whether it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(300);
/// How often all clients are looked at.
const ROUND: Duration = Duration::from_millis(200);
/// The longest sleep; that with something on its way, for which nothing rings; and the shortest.
const SLEEP: Duration = Duration::from_millis(50);
const SLEEP_BUSY: Duration = Duration::from_millis(2);
const NAP: Duration = Duration::from_micros(50);

/// What came of a command.
enum Taken {
    /// It is dealt with.
    Done,
    /// It waits until what is before it is answered.
    Waits,
    /// It waits for room in the log.
    Full,
    /// It waits for somebody to lead.
    Held,
}

/// See the head of this file.
pub(super) struct Server<'a> {
    pub(super) node: &'a Node,
    pub(super) facts: &'a Facts,
    pub(super) shared: Arc<Shared>,
    poll: Poll,
    listener: TcpListener,
    /// There may be somebody at the door.
    may_accept: bool,
    pub(super) clients: Clients,
    pub(super) status: Status,
    pub(super) members: Members,
    pub(super) writes: Writes,
    reads: Reads,
    /// Clients whose commands wait for room in the log, and those who wait for a leader.
    waiting: Vec<u64>,
    held: Vec<u64>,
    round_at: Instant,
    pub(super) begun: Instant,
    pub(super) counted: Counted,
    scratch: Vec<u8>,
    ranges: Vec<Range<usize>>,
}

/// What INFO tells.
#[derive(Default)]
pub(super) struct Counted {
    pub(super) commands: u64,
    pub(super) connections: u64,
    pub(super) rejected: u64,
    pub(super) dropped: u64,
    pub(super) moved: u64,
    pub(super) doubtful: u64,
    pub(super) loaded: u64,
}

impl<'a> Server<'a> {
    pub(super) fn new(
        node: &'a Node,
        facts: &'a Facts,
        shared: Arc<Shared>,
        poll: Poll,
        mut listener: TcpListener,
    ) -> io::Result<Server<'a>> {
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let ringing = Arc::clone(&shared);
        let reader = node.reader_that_rings(move || ringing.bell().ring());
        let handle = node.handle();
        let bounds = Bounds { size: facts.max_size, value: handle.max_payload() as u64 };
        let max_kept = (256 << 20).max(8 * handle.max_payload());
        Ok(Server {
            node,
            facts,
            shared,
            poll,
            listener,
            may_accept: true,
            clients: Clients::new(facts.max_clients, max_kept),
            status: node.status(),
            members: Members::default(),
            writes: Writes::new(handle, node.incarnation(), bounds),
            reads: Reads::new(reader),
            waiting: Vec::new(),
            held: Vec::new(),
            round_at: Instant::now(),
            begun: Instant::now(),
            counted: Counted::default(),
            scratch: vec![0; CHUNK],
            ranges: Vec::new(),
        })
    }

    /// How the node is, as of the last turn.
    pub(super) fn status(&self) -> &Status {
        &self.status
    }

    pub(super) fn set_members(&mut self, members: Members) {
        self.members = members;
    }

    pub(super) fn leads(&self) -> bool {
        self.status.role == Role::Leader
    }

    /// Who leads, when that is another node.
    fn other_leader(&self) -> Option<u8> {
        self.status.leader.filter(|leader| *leader != self.status.node)
    }

    /// Goes round, and sleeps when there was nothing to do.
    pub(super) fn run_once(&mut self, events: &mut Events) -> io::Result<()> {
        let mut progress = self.turn();
        if !progress {
            self.shared.bell().fall_asleep();
            progress = self.turn();
        }
        let sleep = if progress { Duration::ZERO } else { self.sleep() };
        if !progress && self.writes.is_full() {
            // Nothing rings when there is room again.
            std::thread::sleep(NAP);
        }
        let polled = self.poll.poll(events, Some(sleep));
        self.shared.bell().wake_up();
        match polled {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in &*events {
            match event.token() {
                LISTENER => self.may_accept = true,
                WAKER => {}
                token if OTHERS.contains(&token) => {}
                Token(at) => {
                    if let Some(client) = self.clients.at(at) {
                        let is_closed = event.is_read_closed() || event.is_error();
                        client.handle_event(event.is_readable() || is_closed, event.is_writable(), is_closed);
                        let id = client.id;
                        self.clients.list(id);
                    }
                }
            }
        }
        Ok(())
    }

    fn sleep(&self) -> Duration {
        if self.writes.is_full() {
            return Duration::ZERO;
        }
        let mut sleep = if self.writes.any() || self.reads.any_again() || !self.held.is_empty() {
            SLEEP_BUSY
        } else {
            SLEEP
        };
        if self.leads()
            && let Some(end) = self.shared.store().next_end()
        {
            let left = Duration::from_millis(end.saturating_sub(self.writes.now()).max(0).unsigned_abs());
            sleep = sleep.min(left.max(Duration::from_millis(1)));
        }
        sleep
    }

    /// Does what there is to do; whether there was anything.
    fn turn(&mut self) -> bool {
        let now = Instant::now();
        self.status = self.node.status();
        // In this order: what was handed over before a read was ready is in the queue when that is looked at.
        self.reads.poll(now);
        let mut progress = self.carry_out();
        progress |= self.end_writes();
        progress |= self.end_reads();
        progress |= self.accept();
        self.list_those_who_wait(now);
        progress |= self.work(now);
        self.ask();
        if now.saturating_duration_since(self.round_at) >= ROUND {
            self.round_at = now;
            self.go_round(now);
        }
        progress
    }

    // What comes out of the log.

    /// Does to the state what was committed, and answers who waits for it.
    fn carry_out(&mut self) -> bool {
        let pieces = self.shared.take();
        if pieces.is_empty() {
            return false;
        }
        let shared = Arc::clone(&self.shared);
        let mut store = shared.store_mut();
        for piece in pieces {
            match piece {
                Piece::Entries(bytes) => {
                    for entry in entries(&bytes) {
                        self.apply(&mut store, entry);
                    }
                }
                Piece::Loaded(loaded) => {
                    info!(keys = loaded.count(), "has taken the state of another node");
                    *store = *loaded;
                    self.writes.pass_time(store.time());
                    self.counted.loaded += 1;
                    // The answers to those that are in a state are not in it.
                    let (lost, doubtful) = self.writes.take_ended();
                    self.answer_lost(&lost);
                    self.answer_doubtful(&doubtful);
                }
            }
        }
        drop(store);
        shared.done();
        true
    }

    fn apply(&mut self, store: &mut Store, entry: &[u8]) {
        let Some((header, mut commands)) = batch::open(entry) else {
            debug!("an entry that is not a key-value server's is passed over");
            return;
        };
        store.pass_time(header.time.get());
        self.writes.pass_time(store.time());
        let bounds = Bounds { size: header.max_size.get(), value: header.max_value.get() };
        let found = self.writes.find(header.origin.get(), header.number.get());
        self.answer_lost(&found.lost);
        let mut origins = found.origins.iter();
        let mut args = Vec::new();
        while commands.next_into(&mut args) {
            let reply = match parse(&args) {
                Ok((_, Some(Request::Write(write)))) => execute::write(store, &write, bounds),
                Ok(_) => Reply::error("ERR not a write"),
                Err(error) => error,
            };
            if let Some(origin) = origins.next() {
                self.answer(*origin, &reply);
            }
        }
    }

    /// Answers writes that were refused or that turn out not to be in the log.
    fn end_writes(&mut self) -> bool {
        let mut lost = self.writes.poll();
        if !self.leads() {
            lost.extend(self.writes.take_back());
        }
        if let Some(number) = self.writes.doubt() {
            self.reads.settle(number);
        }
        self.answer_lost(&lost);
        !lost.is_empty()
    }

    /// Makes reads that may be made.
    fn end_reads(&mut self) -> bool {
        let mut any = false;
        loop {
            let writes = &self.writes;
            let Some((asked, result)) = self.reads.take_ended(|number| writes.is_through(number)) else {
                break;
            };
            any = true;
            if let Some(number) = asked.settles {
                let doubtful = self.writes.take_doubtful(number);
                match result {
                    Ok(()) => self.answer_lost(&doubtful),
                    Err(_) => self.answer_doubtful(&doubtful),
                }
            } else {
                self.end_asked(&asked, result);
            }
        }
        any
    }

    fn end_asked(&mut self, asked: &Asked, result: Result<(), Failure>) {
        let shared = Arc::clone(&self.shared);
        let store = shared.store();
        let (mut commands, mut args) = (asked.commands.commands(), Vec::new());
        let now = self.writes.now();
        for place in &asked.places {
            commands.next_into(&mut args);
            let room = self.clients.room();
            let Some(client) = self.clients.get(place.client) else { continue };
            client.reads -= 1;
            match result {
                Ok(()) if client.has_room_for_values() && room > 0 => {
                    client.answer_owed(place.slot, &self.facts.read(&store, &args, now));
                }
                Ok(()) => {
                    client.deferred.push_back((place.slot, args.iter().map(|arg| arg.to_vec()).collect()))
                }
                Err(failure) => client.answer_owed(place.slot, &down(failure)),
            }
            self.clients.recount(place.client);
            self.clients.list(place.client);
        }
    }

    fn answer(&mut self, origin: Origin, reply: &Reply<'_>) {
        let share = self.clients.share();
        if let Some(client) = self.clients.get(origin.client) {
            client.writes -= 1;
            client.heavy -= usize::from(origin.is_heavy);
            client.answer_owed(origin.slot, reply);
            let is_large = client.kept() > share;
            self.clients.recount(origin.client);
            if origin.is_heavy && is_large && self.clients.room() == 0 {
                // It was done, and there is no place to say so.
                self.clients.drop_now(origin.client);
                self.counted.dropped += 1;
            }
            self.clients.list(origin.client);
        }
    }

    fn answer_all(&mut self, origins: &[Origin], reply: &Reply<'_>) {
        for origin in origins {
            self.answer(*origin, reply);
        }
    }

    /// These may have been carried out, or not.
    fn answer_doubtful(&mut self, origins: &[Origin]) {
        self.counted.doubtful += origins.len() as u64;
        self.answer_all(origins, &UNKNOWN);
    }

    /// These are not in the log, and never will be: whoever sent them may send them again.
    fn answer_lost(&mut self, origins: &[Origin]) {
        if origins.is_empty() {
            return;
        }
        let reply = self.moved(None).unwrap_or(Reply::Error(
            "TRYAGAIN the lead was lost before this was replicated: nothing has been changed by it".into(),
        ));
        self.answer_all(origins, &reply);
    }

    // What clients send.

    fn accept(&mut self) -> bool {
        let mut any = false;
        while self.may_accept {
            match self.listener.accept() {
                Ok((mut stream, address)) => {
                    any = true;
                    self.counted.connections += 1;
                    let Some(at) = self.clients.vacancy() else {
                        self.counted.rejected += 1;
                        turn_away(stream, &Reply::error("ERR max number of clients reached"));
                        continue;
                    };
                    // Answers are written whole: what is small is not to wait for more.
                    let _ = stream.set_nodelay(true);
                    // One whose machine is gone does not stay for ever.
                    let _ = set_socket_keepalive(&stream, true);
                    let _ = set_tcp_keepidle(&stream, KEEP_ALIVE);
                    let interest = Interest::READABLE | Interest::WRITABLE;
                    if let Err(error) = self.poll.registry().register(&mut stream, Token(at), interest) {
                        warn!(%error, "cannot serve a client");
                        continue;
                    }
                    self.clients.add(at, stream, address, self.facts.password.is_none());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.may_accept = false,
                // One that has gone again; or there are no descriptors, and the next round tries again.
                Err(error) => {
                    debug!(%error, "nobody is let in");
                    self.may_accept = error.kind() == io::ErrorKind::Interrupted;
                    self.counted.rejected += 1;
                }
            }
        }
        any
    }

    /// Those whose reason to wait may be over are looked at again.
    fn list_those_who_wait(&mut self, now: Instant) {
        if !self.writes.is_full() || self.writes.propose() {
            for id in mem::take(&mut self.waiting) {
                self.clients.unpark(id);
            }
        }
        if !self.held.is_empty() {
            let is_over = self.leads() || self.other_leader().is_some();
            for id in mem::take(&mut self.held) {
                let is_due = |client: &mut Client| {
                    client.held_since.is_none_or(|since| now.saturating_duration_since(since) >= HOLD)
                };
                if is_over || self.clients.get(id).is_none_or(is_due) {
                    self.clients.unpark(id);
                } else {
                    self.held.push(id);
                }
            }
        }
    }

    /// Looks at all clients for whom there may be something to do; whether there was.
    fn work(&mut self, now: Instant) -> bool {
        let mut any = false;
        for id in self.clients.take_list() {
            let Some(mut client) = self.clients.lend(id) else { continue };
            any |= self.serve(&mut client, now);
            if client.leave(now, &mut self.scratch) {
                let _ = self.poll.registry().deregister(&mut client.stream);
                self.clients.remove(client);
            } else {
                self.clients.give_back(client);
            }
        }
        any
    }

    /// Takes commands of a client as far as it goes, and sends it what it is to get.
    fn serve(&mut self, client: &mut Client, now: Instant) -> bool {
        let mut any = client.send();
        any |= self.make_deferred(client);
        let mut left = TURN;
        while client.stays() {
            let max_waiting = self.clients.max_waiting();
            let (limits, max_waiting) = match client.is_known {
                true => (self.facts.limits, max_waiting),
                false => (STRANGER, max_waiting.min(STRANGER.len)),
            };
            if !client.has_room(max_waiting) {
                // Its answers may all go at once: then nothing else tells that there is room again.
                if client.send() {
                    self.clients.list_lent(client);
                }
                break;
            }
            if left == 0 {
                self.clients.list_lent(client);
                break;
            }
            match client.next(limits) {
                Ok(Some(cut)) => {
                    left -= 1;
                    if !self.take(client, cut, now) {
                        break;
                    }
                    any = true;
                }
                Ok(None) => {
                    if client.receive(&mut self.scratch) {
                        any = true;
                        if self.clients.keeps_too_much(client) {
                            debug!(client = %client.address, "too much of what clients send waits: this one is dropped");
                            client.answer(&Reply::error("ERR too many large commands at a time"));
                            client.dismiss();
                            self.counted.dropped += 1;
                        }
                    } else if client.is_over() {
                        client.dismiss();
                    } else {
                        break;
                    }
                }
                Err(malformed) => {
                    debug!(client = %client.address, %malformed);
                    client.answer(&Reply::error(malformed.to_string()));
                    client.dismiss();
                }
            }
        }
        any | client.send()
    }

    /// Makes reads that were put off until the client had taken answers.
    fn make_deferred(&mut self, client: &mut Client) -> bool {
        let (mut any, mut made) = (false, 0);
        while client.may_make_deferred()
            && made < TURN_LEN
            && let Some((slot, args)) = client.deferred.pop_front()
        {
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            let shared = Arc::clone(&self.shared);
            let store = shared.store();
            let reply = self.facts.read(&store, &args, self.writes.now());
            let is_kept = self.clients.has_room_for(reply.len(), client);
            made += reply.len();
            client.answer_owed(slot, if is_kept { &reply } else { &TOO_LARGE });
            any |= client.send();
        }
        if made >= TURN_LEN {
            self.clients.list_lent(client);
        }
        any
    }

    /// Takes the next command of a client; false when it has to wait.
    fn take(&mut self, client: &mut Client, cut: Cut, now: Instant) -> bool {
        let (input, start) = client.lend_input();
        let (Cut::Array(len) | Cut::Line(len)) = cut;
        let bytes = &input[start..start + len];
        let mut ranges = mem::take(&mut self.ranges);
        let taken = match arguments(bytes, cut, &mut ranges) {
            Ok(()) => {
                let args: Vec<&[u8]> = ranges.iter().map(|range| &bytes[range.clone()]).collect();
                self.dispatch(client, &args, now)
            }
            Err(malformed) => {
                client.answer(&Reply::error(malformed.to_string()));
                client.dismiss();
                Taken::Done
            }
        };
        self.ranges = ranges;
        let is_done = matches!(taken, Taken::Done);
        client.take_input_back(input, is_done);
        let is_parked = client.is_parked || matches!(taken, Taken::Full | Taken::Held);
        match taken {
            Taken::Done => {
                client.held_since = None;
                self.counted.commands += 1;
            }
            Taken::Waits => {}
            Taken::Full | Taken::Held if client.is_parked => {}
            Taken::Full => self.waiting.push(client.id),
            Taken::Held => self.held.push(client.id),
        }
        client.is_parked = is_parked;
        is_done
    }

    fn dispatch(&mut self, client: &mut Client, args: &[&[u8]], now: Instant) -> Taken {
        if args.is_empty() {
            return Taken::Done;
        }
        if is(args[0], "POST") || is(args[0], "HOST:") {
            // A browser, at the bidding of some web page. What comes behind it could be commands.
            debug!(client = %client.address, "speaks HTTP, and is dropped");
            client.answer(&Reply::error("ERR this is no web server"));
            client.dismiss();
            self.counted.dropped += 1;
            return Taken::Done;
        }
        let (command, request) = match parse(args) {
            Ok((command, request)) if client.is_known || command.is_for_strangers() => (command, request),
            Ok(_) => {
                client.answer(&Reply::error("NOAUTH Authentication required."));
                return Taken::Done;
            }
            Err(error) => {
                let hidden = Reply::error("NOAUTH Authentication required.");
                client.answer(if client.is_known { &error } else { &hidden });
                return Taken::Done;
            }
        };
        match request {
            Some(Request::Write(write)) => self.dispatch_write(client, command, &write, args, now),
            Some(Request::Read(_)) => self.dispatch_read(client, args),
            None if command.changes_client() && client.is_owed() => Taken::Waits,
            None => {
                debug_assert_eq!(command.kind, Kind::Local);
                let reply = self.local(client, command.name, args);
                let is_kept = self.clients.has_room_for(reply.len(), client);
                client.answer(if is_kept { &reply } else { &TOO_LARGE });
                self.after_local(client, command.name);
                Taken::Done
            }
        }
    }

    fn dispatch_write(
        &mut self,
        client: &mut Client,
        command: &Command,
        write: &Write<'_>,
        args: &[&[u8]],
        now: Instant,
    ) -> Taken {
        let max = self.writes.max_entry() - batch::HEADER_LEN;
        if batch::len_of(args) > max {
            client.answer(&Reply::error(format!("ERR a command of more than {max} bytes")));
            return Taken::Done;
        }
        if !self.leads() {
            let slot = command.keys_of(args.len()).next().map(|at| cluster::slot(args[at]));
            return match self.moved(slot) {
                Some(reply) => {
                    client.answer(&reply);
                    Taken::Done
                }
                None => self.hold(client, now),
            };
        }
        // What a client reads is what was there before it wrote what comes behind.
        let is_heavy =
            matches!(write, Write::Set { answer: Answer::Old, .. } | Write::GetDel(_) | Write::GetEx { .. });
        if client.reads > 0 || !client.deferred.is_empty() || is_heavy && client.heavy >= HEAVY {
            return Taken::Waits;
        }
        let slot = client.next_slot();
        if !self.writes.push(args, Origin { client: client.id, slot, is_heavy }) {
            return Taken::Full;
        }
        client.owe(batch::len_of(args));
        client.writes += 1;
        client.heavy += usize::from(is_heavy);
        Taken::Done
    }

    fn dispatch_read(&mut self, client: &mut Client, args: &[&[u8]]) -> Taken {
        // And what it wrote is there when it reads.
        if client.writes > 0 {
            return Taken::Waits;
        }
        if self.reads.gathered_len() > READ_LEN {
            self.ask();
        }
        let place = Place { client: client.id, slot: client.owe(batch::len_of(args)) };
        self.reads.push(args, place);
        client.reads += 1;
        Taken::Done
    }

    /// Nobody leads, as far as this node knows: somebody soon will.
    fn hold(&mut self, client: &mut Client, now: Instant) -> Taken {
        let since = *client.held_since.get_or_insert(now);
        if self.status.formed && now.saturating_duration_since(since) < HOLD {
            return Taken::Held;
        }
        client.answer(&if self.status.formed {
            down(Failure::Patience(None))
        } else {
            down(Failure::NotFormed)
        });
        Taken::Done
    }

    /// Where to go with a write, when another node leads.
    fn moved(&mut self, slot: Option<u16>) -> Option<Reply<'static>> {
        if self.leads() {
            return None;
        }
        let leader = self.other_leader()?;
        self.counted.moved += 1;
        Some(match self.facts.addresses.get(&leader) {
            // Clients take what is in front of the last colon as it stands.
            Some(address) => {
                Reply::error(format!("MOVED {} {}", slot.unwrap_or(0), address.replace(['[', ']'], "")))
            }
            None => Reply::error(format!("CLUSTERDOWN node {leader} leads, for which [kv] has no address")),
        })
    }

    /// Proposes what was gathered, and asks for the reads.
    fn ask(&mut self) {
        let mut behind = None;
        if self.leads() {
            // Keys whose time is over end by an entry.
            let end = self.shared.store().next_end().filter(|end| *end <= self.writes.now());
            if let Some(end) = end {
                self.writes.pass(end);
                behind = self.writes.last().filter(|_| self.writes.any());
            }
            self.writes.propose();
        }
        let how = match (self.leads(), self.facts.reads_by_lease) {
            (true, true) => Read::Lease,
            (true, false) => Read::Quorum,
            (false, _) => Read::Follower,
        };
        self.reads.ask(how, behind);
    }

    /// Looks at all clients, seldom.
    fn go_round(&mut self, now: Instant) {
        self.may_accept = true;
        for client in self.clients.iter_mut() {
            let is_late = !client.is_known && now.saturating_duration_since(client.since) > STRANGER_TIME;
            if is_late || client.stuck(now) > STUCK {
                debug!(client = %client.address, is_late, "is dropped");
                self.counted.dropped += 1;
                client.drop_now();
            }
        }
        self.clients.list_all_that_leave();
    }
}

/// What nobody knows.
const UNKNOWN: Reply<'static> = Reply::Error(Cow::Borrowed(
    "UNKNOWN the lead was lost while this was on its way: it may have been carried out, or not",
));

/// What nobody takes is not kept.
const TOO_LARGE: Reply<'static> = Reply::Error(Cow::Borrowed("ERR too many large answers wait to be taken"));

fn down(failure: Failure) -> Reply<'static> {
    Reply::error(match failure {
        Failure::NotFormed => "CLUSTERDOWN the group is not formed: ringleader form, once".to_owned(),
        Failure::Patience(None) => "CLUSTERDOWN nobody leads".to_owned(),
        Failure::Patience(Some(why)) => format!("CLUSTERDOWN no answer: {why}"),
    })
}

impl Facts {
    /// Makes a read.
    fn read<'s>(&self, store: &'s Store, args: &[&[u8]], now: i64) -> Reply<'s> {
        match command::parse(args) {
            Ok((_, Some(Request::Read(read)))) if execute::len_of(store, &read) > self.max_reply => {
                Reply::error(format!("ERR an answer of more than {} bytes", self.max_reply))
            }
            Ok((_, Some(Request::Read(read)))) => execute::read(store, &read, now),
            Ok(_) => Reply::error("ERR not a read"),
            Err(error) => error,
        }
    }
}
