//! How the doctor reads the machine: files below a root, and the few things that are in no file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access, statvfs};

use crate::fabric::environment::HARMFUL;

/// Where and what to read.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Stands for `/`.
    pub root: PathBuf,
    /// The values of those environment variables that an agent on a device may refuse to start with, where they are set.
    pub variables: BTreeMap<&'static str, String>,
    /// Asks a port of a device in which order the bytes of one WRITE land.
    pub data_order: fn(device: &str, port: u8) -> Result<DataOrder, String>,
    /// Of `/dev/shm`, if it is there.
    pub shm: Option<Space>,
}

/// The answer of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataOrder {
    /// From the first to the last.
    pub is_in_order: bool,
    /// In words.
    pub text: String,
}

/// Of a file system, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// In all.
    pub total: u64,
    /// Of it free.
    pub free: u64,
}

impl Facts {
    /// Of this machine and process.
    pub fn here() -> Facts {
        let shm = statvfs("/dev/shm").ok().map(|stat| Space {
            total: stat.f_blocks.saturating_mul(stat.f_frsize),
            free: stat.f_bavail.saturating_mul(stat.f_frsize),
        });
        let variables = HARMFUL.iter().filter_map(|harmful| {
            let value = std::env::var_os(harmful.variable)?;
            Some((harmful.variable, value.to_string_lossy().into_owned()))
        });
        Facts { root: PathBuf::from("/"), variables: variables.collect(), data_order: ask_data_order, shm }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A small file without the white space around it; `None` when it is not there or says nothing, as the kernel's often
    /// do of what a device does not have.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.at(path)).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    pub(super) fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// The names in a directory, numbers in their order.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.at(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_by_key(|name| (name.parse::<u64>().unwrap_or(u64::MAX), name.clone()));
        names
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        self.at(path).exists()
    }

    /// Whether this process may read and write it.
    pub(super) fn is_usable(&self, path: &str) -> bool {
        access(self.at(path), Access::READ_OK | Access::WRITE_OK).is_ok()
    }

    /// The last part of where a link leads.
    pub(super) fn link(&self, path: &str) -> Option<String> {
        let to = fs::read_link(self.at(path)).ok()?;
        Some(to.file_name()?.to_string_lossy().into_owned())
    }

    /// A shared library whose name passes, where distributions put them.
    pub(super) fn library(&self, dir: &str, is_it: impl Fn(&str) -> bool) -> Option<String> {
        let bases = ["usr/lib", "usr/lib64", "lib", "lib64", "usr/local/lib", "opt/mellanox/lib"];
        for base in bases {
            // Debian has a directory an architecture in between.
            let between = self.names(base).into_iter().filter(|name| name.contains("-linux-"));
            for place in std::iter::once(base.to_owned()).chain(between.map(|name| format!("{base}/{name}")))
            {
                let place = Path::new(&place).join(dir);
                let place = place.to_string_lossy();
                if let Some(name) = self.names(&place).into_iter().find(|name| is_it(name)) {
                    return Some(format!("/{}/{name}", place.trim_end_matches('/')));
                }
            }
        }
        None
    }
}

#[cfg(feature = "verbs")]
fn ask_data_order(device: &str, port: u8) -> Result<DataOrder, String> {
    use crate::fabric::verbs::{self, Choice, data_order};
    let choice = Choice { device: Some(device.to_owned()), port: Some(port), gid_index: None };
    let order = data_order(&choice).map_err(|error| error.to_string())?;
    Ok(DataOrder { is_in_order: order == verbs::DataOrder::InOrder, text: order.to_string() })
}

#[cfg(not(feature = "verbs"))]
fn ask_data_order(_: &str, _: u8) -> Result<DataOrder, String> {
    Err("this program was built without RDMA".to_owned())
}

/// Whether a list such as `0-3,8` has a number.
pub(super) fn has(list: &str, number: usize) -> bool {
    ranges(list).any(|(first, last)| (first..=last).contains(&number))
}

/// How many numbers it has.
pub(super) fn count(list: &str) -> usize {
    ranges(list).map(|(first, last)| last.saturating_sub(first) + 1).sum()
}

fn ranges(list: &str) -> impl Iterator<Item = (usize, usize)> {
    list.split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors() {
        assert!(has("0-3,8", 0) && has("0-3,8", 3) && has("0-3,8", 8) && !has("0-3,8", 4));
        assert!(!has("", 0) && !has("(null)", 0));
        assert_eq!((count("0-3,8"), count("0"), count(""), count("(null)")), (5, 1, 0, 0));
    }
}
