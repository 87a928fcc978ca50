//! Compares what a node has applied with what was fed, byte by byte. Knows nothing of how it got there.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufReader, Read};
use std::path::Path;

use super::plan::{Feed, Plan};
use super::source::Source;

/// What a comparison found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compared {
    /// Entries at the start of the file that are the first entries of the feed.
    pub entries: u64,
    /// Nothing else is in the file.
    pub is_prefix: bool,
    /// Acknowledged entries that are not in the file.
    pub lost: u64,
    /// Entries that are in the file more often than in the feed.
    pub duplicated: u64,
}

/// Compares a file of applied payloads with the feed, of which the first `acknowledged` entries must be there.
pub fn compare(plan: &Plan, applied: &Path, acknowledged: u64) -> io::Result<Compared> {
    let mut source = Source::open(plan)?;
    let mut file = BufReader::with_capacity(256 << 10, File::open(applied)?);
    let (mut entry, mut found) = (Vec::new(), Vec::new());
    let mut entries = 0;
    let is_prefix = loop {
        if !source.next_entry(&mut entry)? {
            break file.read(&mut [0])? == 0;
        }
        found.clear();
        (&mut file).take(entry.len() as u64).read_to_end(&mut found)?;
        if found != entry {
            break found.is_empty();
        }
        entries += 1;
    };
    if is_prefix {
        return Ok(Compared {
            entries,
            is_prefix,
            lost: acknowledged.saturating_sub(entries),
            duplicated: 0,
        });
    }
    let (lost, duplicated) = count(plan, applied, acknowledged)?;
    Ok(Compared { entries, is_prefix, lost, duplicated })
}

/// How many acknowledged entries are missing, and how many entries there are too many, in whatever order.
fn count(plan: &Plan, applied: &Path, acknowledged: u64) -> io::Result<(u64, u64)> {
    let hasher = RandomState::new();
    let mut entry = Vec::new();
    // Of each entry: how often it is in the file, how often among the acknowledged, how often in the feed.
    let mut counts: HashMap<u64, [u64; 3]> = HashMap::new();
    let whole = Plan { feed: Feed::File(applied.to_owned()), ring_len: u64::MAX, ..plan.clone() };
    let mut file = Source::open(&whole)?;
    while file.next_entry(&mut entry)? {
        counts.entry(hasher.hash_one(&entry)).or_default()[0] += 1;
    }
    let mut source = Source::open(plan)?;
    let mut number = 0;
    while source.next_entry(&mut entry)? {
        number += 1;
        let count = counts.entry(hasher.hash_one(&entry)).or_default();
        count[1] += u64::from(number <= acknowledged);
        count[2] += 1;
    }
    let lost = counts.values().map(|[found, acknowledged, _]| acknowledged.saturating_sub(*found)).sum();
    // What is in no feed at all is damage, not a double.
    let duplicated =
        counts.values().filter(|count| count[2] > 0).map(|[found, _, fed]| found.saturating_sub(*fed)).sum();
    Ok((lost, duplicated))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::plan::{Fault, Profile};

    fn compared(feed: &[u8], applied: &[u8], acknowledged: u64) -> Compared {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (fed, file) = (dir.path().join("fed"), dir.path().join("applied"));
        std::fs::write(&fed, feed).expect("written");
        std::fs::write(&file, applied).expect("written");
        let plan = Plan {
            carrier: crate::demo::Carrier::SharedMemory,
            nodes: 3,
            groups: 1,
            ring_len: 512 << 10,
            profile: Profile::Local,
            quorum: crate::Quorum::Live,
            confirm: crate::Confirm::Completion,
            idle: crate::Idle::Adaptive,
            feed: Feed::File(fed),
            fault: Fault::None,
            dir: None,
            keep_regions: false,
            samples: 0,
            sample_size: 64,
            reads: 0,
        };
        compare(&plan, &file, acknowledged).expect("reads")
    }

    #[test]
    fn every_kind_of_damage_is_seen() {
        let found = |entries, is_prefix, lost, duplicated| Compared { entries, is_prefix, lost, duplicated };
        assert_eq!(compared(b"a\nb\nc", b"a\nb\nc", 3), found(3, true, 0, 0));
        assert_eq!(compared(b"", b"", 0), found(0, true, 0, 0));
        assert_eq!(compared(b"a\nb\nc", b"a\n", 1), found(1, true, 0, 0));
        assert_eq!(compared(b"a\nb\nc", b"a\n", 3), found(1, true, 2, 0));
        assert_eq!(compared(b"a\nb\nc\n", b"a\nc\n", 3), found(1, false, 1, 0));
        assert_eq!(compared(b"a\nb\nc\n", b"a\nb\nb\nc\n", 3), found(2, false, 0, 1));
        assert_eq!(compared(b"a\nb\nc\n", b"a\nb\nc\nc\n", 3), found(3, false, 0, 1));
        assert_eq!(compared(b"a\nb\nc\n", b"b\na\nc\n", 3), found(0, false, 0, 0));
        assert_eq!(compared(b"a\na\n", b"a\na\na\n", 2), found(2, false, 0, 1));
        assert_eq!(compared(b"a\nb\n", b"a\nX\n", 2), found(1, false, 1, 0));
    }
}
