//! Commands in a row, as bytes: what an entry of the log holds, and what waits until it may be read.
//!
//! Each command is its arguments as they were sent, lengths in front, little-endian. In an entry a [`Header`] stands before them. No
//! bytes make this panic: an entry that is none of these is passed over, on every node alike.

use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What an entry of this server begins with.
const MAGIC: u32 = u32::from_le_bytes(*b"RKV\x01");

/// Before the commands of an entry.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(super) struct Header {
    magic: U32,
    /// How many commands follow.
    count: U32,
    /// The life of the node that proposed it, and the number that it had there: who waits for it finds it by these.
    pub(super) origin: U64,
    pub(super) number: U64,
    /// The leader's time, in milliseconds since the epoch.
    pub(super) time: I64,
    /// See [`super::execute::Bounds`].
    pub(super) max_size: U64,
    pub(super) max_value: U64,
}

/// Bytes of a header.
pub(super) const HEADER_LEN: usize = size_of::<Header>();

/// Commands in a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    count: u32,
}

impl Batch {
    /// Of no commands.
    pub(super) fn new() -> Batch {
        Batch { bytes: vec![0; HEADER_LEN], count: 0 }
    }

    /// Bytes of an entry with these commands.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Puts a command behind the others.
    pub(super) fn push(&mut self, args: &[&[u8]]) {
        self.bytes.extend_from_slice(&(args.len() as u32).to_le_bytes());
        for arg in args {
            self.bytes.extend_from_slice(&(arg.len() as u32).to_le_bytes());
            self.bytes.extend_from_slice(arg);
        }
        self.count += 1;
    }

    /// The entry.
    pub(super) fn seal(
        &mut self,
        origin: u64,
        number: u64,
        time: i64,
        max_size: u64,
        max_value: u64,
    ) -> &[u8] {
        let header = Header {
            magic: MAGIC.into(),
            count: self.count.into(),
            origin: origin.into(),
            number: number.into(),
            time: time.into(),
            max_size: max_size.into(),
            max_value: max_value.into(),
        };
        self.bytes[..HEADER_LEN].copy_from_slice(header.as_bytes());
        &self.bytes
    }

    /// Empty again; keeps the room of usual lengths.
    pub(super) fn clear(&mut self) {
        self.bytes.truncate(HEADER_LEN);
        self.bytes.shrink_to(1 << 20);
        self.count = 0;
    }

    /// The commands.
    pub(super) fn commands(&self) -> Commands<'_> {
        Commands { rest: &self.bytes[HEADER_LEN..] }
    }
}

/// Bytes of a command in a batch.
pub(super) fn len_of(args: &[&[u8]]) -> usize {
    4 + args.iter().map(|arg| 4 + arg.len()).sum::<usize>()
}

/// What an entry holds; `None` when it is not of this server, or not whole.
pub(super) fn open(entry: &[u8]) -> Option<(Header, Commands<'_>)> {
    let (header, rest) = Header::read_from_prefix(entry).ok()?;
    let commands = Commands { rest };
    let mut count = 0_u32;
    let mut ahead = commands.clone();
    while ahead.pass()? {
        count = count.checked_add(1)?;
    }
    (header.magic.get() == MAGIC && header.count.get() == count).then_some((header, commands))
}

/// Commands one after the other: each fills a list of arguments.
#[derive(Clone, Debug)]
pub(super) struct Commands<'a> {
    rest: &'a [u8],
}

impl<'a> Commands<'a> {
    /// The arguments of the next command; false when there is none.
    pub(super) fn next_into(&mut self, args: &mut Vec<&'a [u8]>) -> bool {
        args.clear();
        self.step(|arg| args.push(arg)) == Some(true)
    }

    /// Passes the next one over; false when there is none, `None` when it is not whole.
    fn pass(&mut self) -> Option<bool> {
        self.step(|_| {})
    }

    fn step(&mut self, mut arg: impl FnMut(&'a [u8])) -> Option<bool> {
        if self.rest.is_empty() {
            return Some(false);
        }
        for _ in 0..self.number()? {
            let len = self.number()? as usize;
            let (bytes, rest) = self.rest.split_at_checked(len)?;
            arg(bytes);
            self.rest = rest;
        }
        Some(true)
    }

    fn number(&mut self) -> Option<u32> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u32::from_le_bytes(*bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn commands(mut commands: Commands<'_>) -> Vec<Vec<Vec<u8>>> {
        let (mut out, mut args) = (Vec::new(), Vec::new());
        while commands.next_into(&mut args) {
            out.push(args.iter().map(|arg| arg.to_vec()).collect());
        }
        out
    }

    #[test]
    fn what_was_put_in_comes_out() {
        let mut batch = Batch::new();
        assert!(batch.is_empty());
        batch.push(&[b"SET", b"", b"x"]);
        batch.push(&[b"DEL"]);
        assert_eq!(batch.len(), HEADER_LEN + len_of(&[b"SET", b"", b"x"]) + len_of(&[b"DEL"]));
        let expected = vec![vec![b"SET".to_vec(), vec![], b"x".to_vec()], vec![b"DEL".to_vec()]];
        assert_eq!(commands(batch.commands()), expected);
        let entry = batch.seal(1, 2, -3, 4, 5).to_vec();
        let (header, there) = open(&entry).expect("whole");
        assert_eq!((header.origin.get(), header.number.get(), header.time.get()), (1, 2, -3));
        assert_eq!((header.max_size.get(), header.max_value.get()), (4, 5));
        assert_eq!(commands(there), expected);
        batch.clear();
        assert!(batch.is_empty());
        assert_eq!(commands(open(batch.seal(1, 3, 0, 0, 0)).expect("whole").1), Vec::<Vec<Vec<u8>>>::new());
        // Nothing of it can be cut off, and nothing put behind it.
        for len in 0..entry.len() {
            assert!(open(&entry[..len]).is_none(), "{len}");
        }
        assert!(open(&[&entry[..], b"x"].concat()).is_none());
    }

    #[test]
    fn entries_have_these_bytes() {
        let mut batch = Batch::new();
        batch.push(&[b"GET", b"k"]);
        let expected = b"RKV\x01\x01\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\
            \x02\0\0\0\x03\0\0\0GET\x01\0\0\0k";
        assert_eq!(batch.seal(1, 2, 3, 4, 5), expected);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), honest in any::<bool>()) {
            let mut entry = Batch::new().seal(1, 2, 3, 4, 5).to_vec();
            if honest {
                entry.extend_from_slice(&bytes);
            } else {
                entry = bytes;
            }
            if let Some((_, there)) = open(&entry) {
                commands(there);
            }
        }
    }
}
