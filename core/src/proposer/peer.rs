//! One acceptor as a proposer sees it: what is asked of it, what it answered, and how far its log is (protocol.md 8).
//!
//! The own node is one of these too.

#[cfg(feature = "model")]
use crate::canonical::{Canonical, Counter, Space, answer_line, request_line};
use crate::layout::{AnswerLine, RequestLine, request_kind, verdict};
use crate::mailbox::Outbox;
use crate::mark;
use crate::proposer::confirm::Confirms;
use crate::proposer::flights::{Flight, Flights, What};
use crate::proposer::outbound::Outbound;
use crate::request::{About, Answer};
use crate::types::{Incarnation, Instant, LogPoint, NodeId, Position, Term};

/// What a leader does with a follower.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FollowerState {
    /// Not connected, or not a member in this incarnation.
    Down,
    /// Asking for access.
    Asking,
    /// Reading the own log from where the follower is up to what the staging ring holds.
    Preparing,
    /// Streaming.
    Window,
    /// A write failed: closing, and looking at its promise.
    Broken,
    /// Too far behind: being closed, without waiting for anybody.
    LetGo,
    /// Needs a snapshot.
    Behind,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) outbound: Outbound,
    pub(crate) outbox: Outbox<RequestLine>,
    /// What is asked now; its sequence in `asked`.
    kind: u8,
    term: Term,
    last: (u64, u64),
    hash: u64,
    about: About,
    pub(crate) asked: u64,
    pub(crate) asked_at: Instant,
    /// When its answer, or the acceptor's end of the log queue pair, was last seen to change.
    pub(crate) heard_at: Instant,
    /// It is known to be in the group: before that it does not hear of votes.
    pub(crate) formed: bool,
    /// The life that was connected last.
    pub(crate) life: Incarnation,
    /// The newest answer line of the process connected now.
    pub(crate) line: Option<AnswerLine>,

    pub(crate) state: FollowerState,
    /// Where `Preparing` stands in the own log, and where it began.
    pub(crate) walk: LogPoint,
    pub(crate) start: Position,
    pub(crate) sent: Position,
    /// Moved only by completions of the current epoch.
    pub(crate) matched: Position,
    /// Applied there; its slots below may be overwritten.
    pub(crate) applied: Position,
    pub(crate) flights: Flights,
    /// What of it was read back.
    pub(crate) confirms: Confirms,
    /// Since when it holds the others up; forgotten when it has caught up.
    pub(crate) holds_since: Option<Instant>,
    pub(crate) number: u32,
    pub(crate) beat_due: bool,
    pub(crate) beat_flying: bool,
    pub(crate) beat_version: u32,
    /// Position of the stream when it was beaten last.
    pub(crate) beaten: Position,
    /// When the newest completed beat of this leadership was posted.
    pub(crate) beat_done: Option<Instant>,
    /// When the newest completed beat of this leadership was posted that went to the process connected now: it may bind its
    /// acceptor.
    pub(crate) binds: Option<Instant>,
    /// When the leader saw it break; a promise read after that decides.
    pub(crate) broken_at: Instant,
    /// Its need for a snapshot, if it has one; and when it refused one last.
    pub(crate) need: Need,
    pub(crate) refused_at: Instant,
}

/// A follower's need for a snapshot, from when it was found to have it until it is in window.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Need {
    /// None, or not looked at yet.
    None,
    /// Any that it may take.
    Some(Refusal),
    /// It has taken one, and asks for what comes behind it.
    Met,
}

/// What a follower said to the snapshot that it was told of last.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Refusal {
    None,
    /// Older than where its log begins: it waits for another.
    TooOld,
    /// It cannot take any.
    Unable,
}

impl Peer {
    pub(crate) fn new(node: NodeId) -> Peer {
        Peer {
            outbound: Outbound::new(node),
            outbox: Outbox::new(),
            kind: request_kind::NONE,
            term: Term(0),
            last: (0, 0),
            hash: 0,
            about: About::default(),
            asked: 0,
            asked_at: Instant(0),
            heard_at: Instant(0),
            formed: false,
            life: Incarnation(0),
            line: None,
            state: FollowerState::Down,
            walk: LogPoint::default(),
            start: Position(0),
            sent: Position(0),
            matched: Position(0),
            applied: Position(0),
            flights: Flights::new(),
            confirms: Confirms::default(),
            holds_since: None,
            number: 0,
            beat_due: false,
            beat_flying: false,
            beat_version: 0,
            beaten: Position(0),
            beat_done: None,
            binds: None,
            broken_at: Instant(0),
            need: Need::None,
            refused_at: Instant(0),
        }
    }

    /// All changes of what a leader does with a follower go through here.
    pub(crate) fn turn(&mut self, state: FollowerState) {
        mark::follower(self.state, state);
        self.state = state;
        // One that has taken a snapshot has still to get in window.
        let on_its_way =
            matches!(state, FollowerState::Asking | FollowerState::Preparing | FollowerState::Broken);
        if self.need != Need::Met || !on_its_way {
            self.need = Need::None;
        }
    }

    pub(crate) fn is_in_window(&self) -> bool {
        self.state == FollowerState::Window
    }

    /// Asks for a vote; `last` is (term, index) of the candidate's last entry.
    pub(crate) fn ask_vote(&mut self, now: Instant, sequence: u64, term: Term, last: (u64, u64)) {
        self.ask(now, sequence, request_kind::VOTE, term);
        self.last = last;
    }

    pub(crate) fn ask_access(&mut self, now: Instant, sequence: u64, term: Term) {
        self.ask(now, sequence, request_kind::ACCESS, term);
    }

    pub(crate) fn ask_form(&mut self, now: Instant, sequence: u64, kind: u8, hash: u64) {
        self.ask(now, sequence, kind, Term(0));
        self.hash = hash;
    }

    /// Tells a member of its group; `hash` is that of the configuration it was formed with.
    pub(crate) fn tell_formed(&mut self, now: Instant, sequence: u64, group: u128, hash: u64) {
        self.ask_form(now, sequence, request_kind::FORMED, hash);
        self.last = (group as u64, (group >> 64) as u64);
    }

    /// Tells a follower to stand.
    pub(crate) fn ask_campaign(&mut self, now: Instant, sequence: u64, term: Term) {
        self.ask(now, sequence, request_kind::CAMPAIGN, term);
    }

    /// Asks for a snapshot at or above a position.
    pub(crate) fn ask_save(&mut self, now: Instant, sequence: u64, term: Term, floor: Position) {
        self.ask(now, sequence, request_kind::SAVE, term);
        self.about.point.position = floor;
    }

    /// Tells it to take a snapshot.
    pub(crate) fn ask_take(&mut self, now: Instant, sequence: u64, term: Term, about: About) {
        self.ask(now, sequence, request_kind::TAKE, term);
        self.last = (about.point.term.0, about.point.index.0);
        self.about = about;
    }

    /// It is asked for a snapshot.
    pub(crate) fn is_asking_save(&self) -> bool {
        self.kind == request_kind::SAVE
    }

    /// The snapshot that it is told to take.
    pub(crate) fn asking_take(&self) -> Option<&About> {
        (self.kind == request_kind::TAKE).then_some(&self.about)
    }

    /// It was told to stand.
    pub(crate) fn is_asking_campaign(&self) -> bool {
        self.kind == request_kind::CAMPAIGN
    }

    /// Whether it is known to be in the group. Who is not is told, and nothing else is asked of it: what was asked before would
    /// stand in the way of that.
    pub(crate) fn handle_formed(&mut self, formed: bool) {
        self.formed = formed;
        if !formed && !self.is_asking_form() {
            self.ask_nothing();
        }
    }

    /// What is asked is about forming.
    pub(crate) fn is_asking_form(&self) -> bool {
        self.kind == request_kind::FORM || self.kind == request_kind::FORMED
    }

    pub(crate) fn ask_nothing(&mut self) {
        self.kind = request_kind::NONE;
        self.asked = 0;
    }

    fn ask(&mut self, now: Instant, sequence: u64, kind: u8, term: Term) {
        self.kind = kind;
        self.term = term;
        self.asked = sequence;
        self.asked_at = now;
        self.last = (0, 0);
        self.hash = 0;
        self.about = About::default();
    }

    pub(crate) fn handle_line(&mut self, now: Instant, line: AnswerLine) {
        let news = |line: &AnswerLine| (line.sequence, line.verdict, line.qp_state, line.qp_epoch);
        if self.line.as_ref().map(news) != Some(news(&line)) {
            self.heard_at = now;
        }
        self.line = Some(line);
    }

    /// The answer to what is asked now, if it is there.
    pub(crate) fn answer(&self) -> Option<(Answer, &AnswerLine)> {
        let line = self.line.as_ref()?;
        (self.asked != 0 && line.sequence == self.asked && line.verdict != verdict::NONE)
            .then(|| (Answer::from_line(line), line))
    }

    /// Something is asked and not answered yet.
    pub(crate) fn is_waiting(&self) -> bool {
        self.asked != 0 && self.answer().is_none()
    }

    /// The request line, without the two ends' identities.
    pub(crate) fn request_line(&self) -> RequestLine {
        let (qp_state, qp_epoch, qp_numbers) = self.outbound.shown();
        let mut line = RequestLine {
            sequence: self.asked,
            term: self.term.0,
            last_term: self.last.0,
            last_index: self.last.1,
            hash: self.hash,
            qp_numbers,
            qp_epoch: qp_epoch.0,
            kind: self.kind,
            qp_state,
            ..RequestLine::default()
        };
        self.about.fill(&mut line);
        line
    }

    /// Takes the flight of that number out, which is the oldest.
    #[inline]
    pub(crate) fn land(&mut self, number: u32) -> Option<Flight> {
        let flight = self.flights.land(number)?;
        if flight.what == What::Beat {
            self.beat_flying = false;
        }
        Some(flight)
    }

    /// The queue pair is closed and drained: nothing is outstanding.
    pub(crate) fn drained(&mut self) {
        self.flights.clear();
        self.beat_flying = false;
    }
}

#[cfg(feature = "model")]
impl Peer {
    /// `me` sees `node` like this. While it does not lead, what it knew of its followers is of no account.
    pub(crate) fn canonical<C: Canonical>(&self, me: NodeId, node: NodeId, leads: bool, out: &mut C) {
        let Peer {
            outbound,
            outbox,
            kind,
            term,
            last,
            hash,
            about,
            asked,
            asked_at,
            heard_at,
            formed,
            life,
            line,
            state,
            walk,
            start,
            sent,
            matched,
            applied,
            flights,
            confirms,
            holds_since,
            number,
            beat_due,
            beat_flying,
            beat_version,
            beaten,
            beat_done,
            binds,
            broken_at,
            need,
            refused_at,
        } = self;
        outbound.canonical(me, out);
        outbox.canonical(
            Space::new(Counter::Request, me, node),
            |line, out: &mut C| request_line(line, me, node, out),
            out,
        );
        out.plain((kind, term, last, hash, about, formed, life, state));
        out.count(Space::own(Counter::Sequence, me), *asked);
        out.moment(*asked_at);
        out.moment(*heard_at);
        out.plain(line.is_some());
        if let Some(line) = line {
            // Which version said it does not matter any more.
            answer_line(&AnswerLine { version: 0, ..*line }, node, me, out);
        }
        flights.canonical(Space::new(Counter::Write, me, node), out);
        out.count(Space::new(Counter::Write, me, node), u64::from(*number));
        out.plain(beat_flying);
        out.count(Space::new(Counter::BeatLine, me, node), u64::from(*beat_version));
        if leads {
            confirms.canonical(out);
            out.plain((walk, start, sent, matched, applied, beat_due, beaten, need));
            out.moment_if_any(*holds_since);
            out.moment(*refused_at);
            out.moment_if_any(*beat_done);
            out.moment_if_any(*binds);
        }
        if *state == FollowerState::Broken {
            out.mark(*broken_at);
        }
    }
}
