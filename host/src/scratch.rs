//! A directory for what goes with the program, region files above all. That of a program which died is swept by the next one; a
//! lock tells the two apart.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::process::geteuid;

use crate::random::random;

/// Where files are memory, on most machines.
pub const SHARED_MEMORY: &str = "/dev/shm";

/// See the module. Dropped, it goes with all that is in it.
#[derive(Debug)]
pub struct Scratch {
    dir: PathBuf,
    /// Held as long as this lives.
    _lock: File,
}

impl Scratch {
    /// Makes one in that directory, and locks it. Errors name the directory.
    pub fn make(base: &Path, prefix: &str) -> io::Result<Scratch> {
        loop {
            let dir = base.join(format!("{prefix}{}-{:08x}", std::process::id(), random() as u32));
            let named = |error| io::Error::other(format!("{}: {error}", dir.display()));
            match fs::DirBuilder::new().mode(0o700).create(&dir) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made.map_err(named)?,
            }
            // Between the two lines another program may have found the directory unlocked, and swept it.
            if let Some(lock) = lock(&dir).map_err(named)? {
                return Ok(Scratch { dir, _lock: lock });
            }
        }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing can be done about what cannot be removed.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Removes what programs of this user left that were killed.
pub fn sweep(base: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        let ours = entry.file_name().to_string_lossy().starts_with(prefix)
            && entry
                .metadata()
                .is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == geteuid().as_raw());
        if ours && let Ok(Some(_lock)) = lock(&entry.path()) {
            tracing::debug!("sweeping {}, whose program is dead", entry.path().display());
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The lock of a directory that is there; `None` when another has it, or the directory is gone.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
        done => done?,
    }
    let there = fs::symlink_metadata(path).is_ok_and(|there| {
        file.metadata().is_ok_and(|mine| (there.dev(), there.ino()) == (mine.dev(), mine.ino()))
    });
    Ok(there.then_some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dead_is_swept_and_what_lives_is_not() {
        let base = tempfile::tempdir().expect("a temporary directory");
        let dead = base.path().join("ringleader-demo-1");
        let other = base.path().join("somebody");
        for dir in [&dead, &other] {
            fs::create_dir(dir).expect("made");
            fs::write(dir.join("node-1.region"), b"x").expect("written");
        }
        let living = Scratch::make(base.path(), "ringleader-demo-").expect("made");
        sweep(base.path(), "ringleader-demo-");
        assert!(!dead.exists() && living.dir().exists() && other.exists());
        let dir = living.dir().to_owned();
        drop(living);
        assert!(!dir.exists());
    }
}
