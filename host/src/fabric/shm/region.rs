//! Region files: making one's own, finding a peer's. Not: what is done in them.
//!
//! A region is made without a name, reserved, filled and locked, and only then linked into the directory: whoever is
//! killed in between leaves nothing, and whoever finds a region finds it whole. Its lock lives as long as its owner; a
//! region without one is dead, and the next process of that node puts a new file in its place.

use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ringleader_core::layout::{Line, control, log, snapshot};
use ringleader_core::mem::{Area, Memory};
use ringleader_core::options::Half;
use ringleader_core::types::NodeId;
use rustix::fs::{self, AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use zerocopy::IntoBytes;

use super::error::{RegionError, RegionFault};
use super::header::{self, CLOSED, HEADER_LEN, NicHeader};
use super::os;
use super::process::{self, Process};
use crate::exchange::GroupName;
use crate::fabric::map::{Mapped, Mapping};

/// So often a starting process tries to put its region in the place of a dead one, while others do the same.
const REPLACE_TRIES: usize = 16;

/// The region file of `node` in `dir`.
pub fn path_of(dir: &Path, node: NodeId) -> PathBuf {
    dir.join(format!("node-{node}.region"))
}

/// That of its host, where its acceptor is apart. Nobody connects to it: it says which process the host is.
fn host_path_of(dir: &Path, node: NodeId) -> PathBuf {
    dir.join(format!("node-{node}.host"))
}

/// The directory with the regions of all nodes of this machine.
#[derive(Debug)]
pub(super) struct Directory {
    fd: OwnedFd,
    /// The region files of all nodes, made once: looking for a peer that is not there allocates nothing.
    paths: [PathBuf; 16],
    hosts: [PathBuf; 16],
    pid_namespace: u64,
}

impl Directory {
    /// Opens the directory; makes it (mode 0700) when it is missing. True: it was made.
    pub(super) fn open(path: &Path) -> Result<(Directory, bool), RegionError> {
        let made = match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            // A read-only file system says so even of a directory that exists.
            Err(_) if path.is_dir() => false,
            Err(error) => return Err(RegionError::io(path, "create the directory")(error)),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = fs::open(path, flags, Mode::empty())
            .map_err(RegionError::io(path, "open the directory"))
            .and_then(|fd| Ok((fd, process::pid_namespace().map_err(RegionError::io(path, "read /proc"))?)));
        match opened {
            Ok((fd, pid_namespace)) => {
                let paths = std::array::from_fn(|node| path_of(path, NodeId(node as u8)));
                let hosts = std::array::from_fn(|node| host_path_of(path, NodeId(node as u8)));
                Ok((Directory { fd, paths, hosts, pid_namespace }, made))
            }
            Err(error) => {
                if made {
                    // The error that is returned says more than the one of a directory that stays.
                    let _ = std::fs::remove_dir(path);
                }
                Err(error)
            }
        }
    }

    /// The region file of `node`, or that of its host.
    fn path_of(&self, node: NodeId, half: Half) -> &Path {
        match half {
            Half::Proposer => &self.hosts[node.slot()],
            Half::Whole | Half::Acceptor => &self.paths[node.slot()],
        }
    }
}

/// Its name in the directory.
fn name_of(path: &Path) -> &OsStr {
    path.file_name().expect("it was made of a directory and a name")
}

/// This process's own region.
#[derive(Debug)]
pub(super) struct Region {
    node: NodeId,
    half: Half,
    directory: Arc<Directory>,
    /// Holds the lock.
    file: OwnedFd,
    mapping: Arc<Mapping>,
    ring_len: u64,
    snapshot_len: u64,
    group_name: Option<GroupName>,
}

/// What identifies a region.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    pub(super) node: NodeId,
    pub(super) half: Half,
    pub(super) boot: u64,
    pub(super) incarnation: u64,
    pub(super) ring_len: u64,
    pub(super) snapshot_len: u64,
    pub(super) group_name: Option<GroupName>,
}

impl Region {
    /// Makes the region of this process. On an error nothing is left behind.
    pub(super) fn create(dir: &Path, identity: Identity) -> Result<Region, RegionError> {
        let path = match identity.half {
            Half::Proposer => host_path_of(dir, identity.node),
            Half::Whole | Half::Acceptor => path_of(dir, identity.node),
        };
        if !identity.node.is_valid() {
            return Err(RegionError::new(dir, RegionFault::NodeId { node: identity.node.0 }));
        }
        if !header::is_ring_len(identity.ring_len) {
            return Err(RegionError::new(&path, RegionFault::RingLen { ring_len: identity.ring_len }));
        }
        if !header::is_snapshot_len(identity.snapshot_len) {
            let fault = RegionFault::SnapshotLen { snapshot_len: identity.snapshot_len };
            return Err(RegionError::new(&path, fault));
        }
        let (directory, made) = Directory::open(dir)?;
        Region::create_in(Arc::new(directory), &path, identity).inspect_err(|_| {
            if made {
                // Only when it is empty; the error that is returned says more than this one.
                let _ = std::fs::remove_dir(dir);
            }
        })
    }

    fn create_in(directory: Arc<Directory>, path: &Path, identity: Identity) -> Result<Region, RegionError> {
        let Identity { node, half, ring_len, snapshot_len, group_name, .. } = identity;
        // Before anything large is reserved.
        if let Some(pid) = owner_of(&directory, path)? {
            return Err(RegionError::new(path, RegionFault::InUse { pid }));
        }
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = fs::openat(&directory.fd, ".", flags, mode).map_err(RegionError::io(path, "create"))?;
        fs::fchmod(&file, mode).map_err(RegionError::io(path, "set the mode"))?;
        let len = header::file_len(half, ring_len, snapshot_len);
        fs::fallocate(&file, FallocateFlags::empty(), 0, len)
            .map_err(RegionError::io(path, "reserve its memory"))?;
        let mapping = Mapping::shared(&file, len).map_err(RegionError::io(path, "map"))?;
        mapping.populate(0, len).map_err(RegionError::io(path, "get its memory"))?;
        let page = Area::new(mapping.slice(0, header::CONTROL));
        NicHeader::new(&identity, directory.pid_namespace).write(&page, 0, 1);
        if !os::try_lock(&file).map_err(RegionError::io(path, "lock"))? {
            return Err(RegionError::new(path, RegionFault::InUse { pid: 0 }));
        }
        let region = Region { node, half, directory, file, mapping, ring_len, snapshot_len, group_name };
        region.link(path)?;
        Ok(region)
    }

    /// Gives the file its name, in the place of a dead region if there is one.
    fn link(&self, path: &Path) -> Result<(), RegionError> {
        let directory = &self.directory;
        let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        for _ in 0..REPLACE_TRIES {
            match fs::linkat(CWD, own.as_str(), &directory.fd, name_of(path), AtFlags::SYMLINK_FOLLOW) {
                Ok(()) => return Ok(()),
                Err(Errno::EXIST) => remove_dead(directory, path)?,
                Err(error) => return Err(RegionError::io(path, "give it its name")(error)),
            }
        }
        Err(RegionError::new(path, RegionFault::InUse { pid: 0 }))
    }

    /// The control area.
    pub(super) fn control(&self) -> Mapped {
        self.mapping.slice(header::CONTROL, control::LEN)
    }

    /// The log area.
    pub(super) fn log(&self) -> Mapped {
        self.mapping.slice(header::LOG, log::len(self.ring_len))
    }

    /// The snapshot area.
    pub(super) fn snapshot(&self) -> Mapped {
        self.mapping.slice(header::snapshot_at(self.ring_len), snapshot::len(self.snapshot_len))
    }

    /// One word of the first 64 KiB.
    pub(super) fn word(&self, offset: u64) -> Mapped {
        self.mapping.slice(offset, 8)
    }

    /// The directory it is in.
    pub(super) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Takes the name away; the memory stays as long as anyone maps it. The lock says that the name is still ours.
    pub(super) fn unlink(&self) -> Result<(), RegionError> {
        let path = self.directory.path_of(self.node, self.half);
        match fs::unlinkat(&self.directory.fd, name_of(path), AtFlags::empty()) {
            // Somebody else was first.
            Err(Errno::NOENT) => Ok(()),
            removed => removed.map_err(RegionError::io(path, "remove")),
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // The process may live on, so no pidfd will tell the peers. Release: every copy made before is complete.
        self.word(CLOSED).words()[0].store(1, Ordering::Release);
        os::unlock(&self.file);
    }
}

/// Process that owns that region now.
fn owner_of(directory: &Directory, path: &Path) -> Result<Option<u64>, RegionError> {
    let Some(file) = open(directory, path)? else { return Ok(None) };
    if !os::is_locked(&file).map_err(RegionError::io(path, "look at its lock"))? {
        return Ok(None);
    }
    Ok(Some(read_header(&file, path).map_or(0, |header| header.pid)))
}

/// Removes a region's name if its owner is dead.
fn remove_dead(directory: &Directory, path: &Path) -> Result<(), RegionError> {
    let Some(file) = open(directory, path)? else { return Ok(()) };
    if !os::try_lock(&file).map_err(RegionError::io(path, "lock"))? {
        let pid = read_header(&file, path).map_or(0, |header| header.pid);
        return Err(RegionError::new(path, RegionFault::InUse { pid }));
    }
    match read_header(&file, path) {
        // Whatever this is, it is not ours to remove.
        Err(error) if !error.fault.is_of_a_region() => return Err(error),
        Ok(_) | Err(_) => {}
    }
    // Names change hands only under the lock of the file that has the name. Between opening and locking it may have gone.
    let ours = fs::fstat(&file).map_err(RegionError::io(path, "look at"))?;
    let name = name_of(path);
    match fs::statat(&directory.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(named) if (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino) => {
            fs::unlinkat(&directory.fd, name, AtFlags::empty()).map_err(RegionError::io(path, "replace"))
        }
        Ok(_) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(RegionError::io(path, "look at")(error)),
    }
}

fn open(directory: &Directory, path: &Path) -> Result<Option<OwnedFd>, RegionError> {
    let name = name_of(path);
    // Not following links and not waiting: whatever stands there, it must be a plain file to be used.
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    match fs::openat(&directory.fd, name, flags, Mode::empty()) {
        Ok(file) => Ok(Some(file)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(RegionError::io(path, "open")(error)),
    }
}

/// The header of an open file, checked against its length. Nothing is mapped before.
pub(super) fn read_header(file: impl AsFd, path: &Path) -> Result<NicHeader, RegionError> {
    let stat = fs::fstat(&file).map_err(RegionError::io(path, "look at"))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(RegionError::new(path, RegionFault::NotAFile));
    }
    let len = stat.st_size as u64;
    if len < HEADER_LEN {
        return Err(RegionError::new(path, RegionFault::Length { len, expected: HEADER_LEN }));
    }
    let mut words = [0u64; HEADER_LEN as usize / 8];
    let bytes = words.as_mut_bytes();
    let mut done = 0;
    while done < bytes.len() {
        match rustix::io::pread(&file, &mut bytes[done..], done as u64) {
            Ok(0) => {
                let fault = RegionFault::Length { len: done as u64, expected: HEADER_LEN };
                return Err(RegionError::new(path, fault));
            }
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(RegionError::io(path, "read")(error)),
        }
    }
    NicHeader::judge(&words, len).map_err(|fault| RegionError::new(path, fault))
}

/// A peer's region that was found, and is not mapped yet.
#[derive(Debug)]
pub(super) struct Found<'a> {
    file: OwnedFd,
    path: &'a Path,
    header: NicHeader,
}

impl<'a> Found<'a> {
    /// Looks for the region of `node`. `None`: there is none.
    pub(super) fn look(directory: &'a Directory, node: NodeId) -> Result<Option<Found<'a>>, RegionError> {
        Found::look_for(directory, node, Half::Whole)
    }

    /// The same for that of its host.
    pub(super) fn look_host(
        directory: &'a Directory,
        node: NodeId,
    ) -> Result<Option<Found<'a>>, RegionError> {
        Found::look_for(directory, node, Half::Proposer)
    }

    fn look_for(
        directory: &'a Directory,
        node: NodeId,
        half: Half,
    ) -> Result<Option<Found<'a>>, RegionError> {
        let path = directory.path_of(node, half);
        let Some(file) = open(directory, path)? else { return Ok(None) };
        let header = read_header(&file, path)?;
        if header.is_host() != (half == Half::Proposer) {
            let fault = RegionFault::Header { field: "half", found: header.half };
            return Err(RegionError::new(path, fault));
        }
        if header.node_id() != node {
            let fault = RegionFault::Header { field: "node", found: header.node };
            return Err(RegionError::new(path, fault));
        }
        if header.pid_namespace != directory.pid_namespace {
            return Err(RegionError::new(path, RegionFault::PidNamespace));
        }
        Ok(Some(Found { file, path, header }))
    }

    /// The boot of its owner.
    pub(super) fn boot(&self) -> u64 {
        self.header.boot
    }

    /// Length of its ring.
    pub(super) fn ring_len(&self) -> u64 {
        self.header.ring_len
    }

    /// Bytes that a snapshot in it may have.
    pub(super) fn snapshot_len(&self) -> u64 {
        self.header.snapshot_len
    }

    /// Whether a node with this region can work with it. `is_acceptor`: it is that of the node's own acceptor.
    pub(super) fn check(&self, own: &Region, is_acceptor: bool) -> Result<(), RegionError> {
        if let (Some(ours), Some(theirs)) = (own.group_name, self.header.group_name())
            && ours != theirs
        {
            return Err(RegionError::new(self.path, RegionFault::OtherGroup { ours, theirs }));
        }
        let (ours, theirs) = (own.ring_len, self.ring_len());
        if ours != theirs {
            return Err(RegionError::new(self.path, RegionFault::OtherRing { ours, theirs }));
        }
        let (ours, theirs) = (own.snapshot_len, self.snapshot_len());
        if is_acceptor && ours != theirs {
            return Err(RegionError::new(self.path, RegionFault::OtherSnapshots { ours, theirs }));
        }
        Ok(())
    }

    /// The process that owns it; `None` when it is dead.
    pub(super) fn owner(&self) -> Result<Option<Process>, RegionError> {
        // In this order: the number is the owner's as long as the lock is held, so a lock that is still held after the
        // process was opened says that it was the owner that was opened.
        let process = Process::open(self.header.pid, self.header.boot)
            .map_err(RegionError::io(self.path, "watch its process"))?;
        let locked = os::is_locked(&self.file).map_err(RegionError::io(self.path, "look at its lock"))?;
        Ok(process.filter(|_| locked))
    }

    /// Maps it.
    pub(super) fn map(&self) -> Result<Arc<Mapping>, RegionError> {
        Mapping::shared(&self.file, self.header.file_len).map_err(RegionError::io(self.path, "map"))
    }
}
