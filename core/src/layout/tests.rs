//! Every line against golden bytes: what other nodes, and other builds, read.

use std::vec::Vec;

use super::*;

/// The words of a line whose fields are all different, with version 7.
fn sealed<L: Line>(line: L) -> Vec<u64> {
    let mut words = std::vec![0; L::WORDS];
    line.seal(&mut words, 7);
    assert_eq!(L::open(&words).map(|line| line.as_bytes().to_vec()), Some(words.as_bytes().to_vec()));
    words
}

fn crc_of(words: &[u64]) -> u64 {
    u64::from(crc::append(0, &words.as_bytes()[..words.len() * 8 - 4])) << 32
}

/// All words but the last as given, the last of version 7 and the CRC.
fn golden<L: Line>(line: L, words: &[u64]) {
    let sealed = sealed(line);
    let (last, body) = sealed.split_last().expect("a line has words");
    let mut expected = words.to_vec();
    expected.resize(body.len(), 0);
    assert_eq!(body, expected);
    assert_eq!(*last, 7 | crc_of(&sealed));
}

#[test]
fn golden_header() {
    let header = Header {
        magic: MAGIC,
        layout: LAYOUT_VERSION,
        flags: 2,
        group_low: 3,
        group_high: 4,
        node: 5,
        incarnation: 6,
        boot: 7,
        ring_len: 8,
        max_entry: 9,
        proposer: 10,
        ..Header::default()
    };
    golden(header, &[0x6461656c676e6972, 6 | 2 << 32, 3, 4, 5, 6, 7, 8, 9, 10]);
    assert_eq!(sealed(header)[15] >> 32, 0x2b8fc98e, "the CRC of these very bytes");
}

#[test]
fn golden_progress() {
    let line = ProgressLine {
        boot: 1,
        liveness: 2,
        promise: 3,
        grant: 4,
        applied: 5,
        durable: 6,
        hint_term: 7,
        hint_index: 8,
        flags: 9,
        config_index: 10,
        anchor: 11,
        start: 12,
        save: 13,
        save_by: 14,
        ..ProgressLine::default()
    };
    golden(line, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]);
}

#[test]
fn golden_host() {
    let line = HostLine {
        boot: 1,
        to_boot: 2,
        liveness: 3,
        applied: 4,
        flags: 5,
        form_low: 6,
        form_high: 7,
        saved: 8,
        index: 9,
        term: 10,
        position: 11,
        len: 12,
        chain: 13,
        bytes_crc: 14,
        config_crc: 15,
        ..HostLine::default()
    };
    golden(line, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13 | 14 << 32, 15]);
}

#[test]
fn golden_leader_and_beat() {
    let line = LeaderLine { term: 1, commit: 2, commit_index: 3, flags: 4, ..LeaderLine::default() };
    golden(line, &[1, 2, 3, 4]);
    let line = BeatLine {
        leader: 1,
        counter: 2,
        commit: 3,
        commit_index: 4,
        matched: 5,
        flags: 6,
        ..BeatLine::default()
    };
    golden(line, &[1, 2, 3, 4, 5, 6]);
}

#[test]
fn golden_mailboxes() {
    let line = RequestLine {
        from_boot: 1,
        to_boot: 2,
        to_incarnation: 3,
        sequence: 4,
        term: 5,
        last_term: 6,
        last_index: 7,
        hash: 8,
        qp_numbers: 9,
        qp_epoch: 10,
        kind: 11,
        qp_state: 12,
        source: 13,
        position: 14,
        counts: 15,
        source_boot: 16,
        number: 17,
        chain: 18,
        ..RequestLine::default()
    };
    let packed = 10 | 11 << 32 | 12 << 40 | 13 << 48;
    golden(line, &[1, 2, 3, 4, 5, 6, 7, 8, 9, packed, 14, 15, 16, 17, 18]);
    let line = AnswerLine {
        from_boot: 1,
        to_boot: 2,
        sequence: 3,
        promise: 4,
        last_term: 5,
        last_index: 6,
        last_position: 7,
        anchor_term: 8,
        anchor_index: 9,
        anchor_position: 10,
        applied: 11,
        durable: 12,
        qp_numbers: 13,
        qp_epoch: 14,
        anchor_chain: 15,
        verdict: 16,
        qp_state: 17,
        snapshot_number: 18,
        snapshot_len: 19,
        fetched: 20,
        ..AnswerLine::default()
    };
    golden(line, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14 | 15 << 32, 16 | 17 << 8, 18, 19, 20]);
}

#[test]
fn golden_snapshot() {
    let line = SnapshotLine {
        group_low: 1,
        group_high: 2,
        boot: 3,
        number: 4,
        index: 5,
        term: 6,
        position: 7,
        len: 8,
        chain: 9,
        bytes_crc: 10,
        config_crc: 11,
        ..SnapshotLine::default()
    };
    golden(line, &[1, 2, 3, 4, 5, 6, 7, 8, 9 | 10 << 32, 11]);
}

#[test]
fn golden_configuration() {
    let mut block = ConfigBlock {
        group_low: 1,
        group_high: 2,
        index: 3,
        term: 4,
        anchor_index: 5,
        ..ConfigBlock::default()
    };
    let mut address = [0; MAX_ADDRESS_LEN];
    address[..9].copy_from_slice(b"somewhere");
    block.members[1] =
        MemberRecord { incarnation: 6, node: 7, role: 2, address_len: 9, address, ..MemberRecord::default() };
    block.removed = [8; MAX_NODES];
    let mut words = [0; 8 + 15 + 16];
    words[..5].copy_from_slice(&[1, 2, 3, 4, 5]);
    words[8..23].fill(8);
    words[31..35].copy_from_slice(&[
        6,
        7 | 2 << 8 | 9 << 16,
        u64::from_le_bytes(*b"somewher"),
        u64::from(b'e'),
    ]);
    golden(block, &words);
}

#[test]
fn a_line_nobody_wrote_or_with_any_bit_flipped_is_none() {
    assert_eq!(LeaderLine::open(&[0; 8]), None);
    let words = sealed(LeaderLine { term: 1, ..LeaderLine::default() });
    for bit in 0..512 {
        let mut flipped = words.clone();
        flipped[bit / 64] ^= 1 << (bit % 64);
        assert_eq!(LeaderLine::open(&flipped), None, "bit {bit}");
    }
}

#[test]
fn places_are_as_documented() {
    assert_eq!((request_of(NodeId(1)), answer_of(NodeId(2)), control::CONFIG), (1216, 4480, 7168));
    assert_eq!(log::len(MIN_RING_LEN), 64 * 1024 + 512 * 1024);
    assert_eq!((snapshot::len(0), snapshot::len(64 * 1024)), (0, 128 * 1024));
}
