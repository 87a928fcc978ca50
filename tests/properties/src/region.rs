//! Region files that are anything: a clear error, or a region; never a panic, never a signal for a mapping too short.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use arbitrary::{Result, Unstructured};
use ringleader::fabric::Fabric;
use ringleader::fabric::shm::{NicHeader, Observed, Options, Owner, RegionFault, ShmFabric, path_of};
use ringleader_core::layout::{Line, MAX_RING_LEN, MIN_RING_LEN, control, log, snapshot};
use ringleader_core::mem::Area;
use ringleader_core::options::Half;
use ringleader_core::types::{Boot, Epoch, Incarnation, NodeId, Position};
use ringleader_core::verb::{Class, Completion, RequestId, Status, Verb};
use zerocopy::{FromBytes, IntoBytes};

use crate::choice::{about, roll, with, word};
use crate::inspect::{IDENTITY, fill, look, seal};
use crate::memory::area;

const RING: u64 = MIN_RING_LEN;
/// Where the areas stand in the file.
const CONTROL: u64 = 64 << 10;
const LOG: u64 = CONTROL + control::LEN;

const SNAPSHOT: u64 = 64 << 10;

const fn file_len(ring_len: u64, snapshot_len: u64) -> u64 {
    LOG + log::len(ring_len) + snapshot::len(snapshot_len)
}

/// The header of a region that fits [`IDENTITY`], not sealed.
fn header() -> NicHeader {
    let mut header = NicHeader::read_from_bytes(&[0; 192]).expect("a header is 192 bytes long");
    header.magic = u64::from_le_bytes(*b"rl-shmem");
    header.format = 5;
    header.header_len = 192;
    header.pid = u64::from(u32::MAX);
    header.node = IDENTITY.node;
    header.boot = IDENTITY.boot;
    header.incarnation = IDENTITY.incarnation;
    header.ring_len = RING;
    header.control = CONTROL;
    header.log = LOG;
    header.snapshot_len = SNAPSHOT;
    header.file_len = file_len(RING, SNAPSHOT);
    header
}

/// Words of a header: arbitrary, or right in most fields and sealed.
fn words(u: &mut Unstructured<'_>) -> Result<[u64; 24]> {
    let mut words = [0; 24];
    words.as_mut_bytes().copy_from_slice(header().as_bytes());
    for _ in 0..roll(u, 4)? {
        let field = roll(u, 24)? as usize;
        words[field] = if roll(u, 2)? == 0 { about(u, words[field], 1)? } else { word(u)? };
    }
    if roll(u, 8)? > 0 {
        let header = NicHeader::read_from_bytes(words.as_bytes()).expect("a header is 192 bytes long");
        header.seal(&mut words, 1);
    }
    Ok(words)
}

/// A header that is taken for one has nothing in it that cannot be.
pub fn region_header(bytes: &[u8]) {
    with(bytes, |u| {
        let words = words(u)?;
        let field = NicHeader::read_from_bytes(words.as_bytes()).expect("a header is 192 bytes long");
        let len = about(u, field.file_len, 1)?;
        match NicHeader::judge(&words, len) {
            Ok(header) => {
                assert_eq!(header, field);
                assert!((1..=15).contains(&header.node) && header.boot != 0 && header.incarnation != 0);
                assert!(header.ring_len.is_power_of_two());
                assert!((MIN_RING_LEN..=MAX_RING_LEN).contains(&header.ring_len));
                assert_eq!((header.control, header.log), (CONTROL, LOG));
                let whole = file_len(header.ring_len, header.snapshot_len);
                let expected = if header.is_host() { CONTROL } else { whole };
                assert_eq!((len, len), (header.file_len, expected));
                assert!(header.snapshot_len.is_multiple_of(64 << 10));
                assert_eq!(header.node_id().0, header.node as u8);
            }
            Err(fault) => assert!(!fault.to_string().is_empty()),
        }
        Ok(())
    });
}

/// A file of any length with a header, lines and entries that are damaged in places: looked at as a tool does, connected
/// to as a peer does, and replaced as its next owner does.
pub fn region(bytes: &[u8]) {
    // On a tmpfs, as in use, where there is one.
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
    with(bytes, |u| {
        let path = path_of(dir.path(), NodeId(2));
        let end = write(u, &path)?;
        match Observed::open(&path) {
            Ok(observed) => {
                assert_eq!(observed.owner().expect("its lock can be looked at"), Owner::Dead);
                assert_eq!(fs::metadata(&path).map(|file| file.len()).ok(), Some(observed.header().file_len));
                look(&Area::new(observed.control()), &Area::new(observed.log()), end);
            }
            Err(error) => assert!(error.to_string().contains("node-2.region: "), "{error}"),
        }
        match roll(u, 3)? {
            0 => connect(dir.path()),
            1 => replace(dir.path(), &path),
            _ => {}
        }
        Ok(())
    });
}

fn write(u: &mut Unstructured<'_>, path: &Path) -> Result<Position> {
    let file = File::create(path).expect("a new file");
    let put = |bytes: &[u8], at: u64| file.write_all_at(bytes, at).expect("room for a file");
    let mut end = Position(0);
    if roll(u, 4)? == 0 {
        let bytes: [u8; 32] = u.arbitrary()?;
        put(&bytes[..roll(u, 33)? as usize], 0);
    } else {
        let (control_area, log_area) = (area(control::LEN), area(log::len(RING)));
        let points = fill(u, &log_area)?;
        end = points.last().expect("the start is there").position;
        seal(&control_area, &log_area, end);
        for _ in 0..roll(u, 3)? {
            let target = if roll(u, 2)? == 0 { &control_area } else { &log_area };
            target.store(word(u)? % target.len() / 8 * 8, word(u)?);
        }
        put(words(u)?.as_bytes(), 0);
        // Beyond the end of what was written the areas are zeros.
        put(&crate::memory::bytes_of(&control_area, 0, 8192), CONTROL);
        let used = log::RING + end.0.min(RING);
        put(&crate::memory::bytes_of(&log_area, 0, used), LOG);
        if roll(u, 8)? == 0 {
            put(&[1], word(u)? % CONTROL);
        }
    }
    let len = if roll(u, 2)? == 0 {
        file_len(RING, SNAPSHOT)
    } else {
        about(u, file_len(RING, SNAPSHOT), 8)? % (1 << 24)
    };
    file.set_len(len).expect("a sparse file");
    Ok(end)
}

fn fabric(dir: &Path, node: NodeId) -> std::result::Result<ShmFabric, ringleader::fabric::shm::RegionError> {
    let options = Options {
        dir,
        node,
        boot: Boot(11),
        incarnation: Incarnation(12),
        ring_len: RING,
        snapshot_len: SNAPSHOT,
        half: Half::Whole,
        group_name: None,
        fence_limit_ns: 1_000_000_000,
    };
    ShmFabric::create(&options).map(|(fabric, _)| fabric)
}

/// Nobody owns that file: whatever it holds, there is nobody to connect to.
fn connect(dir: &Path) {
    let mut fabric = fabric(dir, NodeId(1)).expect("nothing stands in its way");
    let id = RequestId { peer: NodeId(2), class: Class::Connect, epoch: Epoch(1), number: 0 };
    fabric.post(&Verb::Connect { id });
    let mut done = [Completion { id, status: Status::Success, value: 0 }; 4];
    assert_eq!(fabric.reap(&mut done), 1);
    assert!(matches!(done[0].status, Status::Unreachable | Status::Failed), "{done:?}");
}

/// What was a region once is replaced; what never was is left alone.
fn replace(dir: &Path, path: &Path) {
    let before = fs::read(path).expect("it was written");
    match fabric(dir, NodeId(2)) {
        Ok(_) => {
            let new = Observed::open(path).expect("a whole region");
            assert_eq!((new.header().boot, new.header().incarnation), (11, 12));
        }
        Err(error) => {
            let kept = matches!(error.fault, RegionFault::Magic | RegionFault::Length { .. });
            assert!(kept, "{error}");
            assert!(fs::read(path).expect("it is still there") == before, "{error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_that_is_varied_is_a_good_one() {
        let mut words = [0; 24];
        header().seal(&mut words, 1);
        NicHeader::judge(&words, file_len(RING, SNAPSHOT)).expect("a good one");
    }
}
