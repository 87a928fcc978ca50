//! What a node is opened with.

use std::path::PathBuf;

use ringleader_core::layout::{AREA_ALIGN, MAX_RING_LEN, MAX_SNAPSHOT_LEN, MIN_RING_LEN};
use ringleader_core::options::Half;
use ringleader_core::proposer::{Confirm, Quorum};
use ringleader_core::timing::Timing;
use ringleader_core::types::{MAX_NODES, NodeId};

use crate::config::Notify;
use crate::errors::OpenError;
use crate::exchange::GroupName;
use crate::idle::Idle;
use crate::members::Readmit;
use crate::memory;
use crate::reader::LeaseReads;

/// What carries a node's verbs to the others.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Transport {
    /// Memory that the processes of one machine share.
    #[default]
    SharedMemory,
    /// An RDMA device.
    #[cfg(feature = "verbs")]
    Verbs(Box<VerbsOptions>),
}

/// What a node on an RDMA device is opened with.
#[cfg(feature = "verbs")]
#[derive(Clone, Debug)]
pub struct VerbsOptions {
    /// Which device, port and address.
    pub choice: crate::fabric::verbs::Choice,
    /// Where this node is called by the others, over TCP.
    pub listen: std::net::SocketAddr,
    /// Where the nodes are called, `address:port` or `name:port`, by id: their acceptors, where these are apart. The own one matters to
    /// a host whose acceptor is apart.
    pub addresses: [Option<String>; MAX_NODES + 1],
    /// The group's key: who has it may join, and may read and write what members may.
    pub key: crate::exchange::Key,
    /// The group's name: nodes of other names are no peers.
    pub group: crate::exchange::GroupName,
}

/// What a node is opened with. [`Options::new`] fills in the defaults.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// What carries the verbs.
    pub transport: Transport,
    /// Directory with the region files of all nodes, `node-<id>.region`; made when it is missing. Best on a tmpfs. For
    /// shared memory alone.
    pub dir: PathBuf,
    /// The name of the group, so that nodes of another are not taken for its members. `None`: it has none, and all are; on RDMA it is among
    /// what the transport needs.
    pub group_name: Option<GroupName>,
    /// This node, 1..=15.
    pub node: u8,
    /// What of it this process is. [`Half::Proposer`]: its acceptor is another process, on a DPU perhaps, which this one learns its
    /// life from and is of no use without. An [`Acceptor`](crate::Acceptor) is the other half, whatever stands here.
    pub half: Half,
    /// All nodes that there may be, this one included. Who is in the group in the end, [`Node::members`](crate::Node::members)
    /// tells.
    pub members: Vec<u8>,
    /// Those that form the group, when that is not all of them; empty: all. The same on all nodes.
    pub founders: Vec<u8>,
    /// Bytes of the ring, a power of two, at least 512 KiB; the same on all nodes. An entry, with its 32 bytes of header
    /// and 8 of tail, may have an eighth of it.
    pub ring_len: u64,
    /// Bytes that the application's state may have when it is saved for a node that has fallen behind, a multiple of 64 KiB; a
    /// node without room for it neither gives nor takes such a snapshot. `None`: as many as the ring has.
    pub snapshot_len: Option<u64>,
    /// All durations. The default is [`Timing::LOCAL`], for several nodes on one shared machine.
    pub timing: Timing,
    /// Which acknowledgements count for a commit.
    pub quorum: Quorum,
    /// What says that the bytes of a write are placed.
    pub confirm: Confirm,
    /// What this node does, as leader, about members that lost their memory.
    pub readmit: Readmit,
    /// Whether a leader answers reads by its lease alone, if the clocks of the group drift by less than what stands here;
    /// `None`: never. The same on all nodes. Not for machines that are suspended or migrated.
    pub lease_reads: Option<LeaseReads>,
    /// What the agent does when there is nothing to do.
    pub idle: Idle,
    /// How it learns that a peer has written: it looks, or is woken and may sleep as long as it has nothing to do. That takes
    /// effect with [`Idle::Adaptive`].
    pub notify: Notify,
    /// Ties the agent's thread to this processor.
    pub pin: Option<usize>,
    /// Leaves the region file in place on a clean close, for `ringleader log`.
    pub keep_region: bool,
    /// Whose memory the log is in, on an RDMA device.
    #[cfg(feature = "verbs")]
    pub(crate) log: crate::fabric::verbs::LogPlace,
}

impl Options {
    /// Default length of the ring, in bytes.
    pub const RING_LEN: u64 = 64 << 20;

    /// Options of `node` in a group of `members`, with region files in `dir`, and everything else at its default.
    pub fn new(dir: impl Into<PathBuf>, node: u8, members: impl Into<Vec<u8>>) -> Options {
        Options {
            transport: Transport::SharedMemory,
            dir: dir.into(),
            group_name: None,
            node,
            half: Half::Whole,
            members: members.into(),
            founders: Vec::new(),
            ring_len: Options::RING_LEN,
            snapshot_len: None,
            timing: Timing::LOCAL,
            quorum: Quorum::Live,
            confirm: Confirm::Completion,
            readmit: Readmit::Ask,
            lease_reads: None,
            idle: Idle::default(),
            notify: Notify::Poll,
            pin: None,
            keep_region: false,
            #[cfg(feature = "verbs")]
            log: crate::fabric::verbs::LogPlace::Own,
        }
    }

    /// Options of `node` in a group of `members` on an RDMA device, with the timing of a software NIC or of hardware as it is
    /// given, and everything else at its default.
    #[cfg(feature = "verbs")]
    pub fn verbs(verbs: VerbsOptions, timing: Timing, node: u8, members: impl Into<Vec<u8>>) -> Options {
        Options { transport: Transport::Verbs(Box::new(verbs)), timing, ..Options::new("", node, members) }
    }

    /// Everything that can be told without touching the system.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let wrong = |text: String| Err(OpenError::Option(text));
        if let Some(id) = self.members.iter().find(|id| !NodeId(**id).is_valid()) {
            return wrong(format!("member {id} is no node id: they are 1 to {MAX_NODES}"));
        }
        let mut sorted = self.members.clone();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return wrong(format!("member {} is named twice", twice[0]));
        }
        if !self.members.contains(&self.node) {
            return wrong(format!("node {} is not among the members {:?}", self.node, self.members));
        }
        if !self.ring_len.is_power_of_two() {
            return wrong(format!("a ring of {} bytes: the length must be a power of two", self.ring_len));
        }
        if !(MIN_RING_LEN..=MAX_RING_LEN).contains(&self.ring_len) {
            return wrong(format!(
                "a ring of {} bytes: the length must be from {MIN_RING_LEN} to {MAX_RING_LEN}",
                self.ring_len
            ));
        }
        let snapshot_len = self.snapshot_len();
        if !snapshot_len.is_multiple_of(AREA_ALIGN) || snapshot_len > MAX_SNAPSHOT_LEN {
            return wrong(format!(
                "a snapshot of {snapshot_len} bytes: the length must be a multiple of {AREA_ALIGN}, {MAX_SNAPSHOT_LEN} at most"
            ));
        }
        Ok(())
    }

    /// Bytes that a snapshot may have.
    pub(crate) fn snapshot_len(&self) -> u64 {
        self.snapshot_len.unwrap_or(self.ring_len)
    }

    /// Largest slot of an entry, in bytes.
    pub(crate) fn max_entry(&self) -> u64 {
        self.ring_len / 8
    }

    /// Bytes of memory that the node takes: its staging ring, and its ring and snapshot where files are memory.
    pub(crate) fn memory_len(&self) -> u64 {
        let region = match self.transport {
            // Its copy of the log, and what it saves and takes.
            _ if self.half == Half::Proposer => self.ring_len.saturating_add(self.snapshot_len()),
            Transport::SharedMemory if !memory::is_memory(&self.dir) => 0,
            _ => self.ring_len.saturating_add(self.snapshot_len()),
        };
        self.ring_len.saturating_add(region)
    }

    /// Who the other founders are, by id.
    pub(crate) fn peers(&self) -> [bool; MAX_NODES + 1] {
        let founders = if self.founders.is_empty() { &self.members } else { &self.founders };
        std::array::from_fn(|id| id != usize::from(self.node) && founders.contains(&(id as u8)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_option_is_named_in_one_line() {
        let good = Options::new("/nowhere", 1, [1, 2, 3]);
        good.check().unwrap();
        let wrong = |change: fn(&mut Options)| {
            let mut options = good.clone();
            change(&mut options);
            let text = options.check().unwrap_err().to_string();
            assert!(!text.contains('\n'));
            text
        };
        assert!(wrong(|o| o.node = 4).contains("node 4"));
        assert!(wrong(|o| o.members.push(16)).contains("member 16"));
        assert!(wrong(|o| o.members.push(0)).contains("member 0"));
        assert!(wrong(|o| o.members.push(3)).contains("member 3 is named twice"));
        assert!(wrong(|o| o.ring_len = 1_000_000).contains("1000000"));
        assert!(wrong(|o| o.ring_len = 256 << 10).contains("262144"));
        assert!(wrong(|o| o.ring_len = 0).contains("power of two"));
        assert!(wrong(|o| o.ring_len = 1 << 40).contains("1099511627776"));
        assert!(wrong(|o| o.snapshot_len = Some(1000)).contains("a snapshot of 1000 bytes"));
        assert!(wrong(|o| o.snapshot_len = Some(1 << 60)).contains("at most"));
    }

    #[test]
    fn peers_are_all_members_but_the_node_itself() {
        let peers = Options::new("/nowhere", 15, [1, 15, 7]).peers();
        let ids: Vec<usize> = (0..=MAX_NODES).filter(|id| peers[*id]).collect();
        assert_eq!(ids, [1, 7]);
        let founded = Options { founders: vec![1, 2], ..Options::new("/nowhere", 15, [1, 2, 15, 7]) }.peers();
        assert_eq!((0..=MAX_NODES).filter(|id| founded[*id]).collect::<Vec<_>>(), [1, 2]);
    }
}
