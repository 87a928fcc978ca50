//! What a node tells a peer so that their queue pairs can meet: addresses, numbers and keys. Keys open memory: a card is a
//! secret, and travels only through an authenticated and encrypted exchange.

use ringleader_core::layout::{MAX_SNAPSHOT_LEN, snapshot};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::qp::{NUMBER_MASK, Numbers};

/// Bytes of a card.
pub const CARD_LEN: usize = 192;
/// A card as the exchange carries it: opaque bytes there.
pub type Card = [u8; CARD_LEN];

/// "rl-verbs", the first word.
const MAGIC: u64 = u64::from_le_bytes(*b"rl-verbs");
/// Version of this file's layout.
const VERSION: u32 = 3;

/// A range of memory as a peer addresses it.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub(super) struct RemoteRange {
    pub(super) address: u64,
    pub(super) len: u64,
    pub(super) key: u32,
    pub(super) reserved: u32,
}

impl RemoteRange {
    /// Where `offset` is, if `len` bytes from there are inside.
    #[inline]
    pub(super) fn at(&self, offset: u64, len: u32) -> Option<u64> {
        let end = offset.checked_add(u64::from(len))?;
        (end <= self.len).then_some(self.address.wrapping_add(offset))
    }
}

/// The fields of a card. Little-endian.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(super) struct Fields {
    magic: u64,
    version: u32,
    /// The sender's end of the control queue pair, and its first packet number.
    pub(super) qp: u32,
    pub(super) packet: u32,
    pub(super) lid: u16,
    pub(super) mtu: u8,
    /// 1 when `gid` is to be used, 0 where LIDs are enough.
    pub(super) has_gid: u8,
    pub(super) gid: [u8; 16],
    pub(super) reads_started: u8,
    pub(super) reads_served: u8,
    /// 1 when WRITEs to this node are to wake it.
    pub(super) wakes: u8,
    reserved: [u8; 5],
    /// The control area: READ and WRITE over the control queue pair.
    pub(super) control: RemoteRange,
    /// The log area, READ only, over the control queue pair.
    pub(super) log_readable: RemoteRange,
    /// The log area over the log queue pair, for who is granted; the key comes with each arm ([`Armed`](super::qp::Armed)).
    pub(super) log: RemoteRange,
    /// The snapshot area, over the control queue pair, READ only (but for the own host, where that is apart); without bytes when there
    /// is none.
    pub(super) snapshot: RemoteRange,
    rest: [u8; 48],
}

const _: () = assert!(size_of::<Fields>() == CARD_LEN);

/// What of it differs from device to device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    pub(super) lid: u16,
    pub(super) mtu: u8,
    pub(super) gid: Option<[u8; 16]>,
    pub(super) reads_started: u8,
    pub(super) reads_served: u8,
    pub(super) wakes: bool,
    pub(super) control: RemoteRange,
    pub(super) log_readable: RemoteRange,
    pub(super) log: RemoteRange,
    pub(super) snapshot: RemoteRange,
}

impl Fields {
    pub(super) fn new(own: &Own, numbers: Numbers) -> Fields {
        Fields {
            magic: MAGIC,
            version: VERSION,
            qp: numbers.qp,
            packet: numbers.packet,
            lid: own.lid,
            mtu: own.mtu,
            has_gid: u8::from(own.gid.is_some()),
            gid: own.gid.unwrap_or_default(),
            reads_started: own.reads_started,
            reads_served: own.reads_served,
            wakes: u8::from(own.wakes),
            reserved: [0; 5],
            control: own.control,
            log_readable: own.log_readable,
            log: own.log,
            snapshot: own.snapshot,
            rest: [0; 48],
        }
    }

    pub(super) fn card(&self) -> Card {
        let mut card = [0; CARD_LEN];
        card.copy_from_slice(self.as_bytes());
        card
    }

    /// The fields of a peer's card, when it is one that can be used with areas of these lengths.
    pub(super) fn judge(card: &Card, control_len: u64, log_len: u64) -> Option<Fields> {
        let fields = Fields::read_from_bytes(card).ok()?;
        let right = fields.magic == MAGIC
            && fields.version == VERSION
            && fields.qp != 0
            && (fields.qp | fields.packet) & !NUMBER_MASK == 0
            && (1..=5).contains(&fields.mtu)
            && fields.has_gid <= 1
            && fields.wakes <= 1
            && (fields.has_gid == 1 || fields.lid != 0)
            && fields.reads_started != 0
            && fields.reads_served != 0
            && fields.control.len == control_len
            && fields.log.len == log_len
            && fields.log_readable.len == log_len
            && fields.snapshot.len <= snapshot::len(MAX_SNAPSHOT_LEN);
        right.then_some(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Own {
        let range = |address, len| RemoteRange { address, len, key: 9, reserved: 0 };
        Own {
            lid: 0,
            mtu: 3,
            gid: Some([7; 16]),
            reads_started: 16,
            reads_served: 16,
            wakes: false,
            control: range(1 << 20, 1 << 16),
            log_readable: range(1 << 21, 1 << 20),
            log: range(1 << 21, 1 << 20),
            snapshot: range(1 << 23, 1 << 17),
        }
    }

    #[test]
    fn a_card_is_read_back_and_nonsense_is_not() {
        let card = Fields::new(&own(), Numbers { qp: 17, packet: 5 }).card();
        let fields = Fields::judge(&card, 1 << 16, 1 << 20).unwrap();
        assert_eq!(fields.snapshot, own().snapshot);
        assert_eq!((fields.qp, fields.packet, fields.mtu, fields.gid), (17, 5, 3, [7; 16]));
        assert_eq!(Fields::judge(&[0; CARD_LEN], 1 << 16, 1 << 20), None);
        assert_eq!(Fields::judge(&card, 1 << 16, 1 << 21), None, "another geometry");
        for (at, value) in
            [(0, 0), (8, 1), (12, 0), (15, 1), (22, 0), (22, 6), (23, 2), (40, 0), (41, 0), (135, 1)]
        {
            let mut bad = card;
            bad[at] = value;
            if at == 12 {
                bad[13] = 0;
            }
            assert_eq!(Fields::judge(&bad, 1 << 16, 1 << 20), None, "byte {at}");
        }
    }

    #[test]
    fn nothing_outside_a_range_is_addressed() {
        let range = RemoteRange { address: 1000, len: 128, key: 1, reserved: 0 };
        assert_eq!(range.at(64, 64), Some(1064));
        assert_eq!(range.at(65, 64), None);
        assert_eq!(range.at(u64::MAX, 64), None);
    }
}
