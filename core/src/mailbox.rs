//! Request and answer lines: how one gets to a peer, and how one is noticed (protocol.md 3, mailboxes).
//!
//! Lines are states, not queues: an [`Outbox`] makes the peer's copy of a line equal to the newest one, however many
//! changes lie between, and an [`Inbox`] hands out a line when it differs from the one seen last.

#[cfg(feature = "model")]
use crate::canonical::{Canonical, Space};
use crate::layout::Line;
use crate::mem::{Area, Memory};
use crate::types::{Epoch, Instant, NodeId};
use crate::verb::{Class, NUMBER_MASK, Plane, RequestId, Source, Verb};

/// A line on its way to a peer.
#[derive(Clone, Debug)]
pub struct Outbox<L> {
    line: L,
    version: u32,
    /// The peer may not have this version yet.
    dirty: bool,
    /// The WRITE under way: while there is one its source stays as it is.
    flight: Option<(u32, Instant)>,
    posted_at: Instant,
}

/// Where a line is made, where it goes, and as what.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Of the WRITE.
    pub class: Class,
    /// Offset in the staging area.
    pub from: u64,
    /// Offset in the peer's control area.
    pub to: u64,
}

impl<L: Line + PartialEq + Default> Default for Outbox<L> {
    fn default() -> Self {
        Outbox::new()
    }
}

impl<L: Line + PartialEq + Default> Outbox<L> {
    /// Nothing to say yet.
    pub fn new() -> Self {
        Outbox { line: L::default(), version: 0, dirty: false, flight: None, posted_at: Instant(0) }
    }

    /// The line (without version and CRC) that the peer is to have.
    pub fn set(&mut self, line: L) {
        if line != self.line {
            self.line = line;
            self.say_again();
        }
    }

    /// Write the same once more, so that the reader looks at it again.
    pub fn say_again(&mut self) {
        self.version = self.version.wrapping_add(1);
        self.dirty = true;
    }

    /// Says it again when the last time is `ns` ago.
    pub fn repeat_every(&mut self, now: Instant, ns: u64) {
        if !self.dirty && self.flight.is_none() && now.since(self.posted_at) >= ns {
            self.say_again();
        }
    }

    /// The connection is gone: what was under way may or may not have arrived.
    pub fn handle_down(&mut self) {
        self.flight = None;
        self.say_again();
    }

    /// A WRITE that has been under way since before `limit` ago.
    pub fn is_stalled(&self, now: Instant, limit: u64) -> bool {
        self.flight.is_some_and(|(_, at)| now.since(at) > limit)
    }

    /// The WRITE that brings the newest line to `peer`, over this connection, when there is something new to bring.
    pub fn poll<M: Memory>(
        &mut self,
        now: Instant,
        connection: Epoch,
        staging: &Area<M>,
        peer: NodeId,
        route: Route,
    ) -> Option<Verb> {
        if !self.dirty || self.flight.is_some() {
            return None;
        }
        self.dirty = false;
        self.posted_at = now;
        let number = self.version & NUMBER_MASK;
        self.flight = Some((number, now));
        self.line.write(staging, route.from, self.version);
        Some(Verb::Write {
            id: RequestId { peer, class: route.class, epoch: connection, number },
            plane: Plane::Control,
            source: Source::Staging,
            from: route.from,
            to: route.to,
            len: size_of::<L>() as u32,
        })
    }

    /// The WRITE of `number`, of the current connection, ended well.
    pub fn handle_success(&mut self, number: u32) {
        if self.flight.is_some_and(|(flying, _)| flying == number) {
            self.flight = None;
        }
    }
}

/// The last word of a line that was taken in.
#[derive(Clone, Copy, Default, Debug)]
pub struct Inbox {
    seen: u64,
}

impl Inbox {
    /// The line at `offset`, when it is whole and not the one seen before.
    ///
    /// One load while nothing changes.
    #[inline]
    pub fn look<L: Line, M: Memory>(&mut self, control: &Area<M>, offset: u64) -> Option<L> {
        if control.load(L::last_word(offset)) == self.seen {
            return None;
        }
        let line = L::read(control, offset)?;
        let words = line.as_bytes();
        // What was judged is what counts as seen, not what stands there by now.
        self.seen = u64::from_le_bytes(words[words.len() - 8..].try_into().ok()?);
        Some(line)
    }

    /// Forgets what was written: the peer is down, or was another process (protocol.md 3).
    pub fn zero<L: Line, M: Memory>(&mut self, control: &Area<M>, offset: u64) {
        for word in 0..L::WORDS as u64 {
            control.store(offset + word * 8, 0);
        }
        self.seen = 0;
    }
}

#[cfg(feature = "model")]
impl<L> Outbox<L> {
    /// `versions` counts the versions of its line.
    pub(crate) fn canonical<C: Canonical>(
        &self,
        versions: Space,
        line: impl FnOnce(&L, &mut C),
        out: &mut C,
    ) {
        let Outbox { line: to_say, version, dirty, flight, posted_at } = self;
        line(to_say, out);
        out.plain((dirty, flight.is_some()));
        out.count(versions, u64::from(*version));
        if let Some((number, posted_at)) = *flight {
            out.count(versions, u64::from(number));
            out.moment(posted_at);
        }
        out.moment(*posted_at);
    }
}

#[cfg(feature = "model")]
impl Inbox {
    /// The last word of a line is its version and a CRC that follows from the rest.
    pub(crate) fn canonical(&self, versions: Space, out: &mut impl Canonical) {
        let Inbox { seen } = self;
        out.count(versions, seen & u64::from(u32::MAX));
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicU64;
    use std::vec::Vec;

    use super::*;
    use crate::layout::RequestLine;

    fn area() -> Area<Vec<AtomicU64>> {
        Area::new((0..64).map(|_| AtomicU64::new(0)).collect())
    }

    #[test]
    fn a_line_is_seen_once_and_again_when_it_changes() {
        let area = area();
        let mut inbox = Inbox::default();
        assert_eq!(inbox.look::<RequestLine, _>(&area, 0), None);
        let line = RequestLine { sequence: 3, ..RequestLine::default() };
        line.write(&area, 0, 1);
        assert_eq!(inbox.look::<RequestLine, _>(&area, 0).map(|l| l.sequence), Some(3));
        assert_eq!(inbox.look::<RequestLine, _>(&area, 0), None);
        line.write(&area, 0, 2);
        assert!(inbox.look::<RequestLine, _>(&area, 0).is_some(), "said again");
        area.store(0, 9);
        line.write(&area, 64, 3);
        area.store(RequestLine::last_word(0), 5);
        assert_eq!(inbox.look::<RequestLine, _>(&area, 0), None, "torn");
    }
}
