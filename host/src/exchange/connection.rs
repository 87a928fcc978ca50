//! One TCP connection between two nodes, from its first byte to its encrypted messages. Never waits: it is told when the
//! socket is ready and asked what has come. Who may say what, and how long it may take, is the desk's business.

use std::io::{self, ErrorKind, Read, Write};
use std::mem;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use rustix::event::PollFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use snow::{Builder, HandshakeState, TransportState};

use super::error::MeetError;
use super::key::Key;
use super::wire::{Inbound, MAX_FRAME, MAX_MESSAGE, Message, PREAMBLE, TAG_LEN, WRONG_KEY, seal};

/// Nobody without the key gets past its first message, and every connection has keys of its own.
const NOISE: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// More than is ever on its way: the two messages of the handshake, a hello, a card, and a sign of life.
const OUTBOUND_LEN: usize = 1024;

/// See the module. Closed when dropped.
pub(super) struct Connection {
    socket: TcpStream,
    remote: SocketAddr,
    stage: Stage,
    inbound: Inbound,
    outbound: [u8; OUTBOUND_LEN],
    outbound_len: usize,
    /// Set once nothing more will come.
    ended: Option<MeetError>,
    since: Instant,
    heard: Instant,
    said: Instant,
}

/// How far a connection is.
enum Stage {
    /// The system is getting connected.
    Dialing(Box<HandshakeState>),
    /// The other end's preamble is to come.
    Preamble(Box<HandshakeState>),
    /// The other end's message of the handshake is to come.
    Handshake(Box<HandshakeState>),
    Open(Box<TransportState>),
    Over,
}

/// What has come.
#[expect(clippy::large_enum_variant, reason = "decoded in place and used at once")]
pub(super) enum Step {
    /// The other end has the key, or will not be able to read a word.
    Opened,
    Said(Message),
}

impl Connection {
    /// Begins to call an address.
    pub(super) fn dial(to: SocketAddr, key: &Key, now: Instant) -> io::Result<Connection> {
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        match connect(&socket, &to) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        Connection::new(TcpStream::from(socket), to, Stage::Dialing(noise(key, true)), now)
    }

    /// Takes a caller in.
    pub(super) fn answer(
        socket: TcpStream,
        remote: SocketAddr,
        key: &Key,
        now: Instant,
    ) -> io::Result<Connection> {
        socket.set_nonblocking(true)?;
        Connection::new(socket, remote, Stage::Preamble(noise(key, false)), now)
    }

    fn new(socket: TcpStream, remote: SocketAddr, stage: Stage, now: Instant) -> io::Result<Connection> {
        socket.set_nodelay(true)?;
        Ok(Connection {
            socket,
            remote,
            stage,
            inbound: Inbound::new(),
            outbound: [0; OUTBOUND_LEN],
            outbound_len: 0,
            ended: None,
            since: now,
            heard: now,
            said: now,
        })
    }

    /// The other end's address.
    pub(super) fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Whether the system has got connected.
    pub(super) fn is_connected(&self) -> bool {
        !matches!(self.stage, Stage::Dialing(_))
    }

    /// When it was begun.
    pub(super) fn since(&self) -> Instant {
        self.since
    }

    /// When something last came.
    pub(super) fn heard(&self) -> Instant {
        self.heard
    }

    /// When something was last sent.
    pub(super) fn said(&self) -> Instant {
        self.said
    }

    /// What is waited for.
    pub(super) fn interest(&self) -> PollFlags {
        match self.stage {
            Stage::Dialing(_) => PollFlags::OUT,
            _ if self.outbound_len > 0 => PollFlags::IN | PollFlags::OUT,
            _ => PollFlags::IN,
        }
    }

    /// The socket, for whoever waits.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The socket is ready for something: goes on as far as that goes. What came is then asked for by [`Connection::next`].
    pub(super) fn handle_ready(&mut self, now: Instant) {
        if self.ended.is_some() {
            return;
        }
        if matches!(self.stage, Stage::Dialing(_))
            && let Err(error) = self.handle_dialed(now)
        {
            self.ended = Some(error);
            return;
        }
        self.flush();
        let room = self.inbound.room();
        // Full only while whole frames are in it, and they are taken before the next bytes are read.
        if room.is_empty() || matches!(self.stage, Stage::Dialing(_)) {
            return;
        }
        match self.socket.read(room) {
            Ok(0) => self.ended = Some(MeetError::Closed),
            Ok(count) => {
                self.inbound.filled(count);
                self.heard = now;
            }
            Err(error) if is_for_later(&error) => {}
            Err(error) => self.ended = Some(broken(&error)),
        }
    }

    /// What came next, until nothing whole is left.
    pub(super) fn next(&mut self, now: Instant) -> Result<Option<Step>, MeetError> {
        loop {
            match mem::replace(&mut self.stage, Stage::Over) {
                Stage::Over => return Err(self.ended.unwrap_or(MeetError::Closed)),
                Stage::Dialing(noise) => {
                    self.stage = Stage::Dialing(noise);
                    return self.nothing();
                }
                Stage::Preamble(noise) => match self.inbound.take_preamble() {
                    Some(PREAMBLE) => {
                        if !noise.is_initiator() {
                            self.push(&PREAMBLE, now);
                        }
                        self.stage = Stage::Handshake(noise);
                    }
                    Some(other) => return Err(self.foreign(other, noise.is_initiator(), now)),
                    None if !self.inbound.may_be_preamble() => return Err(MeetError::NotANode),
                    None => {
                        self.stage = Stage::Preamble(noise);
                        return self.nothing();
                    }
                },
                Stage::Handshake(mut noise) => {
                    let mut frame = [0; MAX_FRAME];
                    let Some(len) = self.inbound.take_frame(&mut frame).map_err(|_| MeetError::NotANode)?
                    else {
                        self.stage = Stage::Handshake(noise);
                        return self.nothing();
                    };
                    self.shake_hands(&mut noise, &frame[..len], now)?;
                    let open = noise.into_transport_mode().map_err(|_| MeetError::NotANode)?;
                    self.stage = Stage::Open(Box::new(open));
                    return Ok(Some(Step::Opened));
                }
                Stage::Open(mut open) => {
                    let mut frame = [0; MAX_FRAME];
                    let taken = self.inbound.take_frame(&mut frame).map_err(|_| MeetError::Malformed)?;
                    let step = match taken {
                        None => self.nothing(),
                        Some(len) => {
                            let mut message = [0; MAX_FRAME];
                            let len = open
                                .read_message(&frame[..len], &mut message)
                                .map_err(|_| MeetError::Malformed)?;
                            let said = Message::decode(&message[..len]).ok_or(MeetError::Malformed)?;
                            Ok(Some(Step::Said(said)))
                        }
                    };
                    self.stage = Stage::Open(open);
                    return step;
                }
            }
        }
    }

    /// Sends a message. Only once it is open.
    pub(super) fn say(&mut self, message: &Message, now: Instant) {
        let Stage::Open(open) = &mut self.stage else { return };
        let mut text = [0; MAX_MESSAGE];
        let len = message.encode(&mut text);
        let mut frame = [0; 2 + MAX_FRAME];
        match open.write_message(&text[..len], &mut frame[2..]) {
            Ok(sealed) => {
                assert!(sealed == len + TAG_LEN, "encryption adds its tag");
                let end = seal(&mut frame, sealed);
                self.push(&frame[..end], now);
            }
            // Only when 2^64 messages have been sent.
            Err(_) => self.ended = Some(MeetError::Closed),
        }
    }

    /// Sends a sign of life, unless the other end has not even taken what was sent before.
    pub(super) fn say_alive(&mut self, now: Instant) {
        if self.outbound_len == 0 {
            self.say(&Message::Alive, now);
        }
        self.said = now;
    }

    /// The system has got connected, or has not.
    fn handle_dialed(&mut self, now: Instant) -> Result<(), MeetError> {
        let unreachable = |error: io::Error| MeetError::Unreachable(error.kind());
        if let Some(error) = self.socket.take_error().map_err(unreachable)? {
            return Err(unreachable(error));
        }
        match self.socket.peer_addr() {
            Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(()),
            Err(error) => return Err(unreachable(error)),
            Ok(_) => {}
        }
        // A port of this very machine that nobody listens at may be given to the caller itself.
        if self.socket.local_addr().is_ok_and(|local| local == self.remote) {
            return Err(MeetError::Unreachable(ErrorKind::ConnectionRefused));
        }
        let Stage::Dialing(mut noise) = mem::replace(&mut self.stage, Stage::Over) else { return Ok(()) };
        self.push(&PREAMBLE, now);
        self.push_handshake(&mut noise, now)?;
        self.stage = Stage::Preamble(noise);
        Ok(())
    }

    fn shake_hands(
        &mut self,
        noise: &mut HandshakeState,
        frame: &[u8],
        now: Instant,
    ) -> Result<(), MeetError> {
        if noise.is_initiator() && frame == WRONG_KEY {
            return Err(MeetError::Key);
        }
        let mut nothing = [0; MAX_FRAME];
        match noise.read_message(frame, &mut nothing) {
            Ok(0) => {}
            Ok(_) => return Err(MeetError::NotANode),
            Err(_) => {
                if !noise.is_initiator() {
                    let mut refusal = [0, 0, WRONG_KEY[0]];
                    let end = seal(&mut refusal, WRONG_KEY.len());
                    self.push(&refusal[..end], now);
                }
                return Err(MeetError::Key);
            }
        }
        if noise.is_initiator() { Ok(()) } else { self.push_handshake(noise, now) }
    }

    fn push_handshake(&mut self, noise: &mut HandshakeState, now: Instant) -> Result<(), MeetError> {
        let mut frame = [0; 2 + MAX_FRAME];
        let len =
            noise.write_message(&[], &mut frame[2..]).map_err(|_| MeetError::Broken(ErrorKind::Other))?;
        let end = seal(&mut frame, len);
        self.push(&frame[..end], now);
        Ok(())
    }

    /// The preamble is another one. A node of another version is told this one's.
    fn foreign(&mut self, preamble: [u8; PREAMBLE.len()], has_said: bool, now: Instant) -> MeetError {
        let ([head @ .., version], [ours @ .., our_version]) = (preamble, PREAMBLE);
        if head != ours {
            return MeetError::NotANode;
        }
        if !has_said {
            self.push(&PREAMBLE, now);
        }
        MeetError::Version { ours: our_version, theirs: version }
    }

    /// Nothing whole is there; and nothing more comes once the other end has ended.
    fn nothing(&self) -> Result<Option<Step>, MeetError> {
        self.ended.map_or(Ok(None), Err)
    }

    fn push(&mut self, bytes: &[u8], now: Instant) {
        let end = self.outbound_len + bytes.len();
        assert!(end <= OUTBOUND_LEN, "no more is said than there is room for");
        self.outbound[self.outbound_len..end].copy_from_slice(bytes);
        self.outbound_len = end;
        self.said = now;
        self.flush();
    }

    fn flush(&mut self) {
        while self.outbound_len > 0 {
            match self.socket.write(&self.outbound[..self.outbound_len]) {
                Ok(count) => {
                    self.outbound.copy_within(count..self.outbound_len, 0);
                    self.outbound_len -= count;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_for_later(&error) => return,
                // What the other end said before it closed is still to be read, and says more than this error.
                Err(_) => self.outbound_len = 0,
            }
        }
    }
}

fn noise(key: &Key, initiator: bool) -> Box<HandshakeState> {
    let builder = Builder::new(NOISE.parse().expect("a pattern that is known"));
    let builder = builder.psk(0, key.bytes()).and_then(|builder| builder.prologue(&PREAMBLE));
    let state = builder
        .and_then(|builder| if initiator { builder.build_initiator() } else { builder.build_responder() });
    Box::new(state.expect("the pattern needs a key and nothing else"))
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn broken(error: &io::Error) -> MeetError {
    MeetError::Broken(error.kind())
}
