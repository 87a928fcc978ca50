//! How much memory the machine has to give, asked before any is taken: what is reserved beyond it wakes the OOM killer,
//! which kills anybody.

use std::fs;
use std::path::Path;

use rustix::fs::statfs;

/// Types of file systems whose files are memory (`statfs(2)`).
const TMPFS: u64 = 0x0102_1994;
const RAMFS: u64 = 0x8584_58f6;

/// Bytes of memory that can be had without swapping; `None` where the system does not say.
pub(crate) fn available() -> Option<u64> {
    available_in(&fs::read_to_string("/proc/meminfo").ok()?)
}

fn available_in(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Whether files in `dir`, be it not there yet, take memory for good.
pub(crate) fn is_memory(dir: &Path) -> bool {
    let here = Path::new(".");
    let above = dir.ancestors().map(|dir| if dir.as_os_str().is_empty() { here } else { dir });
    let stat = above.into_iter().find_map(|dir| statfs(dir).ok());
    stat.is_some_and(|stat| [TMPFS, RAMFS].contains(&(stat.f_type as u64 & 0xffff_ffff)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_is_read() {
        let text = "MemTotal:       24689764 kB\nMemFree:         1 kB\nMemAvailable:   16312348 kB\n";
        assert_eq!(available_in(text), Some(16_312_348 << 10));
        for text in
            ["", "MemAvailable: x kB\n", "MemAvailable: 5\n", "MemAvailable: 99999999999999999999 kB\n"]
        {
            assert_eq!(available_in(text), None);
        }
    }

    #[test]
    fn shared_memory_is_memory() {
        assert!(is_memory(Path::new("/dev/shm")) && is_memory(Path::new("/dev/shm/not/there")));
        assert!(!is_memory(Path::new("/proc")));
    }
}
