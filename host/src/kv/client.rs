//! One client: its connection, what it has sent, what it is owed. Not what its commands do.
//!
//! Answers go out in the order of the commands. A command that cannot be answered at once gets a place in the queue (`Slot`), and what
//! is behind it waits there. What a client may keep of this server's memory is bounded: what it sends is not read as long as much is
//! owed to it, and answers are not made as long as many have not been taken.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::mem;
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};

use mio::net::TcpStream;

use super::reply::{Protocol, Reply};
use super::request::{Cut, Cutter, Limits, Malformed};

/// Bytes read at once.
pub(super) const CHUNK: usize = 64 << 10;
/// Commands without an answer: more are not read before.
pub(super) const MAX_OWED: usize = 1024;
/// Bytes of answers that were not taken, and of commands without an answer: above that no more is taken of a client.
pub(super) const MAX_OUT: usize = 1 << 20;
/// Buffers keep so much when they are empty.
const KEEP: usize = 64 << 10;
/// How long a client that is to go may take to notice.
const LINGER: Duration = Duration::from_secs(2);

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) id: u64,
    pub(super) stream: TcpStream,
    pub(super) address: SocketAddr,
    pub(super) protocol: Protocol,
    /// It has shown the password, or none is needed.
    pub(super) is_known: bool,
    pub(super) name: Vec<u8>,
    pub(super) since: Instant,
    /// Commands taken.
    pub(super) commands: u64,
    /// What came and was not taken yet, from `start` on.
    input: Vec<u8>,
    start: usize,
    cutter: Cutter,
    /// The command at `start`, when it is known how long it is.
    cut: Option<Cut>,
    may_read: bool,
    /// The other end sends nothing more; and all that it has sent is here.
    will_end: bool,
    ended: bool,
    out: Vec<u8>,
    sent: usize,
    may_write: bool,
    /// When answers were taken the last time, or there were some after there had been none.
    taken_at: Instant,
    has_none: bool,
    slots: VecDeque<Slot>,
    /// Number of the first of them.
    first: u64,
    /// Bytes in the slots: of commands on their way, and of answers behind those.
    owed_len: usize,
    made_len: usize,
    /// Of the slots, those of writes on their way, and those of these that are answered with a value; and those of reads.
    pub(super) writes: usize,
    pub(super) heavy: usize,
    pub(super) reads: usize,
    /// Reads that may be made, and wait until answers are taken.
    pub(super) deferred: VecDeque<(u64, Vec<Vec<u8>>)>,
    /// A command waits since then for somebody to lead.
    pub(super) held_since: Option<Instant>,
    /// It is on the list of those for whom there is something to do; and on one of those who wait for something that is not theirs.
    pub(super) is_listed: bool,
    pub(super) is_parked: bool,
    leaving: Leaving,
}

/// A place in the queue of answers.
#[derive(Debug)]
enum Slot {
    /// Bytes of the command.
    Waits(usize),
    /// Its bytes.
    Made(Vec<u8>),
}

/// How far a client is on its way out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leaving {
    No,
    /// When all answers have been taken.
    Soon,
    /// It was told, and what it still sends is passed over: else its system would throw away what it was told.
    Told(Instant),
    Now,
}

impl Client {
    pub(super) fn new(id: u64, stream: TcpStream, address: SocketAddr, is_known: bool) -> Client {
        let now = Instant::now();
        Client {
            id,
            stream,
            address,
            protocol: Protocol::default(),
            is_known,
            name: Vec::new(),
            since: now,
            commands: 0,
            input: Vec::new(),
            start: 0,
            cutter: Cutter::default(),
            cut: None,
            may_read: true,
            will_end: false,
            ended: false,
            out: Vec::new(),
            sent: 0,
            may_write: true,
            taken_at: now,
            has_none: true,
            slots: VecDeque::new(),
            first: 0,
            owed_len: 0,
            made_len: 0,
            writes: 0,
            heavy: 0,
            reads: 0,
            deferred: VecDeque::new(),
            held_since: None,
            is_listed: false,
            is_parked: false,
            leaving: Leaving::No,
        }
    }

    // What it sends.

    /// The connection has something to tell. `is_closed`: the other end sends nothing more.
    pub(super) fn handle_event(&mut self, may_read: bool, may_write: bool, is_closed: bool) {
        self.may_read |= may_read;
        self.may_write |= may_write;
        self.will_end |= is_closed;
    }

    /// Takes some of what has come, by way of `scratch`; whether there was any.
    pub(super) fn receive(&mut self, scratch: &mut [u8]) -> bool {
        if !self.may_read || self.ended {
            return false;
        }
        if self.start > 0 {
            self.input.drain(..self.start);
            self.start = 0;
        }
        match self.stream.read(scratch) {
            Ok(0) => self.ended = true,
            Ok(count) => {
                self.input.extend_from_slice(&scratch[..count]);
                // Less than there was room for: the next attempt would find nothing, unless that is the end.
                self.may_read = count == scratch.len() || self.will_end;
                return true;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.may_read = false,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => self.leaving = Leaving::Now,
        }
        false
    }

    /// The next command, if it is there whole.
    pub(super) fn next(&mut self, limits: Limits) -> Result<Option<Cut>, Malformed> {
        if self.cut.is_none() {
            self.cut = self.cutter.cut(&self.input[self.start..], limits)?;
        }
        Ok(self.cut)
    }

    /// The input, to be given back, and where the next command begins in it.
    pub(super) fn lend_input(&mut self) -> (Vec<u8>, usize) {
        (mem::take(&mut self.input), self.start)
    }

    /// See [`Client::lend_input`]; `is_done` when the command is dealt with.
    pub(super) fn take_input_back(&mut self, input: Vec<u8>, is_done: bool) {
        self.input = input;
        if is_done && let Some(Cut::Array(len) | Cut::Line(len)) = self.cut.take() {
            self.start += len;
            self.commands += 1;
            if self.start == self.input.len() {
                self.input.clear();
                self.input.shrink_to(KEEP);
                self.start = 0;
            }
        }
    }

    /// Bytes that wait here for something: of commands not whole or not answered, and of answers not taken.
    pub(super) fn kept(&self) -> usize {
        // While it is lent there is no input.
        self.input.len().saturating_sub(self.start) + self.owed_len + self.answers_len()
    }

    fn answers_len(&self) -> usize {
        self.out.len() - self.sent + self.made_len
    }

    /// Whether it has sent everything, and no command is left of that.
    pub(super) fn is_over(&self) -> bool {
        self.ended && self.cut.is_none()
    }

    // What it gets.

    /// Whether more commands may be taken of it now, when so many bytes may wait.
    pub(super) fn has_room(&self, max: usize) -> bool {
        self.answers_len() <= max && self.owed_len <= max && self.slots.len() < MAX_OWED
    }

    /// Whether reads that are owed may be made now: few answers wait, and none was put off.
    pub(super) fn has_room_for_values(&self) -> bool {
        self.deferred.is_empty() && self.may_make_deferred()
    }

    /// Whether the next read that was put off may be made.
    pub(super) fn may_make_deferred(&self) -> bool {
        self.out.len() - self.sent <= MAX_OUT
    }

    /// The number of the next place.
    pub(super) fn next_slot(&self) -> u64 {
        self.first + self.slots.len() as u64
    }

    /// Whether commands are on their way.
    pub(super) fn is_owed(&self) -> bool {
        !self.slots.is_empty()
    }

    /// The answer to the command just taken.
    pub(super) fn answer(&mut self, reply: &Reply<'_>) {
        if self.slots.is_empty() {
            reply.encode(self.protocol, &mut self.out);
        } else {
            let mut bytes = Vec::new();
            reply.encode(self.protocol, &mut bytes);
            self.made_len += bytes.len();
            self.slots.push_back(Slot::Made(bytes));
        }
    }

    /// A place for the answer to the command just taken, which has so many bytes.
    pub(super) fn owe(&mut self, len: usize) -> u64 {
        let number = self.next_slot();
        self.owed_len += len;
        self.slots.push_back(Slot::Waits(len));
        number
    }

    /// The answer to one that waited.
    pub(super) fn answer_owed(&mut self, number: u64, reply: &Reply<'_>) {
        let Some(at) = number.checked_sub(self.first) else { return };
        let Some(slot) = self.slots.get_mut(at as usize) else { return };
        let Slot::Waits(len) = *slot else { return };
        self.owed_len -= len;
        if at == 0 {
            reply.encode(self.protocol, &mut self.out);
            self.slots.pop_front();
            self.first += 1;
            while let Some(Slot::Made(bytes)) = self.slots.front() {
                self.made_len -= bytes.len();
                self.out.extend_from_slice(bytes);
                self.slots.pop_front();
                self.first += 1;
            }
        } else {
            let mut bytes = Vec::new();
            reply.encode(self.protocol, &mut bytes);
            self.made_len += bytes.len();
            *slot = Slot::Made(bytes);
        }
    }

    /// Sends what there is; whether any of it went.
    pub(super) fn send(&mut self) -> bool {
        let before = self.sent;
        if self.has_none && !self.out.is_empty() {
            self.taken_at = Instant::now();
            self.has_none = false;
        }
        while self.may_write && self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.may_write = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.leaving = Leaving::Now;
                    return false;
                }
            }
        }
        let went = self.sent > before;
        if self.sent == self.out.len() {
            self.out.clear();
            self.out.shrink_to(KEEP);
            self.sent = 0;
        } else if self.sent > CHUNK {
            self.out.drain(..self.sent);
            self.sent = 0;
        }
        self.has_none = self.out.is_empty();
        if went {
            self.taken_at = Instant::now();
        }
        went
    }

    /// How long it has taken none of the answers that wait for it.
    pub(super) fn stuck(&self, now: Instant) -> Duration {
        if self.has_none { Duration::ZERO } else { now.saturating_duration_since(self.taken_at) }
    }

    // Its end.

    /// It is to go when it has got everything.
    pub(super) fn dismiss(&mut self) {
        if self.leaving == Leaving::No {
            self.leaving = Leaving::Soon;
        }
    }

    /// It is to go now.
    pub(super) fn drop_now(&mut self) {
        self.leaving = Leaving::Now;
    }

    /// Whether commands are taken of it.
    pub(super) fn stays(&self) -> bool {
        self.leaving == Leaving::No
    }

    /// Moves on with its leaving; whether it has left.
    pub(super) fn leave(&mut self, now: Instant, scratch: &mut [u8]) -> bool {
        if self.leaving == Leaving::Soon && self.slots.is_empty() && self.out.is_empty() {
            let told = self.stream.shutdown(Shutdown::Write).is_ok();
            self.leaving = if told && !self.ended { Leaving::Told(now) } else { Leaving::Now };
        }
        if let Leaving::Told(since) = self.leaving {
            for _ in 0..16 {
                self.input.clear();
                (self.start, self.cut) = (0, None);
                if !self.receive(scratch) {
                    break;
                }
            }
            self.input.clear();
            if self.ended || now.saturating_duration_since(since) > LINGER {
                self.leaving = Leaving::Now;
            }
        }
        self.leaving == Leaving::Now
    }
}

/// Tells who cannot be served why, as far as its system takes it at once.
pub(super) fn turn_away(mut stream: TcpStream, why: &Reply<'_>) {
    let mut bytes = Vec::new();
    why.encode(Protocol::Resp2, &mut bytes);
    let _: io::Result<usize> = stream.write(&bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::iter;
    use std::net::{TcpListener, TcpStream as Plain};

    const LIMITS: Limits = Limits { len: 10 << 20, count: 100 };

    fn pair() -> (Client, Plain) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let theirs = Plain::connect(listener.local_addr().expect("an address")).expect("connected");
        let (ours, address) = listener.accept().expect("accepted");
        ours.set_nonblocking(true).expect("set");
        (Client::new(1, TcpStream::from_std(ours), address, true), theirs)
    }

    fn read(theirs: &mut Plain, len: usize) -> String {
        let mut bytes = vec![0; len];
        theirs.read_exact(&mut bytes).expect("sent");
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn answers_go_out_in_the_order_of_the_commands() {
        let (mut client, mut theirs) = pair();
        let (a, b) = (client.owe(10), client.owe(20));
        client.answer(&Reply::Int(3));
        let d = client.owe(30);
        client.answer_owed(b, &Reply::Int(2));
        assert!(!client.send(), "the first is not there");
        assert_eq!(client.kept(), 10 + 30 + 2 * ":3\r\n".len());
        client.answer_owed(a, &Reply::Int(1));
        client.send();
        assert_eq!(read(&mut theirs, 12), ":1\r\n:2\r\n:3\r\n");
        assert!(client.is_owed());
        client.answer_owed(d, &Reply::Int(4));
        client.answer(&Reply::Int(5));
        // Nobody waits for these.
        client.answer_owed(a, &Reply::Int(9));
        client.answer_owed(99, &Reply::Int(9));
        client.send();
        assert_eq!(read(&mut theirs, 8), ":4\r\n:5\r\n");
        assert_eq!((client.is_owed(), client.kept()), (false, 0));
    }

    #[test]
    fn what_waits_for_an_answer_is_bounded_in_bytes_too() {
        let (mut client, _theirs) = pair();
        let large = vec![b'x'; MAX_OUT / 4];
        let slots: Vec<u64> =
            iter::from_fn(|| client.has_room(MAX_OUT).then(|| client.owe(large.len()))).collect();
        assert_eq!((slots.len(), client.kept()), (5, 5 * large.len()), "commands");
        for slot in &slots[1..] {
            client.answer_owed(*slot, &Reply::OK);
        }
        let mut count = 0;
        while client.has_room(MAX_OUT) {
            client.answer(&Reply::Bulk(large.as_slice().into()));
            count += 1;
        }
        assert_eq!(count, 4, "answers behind one that is owed");
        client.answer_owed(slots[0], &Reply::OK);
        client.dismiss();
        let waiting = client.kept();
        assert!((MAX_OUT..MAX_OUT + 200).contains(&waiting), "{waiting}");
    }

    #[test]
    fn who_takes_no_answers_is_made_none() {
        let (mut client, mut theirs) = pair();
        let value = vec![b'x'; MAX_OUT];
        let reply = Reply::Bulk(value.as_slice().into());
        let mut count = 0;
        while client.has_room(MAX_OUT) {
            client.answer(&reply);
            client.send();
            count += 1;
        }
        assert!(
            client.kept() > MAX_OUT && client.stuck(Instant::now() + Duration::from_secs(9)).as_secs() >= 8
        );
        let reading = std::thread::spawn(move || read(&mut theirs, count * (MAX_OUT + 12)).len());
        while client.kept() > 0 {
            client.handle_event(false, true, false);
            client.send();
            std::thread::yield_now();
        }
        assert_eq!(reading.join().expect("ended"), count * (MAX_OUT + 12));
        assert!(client.has_room(MAX_OUT));
        for _ in 0..MAX_OWED {
            client.owe(0);
        }
        assert!(!client.has_room(MAX_OUT));
    }

    #[test]
    fn who_is_dismissed_gets_what_it_is_owed_first() {
        let (mut client, mut theirs) = pair();
        theirs.write_all(b"PING\r\nmore").expect("written");
        let mut scratch = [0; 100];
        while !client.receive(&mut scratch) {
            client.handle_event(true, false, false);
        }
        assert!(matches!(client.next(LIMITS), Ok(Some(Cut::Line(6)))));
        let owed = client.owe(6);
        client.dismiss();
        assert!(!client.stays() && !client.leave(Instant::now(), &mut [0; 100]));
        client.answer_owed(owed, &Reply::OK);
        client.send();
        // It has been told, and what it sends meanwhile is passed over.
        assert!(!client.leave(Instant::now(), &mut [0; 100]));
        let mut rest = String::new();
        theirs.write_all(b"and more").expect("written");
        theirs.read_to_string(&mut rest).expect("read");
        assert_eq!(rest, "+OK\r\n");
        client.handle_event(true, false, false);
        assert!(!client.leave(Instant::now(), &mut [0; 100]));
        assert!(client.leave(Instant::now() + 2 * LINGER, &mut [0; 100]));
    }
}
