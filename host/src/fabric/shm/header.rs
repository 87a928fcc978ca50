//! The first 64 KiB of a region file: whose region it is, and the words of the software NIC. Not: the areas behind it.
//!
//! The header is written once, before the file gets its name. The words stand a peer apart: a grant word that only the
//! owner writes, and a busy word that only that peer writes, each alone in its pair of cache lines.

use ringleader_core::layout::{
    AREA_ALIGN, Line, MAX_RING_LEN, MAX_SNAPSHOT_LEN, MIN_RING_LEN, control, log, snapshot,
};
use ringleader_core::options::Half;
use ringleader_core::types::NodeId;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::error::RegionFault;
use super::region::Identity;
use crate::exchange::GroupName;

/// "rl-shmem", the first word.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"rl-shmem");
/// Version of this file's layout. What is in the areas has a version of its own.
pub(super) const FORMAT: u32 = 5;

/// Bytes of the header.
pub(super) const HEADER_LEN: u64 = size_of::<NicHeader>() as u64;
/// Where the control area starts.
pub(super) const CONTROL: u64 = AREA_ALIGN;
/// Where the log area starts.
pub(super) const LOG: u64 = CONTROL + control::LEN;

/// Not 0 once the owner has closed its fabric: it serves nothing and writes nothing any more.
pub(super) const CLOSED: u64 = 2048;
/// How the owner waits, and how many WRITEs came to it (`wake`).
pub(super) const SLEEPER: u64 = 2048 + 256;
pub(super) const ARRIVALS: u64 = 2048 + 512;
const WORDS: u64 = 4096;

/// The word that says who may write: `peer` when it holds its current writer word, nobody when 0.
pub(super) const fn grant_of(peer: NodeId) -> u64 {
    WORDS + peer.0 as u64 * 256
}

/// The word in which `peer` marks that it is writing.
pub(super) const fn busy_of(peer: NodeId) -> u64 {
    grant_of(peer) + 128
}

/// Where the snapshot area starts, behind a ring of that length.
pub(super) const fn snapshot_at(ring_len: u64) -> u64 {
    LOG + log::len(ring_len)
}

/// Length of a region file with a ring and snapshots of these lengths. That of a host whose acceptor is apart ends where its areas
/// would begin: they are its own.
pub(super) const fn file_len(half: Half, ring_len: u64, snapshot_len: u64) -> u64 {
    match half {
        Half::Proposer => CONTROL,
        Half::Whole | Half::Acceptor => snapshot_at(ring_len) + snapshot::len(snapshot_len),
    }
}

/// How a header names what of its node has the region.
const fn number_of(half: Half) -> u64 {
    match half {
        Half::Whole => 0,
        Half::Acceptor => 1,
        Half::Proposer => 2,
    }
}

/// Whether snapshots may have that length.
pub(super) fn is_snapshot_len(snapshot_len: u64) -> bool {
    snapshot_len.is_multiple_of(AREA_ALIGN) && snapshot_len <= MAX_SNAPSHOT_LEN
}

/// Whether a ring may have that length.
pub(super) fn is_ring_len(ring_len: u64) -> bool {
    ring_len.is_power_of_two() && (MIN_RING_LEN..=MAX_RING_LEN).contains(&ring_len)
}

/// Whose region it is. Little-endian, at offset 0 of the file.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct NicHeader {
    /// "rl-shmem".
    pub magic: u64,
    /// Version of the file's layout.
    pub format: u32,
    /// Length of this header.
    pub header_len: u32,
    /// Process that owns the region.
    pub pid: u64,
    /// Inode of the namespace in which `pid` is counted.
    pub pid_namespace: u64,
    /// Node, 1..=15.
    pub node: u64,
    /// Boot of the owner, never 0.
    pub boot: u64,
    /// Incarnation of the owner, never 0.
    pub incarnation: u64,
    /// Length of the ring in bytes.
    pub ring_len: u64,
    /// Offset of the control area.
    pub control: u64,
    /// Offset of the log area.
    pub log: u64,
    /// Length of the file.
    pub file_len: u64,
    /// Bytes of a snapshot; 0: there is no area for one.
    pub snapshot_len: u64,
    /// What of its node has it: 0 all of it, 1 the acceptor alone, 2 the host alone, which has no areas.
    pub half: u64,
    /// The group's name, and zeros; nothing but zeros where it has none.
    pub group_name: [u8; GroupName::MAX_LEN],
    /// 0.
    pub reserved: [u64; 6],
    /// 1: it is written once.
    pub version: u32,
    /// CRC-32C of all before.
    pub crc: u32,
}

impl Line for NicHeader {
    type Words = [u64; size_of::<NicHeader>() / 8];
    const ZERO: Self::Words = [0; size_of::<NicHeader>() / 8];
}

const _: () = assert!(size_of::<NicHeader>() == 192);
const _: () = assert!(busy_of(NodeId(15)) + 128 <= CONTROL && HEADER_LEN <= CLOSED && CLOSED + 64 <= WORDS);

impl NicHeader {
    /// The header of a new region; `version` and `crc` are filled in when it is written.
    pub(super) fn new(identity: &Identity, pid_namespace: u64) -> NicHeader {
        let Identity { node, half, boot, incarnation, ring_len, snapshot_len, group_name } = *identity;
        NicHeader {
            magic: MAGIC,
            format: FORMAT,
            header_len: HEADER_LEN as u32,
            pid: u64::from(std::process::id()),
            pid_namespace,
            node: u64::from(node.0),
            boot,
            incarnation,
            ring_len,
            control: CONTROL,
            log: LOG,
            file_len: file_len(half, ring_len, snapshot_len),
            snapshot_len,
            half: number_of(half),
            group_name: group_name.map_or([0; GroupName::MAX_LEN], |name| name.padded()),
            reserved: [0; 6],
            version: 0,
            crc: 0,
        }
    }

    /// The header in the first bytes of a file that is `len` bytes long. Every number in it has been checked.
    pub fn judge(words: &[u64; size_of::<NicHeader>() / 8], len: u64) -> Result<NicHeader, RegionFault> {
        let header =
            NicHeader::read_from_bytes(words.as_bytes()).expect("the words are as long as the header");
        // What another version wrote must be told before its CRC, which may stand elsewhere.
        if header.magic != MAGIC {
            return Err(RegionFault::Magic);
        }
        if header.format != FORMAT {
            return Err(RegionFault::Format { found: header.format });
        }
        NicHeader::open(words).ok_or(RegionFault::Torn)?;
        let is = |field, found: u64, right: bool| {
            if right { Ok(()) } else { Err(RegionFault::Header { field, found }) }
        };
        is("header_len", u64::from(header.header_len), u64::from(header.header_len) == HEADER_LEN)?;
        is("node", header.node, (1..=15).contains(&header.node))?;
        is("boot", header.boot, header.boot != 0)?;
        is("incarnation", header.incarnation, header.incarnation != 0)?;
        is("ring_len", header.ring_len, is_ring_len(header.ring_len))?;
        is("control", header.control, header.control == CONTROL)?;
        is("log", header.log, header.log == LOG)?;
        is("snapshot_len", header.snapshot_len, is_snapshot_len(header.snapshot_len))?;
        let mut halves = [Half::Whole, Half::Acceptor, Half::Proposer].into_iter();
        let half = halves.find(|half| number_of(*half) == header.half);
        is("half", header.half, half.is_some())?;
        let file_len = file_len(half.unwrap_or_default(), header.ring_len, header.snapshot_len);
        is("file_len", header.file_len, header.file_len == file_len)?;
        if len != header.file_len {
            return Err(RegionFault::Length { len, expected: header.file_len });
        }
        Ok(header)
    }

    /// The node.
    pub fn node_id(&self) -> NodeId {
        NodeId(self.node as u8)
    }

    /// The name of its group, if it has one.
    pub fn group_name(&self) -> Option<GroupName> {
        let end = self.group_name.iter().position(|byte| *byte == 0).unwrap_or(GroupName::MAX_LEN);
        str::from_utf8(&self.group_name[..end]).ok().and_then(GroupName::new)
    }

    /// Whether it is that of a host whose acceptor is apart: there is nothing behind it.
    pub fn is_host(&self) -> bool {
        self.half == number_of(Half::Proposer)
    }
}

/// Whether nobody ever writes the word at `offset` of the first 64 KiB.
pub(super) fn is_unused(offset: u64) -> bool {
    let in_words = (WORDS..WORDS + 16 * 256).contains(&offset) && offset.is_multiple_of(128);
    offset >= HEADER_LEN && ![CLOSED, SLEEPER, ARRIVALS].contains(&offset) && !in_words
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Identity = Identity {
        node: NodeId(3),
        half: Half::Whole,
        boot: 5,
        incarnation: 7,
        ring_len: 1 << 20,
        snapshot_len: 1 << 16,
        group_name: None,
    };

    fn sealed(ring_len: u64) -> [u64; 24] {
        let mut words = [0; 24];
        NicHeader::new(&Identity { ring_len, ..WHOLE }, 11).seal(&mut words, 1);
        words
    }

    #[test]
    fn a_host_has_no_areas() {
        let mut words = [0; 24];
        let host = Identity { half: Half::Proposer, snapshot_len: 0, ..WHOLE };
        NicHeader::new(&host, 11).seal(&mut words, 1);
        let read = NicHeader::judge(&words, CONTROL).unwrap();
        assert!(read.is_host() && read.file_len == CONTROL);
        assert!(matches!(NicHeader::judge(&words, LOG), Err(RegionFault::Length { .. })));
    }

    #[test]
    fn a_header_is_read_back_and_has_these_bytes() {
        let len = file_len(Half::Whole, 1 << 20, 1 << 16);
        let mut header = NicHeader::new(&Identity { group_name: GroupName::new("orders"), ..WHOLE }, 11);
        header.pid = 0x1234;
        let mut words = [0; 24];
        header.seal(&mut words, 1);
        let read = NicHeader::judge(&words, len).unwrap();
        assert_eq!((read.node_id(), read.boot, read.incarnation), (NodeId(3), 5, 7));
        let golden = [
            0x6d65_6d68_732d_6c72,
            0x0000_00c0_0000_0005,
            0x1234,
            11,
            3,
            5,
            7,
            1 << 20,
            0x1_0000,
            0x2_0000,
            0x15_0000,
            0x1_0000,
            0,
            0x7372_6564_726f,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
        ];
        assert_eq!(words[..23], golden);
        assert_eq!(read.group_name(), GroupName::new("orders"));
        assert_eq!(words[23] & 0xffff_ffff, 1);
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let good = sealed(1 << 20);
        for bit in 0..192 * 8 {
            let mut words = good;
            words[bit / 64] ^= 1 << (bit % 64);
            assert!(NicHeader::judge(&words, file_len(Half::Whole, 1 << 20, 1 << 16)).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn sealed_nonsense_is_told_apart() {
        let len = file_len(Half::Whole, 1 << 20, 1 << 16);
        assert!(matches!(NicHeader::judge(&[0; 24], len), Err(RegionFault::Magic)));
        assert!(matches!(
            NicHeader::judge(&sealed(1 << 20), len - 1),
            Err(RegionFault::Length { expected, .. }) if expected == len
        ));
        let forged = |change: fn(&mut NicHeader)| {
            let mut header = NicHeader::new(&WHOLE, 11);
            change(&mut header);
            let mut words = [0; 24];
            header.seal(&mut words, 1);
            NicHeader::judge(&words, len).map_err(|fault| fault.to_string())
        };
        assert!(forged(|_| ()).is_ok());
        for change in [
            (|h: &mut NicHeader| h.node = 16) as fn(&mut NicHeader),
            |h| h.node = 0,
            |h| h.ring_len = u64::MAX,
            |h| h.ring_len = 3 << 20,
            |h| h.file_len = u64::MAX,
            |h| h.snapshot_len = 0,
            |h| h.snapshot_len = 8,
            |h| h.half = 2,
            |h| h.half = 3,
            |h| h.snapshot_len = !0xffff,
            |h| h.log += 8,
            |h| h.control = 0,
            |h| h.format = 1,
            |h| h.header_len = 0,
            |h| h.boot = 0,
            |h| h.incarnation = 0,
        ] {
            assert!(forged(change).is_err());
        }
    }
}
