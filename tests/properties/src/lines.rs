//! Lines of words: a line is what was sealed, whole, or nothing; and what their fields become never panics.

use std::fmt::Debug;

use arbitrary::{Result, Unstructured};
use ringleader::fabric::shm::NicHeader;
use ringleader_core::crc;
use ringleader_core::layout::{
    AnswerLine, BeatLine, ConfigBlock, Header, LeaderLine, Line, MemberRecord, ProgressLine, RequestLine,
};
use ringleader_core::membership::Configuration;
use ringleader_core::types::MAX_NODES;
use ringleader_core::verb::RequestId;
use zerocopy::IntoBytes;

use crate::choice::{roll, with, word};
use crate::memory::area;

/// Every line that another process writes, configurations, and the ids of completions.
pub fn lines(bytes: &[u8]) {
    with(bytes, |u| match roll(u, 11)? {
        0 => line::<Header>(u),
        1 => line::<ProgressLine>(u),
        2 => line::<LeaderLine>(u),
        3 => line::<BeatLine>(u),
        4 => line::<RequestLine>(u),
        5 => line::<AnswerLine>(u),
        6 => line::<ConfigBlock>(u),
        7 => line::<NicHeader>(u),
        8 => id(u),
        _ => configuration(u),
    });
}

fn line<L: Line + PartialEq + Debug>(u: &mut Unstructured<'_>) -> Result<()> {
    let mut words = L::ZERO;
    for word_of_line in words.as_mut() {
        *word_of_line = word(u)?;
    }
    let len = L::WORDS * 8;
    let crc = |words: &[u64]| crc::append(0, &words.as_bytes()[..len - 4]).to_le_bytes();
    let is_sealed = words.as_ref().as_bytes()[len - 4..] == crc(words.as_ref());
    let found = L::open(words.as_ref());
    assert_eq!(found.is_some(), is_sealed);
    assert!(found.is_none_or(|line| line.as_bytes() == words.as_ref().as_bytes()));

    let line = L::read_from_bytes(words.as_ref().as_bytes()).expect("as long as the line");
    let mut sealed = L::ZERO;
    let version: u32 = u.arbitrary()?;
    line.seal(sealed.as_mut(), version);
    assert_eq!(sealed.as_ref()[..L::WORDS - 1], words.as_ref()[..L::WORDS - 1], "sealing changes no field");
    assert_eq!(sealed.as_ref()[L::WORDS - 1] as u32, version);
    let opened = L::open(sealed.as_ref()).expect("it was sealed");
    assert_eq!(opened.as_bytes(), sealed.as_ref().as_bytes());

    let place = roll(u, 8)? * 64;
    let memory = area(place + len as u64);
    line.write(&memory, place, version);
    assert_eq!(L::read(&memory, place), Some(opened));
    assert_eq!(memory.load(L::last_word(place)), sealed.as_ref()[L::WORDS - 1]);

    // CRC-32C finds every burst of up to 32 bits.
    let (bit, burst) = (roll(u, len as u64 * 8)?, u64::from(u.arbitrary::<u32>()? | 1));
    let (at, shift) = ((bit / 64) as usize, bit % 64);
    sealed.as_mut()[at] ^= burst << shift;
    if let Some(next) = sealed.as_mut().get_mut(at + 1) {
        *next ^= (u128::from(burst) << shift >> 64) as u64;
    }
    assert_eq!(L::open(sealed.as_ref()), None, "bits {burst:x} from {bit} on");
    Ok(())
}

fn id(u: &mut Unstructured<'_>) -> Result<()> {
    let word = word(u)?;
    let id = RequestId::unpack(word);
    assert_eq!(RequestId::unpack(id.pack()), id);
    // All but a class that there is not comes back as it was.
    assert_eq!((id.pack() ^ word) & !(31 << 4), 0);
    Ok(())
}

fn configuration(u: &mut Unstructured<'_>) -> Result<()> {
    let mut block = ConfigBlock {
        group_low: word(u)?,
        group_high: word(u)?,
        index: word(u)?,
        term: word(u)?,
        ..ConfigBlock::default()
    };
    for removed in &mut block.removed {
        *removed = word(u)?;
    }
    let mut node = 0_u8;
    for record in block.members.iter_mut().take(roll(u, MAX_NODES as u64 + 1)? as usize) {
        node = match roll(u, 8)? {
            0 => u.arbitrary()?,
            1 => roll(u, 17)? as u8,
            _ => node.wrapping_add(1 + roll(u, 2)? as u8),
        };
        let role = if roll(u, 16)? == 0 { u.arbitrary()? } else { 1 + roll(u, 3)? as u8 };
        let address_len = if roll(u, 16)? == 0 { u.arbitrary()? } else { roll(u, 49)? as u8 };
        *record = MemberRecord {
            incarnation: word(u)?,
            node,
            role,
            address_len,
            reserved: u.arbitrary()?,
            address: u.arbitrary()?,
        };
    }
    let Some(configuration) = Configuration::from_block(&block) else { return Ok(()) };
    assert!(configuration.is_formed());
    let members: Vec<_> = configuration.members().copied().collect();
    assert!(members.is_sorted_by(|a, b| a.node < b.node), "ascending, each once");
    assert!(members.iter().all(|member| member.node.is_valid() && member.incarnation.0 != 0));
    let voters = members.iter().filter(|member| configuration.is_voter(member.node)).count();
    assert_eq!(configuration.voters(), voters);
    assert!(voters > 0, "a group that nobody votes in could never do anything");
    assert!(members.iter().all(|member| configuration.names(member.node, member.incarnation)));
    let again = Configuration::from_block(&configuration.block());
    assert_eq!(again.as_ref(), Some(&configuration));
    assert_eq!(again.map(|again| again.hash()), Some(configuration.hash()));
    Ok(())
}
