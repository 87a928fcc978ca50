//! No bytes in shared memory, whatever they are, make a replica panic or read out of bounds: a stranger writes everywhere,
//! also lines whose CRC is right. (Overflow checks are on in tests.)

mod group;

use group::{Group, MS, RING, Words};
use ringleader_core::layout::{
    AnswerLine, BeatLine, ConfigBlock, Header, LeaderLine, Line, ProgressLine, RequestLine, answer_of,
    control, log, request_of, staging,
};
use ringleader_core::mem::Area;
use ringleader_core::types::{Instant, NodeId};
use zerocopy::IntoBytes;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    /// Numbers that mean something, or are just beyond what does.
    fn word(&mut self, group: &Group) -> u64 {
        let node = self.roll(3) as usize;
        let status = group.nodes[node].replica.status();
        match self.roll(14) {
            0 => u64::MAX - self.roll(3),
            1 => 1 << self.roll(64),
            2 => RING - 64 + self.roll(3) * 64,
            3 => status.promise.0 + self.roll(3) * 256,
            4 => status.end.position.0 + self.roll(3) * 64,
            5 => status.end.index.0 + self.roll(3),
            6 => status.anchor.position.0,
            7 => 20 + self.roll(5),
            8 => 10 + self.roll(5),
            9 => self.roll(8) << 32 | self.roll(8),
            10 => u64::MAX << 8 | self.roll(16),
            11 => 0x1234,
            _ => self.roll(4),
        }
    }

    fn line<L: Line>(&mut self, group: &Group, area: &Area<Words>, offset: u64) {
        // Half of the fields stay what they are, so that some lines get past the first comparisons.
        let mut words = L::ZERO;
        area.read(offset, words.as_mut());
        for word in 0..L::WORDS {
            if self.roll(3) == 0 {
                words.as_mut()[word] = self.word(group);
            }
        }
        let line = L::read_from_bytes(words.as_ref().as_bytes()).expect("as long as the line");
        line.write(area, offset, self.roll(1000) as u32);
    }

    fn scribble(&mut self, group: &Group) {
        let areas = group.nodes[self.roll(3) as usize].areas.clone();
        let peer = NodeId(1 + self.roll(3) as u8);
        match self.roll(12) {
            0 => self.line::<RequestLine>(group, &areas.control, request_of(peer)),
            1 => self.line::<AnswerLine>(group, &areas.control, answer_of(peer)),
            2 => self.line::<ProgressLine>(group, &areas.control, control::PROGRESS),
            3 => self.line::<BeatLine>(group, &areas.log, log::BEAT),
            4 => self.line::<Header>(group, &areas.control, control::HEADER),
            5 => self.line::<ConfigBlock>(group, &areas.control, control::CONFIG),
            6 => self.line::<LeaderLine>(group, &areas.control, control::LEADER),
            7 => self.line::<ProgressLine>(group, &areas.staging, staging::progress(peer.slot())),
            8 => areas.control.store(self.roll(control::LEN / 8) * 8, self.word(group)),
            _ => {
                let end = group.nodes[0].replica.status().end.position.0;
                let near = end.saturating_sub(self.roll(32) * 64) + self.roll(8) * 8;
                areas.log.store(log::RING + near % RING, self.word(group));
            }
        }
    }
}

#[test]
fn a_stranger_who_writes_everywhere_makes_nobody_panic() {
    for seed in 1..=150_u64 {
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        let mut group = Group::new();
        let early = dice.roll(2) == 0;
        if early {
            (0..20).for_each(|_| dice.scribble(&group));
        }
        group.nodes[0].replica.form(Instant(0), 0x1234).expect("fresh");
        for turn in 0..1500 {
            group.turn();
            if early || turn > 300 {
                (0..dice.roll(4)).for_each(|_| dice.scribble(&group));
            }
            for node in &mut group.nodes {
                let payload = vec![7; dice.roll(3000) as usize];
                let _ = node.replica.propose(Instant(group.now), &payload);
            }
            if dice.roll(200) == 0 {
                group.now += 60 * MS;
            }
        }
    }
}
