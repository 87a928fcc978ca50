//! What the core tells its host. Asked for with `poll_event` until there is none.

use crate::read::{Read, ReadFailure};
use crate::types::{Index, NodeId, Position, Promise, Term};

/// Something the host may want to act on, log, or time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// This node is in a group now.
    Formed {
        /// The group's id.
        group: u128,
    },
    /// A node refused to be part of the group that this one was told to form.
    FormRefused,
    /// The own acceptor, which is apart, came back without its memory: this host belongs to a life that is over.
    Orphaned,
    /// The host of this acceptor, which is apart, is heard.
    HostUp,
    /// The host of this acceptor, which is apart, is silent: it is marked *down* to all.
    HostDown,
    /// Another promise is in force here.
    Promised {
        /// The promise.
        promise: Promise,
    },
    /// The leader of this promise is silent and could not be excused.
    Quiet {
        /// The promise whose leader is silent; [`Promise::NONE`] when there was none.
        promise: Promise,
    },
    /// This node asks for votes.
    Campaign {
        /// In this term.
        term: Term,
    },
    /// A fence that a vote or an access waited for ended.
    Fenced {
        /// Who asked.
        by: NodeId,
    },
    /// This node leads.
    Elected {
        /// This term.
        term: Term,
    },
    /// Everything up to `index` is committed, by this node as leader. Proposals made in an earlier term are not meant.
    Committed {
        /// The leader's term.
        term: Term,
        /// Last committed entry.
        index: Index,
        /// Its end.
        position: Position,
    },
    /// Reads are to be answered now, from what the application has: all of that kind up to that number which have not ended
    /// before.
    ReadReady {
        /// Their kind.
        how: Read,
        /// The number of the last of them.
        number: u64,
    },
    /// Reads end without an answer: all of that kind up to that number which have not ended before.
    ReadFailed {
        /// Their kind.
        how: Read,
        /// The number of the last of them.
        number: u64,
        /// Why.
        why: ReadFailure,
    },
    /// The node that the lead was to be handed over to was not elected in time, or is not reached any more: this one leads on.
    TransferFailed {
        /// That node.
        to: NodeId,
    },
    /// This node does not lead any more: whatever it proposed in `term` and was not reported committed is *unknown*.
    GaveUp {
        /// The term it led.
        term: Term,
        /// Why.
        reason: GiveUp,
    },
    /// A follower of this leader is below what can be served from the ring: it needs a snapshot.
    Behind {
        /// The follower.
        node: NodeId,
    },
    /// A node of the group came back without its memory: it is kept out.
    Forgetful {
        /// The node.
        node: NodeId,
    },
    /// Another configuration is in force here: see `Replica::configuration`.
    Members {
        /// Index of its entry; 0 for the one the group was formed with.
        index: Index,
    },
    /// This node is no member of its group any more: nobody counts it, and it asks for no votes.
    Removed {
        /// Index of the first configuration known here that does not name it.
        index: Index,
    },
    /// So many voters came back without their memory that the others are no majority: the group has stopped, and only an
    /// operator can make a new one of what is left.
    MajorityLost {
        /// Voters that came back as other lives than the configuration names.
        lost: usize,
        /// All voters.
        voters: usize,
    },
    /// A new group was made of what this node holds.
    NewGroup {
        /// The new group's id.
        group: u128,
    },
    /// The application is to write its state as it is now into the snapshot area, through [`crate::snapshot::Writer`]. Answered by
    /// `Replica::handle_saved`; until then nothing is applied, and no read is answered.
    SaveSnapshot {
        /// Which one.
        number: u32,
    },
    /// The application is to become what the bytes in the snapshot area say, which are final until it is answered: see
    /// [`crate::mem::Area::lend_loading`]. Answered by `Replica::handle_loaded`; until then nothing is applied, and no
    /// read is answered.
    LoadSnapshot {
        /// Which one.
        number: u32,
        /// How many bytes: their CRC is right.
        len: u64,
    },
    /// Bytes that were found valid before are not any more, or an entry is of an unknown kind: applying stops here.
    Stuck {
        /// Where.
        position: Position,
    },
    /// The agent must end now: a writer could not be fenced in time, and only the end of the process is a fence.
    Abort {
        /// The writer.
        writer: NodeId,
    },
}

/// Events that wait to be asked for. The host asks after every input, and one input makes only a few.
#[derive(Clone, Default, Debug)]
pub(crate) struct Events(heapless::Deque<Event, 64>);

impl Events {
    pub(crate) fn push(&mut self, event: Event) {
        self.0.push_back(event).expect("the host asks for events after every input");
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        self.0.pop_front()
    }
}

/// Why a leader gave up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum GiveUp {
    /// Its own acceptor promised another term or node.
    OwnAcceptor,
    /// Another acceptor's promise is above its term.
    HigherPromise,
    /// No majority completed a beat in time.
    QuorumLost,
    /// It was told to.
    Asked,
    /// It is no member any more, and everybody has been told.
    Removed,
}
