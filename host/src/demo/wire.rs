//! What the demo and its nodes say to each other over a pair of sockets: frames of `len u32, kind u8, group u8, body`. With one
//! group its number is 0, as it is where a frame is about the whole process.
//!
//! Orders and reports are JSON, proposals are bytes. This is the demo's own talk, on one machine, between processes of
//! one program; replication does not go this way.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::plan::Profile;
use super::reads::Tally;
use crate::neighbours::Neighbours;

/// What a node is to open.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// The node.
    pub node: u8,
    /// Nodes in the group: 1..=`nodes`.
    pub nodes: u8,
    /// Bytes of the ring.
    pub ring_len: u64,
    /// Bytes of a snapshot.
    pub snapshot_len: u64,
    /// Durations.
    pub profile: Profile,
    /// Acknowledgements of stopped followers count.
    pub stored: bool,
    /// Writes are confirmed by a READ.
    pub readback: bool,
    /// Never gives the processor away.
    pub busy: bool,
    /// Leaves the region file.
    pub keep_region: bool,
    /// What there is of each group, all on one agent thread.
    pub groups: Vec<GroupSetup>,
}

/// What a node is to open of one group.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GroupSetup {
    /// Directory of the regions.
    pub regions: PathBuf,
    /// How the nodes find each other on RDMA devices; `None` on shared memory.
    pub verbs: Option<Neighbours>,
    /// Where the applied payloads go; the file exists.
    pub applied: PathBuf,
    /// Whose proposals these are.
    pub client: u64,
}

/// What the demo tells a node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Order {
    /// Open the replica.
    Open(Setup),
    /// Form the group.
    Form {
        /// Give up after this.
        timeout_ms: u64,
    },
    /// Measure.
    Measure {
        /// Proposals.
        samples: usize,
        /// Bytes of each.
        size: usize,
    },
    /// Hand the lead over, if this node leads.
    Transfer {
        /// To this node.
        to: u8,
    },
    /// Propose to each of the first groups that this node leads.
    Load {
        /// So many groups.
        groups: u8,
        /// So many proposals on their way in each.
        depth: u64,
        /// Commits count from this moment on, `CLOCK_BOOTTIME` ...
        from_ns: u64,
        /// ... until this one.
        until_ns: u64,
        /// Bytes of each payload.
        size: usize,
    },
    /// Proposals of this stream follow; those of former streams are void.
    Begin {
        /// Numbers grow.
        stream: u32,
        /// Number of its first proposal.
        first: u64,
    },
    /// Read by so many threads, until the replica is closed.
    Read {
        /// Threads.
        threads: usize,
    },
    /// Close the replica, write everything out, and end.
    Close,
}

/// A run of proposals with consecutive numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batch<'a> {
    /// The stream they belong to.
    pub stream: u32,
    /// Number of the first.
    pub first: u64,
    rest: &'a [u8],
}

/// What a node tells the demo.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Report {
    /// The replica runs.
    Opened,
    /// It does not, and never will.
    Refused {
        /// Why, in one line.
        message: String,
    },
    /// The group is formed.
    Formed,
    /// It is not.
    NotFormed {
        /// Why, in one line.
        message: String,
    },
    /// The measurement is done.
    Measured(Measured),
    /// It is not.
    NotMeasured {
        /// Why, in one line.
        message: String,
    },
    /// The load is over.
    Loaded {
        /// Commits that count.
        commits: u64,
        /// Groups of which some were told.
        groups: u8,
    },
    /// An event of the protocol.
    Saw {
        /// When, `CLOCK_BOOTTIME`.
        at_ns: u64,
        /// What.
        what: Happening,
    },
    /// Proposals of the stream are committed, up to this number.
    Acked {
        /// The stream.
        stream: u32,
        /// The last committed number.
        up_to: u64,
    },
    /// The stream is over, for want of a leader: what was not acknowledged is unknown or was refused.
    Ended {
        /// The stream.
        stream: u32,
    },
    /// The commits of a leader so far.
    Commits(Commits),
    /// How far the node is.
    State(State),
    /// What was read, told before the replica is closed.
    Reads(Tally),
    /// The replica is closed and everything is written.
    Closed(State),
    /// The file of applied payloads cannot be written.
    Broken {
        /// Why, in one line.
        message: String,
    },
}

/// Latencies in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Quantiles {
    /// Median.
    pub p50: u64,
    /// 99 of 100 are not above it.
    pub p99: u64,
    /// Largest.
    pub max: u64,
}

/// What a measurement gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Proposals measured.
    pub samples: u64,
    /// From `propose` to committed.
    pub commit_ns: Quantiles,
    /// Bare writes of the same bytes to the same peers.
    pub floor_ns: Quantiles,
}

/// The events that a demo tells of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Happening {
    /// The leader is silent.
    Quiet,
    /// The node asks for votes.
    Campaign {
        /// In this term.
        term: u64,
    },
    /// The former writer of the node's log is shut out.
    Fenced {
        /// For whom.
        by: u8,
    },
    /// The node leads.
    Elected {
        /// In this term.
        term: u64,
    },
    /// The first commit of a term.
    FirstCommit {
        /// The term.
        term: u64,
    },
    /// The node does not lead any more.
    GaveUp {
        /// The term it led.
        term: u64,
    },
    /// A follower cannot be served from the ring.
    Behind {
        /// The follower.
        node: u8,
    },
    /// A node came back without its memory.
    Forgetful {
        /// The node.
        node: u8,
    },
    /// The node cannot apply any further.
    Stuck,
}

/// When a leader committed. Times are of its agent, `CLOCK_BOOTTIME`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Commits {
    /// The term.
    pub term: u64,
    /// The first commit that counts.
    pub first_ns: u64,
    /// The last so far.
    pub last_ns: u64,
    /// Longest time between two in a row.
    pub longest_gap_ns: u64,
}

/// How far a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct State {
    /// The last of the client's entries that is applied.
    pub applied: u64,
    /// Entries in the log that were dropped because they had been applied before.
    pub repeated: u64,
    /// Entries in the log that were dropped because one before them was missing.
    pub early: u64,
    /// Entries in the log that are another group's: there is no such thing.
    pub strange: u64,
    /// Bytes applied and not yet written to the file.
    pub backlog: u64,
    /// The term it leads, or 0.
    pub leads: u64,
    /// Reads that missed something.
    pub stale: u64,
}

const KIND_JSON: u8 = b'j';
const KIND_BATCH: u8 = b'p';

/// A frame that came in.
#[derive(Debug)]
pub enum Frame<'a, T> {
    /// An order or a report.
    Message(T),
    /// Proposals.
    Batch(Batch<'a>),
}

/// Bytes on their way out.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
    group: u8,
}

impl Outbox {
    /// What is appended from now on is about this group.
    pub fn of(&mut self, group: u8) -> &mut Outbox {
        self.group = group;
        self
    }

    /// Appends an order or a report.
    pub fn push(&mut self, message: &impl Serialize) {
        let start = self.open(KIND_JSON);
        serde_json::to_writer(&mut self.bytes, message).expect("plain data becomes JSON");
        self.seal(start);
    }

    /// Starts a frame of proposals; [`Outbox::add`] them, then [`Outbox::seal`].
    pub fn open_batch(&mut self, stream: u32, first: u64) -> usize {
        let start = self.open(KIND_BATCH);
        self.bytes.extend_from_slice(&stream.to_le_bytes());
        self.bytes.extend_from_slice(&first.to_le_bytes());
        start
    }

    /// Adds a proposal to the open frame.
    pub fn add(&mut self, entry: &[u8]) {
        let len = u32::try_from(entry.len()).expect("an entry is shorter than an eighth of the largest ring");
        self.bytes.extend_from_slice(&len.to_le_bytes());
        self.bytes.extend_from_slice(entry);
    }

    fn open(&mut self, kind: u8) -> usize {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0, 0, 0, 0, kind, self.group]);
        start
    }

    /// Ends the frame begun at `start`.
    pub fn seal(&mut self, start: usize) {
        let len = u32::try_from(self.bytes.len() - start - 4).expect("a frame is a few entries long");
        self.bytes[start..start + 4].copy_from_slice(&len.to_le_bytes());
    }

    /// Whether nothing waits to be sent.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes that wait to be sent.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Throws away what is not sent yet.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.sent = 0;
    }

    /// Sends as much as `to` takes.
    pub fn send(&mut self, to: &mut impl Write) -> io::Result<()> {
        while self.sent < self.bytes.len() {
            match to.write(&self.bytes[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(len) => self.sent += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.clear();
        Ok(())
    }
}

/// Bytes that came in.
#[derive(Debug, Default)]
pub struct Inbox {
    bytes: Vec<u8>,
    start: usize,
}

impl Inbox {
    /// Reads once; false at the end of the stream.
    pub fn receive(&mut self, from: &mut impl Read) -> io::Result<bool> {
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        } else if self.start > 1 << 20 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        let len = self.bytes.len();
        self.bytes.resize(len + (64 << 10), 0);
        let got = loop {
            match from.read(&mut self.bytes[len..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                got => break got,
            }
        };
        self.bytes.truncate(len + *got.as_ref().unwrap_or(&0));
        match got {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
            got => Ok(got? > 0),
        }
    }

    /// The next whole frame, and the group that it is about.
    pub fn take<T: DeserializeOwned>(&mut self) -> io::Result<Option<(u8, Frame<'_, T>)>> {
        let waiting = &self.bytes[self.start..];
        let Some((len, rest)) = waiting.split_first_chunk::<4>() else { return Ok(None) };
        let len = u32::from_le_bytes(*len) as usize;
        let Some(body) = rest.get(..len) else { return Ok(None) };
        self.start += 4 + len;
        let frame = match body.split_at_checked(2) {
            Some((&[KIND_JSON, _], json)) => Frame::Message(serde_json::from_slice(json)?),
            Some((&[KIND_BATCH, _], body)) => Frame::Batch(Batch::open(body)?),
            _ => return Err(broken()),
        };
        Ok(Some((body[1], frame)))
    }
}

impl<'a> Batch<'a> {
    fn open(body: &'a [u8]) -> io::Result<Batch<'a>> {
        let (stream, rest) = body.split_first_chunk::<4>().ok_or_else(broken)?;
        let (first, rest) = rest.split_first_chunk::<8>().ok_or_else(broken)?;
        Ok(Batch { stream: u32::from_le_bytes(*stream), first: u64::from_le_bytes(*first), rest })
    }
}

impl<'a> Iterator for Batch<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (len, rest) = self.rest.split_first_chunk::<4>()?;
        let (entry, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        self.rest = rest;
        Some(entry)
    }
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a frame that is none")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_any_cut() {
        let mut outbox = Outbox::default();
        outbox.push(&Order::Begin { stream: 3, first: 41 });
        outbox.of(63);
        let start = outbox.open_batch(3, 41);
        outbox.add(b"one\n");
        outbox.add(b"");
        outbox.seal(start);
        outbox.of(0).push(&Order::Close);
        let mut bytes = Vec::new();
        outbox.send(&mut bytes).expect("a vector takes everything");
        assert!(outbox.is_empty());

        let mut inbox = Inbox::default();
        let mut seen = Vec::new();
        for byte in bytes {
            assert!(inbox.receive(&mut [byte].as_slice()).expect("reads"));
            while let Some((group, frame)) = inbox.take::<Order>().expect("whole") {
                seen.push(match frame {
                    Frame::Message(order) => format!("{group}: {order:?}"),
                    Frame::Batch(batch) => {
                        format!(
                            "{group}: {} {} {:?}",
                            batch.stream,
                            batch.first,
                            batch.map(<[u8]>::len).collect::<Vec<_>>()
                        )
                    }
                });
            }
        }
        assert_eq!(seen, ["0: Begin { stream: 3, first: 41 }", "63: 3 41 [4, 0]", "0: Close"]);
        assert!(!inbox.receive(&mut [].as_slice()).expect("the end"));
    }

    #[test]
    fn nonsense_is_an_error() {
        for bytes in [&[1, 0, 0, 0, b'j'][..], &[2, 0, 0, 0, b'?', 0]] {
            let mut inbox = Inbox::default();
            inbox.receive(&mut &bytes[..]).expect("reads");
            assert!(inbox.take::<Order>().is_err());
        }
    }
}
