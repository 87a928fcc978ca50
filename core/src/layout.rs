//! Every line that another node reads or writes, byte for byte (docs/layout.md is the same in prose).
//!
//! A *line* is 64-byte aligned, little-endian, a multiple of 64 bytes long, and ends in `version u32, crc u32`: the CRC-32C
//! of all before it. Peers may store anything anywhere: a line is copied out whole and then judged by its CRC; fields
//! hold whatever the bytes say, and numbers in them are checked where they are used. `version` counts the writes of
//! one line, so that a line that changed has another last word: one load tells whether there is anything new.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::crc;
use crate::mem::{Area, Memory, acquire};
use crate::types::{Chain, Index, LogPoint, MAX_NODES, NodeId, Position, Term};

#[cfg(target_endian = "big")]
compile_error!("registered memory is little-endian, and so must be the processor");

/// "ringlead", the first word of a header.
pub const MAGIC: u64 = u64::from_le_bytes(*b"ringlead");
/// Version of everything in this file and of the entry format.
pub const LAYOUT_VERSION: u32 = 6;
/// Areas, and the rings in them, are aligned to the largest page size of the machines the agents run on.
pub const AREA_ALIGN: u64 = 64 * 1024;
/// Smallest ring, in bytes.
pub const MIN_RING_LEN: u64 = 512 * 1024;
/// Largest ring, in bytes: slot lengths stay below 2^32 with room to spare.
pub const MAX_RING_LEN: u64 = 1 << 34;
/// Longest snapshot, in bytes.
pub const MAX_SNAPSHOT_LEN: u64 = 1 << 44;

/// The control area: READ and WRITE for peers.
pub mod control {
    /// [`super::Header`].
    pub const HEADER: u64 = 0;
    /// [`super::ProgressLine`].
    pub const PROGRESS: u64 = 128;
    /// [`super::LeaderLine`].
    pub const LEADER: u64 = 256;
    /// [`super::HostLine`], where host and acceptor are apart.
    pub const HOST: u64 = 320;
    /// Request lines, one a peer, written by the peer's proposer.
    pub const REQUESTS: u64 = 1024;
    /// Answer lines, one a peer, written by the peer's acceptor.
    pub const ANSWERS: u64 = REQUESTS + 16 * super::MAIL_LEN;
    /// [`super::ConfigBlock`].
    pub const CONFIG: u64 = ANSWERS + 16 * super::MAIL_LEN;
    /// [`super::ConfigBlock`] of the configuration at the anchor, where host and acceptor are apart: for the host.
    pub const ANCHORED: u64 = CONFIG + size_of::<super::ConfigBlock>() as u64;
    /// All lines end here.
    pub const LINES_LEN: u64 = ANCHORED + size_of::<super::ConfigBlock>() as u64;
    /// Length of the area in bytes.
    pub const LEN: u64 = super::AREA_ALIGN;
}

/// The log area: READ for peers, WRITE for the one that is granted. The staging area has the same geometry.
pub mod log {
    /// [`super::BeatLine`].
    pub const BEAT: u64 = 0;
    /// The ring.
    pub const RING: u64 = super::AREA_ALIGN;

    /// Length of the area in bytes.
    pub const fn len(ring_len: u64) -> u64 {
        RING + ring_len
    }
}

/// The snapshot area: READ for peers, and nobody but its node stores into it (where host and acceptor are apart: the host, what it
/// was told to save). Its first part holds lines, and what was READ of
/// another node's; behind it is a state of an application, the node's own or one that it takes from another.
pub mod snapshot {
    /// [`super::SnapshotLine`]: zero unless the bytes are those of a snapshot that this node saved, or, where its host is apart, took.
    pub const HEADER: u64 = 0;
    /// [`super::ConfigBlock`]: the configuration at the snapshot's point.
    pub const CONFIG: u64 = 2048;
    /// Where the header of another node is READ to.
    pub const TAKEN_HEADER: u64 = 4096;
    /// Where the configuration block of another node's snapshot is READ to.
    pub const TAKEN_CONFIG: u64 = 6144;
    /// The application's bytes.
    pub const BYTES: u64 = super::AREA_ALIGN;

    /// Length of the area in bytes, for snapshots of up to `snapshot_len` bytes: nothing at all for 0.
    pub const fn len(snapshot_len: u64) -> u64 {
        if snapshot_len == 0 { 0 } else { BYTES + snapshot_len }
    }
}

/// The staging area: local memory, never given to a peer. Sources of WRITEs and targets of READs come first, then the
/// staging ring, at the offset at which the log area has its ring.
pub mod staging {
    const SLOT_LEN: u64 = 2048;

    /// Where the line for the own acceptor is made, when that is apart.
    pub const HOST: u64 = 0;
    /// And the leader line for it.
    pub const LEADER: u64 = 128;

    /// Where this node's request line for `peer` is made.
    pub const fn request(peer: usize) -> u64 {
        peer as u64 * SLOT_LEN
    }
    /// Where this node's answer line for `peer` is made.
    pub const fn answer(peer: usize) -> u64 {
        request(peer) + 192
    }
    /// Where the beat for `peer` is made.
    pub const fn beat(peer: usize) -> u64 {
        request(peer) + 384
    }
    /// Where the header of `peer` is read to.
    pub const fn header(peer: usize) -> u64 {
        request(peer) + 448
    }
    /// Where the progress line of `peer` is read to.
    pub const fn progress(peer: usize) -> u64 {
        request(peer) + 576
    }
    /// Where the leader line of `peer` is read to.
    pub const fn leader(peer: usize) -> u64 {
        request(peer) + 704
    }
    /// Where READs that confirm WRITEs to `peer` land: eight words.
    pub const fn confirm(peer: usize, word: usize) -> u64 {
        request(peer) + 768 + word as u64 * 8
    }
    /// Where the configuration block of `peer` is read to.
    pub const fn config(peer: usize) -> u64 {
        request(peer) + 896
    }
}

/// Bytes of one mailbox line.
pub const MAIL_LEN: u64 = size_of::<RequestLine>() as u64;

/// A line as declared above.
pub trait Line: FromBytes + IntoBytes + Immutable + KnownLayout + Copy {
    /// Words of the line.
    const WORDS: usize = size_of::<Self>() / 8;
    /// As many words as the line has.
    type Words: AsRef<[u64]> + AsMut<[u64]>;
    /// All of them zero.
    const ZERO: Self::Words;

    /// Reads the line at `offset`; `None` when it is torn, or nobody ever wrote it.
    fn read<M: Memory>(area: &Area<M>, offset: u64) -> Option<Self> {
        let mut words = Self::ZERO;
        acquire();
        area.read(offset, words.as_mut());
        Self::open(words.as_ref())
    }

    /// The line in `words`, when its CRC is right.
    fn open(words: &[u64]) -> Option<Self> {
        let bytes = words.as_bytes();
        let (body, crc) = bytes.split_at(bytes.len() - 4);
        (crc::append(0, body) == u32::from_le_bytes([crc[0], crc[1], crc[2], crc[3]]))
            .then(|| Self::read_from_bytes(bytes).ok())
            .flatten()
    }

    /// The words of the line with `version` and CRC filled in, written to `offset`.
    fn write<M: Memory>(&self, area: &Area<M>, offset: u64, version: u32) {
        let mut words = Self::ZERO;
        self.seal(words.as_mut(), version);
        area.write(offset, words.as_ref());
    }

    /// Fills `words` (exactly `WORDS` of them) with the line, its version and CRC.
    fn seal(&self, words: &mut [u64], version: u32) {
        let bytes = words.as_mut_bytes();
        bytes.copy_from_slice(self.as_bytes());
        let Some((body, crc)) = bytes.split_last_chunk_mut::<4>() else { return };
        if let Some(last) = body.last_chunk_mut::<4>() {
            *last = version.to_le_bytes();
        }
        *crc = crc::append(0, body).to_le_bytes();
    }

    /// Offset of the last word of the line at `offset`: another word means another line.
    fn last_word(offset: u64) -> u64 {
        offset + (Self::WORDS as u64 - 1) * 8
    }
}

macro_rules! line {
    ($(#[$doc:meta])* $name:ident[$len:literal] { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(C)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
            /// Counts the writes of this line.
            pub version: u32,
            /// CRC-32C of all before.
            pub crc: u32,
        }

        impl Line for $name {
            type Words = [u64; $len / 8];
            const ZERO: Self::Words = [0; $len / 8];
        }

        impl Default for $name {
            fn default() -> Self {
                Self::read_from_bytes(&[0; $len]).expect("a line is exactly as long as declared")
            }
        }

        const _: () = assert!(size_of::<$name>() == $len && $len % 64 == 0);
    };
}

line! {
    /// Who this region belongs to. Written at start, when the group is formed, and when another
    /// host is met.
    Header[128] {
        /// [`MAGIC`].
        magic: u64,
        /// [`LAYOUT_VERSION`].
        layout: u32,
        /// None defined; 0.
        flags: u32,
        /// Group id, low half; 0 in a region that belongs to no group yet.
        group_low: u64,
        /// Group id, high half.
        group_high: u64,
        /// Node, 1..=15.
        node: u64,
        /// Incarnation, never 0.
        incarnation: u64,
        /// Boot, never 0.
        boot: u64,
        /// Length of the ring in bytes, a power of two.
        ring_len: u64,
        /// Largest slot in bytes, header and tail included.
        max_entry: u64,
        /// Boot of whoever writes request lines for this node: the same as `boot`, but where its host is apart.
        proposer: u64,
        /// 0.
        reserved: [u64; 5],
    }
}

/// Flags of a progress line.
pub mod progress_flags {
    /// The beat of the leader that this line's promise names has stopped, and it could not be excused.
    pub const QUIET: u64 = 1;
    /// This node leads the term of its promise.
    pub const LEADER: u64 = 2;
    /// The host behind this acceptor is alive (always set where the acceptor is in the host).
    pub const HOST_ALIVE: u64 = 4;
    /// This node is in a formed group.
    pub const FORMED: u64 = 8;
    /// Its application writes its state, or becomes another one's: it applies nothing meanwhile.
    pub const AWAY: u64 = 16;
    /// The host behind this acceptor lacks what the log does not hold any more, and wants a snapshot.
    pub const WANTS: u64 = 32;
}

line! {
    /// How far an acceptor is. Written by it alone, READ by all.
    ProgressLine[128] {
        /// Boot of the writer.
        boot: u64,
        /// Moves as long as the writer runs.
        liveness: u64,
        /// The promise word.
        promise: u64,
        /// The promise word of the writer that may write the log area now; 0 while fenced.
        grant: u64,
        /// Position up to which the application has everything; never above the anchor, never falls.
        applied: u64,
        /// Position up to which the log is on disk; 0 without a journal.
        durable: u64,
        /// Term of the last entry walked (a hint).
        hint_term: u64,
        /// Index of the last entry walked (a hint).
        hint_index: u64,
        /// [`progress_flags`].
        flags: u64,
        /// Index of the entry that made the configuration at the anchor; 0: the one the group was formed with, or none known.
        config_index: u64,
        /// Position of the anchor: everything below is committed, and final here. 0 where the host is not apart, for only that reads it.
        anchor: u64,
        /// Position at which the log begins: that of the last snapshot that was installed. 0 where the host is not apart.
        start: u64,
        /// Number of the snapshot that the host is to save; 0: none.
        save: u64,
        /// Boot of that host.
        save_by: u64,
        /// 0.
        reserved: [u64; 1],
    }
}

/// Flags of a host line.
pub mod host_flags {
    /// The host leads the term of its acceptor's promise.
    pub const LEADS: u64 = 1;
    /// Its application writes its state, or becomes another one's.
    pub const AWAY: u64 = 2;
    /// It wants a snapshot: neither the acceptor's log nor its snapshot area has what comes next.
    pub const WANTS: u64 = 4;
    /// There is no snapshot of the number in `saved`, and there will be none.
    pub const UNABLE: u64 = 8;
}

line! {
    /// What a host tells its own acceptor, where the two are apart. Written by the host.
    HostLine[128] {
        /// Boot of the host.
        boot: u64,
        /// Boot of the acceptor that it is meant for.
        to_boot: u64,
        /// Moves as long as the host runs.
        liveness: u64,
        /// Position up to which the application has everything.
        applied: u64,
        /// [`host_flags`].
        flags: u64,
        /// A group is to be formed with this id, low half; 0: nothing is to be formed.
        form_low: u64,
        /// High half.
        form_high: u64,
        /// Number of the last snapshot that it was told to save, and is through with; 0: none. Its bytes, and the configuration that
        /// goes with them, are in the acceptor's snapshot area.
        saved: u64,
        /// Of that snapshot: index of the last entry in it.
        index: u64,
        /// Term of the same.
        term: u64,
        /// Position behind the same.
        position: u64,
        /// Bytes.
        len: u64,
        /// Chain behind the last entry.
        chain: u32,
        /// CRC-32C of the bytes.
        bytes_crc: u32,
        /// CRC of the configuration block.
        config_crc: u32,
        /// 0.
        pad: u32,
        /// 0.
        reserved: [u64; 1],
    }
}

line! {
    /// What a leader has committed; written before it answers a client. Term 0: does not lead.
    LeaderLine[64] {
        /// Term whose no-op is committed, or 0.
        term: u64,
        /// Committed position.
        commit: u64,
        /// Index of the last committed entry.
        commit_index: u64,
        /// None defined; 0.
        flags: u64,
        /// 0.
        reserved: [u64; 3],
    }
}

/// Flags of a beat line.
pub mod beat_flags {
    /// The leader is giving up: leases from this beat do not bind.
    pub const YIELDING: u64 = 1;
}

line! {
    /// What a node has saved in its snapshot area. Written when all of it is there, and zeroed before any of it changes.
    SnapshotLine[128] {
        /// Group id, low half.
        group_low: u64,
        /// Group id, high half.
        group_high: u64,
        /// Boot of the writer.
        boot: u64,
        /// Counts the snapshots of `boot`.
        number: u64,
        /// Index of the last entry in it.
        index: u64,
        /// Term of that entry.
        term: u64,
        /// Where the next entry starts.
        position: u64,
        /// Bytes of it.
        len: u64,
        /// Chain of the last entry in it.
        chain: u32,
        /// CRC-32C of its bytes.
        bytes_crc: u32,
        /// CRC-32C of its configuration block.
        config_crc: u32,
        /// 0.
        padding: u32,
        /// 0.
        reserved: [u64; 5],
    }
}

impl SnapshotLine {
    /// The last entry in it.
    pub(crate) fn point(&self) -> LogPoint {
        LogPoint {
            index: Index(self.index),
            term: Term(self.term),
            position: Position(self.position),
            chain: Chain(self.chain),
        }
    }
}

line! {
    /// The line a leader writes into the log area of each acceptor that granted it.
    BeatLine[64] {
        /// The promise word of the leader: `term << 8 | node`.
        leader: u64,
        /// Grows with each beat.
        counter: u64,
        /// The leader's commit, never above `matched`.
        commit: u64,
        /// Index of the last entry at or below the leader's commit.
        commit_index: u64,
        /// Up to where the leader knows this acceptor's bytes equal to its own.
        matched: u64,
        /// [`beat_flags`].
        flags: u64,
        /// 0.
        reserved: u64,
    }
}

/// Requests of a [`RequestLine`].
pub mod request_kind {
    /// Nothing is asked.
    pub const NONE: u8 = 0;
    /// A vote in `term`.
    pub const VOTE: u8 = 1;
    /// A leader of `term` asks for write access.
    pub const ACCESS: u8 = 2;
    /// Lock to the configuration with this hash, which stands in the asker's configuration block.
    pub const FORM: u8 = 3;
    /// The group with the id in `last_term` (low half) and `last_index` (high half) is formed, the reader is a member of it,
    /// and `hash` is that of the configuration it was formed with (0: not known to the asker).
    pub const FORMED: u8 = 4;
    /// The leader of `term` hands over: the reader is to stand.
    pub const CAMPAIGN: u8 = 5;
    /// The leader of `term` asks for a snapshot of the reader's application, at `position` or above it.
    pub const SAVE: u8 = 6;
    /// The leader of `term` tells the reader to take the snapshot `number` of node `source`.
    pub const TAKE: u8 = 7;
}

/// Answers of an [`AnswerLine`].
pub mod verdict {
    /// Nothing was asked.
    pub const NONE: u8 = 0;
    /// Yes.
    pub const GRANTED: u8 = 1;
    /// No: `promise` is ahead of the request's term.
    pub const BEHIND: u8 = 2;
    /// No: a leader was heard of too recently.
    pub const LEASE: u8 = 3;
    /// No: the candidate's log is older.
    pub const OLDER: u8 = 4;
    /// No: cannot take part in this forming.
    pub const NOT_FRESH: u8 = 5;
    /// It is being done.
    pub const WORKING: u8 = 6;
    /// No: no snapshot can be made or taken here now.
    pub const UNABLE: u8 = 7;
    /// No: the snapshot is not to be had, its source is gone or has another one by now.
    pub const LOST: u8 = 8;
    /// No: the snapshot is older than where the reader's log begins.
    pub const TOO_OLD: u8 = 9;
}

/// States of a queue pair's end, as the lines show them.
pub mod qp {
    /// Initiator: closed and drained up to `qp_epoch`.
    pub const CLOSED: u8 = 1;
    /// Initiator: up with `qp_epoch`.
    pub const READY: u8 = 2;
    /// Acceptor: no write of `qp_epoch` or before can land any more.
    pub const FENCED: u8 = 3;
    /// Acceptor: armed with `qp_epoch`, no write permission.
    pub const ARMED: u8 = 4;
    /// Acceptor: `qp_epoch` may write.
    pub const GRANTED: u8 = 5;
}

line! {
    /// What a proposer asks of an acceptor, and the state of its end of the log queue pair to it.
    RequestLine[192] {
        /// Boot of the writer.
        from_boot: u64,
        /// Boot of the reader this is meant for.
        to_boot: u64,
        /// Incarnation of the reader this is meant for.
        to_incarnation: u64,
        /// Number of the request within `from_boot`.
        sequence: u64,
        /// Term of a vote or access.
        term: u64,
        /// Term of the last entry of a candidate, or in the snapshot with `TAKE`; low half of the group id with `FORMED`.
        last_term: u64,
        /// Index of the last entry of a candidate, or in the snapshot with `TAKE`; high half of the group id with `FORMED`.
        last_index: u64,
        /// Hash of a configuration.
        hash: u64,
        /// Opaque numbers of the initiator's end of the log queue pair.
        qp_numbers: u64,
        /// Epoch of `qp_state`.
        qp_epoch: u32,
        /// [`request_kind`].
        kind: u8,
        /// [`qp`].
        qp_state: u8,
        /// With `TAKE`: the node that has the snapshot.
        source: u8,
        /// 0.
        padding: u8,
        /// With `SAVE`: no snapshot below this will do. With `TAKE`: the end of the last entry in the snapshot.
        position: u64,
        /// With `TAKE`: 1 when the reader is in window, and goes on counting.
        counts: u64,
        /// With `TAKE`: boot of the source.
        source_boot: u64,
        /// With `TAKE`: the number of the snapshot.
        number: u64,
        /// With `TAKE`: chain of the last entry in the snapshot.
        chain: u64,
        /// 0.
        reserved: [u64; 8],
    }
}

line! {
    /// What an acceptor answers to a proposer, and the state of the log queue pair it keeps for it.
    AnswerLine[192] {
        /// Boot of the writer.
        from_boot: u64,
        /// Boot of the reader this is meant for.
        to_boot: u64,
        /// Number of the request answered.
        sequence: u64,
        /// The promise word now.
        promise: u64,
        /// Term of the last entry in the log, with `GRANTED`.
        last_term: u64,
        /// Index of the last entry in the log.
        last_index: u64,
        /// End of the last entry in the log.
        last_position: u64,
        /// Term of the anchor; in answers to `SAVE`, here and in the next two, the last entry in the snapshot.
        anchor_term: u64,
        /// Index of the anchor.
        anchor_index: u64,
        /// Position of the anchor.
        anchor_position: u64,
        /// `applied` when the answer was made.
        applied: u64,
        /// `durable` when the answer was made.
        durable: u64,
        /// Opaque numbers of the acceptor's end of the log queue pair.
        qp_numbers: u64,
        /// Epoch of `qp_state`.
        qp_epoch: u32,
        /// Chain of the anchor.
        anchor_chain: u32,
        /// [`verdict`].
        verdict: u8,
        /// [`qp`].
        qp_state: u8,
        /// 0.
        padding: [u8; 6],
        /// In answers to `SAVE` and `TAKE`: the number of the snapshot.
        snapshot_number: u64,
        /// Bytes of the snapshot.
        snapshot_len: u64,
        /// In answers to `TAKE`: how many of them are here.
        fetched: u64,
        /// 0.
        reserved: [u64; 5],
    }
}

/// Bytes of the longest address.
pub const MAX_ADDRESS_LEN: usize = 48;

/// One member in a configuration block and in the payload of a configuration entry.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(C)]
pub struct MemberRecord {
    /// Incarnation.
    pub incarnation: u64,
    /// Node, 1..=15; 0 in unused records.
    pub node: u8,
    /// 1 voter, 2 learner, 3 learner that is promoted when it has caught up.
    pub role: u8,
    /// Bytes of `address`.
    pub address_len: u8,
    /// 0.
    pub reserved: [u8; 5],
    /// Where its host finds it, in the host's own words, then zeros; the core does not look at it.
    pub address: [u8; MAX_ADDRESS_LEN],
}

impl Default for MemberRecord {
    fn default() -> Self {
        MemberRecord {
            incarnation: 0,
            node: 0,
            role: 0,
            address_len: 0,
            reserved: [0; 5],
            address: [0; MAX_ADDRESS_LEN],
        }
    }
}

line! {
    /// The configuration in force, and the entry that made it (index and term 0: the one the group was formed with).
    ConfigBlock[1152] {
        /// Group id, low half.
        group_low: u64,
        /// Group id, high half.
        group_high: u64,
        /// Index of its entry.
        index: u64,
        /// Term of its entry.
        term: u64,
        /// Index of the entry of the configuration at the anchor: the same as `index` when this one is known committed.
        anchor_index: u64,
        /// 0.
        reserved: [u64; 3],
        /// Of each node, 1..=15, the last life that was taken out; 0: none.
        removed: [u64; MAX_NODES],
        /// Members, in the order of their ids, then zeros.
        members: [MemberRecord; MAX_NODES],
    }
}

const _: () = assert!(control::HOST + size_of::<HostLine>() as u64 <= control::REQUESTS);
const _: () = assert!(control::LINES_LEN <= control::LEN);
const _: () = assert!(snapshot::HEADER + size_of::<SnapshotLine>() as u64 <= snapshot::CONFIG);
const _: () = assert!(snapshot::CONFIG + size_of::<ConfigBlock>() as u64 <= snapshot::TAKEN_HEADER);
const _: () = assert!(snapshot::TAKEN_CONFIG + size_of::<ConfigBlock>() as u64 <= snapshot::BYTES);
const _: () = assert!(size_of::<AnswerLine>() as u64 == MAIL_LEN);
const _: () = assert!(staging::config(MAX_NODES) + size_of::<ConfigBlock>() as u64 <= log::RING);

/// Offset of the request line that `peer` writes.
pub const fn request_of(peer: NodeId) -> u64 {
    control::REQUESTS + peer.0 as u64 * MAIL_LEN
}

/// Offset of the answer line that `peer` writes.
pub const fn answer_of(peer: NodeId) -> u64 {
    control::ANSWERS + peer.0 as u64 * MAIL_LEN
}

#[cfg(test)]
mod tests;
