//! Where a demo keeps its files: the applied payloads in a directory that stays, the regions in one that goes.
//!
//! Regions are in shared memory where there is some: a file on a disk is written back page by page, and stores to a page
//! that is being written wait.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ringleader_core::layout::log;
use rustix::fs::{FallocateFlags, fallocate, statvfs};

use super::plan::{BadInput, Plan};
use super::source::Survey;
use crate::memory;
use crate::scratch::{self, SHARED_MEMORY, Scratch};

const REGIONS_PREFIX: &str = "ringleader-demo-";

/// The directories of one demo. Dropped, it takes the regions with it, and everything else too unless it is to be kept.
#[derive(Debug)]
pub struct Place {
    dir: PathBuf,
    regions: Scratch,
    groups: u8,
    /// Whether the regions are in memory.
    in_memory: bool,
    made: Undo,
}

impl Place {
    /// Makes directories and files, and reserves their space. What was made of them is gone again after an error.
    pub fn make(plan: &Plan, survey: &Survey) -> Result<Place, BadInput> {
        // What is wrong in the directory that was given is wrong with that option.
        let of_dir =
            |BadInput(text)| BadInput(if plan.dir.is_some() { format!("--dir: {text}") } else { text });
        let mut made = Undo::default();
        let dir = match &plan.dir {
            Some(dir) => {
                use_dir(dir, &mut made).map_err(of_dir)?;
                dir.clone()
            }
            None => {
                let temporary = std::env::temp_dir();
                let dir = tempfile::Builder::new()
                    .prefix("ringleader-")
                    .tempdir_in(&temporary)
                    .map_err(|error| named(&temporary, &error))?
                    .keep();
                made.dirs.push(dir.clone());
                dir
            }
        };
        for (node, group) in
            (1..=plan.nodes).flat_map(|node| (0..plan.groups).map(move |group| (node, group)))
        {
            let applied = applied_in(&dir, plan.groups, group, node);
            make(applied, 0o666, survey.bytes, &mut made).map_err(of_dir)?;
        }
        let in_memory = choose_memory(plan, &dir)?;
        let base = if in_memory { Path::new(SHARED_MEMORY) } else { &dir };
        let regions = Scratch::make(base, REGIONS_PREFIX)
            .map_err(|error| BadInput(error.to_string()))
            .map_err(of_dir)?;
        if plan.keep_regions && in_memory {
            for node in 1..=plan.nodes {
                make(region_in(&dir, node), 0o600, plan.region_len(), &mut made)
                    .map_err(|BadInput(text)| BadInput(format!("--keep-regions: {text}")))?;
            }
        }
        Ok(Place { dir, regions, groups: plan.groups, in_memory, made })
    }

    /// Where the applied payloads are.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where the regions are.
    pub fn regions(&self) -> &Path {
        self.regions.dir()
    }

    /// Where the regions of a group are.
    pub fn regions_of(&self, group: u8) -> PathBuf {
        if self.groups == 1 {
            self.regions().to_owned()
        } else {
            self.regions().join(format!("group-{group}"))
        }
    }

    /// The applied payloads of a node, where there is one group.
    pub fn applied(&self, node: u8) -> PathBuf {
        self.applied_of(0, node)
    }

    /// The applied payloads of a group on a node.
    pub fn applied_of(&self, group: u8, node: u8) -> PathBuf {
        applied_in(&self.dir, self.groups, group, node)
    }

    /// Removes the applied payloads of a node that died: they are cut off anywhere.
    pub fn discard(&self, node: u8) -> io::Result<()> {
        (0..self.groups).try_for_each(|group| fs::remove_file(self.applied_of(group, node)))
    }

    /// Gives back the space reserved for what a node that stayed behind has not applied, and names its file as it is:
    /// only the beginning.
    pub fn set_behind(&self, node: u8) -> io::Result<PathBuf> {
        let (path, behind) = (self.applied(node), self.dir.join(format!("node-{node}.behind")));
        let file = OpenOptions::new().write(true).open(&path)?;
        file.set_len(file.metadata()?.len())?;
        fs::rename(path, &behind)?;
        Ok(behind)
    }

    /// Copies the regions of nodes 1..=`nodes` to the space reserved for them; those on the same disk are only renamed.
    pub fn save_regions(&mut self, nodes: u8) -> io::Result<()> {
        for node in 1..=nodes {
            let (from, to) = (region_in(self.regions.dir(), node), region_in(&self.dir, node));
            self.made.files.push(to.clone());
            let saved = if self.in_memory { copy(&from, &to) } else { fs::rename(&from, &to) };
            match saved {
                // It died before it had one.
                Err(error) if error.kind() == io::ErrorKind::NotFound => drop(fs::remove_file(&to)),
                saved => saved.map_err(|error| io::Error::other(named(&to, &error)))?,
            }
        }
        Ok(())
    }

    /// From now on the directory stays.
    pub fn keep(&mut self) {
        self.made.dirs.clear();
        self.made.files.clear();
    }

    /// Whether the regions are in memory, and not in files of a disk.
    pub fn is_in_memory(&self) -> bool {
        self.in_memory
    }
}

/// What was not there before, directories with the outermost first. Dropped, it removes them.
#[derive(Debug, Default)]
struct Undo {
    dirs: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

impl Drop for Undo {
    fn drop(&mut self) {
        for file in &self.files {
            let _ = fs::remove_file(file);
        }
        for dir in self.dirs.iter().rev() {
            let _ = fs::remove_dir(dir);
        }
    }
}

fn applied_in(dir: &Path, groups: u8, group: u8, node: u8) -> PathBuf {
    if groups == 1 {
        dir.join(format!("node-{node}.applied"))
    } else {
        dir.join(format!("group-{group}.node-{node}.applied"))
    }
}

fn region_in(dir: &Path, node: u8) -> PathBuf {
    dir.join(format!("node-{node}.region"))
}

/// Copies without giving back the space that is reserved.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut from = File::open(from)?;
    io::copy(&mut from, &mut OpenOptions::new().write(true).open(to)?).map(drop)
}

/// Makes a file and reserves its space.
fn make(path: PathBuf, mode: u32, len: u64, made: &mut Undo) -> Result<(), BadInput> {
    let options = &mut OpenOptions::new();
    let file = options.write(true).create_new(true).mode(mode).open(&path).map_err(|e| named(&path, &e))?;
    made.files.push(path.clone());
    reserve(&file, len)
        .map_err(|error| BadInput(format!("{}: cannot reserve {len} bytes: {error}", path.display())))
}

fn named(path: &Path, error: &io::Error) -> BadInput {
    BadInput(format!("{}: {error}", path.display()))
}

/// Takes an empty directory, or makes one with all that are missing above it.
fn use_dir(dir: &Path, made: &mut Undo) -> Result<(), BadInput> {
    match fs::read_dir(dir) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(BadInput(format!("{}: the directory is in use: it is not empty", dir.display()))),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let missing = dir.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists());
            for dir in missing.collect::<Vec<_>>().into_iter().rev() {
                fs::create_dir(dir).map_err(|error| named(dir, &error))?;
                made.dirs.push(dir.to_owned());
            }
            Ok(())
        }
        Err(error) => Err(named(dir, &error)),
    }
}

/// Reserves space, so that a disk without enough is known before anything runs.
fn reserve(file: &File, len: u64) -> io::Result<()> {
    if len == 0 {
        return Ok(());
    }
    match fallocate(file, FallocateFlags::KEEP_SIZE, 0, len) {
        Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
        done => Ok(done?),
    }
}

/// Whether there is room for the regions in shared memory. An error when there is none anywhere.
fn choose_memory(plan: &Plan, dir: &Path) -> Result<bool, BadInput> {
    let nodes = u64::from(plan.nodes);
    let members = nodes * u64::from(plan.groups);
    let (regions_len, staging_len) = (members * plan.region_len(), members * log::len(plan.ring_len));
    let shared = Path::new(SHARED_MEMORY);
    scratch::sweep(shared, REGIONS_PREFIX);
    let in_memory = free(shared).is_some_and(|free| free >= regions_len);
    let memory_len = staging_len + if in_memory { regions_len } else { 0 };
    if let Some(available) = memory::available().filter(|available| *available < memory_len) {
        return Err(BadInput(format!(
            "--ring {}: {} need {} MiB of memory, and {} MiB are free",
            plan.ring_len,
            who(plan),
            memory_len >> 20,
            available >> 20
        )));
    }
    if !in_memory && let Some(free) = free(dir).filter(|free| *free < regions_len) {
        return Err(BadInput(format!(
            "--ring {}: the regions of {} have {} MiB; {SHARED_MEMORY} has less, and {} has {} MiB",
            plan.ring_len,
            who(plan),
            regions_len >> 20,
            dir.display(),
            free >> 20
        )));
    }
    Ok(in_memory)
}

fn who(plan: &Plan) -> String {
    match plan.groups {
        1 => format!("{} nodes", plan.nodes),
        groups => format!("{} nodes with {groups} groups each", plan.nodes),
    }
}

/// Bytes that can still be written there; `None` when there is no such directory.
fn free(path: &Path) -> Option<u64> {
    statvfs(path).ok().map(|stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_taken_only_when_it_is_empty_and_undone_whole() {
        let base = tempfile::tempdir().expect("a temporary directory");
        let mut made = Undo::default();
        use_dir(base.path(), &mut made).expect("empty");
        let deep = base.path().join("a/b/c");
        use_dir(&deep, &mut made).expect("missing");
        assert!(deep.is_dir() && made.dirs.len() == 3);
        assert!(use_dir(base.path(), &mut Undo::default()).is_err());
        drop(made);
        assert!(!base.path().join("a").exists());
        let file = base.path().join("file");
        fs::write(&file, b"").expect("written");
        assert!(use_dir(&file, &mut Undo::default()).is_err());
    }
}
