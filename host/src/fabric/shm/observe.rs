//! A region seen from outside, for tools: of a stopped or dead replica. Nothing of the file is ever changed.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ringleader_core::layout::{control, log};
use ringleader_core::mem::Memory;
use rustix::fs::{Mode, OFlags};

use super::error::{RegionError, RegionFault};
use super::header::{self, NicHeader};
use super::os;
use super::region::read_header;
use crate::fabric::map::{Mapped, Mapping};

/// What the process that a region belongs to is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Owner {
    /// It is over, or has closed the region.
    Dead,
    /// It is stopped by a signal; peers may still write.
    Stopped,
    /// It runs: what is read may change at any moment.
    Running,
}

/// A region file opened for reading. Its first 64 KiB have been checked; what is in its areas has not.
#[derive(Debug)]
pub struct Observed {
    header: NicHeader,
    path: PathBuf,
    file: OwnedFd,
    mapping: Arc<Mapping>,
}

impl Observed {
    /// Opens a region file.
    pub fn open(path: impl AsRef<Path>) -> Result<Observed, RegionError> {
        let path = path.as_ref();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::open(path, flags, Mode::empty()).map_err(RegionError::io(path, "open"))?;
        let header = read_header(&file, path)?;
        if header.is_host() {
            return Err(RegionError::new(path, RegionFault::Host));
        }
        // Private, so that the words may be lent as atomics, which can be stored to, without harm to the file.
        let mapping = Mapping::private(&file, header.file_len).map_err(RegionError::io(path, "map"))?;
        let page = mapping.slice(0, header::CONTROL);
        for (i, word) in page.words().iter().enumerate() {
            let offset = i as u64 * 8;
            let stray = word.load(Ordering::Relaxed);
            if header::is_unused(offset) && stray != 0 {
                let offset = offset + u64::from(stray.trailing_zeros() / 8);
                return Err(RegionError::new(path, RegionFault::Stray { offset }));
            }
        }
        Ok(Observed { header, path: path.to_owned(), file, mapping })
    }

    /// Whose region it is.
    pub fn header(&self) -> &NicHeader {
        &self.header
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The control area.
    pub fn control(&self) -> Mapped {
        self.mapping.slice(header::CONTROL, control::LEN)
    }

    /// The log area.
    pub fn log(&self) -> Mapped {
        self.mapping.slice(header::LOG, log::len(self.header.ring_len))
    }

    /// What its owner is doing now.
    pub fn owner(&self) -> Result<Owner, RegionError> {
        if !os::is_locked(&self.file).map_err(RegionError::io(&self.path, "look at its lock"))? {
            return Ok(Owner::Dead);
        }
        // The state stands behind the name, which may hold anything, parentheses too.
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.header.pid)).unwrap_or_default();
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        Ok(if matches!(state, Some('T' | 't')) { Owner::Stopped } else { Owner::Running })
    }
}
