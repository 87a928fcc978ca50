//! The copy beside the memory that it is of, and what a walk finds in both.

use std::sync::atomic::AtomicU64;

use proptest::prelude::*;
use ringleader_core::entry::{judge, write};
use ringleader_core::types::{Index, LogPoint, Term};

use super::*;

const RING_LEN: u64 = 8 << 10;

type Words = Box<[AtomicU64]>;

fn words(len: u64) -> Words {
    (0..len / 8).map(|_| AtomicU64::new(0)).collect()
}

/// What a device does. Counts the bytes.
struct Beside<'a> {
    host: Area<&'a [AtomicU64]>,
    copy: Area<&'a [AtomicU64]>,
    taken: u64,
    /// Done between the READ of the beat and the next one.
    meanwhile: Option<Box<dyn FnMut() + 'a>>,
}

impl Source for Beside<'_> {
    type Error = ();

    fn beat(&mut self) -> Result<RawBeat, ()> {
        let mut beat = RawBeat::default();
        self.host.read(log::BEAT, &mut beat);
        if let Some(meanwhile) = &mut self.meanwhile {
            meanwhile();
        }
        Ok(beat)
    }

    fn copy(&mut self, offset: u64, len: u32) -> Result<(), ()> {
        self.taken += u64::from(len);
        self.copy.copy_from(&self.host, offset, u64::from(len));
        Ok(())
    }
}

/// A host's log, its acceptor's copy and control area.
struct Place {
    host: Words,
    copy: Words,
    control: Words,
}

impl Place {
    fn new() -> Place {
        Place {
            host: words(log::len(RING_LEN)),
            copy: words(log::len(RING_LEN)),
            control: words(control::LEN),
        }
    }

    fn host(&self) -> Area<&[AtomicU64]> {
        Area::new(&*self.host)
    }

    fn copy(&self) -> Area<&[AtomicU64]> {
        Area::new(&*self.copy)
    }

    fn shadow(&self) -> Shadow<Beside<'_>, &[AtomicU64]> {
        let source = Beside { host: self.host(), copy: self.copy(), taken: 0, meanwhile: None };
        let mut shadow = Shadow::new(source, self.copy(), Area::new(&*self.control), RING_LEN);
        shadow.chunk = 192;
        shadow
    }

    fn publish(&self, anchor: u64) {
        let line = ProgressLine { anchor, ..ProgressLine::default() };
        line.write(&Area::new(&*self.control), control::PROGRESS, 1);
    }

    fn beat(&self, term: u64, counter: u64, matched: u64) {
        let line = BeatLine { leader: term << 8 | 2, counter, matched, ..BeatLine::default() };
        line.write(&self.host(), log::BEAT, counter as u32);
    }

    /// Entries of a leader of that term behind `at`, each with so many bytes; the end of them.
    fn append(&self, mut at: LogPoint, term: u64, lens: &[usize]) -> LogPoint {
        for len in lens {
            let payload = vec![term as u8; *len];
            let until_end = RING_LEN - (at.position.0 & (RING_LEN - 1));
            if slot_len(*len) > until_end {
                at = write(&self.host(), RING_LEN, &at, Term(term), at.position, Kind::PAD, &[]);
            }
            at = write(&self.host(), RING_LEN, &at, Term(term), at.position, Kind::PAYLOAD, &payload);
        }
        at
    }
}

fn start() -> LogPoint {
    LogPoint::default()
}

/// Where a walk from there ends.
fn walk(area: &Area<&[AtomicU64]>, mut at: LogPoint) -> LogPoint {
    while let Ok(valid) = judge(area, RING_LEN, &at) {
        at = valid.next;
    }
    at
}

#[test]
fn what_a_beat_vouches_for_is_there_before_it() {
    let place = Place::new();
    let mut shadow = place.shadow();
    assert_eq!(shadow.look(), Ok(false), "nobody has beaten");
    let end = place.append(start(), 3, &[100; 5]);
    assert_eq!(shadow.look(), Ok(false));
    assert_eq!(walk(&place.copy(), start()), start(), "nothing is vouched for");
    place.beat(3, 1, end.position.0);
    assert_eq!(shadow.look(), Ok(true));
    assert_eq!(walk(&place.copy(), start()), end);
    assert_eq!(BeatLine::read(&place.copy(), log::BEAT).map(|line| line.counter), Some(1));
    // What is final is not READ again.
    place.publish(end.position.0);
    let taken = shadow.source.taken;
    place.beat(3, 2, end.position.0);
    assert_eq!((shadow.look(), shadow.source.taken), (Ok(true), taken));
}

/// A former leader's entries are in the copy; another's take their place, and are vouched for.
#[test]
fn a_beat_never_vouches_for_a_former_leaders_bytes() {
    let place = Place::new();
    let mut shadow = place.shadow();
    place.append(start(), 3, &[100; 5]);
    shadow.catch_up().expect("copied");
    let end = place.append(start(), 4, &[90; 5]);
    place.beat(4, 1, end.position.0);
    shadow.look().expect("looked");
    let mut at = start();
    while at.position < end.position {
        let valid = judge(&place.copy(), RING_LEN, &at).expect("an entry");
        assert_eq!(valid.term, Term(4));
        at = valid.next;
    }
}

/// The bytes are READ behind the beat: what landed in between is newer, and may be there.
#[test]
fn the_beat_is_read_first() {
    let place = Place::new();
    let end = place.append(start(), 3, &[100; 5]);
    place.beat(3, 1, end.position.0);
    let mut shadow = place.shadow();
    let (later, at) = (&place, end);
    shadow.source.meanwhile = Some(Box::new(move || {
        let more = later.append(at, 3, &[100]);
        later.beat(3, 2, more.position.0);
    }));
    shadow.look().expect("looked");
    let line = BeatLine::read(&place.copy(), log::BEAT).expect("whole");
    assert_eq!((line.counter, line.matched), (1, end.position.0), "the one that was READ before the bytes");
    shadow.source.meanwhile = None;
    shadow.look().expect("looked");
    assert!(walk(&place.copy(), start()).position > end.position);
}

#[test]
fn a_line_that_is_no_beat_is_shown_and_vouches_for_nothing() {
    let place = Place::new();
    let mut shadow = place.shadow();
    place.append(start(), 3, &[100]);
    place.beat(3, 1, u64::MAX);
    place.host().store(log::BEAT + 8, 77);
    assert_eq!((shadow.look(), shadow.source.taken), (Ok(true), 0));
    assert_eq!(place.copy().load(log::BEAT + 8), 77);
    // One that is whole and means nothing costs a ring.
    place.beat(3, 1, u64::MAX);
    assert_eq!((shadow.look(), shadow.source.taken), (Ok(true), RING_LEN));
}

#[test]
fn a_fence_takes_no_more_than_a_walk_needs() {
    let place = Place::new();
    let mut shadow = place.shadow();
    shadow.catch_up().expect("copied");
    assert_eq!(shadow.source.taken, 192, "to see that there is nothing");
    let end = place.append(start(), 3, &[100; 10]);
    shadow.catch_up().expect("copied");
    let taken = shadow.source.taken - 192;
    assert!((end.position.0..=end.position.0 + 2 * 192).contains(&taken), "{taken} bytes");
    // Entries all around, of which none is final.
    place.append(end, 3, &[100; 28]);
    shadow.source.taken = 0;
    shadow.catch_up().expect("copied");
    assert!(shadow.source.taken <= RING_LEN);
}

proptest! {
    /// Logs of several leaders, each of which began somewhere in the one before; words that were torn; a copy that has seen some of
    /// it. After a fence a walk ends where it ends in the host's memory, and the beat is the same.
    #[test]
    fn after_a_fence_a_walk_finds_the_same(
        leaders in prop::collection::vec(
            (0..20_usize, prop::collection::vec(0..700_usize, 0..12), any::<bool>()), 1..6,
        ),
        torn in prop::collection::vec((0..log::len(RING_LEN) / 8, any::<u64>()), 0..4),
        looked in 0..4_usize,
    ) {
        let place = Place::new();
        let mut shadow = place.shadow();
        // The places after entries, of the log as it is now.
        let mut points = vec![start()];
        let mut anchor = start();
        for (turn, (keep, lens, publish)) in leaders.iter().enumerate() {
            let term = turn as u64 + 1;
            let from = points.iter().position(|point| *point == anchor).expect("it is in the log");
            points.truncate((from + 1).max(points.len().saturating_sub(*keep)));
            for len in lens {
                let last = points[points.len() - 1];
                // Never over what is not applied.
                if last.position.0 + 2 * slot_len(*len) + 64 > anchor.position.0 + RING_LEN {
                    break;
                }
                points.push(place.append(last, term, &[*len]));
            }
            let end = points[points.len() - 1];
            place.beat(term, 1, end.position.0);
            if turn % 4 == looked {
                shadow.look().expect("looked");
            }
            if *publish {
                anchor = end;
                place.publish(anchor.position.0);
                shadow.look().expect("looked");
            }
        }
        for (word, bits) in &torn {
            let offset = log::RING + word * 8 % RING_LEN;
            place.host().store(offset, place.host().load(offset) ^ (bits & 1 << (bits % 64)));
        }
        shadow.catch_up().expect("copied");
        prop_assert_eq!(walk(&place.copy(), anchor), walk(&place.host(), anchor));
        let (mut ours, mut theirs) = (RawBeat::default(), RawBeat::default());
        place.copy().read(log::BEAT, &mut ours);
        place.host().read(log::BEAT, &mut theirs);
        prop_assert_eq!(ours, theirs);
    }

    /// Whatever stands there, nothing outside is asked for.
    #[test]
    fn any_bytes_are_copied(
        seeds in prop::collection::vec(any::<(u16, u64)>(), 0..200), anchor: u64, matched: u64,
    ) {
        let place = Place::new();
        for (at, word) in seeds {
            place.host().store(u64::from(at) * 8 % log::len(RING_LEN), word);
        }
        place.publish(anchor % (1 << 62));
        place.beat(1, 1, matched);
        let mut shadow = place.shadow();
        shadow.look().expect("looked");
        shadow.catch_up().expect("copied");
        prop_assert!(shadow.source.taken <= 2 * RING_LEN);
    }
}

#[test]
fn a_log_point_begins_where_the_log_does() {
    assert_eq!((start().index, start().position), (Index(0), Position(0)));
}
