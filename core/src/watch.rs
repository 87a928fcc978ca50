//! READs of one peer's progress line: for the detector, for pre-votes, and for a leader's view of a follower.
//!
//! One READ is under way at a time; who wants a fresh reading says so, and compares times.

#[cfg(feature = "model")]
use crate::canonical::{Canonical, Counter, Space, progress_line};
use crate::layout::{Line, ProgressLine, control, progress_flags, staging};
use crate::link::Link;
use crate::mem::{Area, Memory};
use crate::types::{Boot, Instant, NodeId};
use crate::verb::{Class, NUMBER_MASK, RequestId, Verb};

/// What is known of one peer's progress line.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    line: Option<ProgressLine>,
    wanted: bool,
    number: u32,
    /// The READ under way, and when it was posted.
    flight: Option<(u32, Instant)>,
    /// When the last READ was posted, and when the one that gave `line` was.
    asked_at: Option<Instant>,
    read_at: Instant,
    /// The number of the latter.
    read_number: u32,
    /// When `liveness` was last seen to differ from the reading before.
    moved_at: Option<Instant>,
    /// How often it was since proof was asked for; `None`: it is not asked for.
    proof: Option<u8>,
}

/// Of two readings that differ the former may have been taken before proof was asked for, and that of the one before it, too. Both of
/// the third pair were asked for later.
const PROVEN: u8 = 3;

impl Watch {
    pub(crate) fn new() -> Watch {
        Watch {
            line: None,
            wanted: false,
            number: 0,
            flight: None,
            asked_at: None,
            read_at: Instant(0),
            read_number: 0,
            moved_at: None,
            proof: None,
        }
    }

    /// The last whole reading since the link came up.
    pub(crate) fn line(&self) -> Option<&ProgressLine> {
        self.line.as_ref()
    }

    /// Whether its application is there, as far as is known: where host and acceptor are apart, the host is alive, and lacks nothing.
    pub(crate) fn has_state(&self) -> bool {
        let (alive, wants) = (progress_flags::HOST_ALIVE, progress_flags::WANTS);
        self.line.as_ref().is_none_or(|line| line.flags & (alive | wants) == alive)
    }

    /// When the READ of the last reading was posted.
    pub(crate) fn read_at(&self) -> Instant {
        self.read_at
    }

    /// The number of the last READ that was posted.
    pub(crate) fn last_asked(&self) -> u32 {
        self.number
    }

    /// Whether the last reading is of a READ that was posted after the one of that number.
    pub(crate) fn is_read_after(&self, number: u32) -> bool {
        let later = self.read_number.wrapping_sub(number) & NUMBER_MASK;
        self.line.is_some() && later != 0 && later <= NUMBER_MASK / 2
    }

    /// When the peer was last known to run.
    pub(crate) fn moved_at(&self) -> Option<Instant> {
        self.moved_at
    }

    /// The peer was heard of in another way.
    pub(crate) fn handle_alive(&mut self, now: Instant) {
        self.moved_at = Some(now);
    }

    /// Whether the life that is connected was seen to run, by readings that were all taken after this was asked first, which was
    /// not before [`Watch::forget_proof`]. Goes on asking, every `ns`.
    pub(crate) fn prove(&mut self, now: Instant, ns: u64) -> bool {
        let count = *self.proof.get_or_insert(0);
        if count < PROVEN {
            self.want_every(now, ns);
        }
        count >= PROVEN
    }

    /// What was proven before proves nothing now.
    pub(crate) fn forget_proof(&mut self) {
        self.proof = None;
    }

    /// Asks for a fresh reading.
    pub(crate) fn want(&mut self) {
        self.wanted = true;
    }

    /// Asks for a reading when the last READ, whatever it found, is `ns` ago; never twice at the same time.
    pub(crate) fn want_every(&mut self, now: Instant, ns: u64) {
        if self.flight.is_none() && self.asked_at.is_none_or(|at| now.since(at) >= ns.max(1)) {
            self.wanted = true;
        }
    }

    pub(crate) fn handle_down(&mut self) {
        let number = self.number;
        *self = Watch { number, moved_at: self.moved_at, ..Watch::new() };
    }

    pub(crate) fn is_stalled(&self, now: Instant, limit: u64) -> bool {
        self.flight.is_some_and(|(_, at)| now.since(at) > limit)
    }

    pub(crate) fn poll(&mut self, now: Instant, link: &Link, peer: NodeId) -> Option<Verb> {
        if !self.wanted || self.flight.is_some() || !link.is_up() {
            return None;
        }
        self.wanted = false;
        self.number = (self.number + 1) & NUMBER_MASK;
        self.flight = Some((self.number, now));
        self.asked_at = Some(now);
        Some(Verb::Read {
            id: RequestId { peer, class: Class::Progress, epoch: link.connection(), number: self.number },
            from: control::PROGRESS,
            to: staging::progress(peer.slot()),
            len: size_of::<ProgressLine>() as u32,
        })
    }

    /// The READ of `number` ended well. Who needs a line and got a torn one asks again in a later turn: at once, a line that
    /// stays torn would be read for ever.
    pub(crate) fn handle_success<M: Memory>(
        &mut self,
        now: Instant,
        number: u32,
        peer: NodeId,
        boot: Boot,
        staging: &Area<M>,
    ) {
        let Some((_, posted)) = self.flight.filter(|(flying, _)| *flying == number) else { return };
        self.flight = None;
        let line = ProgressLine::read(staging, staging::progress(peer.slot()));
        if let Some(line) = line.filter(|line| line.boot == boot.0) {
            if self.line.is_some_and(|before| before.liveness != line.liveness) {
                self.moved_at = Some(now);
                self.proof = self.proof.map(|count| (count + 1).min(PROVEN));
            }
            self.line = Some(line);
            self.read_at = posted;
            self.read_number = number;
        }
    }
}

#[cfg(feature = "model")]
impl Watch {
    pub(crate) fn canonical(&self, me: NodeId, peer: NodeId, out: &mut impl Canonical) {
        let Watch { line, wanted, number, flight, asked_at, read_at, read_number, moved_at, proof } = self;
        let readings = Space::new(Counter::Reading, me, peer);
        out.plain((line.is_some(), wanted, flight.is_some(), proof));
        if let Some(line) = line {
            progress_line(line, peer, out);
        }
        out.count(readings, u64::from(*number));
        out.count(readings, u64::from(*read_number));
        if let Some((number, posted_at)) = *flight {
            out.count(readings, u64::from(number));
            out.moment(posted_at);
        }
        out.moment_if_any(*asked_at);
        out.moment(*read_at);
        out.moment_if_any(*moved_at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a READ completes at once, a line that stays torn must not be read again in the same turn, whoever wants it.
    #[test]
    fn a_reading_is_wanted_once_at_a_time() {
        let mut watch = Watch::new();
        watch.want_every(Instant(5), 0);
        assert!(watch.wanted, "never asked before");
        watch.wanted = false;
        watch.asked_at = Some(Instant(5));
        watch.want_every(Instant(5), 0);
        assert!(!watch.wanted);
        watch.want_every(Instant(6), 10);
        assert!(!watch.wanted);
        watch.want_every(Instant(6), 0);
        assert!(watch.wanted);
    }
}
