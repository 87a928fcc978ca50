//! What a node is opened with, by a struct or by a file.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use ringleader::config::{Config, Fabric, Notify};
use ringleader::exchange::Key;
use ringleader::{Confirm, LeaseReads, OpenError, Options, Quorum, Readmit};
use ringleader_acceptor::convert::{self, Sized32, check, one_of};
use ringleader_acceptor::timing::{profile, ringleader_timing};

use crate::agent::idle;
use crate::guard::Failure;
use crate::status::ringleader_status as S;

/// What a node is opened with. What is 0 has its default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ringleader_options {
    /// `sizeof(ringleader_options)`.
    pub size: u32,
    /// This node, 1 to 15.
    pub node: u32,
    /// All nodes that there may be, this one included: node n as bit n.
    pub members: u32,
    /// Those that form the group, likewise; 0: all.
    pub founders: u32,
    /// `RINGLEADER_FABRIC_…`.
    pub fabric: u32,
    /// `RINGLEADER_TIMING_…`, where `timing` is NULL.
    pub timing_profile: u32,
    /// `RINGLEADER_QUORUM_…`.
    pub quorum: u32,
    /// `RINGLEADER_CONFIRM_…`.
    pub confirm: u32,
    /// `RINGLEADER_READMIT_…`.
    pub readmit: u32,
    /// `RINGLEADER_IDLE_…`, of a node with a thread of its own.
    pub idle: u32,
    /// `RINGLEADER_NOTIFY_…`.
    pub notify: u32,
    /// The processor of the node's own thread, and 1; 0: none.
    pub pin_plus_one: u32,
    /// 1: the region file stays on a clean close, for `ringleader log`.
    pub keep_region: u32,
    /// 0.
    pub reserved: u32,
    /// Bytes of the ring, a power of two, 512 KiB at least, the same on all nodes; 0: 64 MiB. An entry may have an eighth of it.
    pub ring_len: u64,
    /// Bytes that a saved state may have, a multiple of 64 KiB; 0: as many as the ring; `RINGLEADER_NO_SNAPSHOTS`.
    pub snapshot_len: u64,
    /// Lease reads are allowed if clocks drift by less than this, in parts per million; 0: they are not.
    pub lease_reads_if_clocks_drift_below_ppm: u64,
    /// All durations; NULL: those of the profile.
    pub timing: *const ringleader_timing,
    /// Shared memory: the directory of the region files, best on a tmpfs; made when it is missing.
    pub directory: *const c_char,
    /// RDMA: the group's name.
    pub group: *const c_char,
    /// RDMA: the file of the group's key, made by `ringleader key`.
    pub key_file: *const c_char,
    /// RDMA: where this node is called by the others, `address:port`.
    pub listen: *const c_char,
    /// RDMA: where the others are called, `address:port` or `name:port`: 16 texts by node id, NULL where there is none.
    pub addresses: *const *const c_char,
    /// RDMA: the device; NULL: the first that is active.
    pub device: *const c_char,
    /// RDMA: its port; 0: the first that is active.
    pub port: u32,
    /// RDMA: the entry of its GID table, and 1; 0: the RoCEv2 one of the port's address.
    pub gid_index_plus_one: u32,
}

/// Memory that the processes of one machine share.
pub const RINGLEADER_FABRIC_SHARED_MEMORY: u32 = 0;
/// An RDMA device.
pub const RINGLEADER_FABRIC_VERBS: u32 = 1;
/// A member that lost its memory waits for an operator.
pub const RINGLEADER_READMIT_ASK: u32 = 0;
/// The leader readmits it.
pub const RINGLEADER_READMIT_AUTO: u32 = 1;
/// The agent looks whether a peer has written.
pub const RINGLEADER_NOTIFY_POLL: u32 = 0;
/// Peers' writes wake it, and it may sleep in between.
pub const RINGLEADER_NOTIFY_WAKE: u32 = 1;
/// The node neither gives nor takes a saved state.
pub const RINGLEADER_NO_SNAPSHOTS: u64 = u64::MAX;

// SAFETY: `repr(C)`, integers and pointers, of which any bytes are some; the size first, a multiple of 8 bytes.
unsafe impl Sized32 for ringleader_options {
    const FIRST: usize = size_of::<ringleader_options>();
}

/// The readmission of a number of C.
pub(crate) fn readmit(number: u32) -> Result<Readmit, S> {
    one_of(number, &[Readmit::Ask, Readmit::Auto])
}

/// A text of C; `None` for NULL.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: by the conventions it ends with a zero, and stays as it is.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

unsafe fn path(path: *const c_char, name: &str) -> Result<PathBuf, Failure> {
    // SAFETY: by the conventions.
    let given = unsafe { text(path) }.filter(|path| !path.is_empty());
    let given =
        given.ok_or_else(|| Failure::new(S::RINGLEADER_NULL, format_args!("`{name}` is to be given")))?;
    Ok(PathBuf::from(OsStr::from_bytes(given.to_bytes())))
}

unsafe fn utf8<'a>(given: *const c_char, name: &str) -> Result<Option<&'a str>, Failure> {
    // SAFETY: by the conventions.
    let Some(given) = (unsafe { text(given) }) else { return Ok(None) };
    let wrong = |_| Failure::new(S::RINGLEADER_OPTION, format_args!("`{name}` is no UTF-8"));
    given.to_str().map(Some).map_err(wrong)
}

/// The nodes in a mask.
fn nodes(mask: u32) -> Result<Vec<u8>, Failure> {
    if mask & 1 != 0 || mask >> 16 != 0 {
        return Err(Failure::new(
            S::RINGLEADER_NO_SUCH_NODE,
            "a mask has node n as bit n, for n from 1 to 15",
        ));
    }
    Ok((1..16).filter(|id| mask >> id & 1 != 0).collect())
}

/// Options of C.
pub(crate) unsafe fn of_struct(given: *const ringleader_options) -> Result<Options, Failure> {
    // SAFETY: by the conventions.
    let given = unsafe { convert::grown(given) }?;
    if given.reserved != 0 || given.keep_region > 1 {
        return Err(S::RINGLEADER_OPTION.into());
    }
    let node = u8::try_from(given.node).map_err(|_| S::RINGLEADER_NO_SUCH_NODE)?;
    let members = nodes(given.members)?;
    let timing = if given.timing.is_null() {
        profile(given.timing_profile)?
    } else {
        // SAFETY: by the conventions.
        unsafe { convert::grown(given.timing) }?.core()
    };
    let mut options = match given.fabric {
        RINGLEADER_FABRIC_SHARED_MEMORY => {
            // SAFETY: by the conventions.
            Options::new(unsafe { path(given.directory, "directory") }?, node, members)
        }
        // SAFETY: by the conventions.
        RINGLEADER_FABRIC_VERBS => unsafe { verbs(&given, node, members, timing) }?,
        _ => return Err(S::RINGLEADER_OPTION.into()),
    };
    options.timing = timing;
    options.founders = nodes(given.founders)?;
    if given.ring_len != 0 {
        options.ring_len = given.ring_len;
    }
    options.snapshot_len = match given.snapshot_len {
        0 => None,
        RINGLEADER_NO_SNAPSHOTS => Some(0),
        len => Some(len),
    };
    options.quorum = one_of(given.quorum, &[Quorum::Live, Quorum::Stored])?;
    options.confirm = one_of(given.confirm, &[Confirm::Completion, Confirm::Readback])?;
    options.readmit = readmit(given.readmit)?;
    options.idle = idle(given.idle)?;
    options.notify = one_of(given.notify, &[Notify::Poll, Notify::Imm])?;
    options.pin = (given.pin_plus_one as usize).checked_sub(1);
    options.keep_region = given.keep_region == 1;
    let drift = given.lease_reads_if_clocks_drift_below_ppm;
    options.lease_reads = (drift != 0).then_some(LeaseReads { clocks_drift_below_ppm: drift });
    Ok(options)
}

/// Options of a node on RDMA.
#[cfg(feature = "verbs")]
unsafe fn verbs(
    given: &ringleader_options,
    node: u8,
    members: Vec<u8>,
    timing: ringleader::Timing,
) -> Result<Options, Failure> {
    use ringleader::VerbsOptions;
    use ringleader::exchange::GroupName;
    use ringleader::fabric::verbs::Choice;

    let missing = |name: &str| Failure::new(S::RINGLEADER_NULL, format_args!("`{name}` is to be given"));
    let wrong = |what: String| Failure::new(S::RINGLEADER_OPTION, what);
    // SAFETY: by the conventions.
    let (group, listen, device, key_file) = unsafe {
        (
            utf8(given.group, "group")?.ok_or_else(|| missing("group"))?,
            utf8(given.listen, "listen")?.ok_or_else(|| missing("listen"))?,
            utf8(given.device, "device")?,
            path(given.key_file, "key_file")?,
        )
    };
    check(given.addresses)?;
    let mut addresses = [const { None }; 16];
    for id in members.iter().filter(|id| **id != node) {
        // SAFETY: by the conventions there are 16.
        let address = unsafe { utf8(*given.addresses.add(usize::from(*id)), "addresses")? };
        let address = address.ok_or_else(|| missing("addresses"))?;
        addresses[usize::from(*id)] = Some(address.to_owned());
    }
    let number = |number: u32, name: &str| {
        u8::try_from(number).map_err(|_| wrong(format!("`{name}` {number} is too large")))
    };
    let gid_index = given.gid_index_plus_one.checked_sub(1);
    let choice = Choice {
        device: device.map(str::to_owned),
        port: Some(number(given.port, "port")?).filter(|port| *port != 0),
        gid_index: gid_index.map(|index| number(index, "gid_index_plus_one")).transpose()?,
    };
    let verbs = VerbsOptions {
        choice,
        listen: listen.parse().map_err(|_| wrong(format!("listen {listen:?} is no address:port")))?,
        addresses,
        key: key(&key_file)?,
        group: GroupName::new(group).ok_or_else(|| wrong(format!("{group:?} is no name of a group")))?,
    };
    Ok(Options::verbs(verbs, timing, node, members))
}

/// This build has none.
#[cfg(not(feature = "verbs"))]
unsafe fn verbs(
    given: &ringleader_options,
    _: u8,
    _: Vec<u8>,
    _: ringleader::Timing,
) -> Result<Options, Failure> {
    check(given.addresses)?;
    // SAFETY: by the conventions.
    unsafe { utf8(given.group, "group") }?;
    Err(S::RINGLEADER_UNSUPPORTED.into())
}

fn key(file: &std::path::Path) -> Result<Key, Failure> {
    Key::read(file).map_err(|error| Failure::new(S::RINGLEADER_OPTION, error))
}

/// Options of a configuration file; `node` 0: that which the file names.
pub(crate) unsafe fn of_file(file: *const c_char, node: u32) -> Result<Options, Failure> {
    // SAFETY: by the conventions.
    let file = unsafe { path(file, "file") }?;
    let node = u8::try_from(node).map_err(|_| S::RINGLEADER_NO_SUCH_NODE)?;
    let config = Config::read(&file, Some(node).filter(|node| *node != 0))
        .map_err(|error| Failure::new(S::RINGLEADER_OPTION, error))?;
    let options = match &config.fabric {
        Fabric::Shm { .. } => config.shm_options(),
        Fabric::Verbs(verbs) => config.verbs_options(key(&verbs.key_file)?),
        _ => None,
    };
    options.ok_or_else(|| S::RINGLEADER_UNSUPPORTED.into())
}

/// Why a node, or an agent, was not opened.
pub(crate) fn failed_open(error: &OpenError) -> Failure {
    let status = match error {
        OpenError::Option(_) => S::RINGLEADER_OPTION,
        OpenError::Memory { .. } => S::RINGLEADER_MEMORY,
        OpenError::Region(_) => S::RINGLEADER_REGION,
        #[cfg(feature = "verbs")]
        OpenError::Device(_) => S::RINGLEADER_DEVICE,
        OpenError::Exchange(_) => S::RINGLEADER_EXCHANGE,
        OpenError::Thread(_) => S::RINGLEADER_THREAD,
        OpenError::Room { .. } => S::RINGLEADER_ROOM,
        OpenError::Random(_) => S::RINGLEADER_RANDOM,
        _ => S::RINGLEADER_OPTION,
    };
    Failure::new(status, error)
}
