//! A core as C has it: an object in the caller's own storage, over the caller's own memory.
//!
//! The memory of its areas is shared: peers write it at any moment, by whatever carries their verbs. It is looked at by atomic words
//! alone, as the core does everywhere, so that this takes no other word of the caller than that it stays where it is. Whether a pointer
//! leads to one is told by a mark in it, which is made of where it stands. A core is for one call at a time, also where its own callback
//! calls: the mark says that one is under way, so that no two of them ever hold the replica.

use core::ffi::c_void;
use core::mem::{MaybeUninit, align_of, size_of};
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU64, Ordering};

use ::ringleader_core::layout::{control, log, snapshot};
use ::ringleader_core::mem::{Area, Areas, Memory};
use ::ringleader_core::options::{Half, Options, OptionsError};
use ::ringleader_core::proposer::{Confirm, OwnCopy, Quorum, Role};
use ::ringleader_core::read::{LeaseReads, ReadError};
use ::ringleader_core::replica::{FormError, ProposeError, Replica};
use ::ringleader_core::snapshot::Writer;
use ::ringleader_core::types::{Boot, Incarnation, Instant, MAX_NODES, NodeId};

use crate::convert::{Sized32, bytes, check, growing, grown, one_of, output, status};
use crate::event::{how, ringleader_apply_callback, ringleader_entry, ringleader_event};
use crate::status::{ringleader_status, ringleader_status as S};
use crate::timing::ringleader_timing;
use crate::verb::{ringleader_completion, ringleader_verb};

/// One node of a group, in memory that the caller lends.
pub struct ringleader_core {
    mark: AtomicU64,
    replica: MaybeUninit<Replica<Words>>,
}

/// What a core is made with. What is 0 has its default, where one is named.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ringleader_core_options {
    /// `sizeof(ringleader_core_options)`.
    pub size: u32,
    /// This node, 1 to 15.
    pub node: u32,
    /// The other nodes that form the group, node n as bit n.
    pub peers: u32,
    /// 0: the acceptor alone, which fences, votes and holds the log, and never asks for votes. 1: a whole replica, which may lead.
    pub stands: u32,
    /// `RINGLEADER_QUORUM_…`.
    pub quorum: u32,
    /// `RINGLEADER_CONFIRM_…`.
    pub confirm: u32,
    /// 1: a leader copies to its own log before the first WRITE leaves, for fabrics that carry a WRITE out while it is posted.
    pub own_copy_first: u32,
    /// 0.
    pub reserved: u32,
    /// Bytes of the ring, a power of two, 512 KiB at least; the same on all nodes.
    pub ring_len: u64,
    /// Bytes of the largest slot of an entry; 0: an eighth of the ring.
    pub max_entry: u64,
    /// Bytes of the largest snapshot, a multiple of 64 KiB; 0: this node neither gives nor takes any.
    pub snapshot_len: u64,
    /// Lease reads are allowed if clocks drift by less than this, in parts per million; 0: they are not.
    pub lease_reads_if_clocks_drift_below_ppm: u64,
    /// Random, new whenever promise or log were lost; not 0.
    pub incarnation: u64,
    /// Random, new for each start; not 0.
    pub boot: u64,
    /// Random: of the jitter.
    pub seed: u64,
    /// All durations, the same on all nodes.
    pub timing: ringleader_timing,
}

/// All whose processor was seen to run lately count for a commit.
pub const RINGLEADER_QUORUM_LIVE: u32 = 0;
/// All whose memory has an entry count for its commit, for logs that outlive their hosts.
pub const RINGLEADER_QUORUM_STORED: u32 = 1;
/// A completion says that the bytes of a WRITE are placed.
pub const RINGLEADER_CONFIRM_COMPLETION: u32 = 0;
/// A READ behind it says so.
pub const RINGLEADER_CONFIRM_READBACK: u32 = 1;

/// A range of memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ringleader_area {
    /// Its beginning, at a multiple of 64.
    pub bytes: *mut c_void,
    /// Bytes, as `ringleader_core_lengths` says.
    pub len: u64,
}

/// The memory of a core, all zero at its start. Peers reach it by whatever carries their verbs, at any time.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ringleader_areas {
    /// `sizeof(ringleader_areas)`.
    pub size: u32,
    /// 0.
    pub reserved: u32,
    /// Peers READ and WRITE it.
    pub control: ringleader_area,
    /// The granted writer WRITEs it, all READ it.
    pub log: ringleader_area,
    /// Only this node's verbs have to do with it.
    pub staging: ringleader_area,
    /// Peers READ it.
    pub snapshot: ringleader_area,
}

/// Bytes that a core and its areas need.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ringleader_core_needs {
    /// `sizeof(ringleader_core_needs)`.
    pub size: u32,
    /// The storage begins at a multiple of this.
    pub storage_align: u32,
    /// Bytes of storage for the core itself.
    pub storage: u64,
    /// Bytes of the control area.
    pub control: u64,
    /// Of the log area.
    pub log: u64,
    /// Of the staging area.
    pub staging: u64,
    /// Of the snapshot area; 0 without snapshots.
    pub snapshot: u64,
}

/// How a core is.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct ringleader_core_state {
    /// `sizeof(ringleader_core_state)`.
    pub size: u32,
    /// `RINGLEADER_ROLE_…`.
    pub role: u32,
    /// Who is followed; 0: nobody.
    pub leader: u32,
    /// Who may write the log area now; 0: nobody.
    pub writer: u32,
    /// Voters of the group.
    pub voters: u32,
    /// 1: this node was a member of its group, and is none any more.
    pub removed: u32,
    /// The promise in force: its term.
    pub promised_term: u64,
    /// And to whom.
    pub promised_node: u64,
    /// Low half of the group's id; both 0: in none.
    pub group_low: u64,
    /// High half.
    pub group_high: u64,
    /// Index of the last entry that was walked, or staged as leader.
    pub end_index: u64,
    /// Its end.
    pub end_position: u64,
    /// Index of the last entry known committed.
    pub commit_index: u64,
    /// Its end.
    pub commit_position: u64,
    /// Index of the last entry applied.
    pub applied_index: u64,
    /// Its end.
    pub applied_position: u64,
}

/// Follows, or waits for a leader.
pub const RINGLEADER_ROLE_FOLLOWER: u32 = 0;
/// Asks for votes.
pub const RINGLEADER_ROLE_CANDIDATE: u32 = 1;
/// Leads.
pub const RINGLEADER_ROLE_LEADER: u32 = 2;

// SAFETY: `repr(C)`, integers and such structs alone, the size first, a multiple of 8 bytes.
unsafe impl Sized32 for ringleader_core_options {
    const FIRST: usize = size_of::<ringleader_core_options>();
}

// SAFETY: as above, and pointers, of which any bytes are some.
unsafe impl Sized32 for ringleader_areas {
    const FIRST: usize = size_of::<ringleader_areas>();
}

// SAFETY: as the first.
unsafe impl Sized32 for ringleader_core_needs {
    const FIRST: usize = size_of::<ringleader_core_needs>();
}

// SAFETY: as the first.
unsafe impl Sized32 for ringleader_core_state {
    const FIRST: usize = size_of::<ringleader_core_state>();
}

/// The words of an area.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words {
    words: *const AtomicU64,
    count: usize,
}

impl Memory for Words {
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: by the conventions the memory stays where it is as long as the core does; all that share it, peers' verbs among them,
        // read and write it by whole words.
        unsafe { core::slice::from_raw_parts(self.words, self.count) }
    }
}

fn area(area: &ringleader_area, len: u64) -> Result<Area<Words>, S> {
    if area.len != len {
        return Err(S::RINGLEADER_SIZE);
    }
    if len > 0 {
        if area.bytes.is_null() {
            return Err(S::RINGLEADER_NULL);
        }
        if !area.bytes.addr().is_multiple_of(64) {
            return Err(S::RINGLEADER_MISALIGNED);
        }
    }
    let words = if len == 0 { core::ptr::dangling() } else { area.bytes.cast_const().cast() };
    Ok(Area::new(Words { words, count: (len / 8) as usize }))
}

const MARK: u64 = 0x72_6e_67_6c_63_6f_72_65;

fn mark_of(core: *const ringleader_core) -> u64 {
    MARK ^ (core.addr() as u64).rotate_left(17)
}

/// In a mark: a call is under way.
const ENTERED: u64 = 1 << 63;

/// A core that one call has to itself.
struct Entered<'a> {
    mark: &'a AtomicU64,
    replica: &'a mut Replica<Words>,
    /// The mark that it is left with.
    leaves: u64,
}

/// The core behind a pointer.
unsafe fn enter<'a>(core: *mut ringleader_core) -> Result<Entered<'a>, S> {
    check(core)?;
    let own = mark_of(core);
    // SAFETY: it is not NULL and aligned; by the conventions it leads to storage of a core, of which only the mark is looked at here.
    let mark = unsafe { &(*core).mark };
    // Looked at before it is written: a pointer to something else may lead to what cannot be written.
    match mark.load(Ordering::Relaxed) {
        seen if seen == own => {}
        seen if seen == own ^ ENTERED => return Err(S::RINGLEADER_BUSY),
        seen if seen == !own => return Err(S::RINGLEADER_CLOSED_HANDLE),
        _ => return Err(S::RINGLEADER_FOREIGN),
    }
    // Acquire: what the last call did here is seen.
    if mark.compare_exchange(own, own ^ ENTERED, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return Err(S::RINGLEADER_BUSY);
    }
    // SAFETY: whoever set the mark had written it before, and nobody else holds it as long as the mark says that somebody does.
    let replica = unsafe { (*core).replica.assume_init_mut() };
    Ok(Entered { mark, replica, leaves: own })
}

impl Deref for Entered<'_> {
    type Target = Replica<Words>;

    fn deref(&self) -> &Replica<Words> {
        self.replica
    }
}

impl DerefMut for Entered<'_> {
    fn deref_mut(&mut self) -> &mut Replica<Words> {
        self.replica
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.mark.store(self.leaves, Ordering::Release);
    }
}

impl ringleader_core_options {
    fn core(&self) -> Result<Options, S> {
        let node = u8::try_from(self.node).map_err(|_| S::RINGLEADER_NO_SUCH_NODE)?;
        if self.peers & 1 != 0 || self.peers >> (MAX_NODES + 1) != 0 {
            return Err(S::RINGLEADER_NO_SUCH_NODE);
        }
        if self.reserved != 0 || self.stands > 1 {
            return Err(S::RINGLEADER_OPTION);
        }
        let drift = self.lease_reads_if_clocks_drift_below_ppm;
        let max_entry = if self.max_entry == 0 { self.ring_len / 8 } else { self.max_entry };
        if (self.timing.size as usize) != size_of::<ringleader_timing>() {
            return Err(S::RINGLEADER_SIZE);
        }
        let options = Options {
            node: NodeId(node),
            half: Half::Whole,
            peers: core::array::from_fn(|id| self.peers >> id & 1 != 0),
            ring_len: self.ring_len,
            max_entry,
            snapshot_len: self.snapshot_len,
            timing: self.timing.core(),
            quorum: one_of(self.quorum, &[Quorum::Live, Quorum::Stored])?,
            own_copy: one_of(self.own_copy_first, &[OwnCopy::Last, OwnCopy::First])?,
            confirm: one_of(self.confirm, &[Confirm::Completion, Confirm::Readback])?,
            lease_reads: (drift != 0).then_some(LeaseReads { clocks_drift_below_ppm: drift }),
            incarnation: Incarnation(self.incarnation),
            boot: Boot(self.boot),
            seed: self.seed,
        };
        options.validate().map_err(|error| match error {
            OptionsError::Node => S::RINGLEADER_NO_SUCH_NODE,
            OptionsError::AreaLen => S::RINGLEADER_SIZE,
            _ => S::RINGLEADER_OPTION,
        })?;
        Ok(options)
    }
}

/// Says how many bytes a core of these options and its areas need.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_core_lengths(
    options: *const ringleader_core_options,
    out: *mut ringleader_core_needs,
) -> ringleader_status {
    status((|| {
        // SAFETY: by the conventions.
        let (options, out) = unsafe { (grown(options)?.core()?, growing(out)?) };
        out.set(ringleader_core_needs {
            size: 0,
            storage_align: align_of::<ringleader_core>() as u32,
            storage: size_of::<ringleader_core>() as u64,
            control: control::LEN,
            log: log::len(options.ring_len),
            staging: log::len(options.ring_len),
            snapshot: snapshot::len(options.snapshot_len),
        });
        Ok(())
    })())
}

/// Makes a core in `storage`, which has `len` bytes and is not moved as long as it lives, over areas that are all zero. `now_ns` is the
/// time, of a clock that never falls; it goes on with every call that takes one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_core_init(
    storage: *mut c_void,
    len: usize,
    options: *const ringleader_core_options,
    areas: *const ringleader_areas,
    now_ns: u64,
    out: *mut *mut ringleader_core,
) -> ringleader_status {
    status((|| {
        let core = storage.cast::<ringleader_core>();
        check(core)?;
        if len < size_of::<ringleader_core>() {
            return Err(S::RINGLEADER_SIZE);
        }
        // SAFETY: by the conventions.
        let (given, lent, out) = unsafe { (grown(options)?, grown(areas)?, output(out)?) };
        let options = given.core()?;
        let ring = log::len(options.ring_len);
        let areas = Areas {
            control: area(&lent.control, control::LEN)?,
            log: area(&lent.log, ring)?,
            staging: area(&lent.staging, ring)?,
            snapshot: area(&lent.snapshot, snapshot::len(options.snapshot_len))?,
        };
        let mut replica = Replica::new(options, areas, Instant(now_ns)).map_err(|_| S::RINGLEADER_OPTION)?;
        replica.set_stands(given.stands == 1);
        // SAFETY: the storage is aligned and large enough, and the caller's word is that it is nobody else's.
        unsafe {
            core.write(ringleader_core {
                mark: AtomicU64::new(mark_of(core)),
                replica: MaybeUninit::new(replica),
            })
        };
        out.set(core);
        Ok(())
    })())
}

/// Ends a core; its storage and areas are the caller's again. To its peers it is as if the process had died.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_core_end(core: *mut ringleader_core) -> ringleader_status {
    status((|| {
        // SAFETY: by the conventions.
        let mut entered = unsafe { enter(core)? };
        entered.leaves = !mark_of(core);
        // SAFETY: with the mark that is left behind nobody looks at it any more.
        unsafe { core::ptr::drop_in_place(&raw mut *entered.replica) };
        Ok(())
    })())
}

/// A verb has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_core_complete(
    core: *mut ringleader_core,
    now_ns: u64,
    done: *const ringleader_completion,
) -> ringleader_status {
    status((|| {
        // SAFETY: by the conventions.
        let (mut core, done) = unsafe { (enter(core)?, grown(done)?.core()?) };
        core.handle_completion(Instant(now_ns), done);
        Ok(())
    })())
}

/// Looks at everything that others may have written, and at the clock. To be called in every turn of the caller's loop; then events
/// and verbs are asked for until there are none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_core_tick(core: *mut ringleader_core, now_ns: u64) -> ringleader_status {
    status((|| {
        // SAFETY: by the conventions.
        unsafe { enter(core)? }.handle_tick(Instant(now_ns));
        Ok(())
    })())
}

/// Forms a group of this node and all its peers, with this random id. Goes on with the ticks, until `RINGLEADER_EVENT_FORMED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_core_form(
    core: *mut ringleader_core,
    now_ns: u64,
    group_low: u64,
    group_high: u64,
) -> ringleader_status {
    status((|| {
        // SAFETY: by the conventions.
        let mut core = unsafe { enter(core)? };
        let group = u128::from(group_low) | u128::from(group_high) << 64;
        core.form(Instant(now_ns), group).map_err(|error| match error {
            FormError::Group => S::RINGLEADER_OPTION,
            _ => S::RINGLEADER_NOT_FRESH,
        })
    })())
}

/// Connects to a node that may be a member, or become one, and was not among the peers that it was made with. Who is in no group yet does
/// not know the members: where a connection takes both ends, it is to be called for all who may be, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_core_connect_to(
    core: *mut ringleader_core,
    node: u32,
) -> ringleader_status {
    status((|| {
        // SAFETY: by the conventions.
        let mut core = unsafe { enter(core)? };
        let node = u8::try_from(node).map(NodeId).ok().filter(|node| node.is_valid());
        core.connect_to(node.ok_or(S::RINGLEADER_NO_SUCH_NODE)?);
        Ok(())
    })())
}

/// Proposes an entry, as leader. It is committed when `RINGLEADER_EVENT_COMMITTED` of `term` reaches `index`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_core_propose(
    core: *mut ringleader_core,
    now_ns: u64,
    payload: *const u8,
    len: usize,
    term: *mut u64,
    index: *mut u64,
) -> ringleader_status {
    status((|| {
        // SAFETY: by the conventions.
        let (mut core, payload, term, index) =
            unsafe { (enter(core)?, bytes(payload, len)?, output(term)?, output(index)?) };
        let ticket = core.propose(Instant(now_ns), payload).map_err(|error| match error {
            ProposeError::NotLeader { .. } => S::RINGLEADER_NOT_LEADER,
            ProposeError::TooLarge { .. } => S::RINGLEADER_TOO_LARGE,
            _ => S::RINGLEADER_FULL,
        })?;
        term.set(ticket.term.0);
        index.set(ticket.index.0);
        Ok(())
    })())
}

/// Asks for a read: `how` is one of `RINGLEADER_READ_…`. It ends with the event that bears its kind and its number, or a later one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_core_read(
    core: *mut ringleader_core,
    now_ns: u64,
    how: u32,
    number: *mut u64,
) -> ringleader_status {
    status((|| {
        // SAFETY: by the conventions.
        let (mut core, out) = unsafe { (enter(core)?, output(number)?) };
        let ticket = core.read(Instant(now_ns), self::how(how)?).map_err(|error| match error {
            ReadError::NotLeader { .. } => S::RINGLEADER_NOT_LEADER,
            ReadError::NotFormed => S::RINGLEADER_NOT_FORMED,
            ReadError::NoLeaseReads => S::RINGLEADER_NO_LEASE_READS,
            _ => S::RINGLEADER_FULL,
        })?;
        out.set(ticket.number);
        Ok(())
    })())
}

/// The next event, which the core forgets; `RINGLEADER_NOTHING` when there is none. To be asked for before the verbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_core_poll_event(
    core: *mut ringleader_core,
    now_ns: u64,
    out: *mut ringleader_event,
) -> ringleader_status {
    status((|| {
        // SAFETY: by the conventions.
        let (mut core, out) = unsafe { (enter(core)?, growing(out)?) };
        let event = core.poll_event().ok_or(S::RINGLEADER_NOTHING)?;
        out.set(ringleader_event::of(now_ns, &event));
        Ok(())
    })())
}

/// The next verb, which the core takes for posted; `RINGLEADER_NOTHING` when there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_core_poll_verb(
    core: *mut ringleader_core,
    out: *mut ringleader_verb,
) -> ringleader_status {
    status((|| {
        // SAFETY: by the conventions.
        let (mut core, out) = unsafe { (enter(core)?, growing(out)?) };
        let verb = core.poll_verb().ok_or(S::RINGLEADER_NOTHING)?;
        out.set(ringleader_verb::of(&verb));
        Ok(())
    })())
}

/// When the core wants a tick at the latest, though nothing happened.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_core_poll_timeout(
    core: *mut ringleader_core,
    at_ns: *mut u64,
) -> ringleader_status {
    status((|| {
        // SAFETY: by the conventions.
        let (core, out) = unsafe { (enter(core)?, output(at_ns)?) };
        out.set(core.poll_timeout().ok_or(S::RINGLEADER_NOTHING)?.0);
        Ok(())
    })())
}

/// Hands the next committed entry to the callback, and counts it applied; `RINGLEADER_NOTHING` when there is none. When the callback
/// returns something else than 0 this is `RINGLEADER_APPLICATION`, and the entry counts as applied all the same. As long as the callback
/// runs the core is at work: whatever else is called with it says `RINGLEADER_BUSY`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_core_apply(
    core: *mut ringleader_core,
    apply: ringleader_apply_callback,
    context: *mut c_void,
) -> ringleader_status {
    status((|| {
        // SAFETY: by the conventions.
        let mut core = unsafe { enter(core)? };
        let apply = apply.ok_or(S::RINGLEADER_NULL)?;
        let mut refused = false;
        let applied = core.apply(|entry| {
            let entry = ringleader_entry::of(&entry);
            // SAFETY: by the conventions it may be called with this context, and the entry outlives the call.
            refused = unsafe { apply(context, &raw const entry) } != 0;
        });
        match (applied, refused) {
            (false, _) => Err(S::RINGLEADER_NOTHING),
            (true, true) => Err(S::RINGLEADER_APPLICATION),
            (true, false) => Ok(()),
        }
    })())
}

/// Answers `RINGLEADER_EVENT_SAVE_SNAPSHOT` of that number: the application's state, or NULL when it cannot save it. `RINGLEADER_FULL`
/// when it does not fit, which the core then knows, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_core_saved(
    core: *mut ringleader_core,
    now_ns: u64,
    number: u32,
    state: *const u8,
    len: usize,
) -> ringleader_status {
    status((|| {
        // SAFETY: by the conventions.
        let mut core = unsafe { enter(core)? };
        if state.is_null() {
            core.handle_saved(Instant(now_ns), number, None);
            return Ok(());
        }
        // SAFETY: by the conventions.
        let state = unsafe { bytes(state, len)? };
        let mut writer = Writer::new(&core.areas().snapshot);
        let saved = writer.write(state).ok().map(|()| writer.finish());
        core.handle_saved(Instant(now_ns), number, saved);
        if saved.is_some() { Ok(()) } else { Err(S::RINGLEADER_FULL) }
    })())
}

/// Lends the `len` bytes of `RINGLEADER_EVENT_LOAD_SNAPSHOT`, until that is answered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_core_loading(
    core: *mut ringleader_core,
    len: u64,
    state: *mut *const u8,
) -> ringleader_status {
    status((|| {
        // SAFETY: by the conventions.
        let (core, out) = unsafe { (enter(core)?, output(state)?) };
        out.set(core.areas().snapshot.lend_loading(len).ok_or(S::RINGLEADER_SIZE)?.as_ptr());
        Ok(())
    })())
}

/// Answers `RINGLEADER_EVENT_LOAD_SNAPSHOT` of that number: whether the application has become that state, or is what it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_core_loaded(
    core: *mut ringleader_core,
    now_ns: u64,
    number: u32,
    loaded: u32,
) -> ringleader_status {
    status((|| {
        // SAFETY: by the conventions.
        unsafe { enter(core)? }.handle_loaded(Instant(now_ns), number, loaded != 0);
        Ok(())
    })())
}

/// How it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_core_look(
    core: *mut ringleader_core,
    out: *mut ringleader_core_state,
) -> ringleader_status {
    status((|| {
        // SAFETY: by the conventions.
        let (core, out) = unsafe { (enter(core)?, growing(out)?) };
        let now = core.status();
        out.set(ringleader_core_state {
            size: 0,
            role: match now.role {
                Role::Leader => RINGLEADER_ROLE_LEADER,
                Role::Candidate => RINGLEADER_ROLE_CANDIDATE,
                Role::Follower | Role::Yielding => RINGLEADER_ROLE_FOLLOWER,
            },
            leader: u32::from(now.leader.0),
            writer: u32::from(now.writer.0),
            voters: core.configuration().voters() as u32,
            removed: u32::from(now.removed),
            promised_term: now.promise.term().0,
            promised_node: u64::from(now.promise.node().0),
            group_low: now.group as u64,
            group_high: (now.group >> 64) as u64,
            end_index: now.end.index.0,
            end_position: now.end.position.0,
            commit_index: now.commit_index.0,
            commit_position: now.commit.0,
            applied_index: now.applied.index.0,
            applied_position: now.applied.position.0,
        });
        Ok(())
    })())
}
