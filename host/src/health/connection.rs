//! One who asks: the bytes that came, the answer on its way, and the moment at which patience ends. Never waits.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use mio::Token;
use mio::net::TcpStream;

use super::request::{self, Asked, Code, MAX_LEN};

/// How long whoever asks may take, from the first moment to the last byte taken.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long is waited for the other side to close, which may still be sending: closing at once would throw the answer away there.
const LINGER: Duration = Duration::from_secs(1);

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) token: Token,
    stream: TcpStream,
    state: State,
    deadline: Instant,
}

#[derive(Debug)]
enum State {
    Asking(Vec<u8>),
    Answering { bytes: Vec<u8>, written: usize },
    Lingering,
}

impl Connection {
    pub(super) fn new(token: Token, stream: TcpStream) -> Connection {
        Connection { token, stream, state: State::Asking(Vec::new()), deadline: Instant::now() + PATIENCE }
    }

    pub(super) fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    pub(super) fn is_late(&self, now: Instant) -> bool {
        now >= self.deadline
    }

    /// As far as it goes now. False when it is over.
    pub(super) fn advance(&mut self, answer: &mut dyn FnMut(&str) -> (Code, String, String)) -> bool {
        loop {
            let goes_on = match &mut self.state {
                State::Asking(_) => self.ask(answer),
                State::Answering { .. } => self.write(),
                State::Lingering => return self.linger(),
            };
            match goes_on {
                Some(true) => {}
                Some(false) => return false,
                None => return true,
            }
        }
    }

    /// `None`: nothing comes now. `Some(false)`: nothing ever will.
    fn ask(&mut self, answer: &mut dyn FnMut(&str) -> (Code, String, String)) -> Option<bool> {
        let State::Asking(bytes) = &mut self.state else { return Some(true) };
        let mut room = [0; MAX_LEN];
        let count = match self.stream.read(&mut room[..MAX_LEN - bytes.len()]) {
            Ok(0) => return Some(false),
            Ok(count) => count,
            Err(error) => return waits(&error),
        };
        bytes.extend_from_slice(&room[..count]);
        let bytes = match request::judge(bytes) {
            Asked::More => return Some(true),
            Asked::Path { path, has_body } => {
                let (code, kind, body) = answer(&path);
                request::answer(code, &kind, &body, has_body)
            }
            Asked::Refused(code) => request::answer(code, "text/plain", &format!("{}\n", code.text()), true),
        };
        self.state = State::Answering { bytes, written: 0 };
        Some(true)
    }

    fn write(&mut self) -> Option<bool> {
        let State::Answering { bytes, written } = &mut self.state else { return Some(true) };
        match self.stream.write(&bytes[*written..]) {
            Ok(0) => return Some(false),
            Ok(count) => *written += count,
            Err(error) => return waits(&error),
        }
        if *written == bytes.len() {
            // It may be gone already.
            let _ = self.stream.shutdown(Shutdown::Write);
            self.deadline = self.deadline.min(Instant::now() + LINGER);
            self.state = State::Lingering;
        }
        Some(true)
    }

    /// A little of what still comes is taken away, and no more than a question is long at a time.
    fn linger(&mut self) -> bool {
        let mut room = [0; MAX_LEN];
        loop {
            match self.stream.read(&mut room) {
                Ok(0) => return false,
                Ok(count) if count == room.len() => return false,
                Ok(_) => {}
                Err(error) => match waits(&error) {
                    None => return true,
                    Some(goes_on) if !goes_on => return false,
                    Some(_) => {}
                },
            }
        }
    }
}

/// `None`: for now. Else whether to try again at once.
fn waits(error: &std::io::Error) -> Option<bool> {
    match error.kind() {
        ErrorKind::WouldBlock => None,
        ErrorKind::Interrupted => Some(true),
        _ => Some(false),
    }
}
