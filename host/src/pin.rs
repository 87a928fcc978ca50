//! Ties the calling thread to one processor.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// An error when there is no processor of that number, or it is not ours to use.
pub(crate) fn check(core: usize) -> io::Result<()> {
    let usable = sched_getaffinity(None)?;
    if core >= CpuSet::MAX_CPU || !usable.is_set(core) {
        let text = format!("processor {core} does not exist or may not be used");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(())
}

/// Ties the calling thread to processor `core`.
pub(crate) fn pin(core: usize) -> io::Result<()> {
    check(core)?;
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_that_is_not_there_is_named() {
        std::thread::spawn(|| {
            assert!(pin(100_000).unwrap_err().to_string().contains("processor 100000"));
            let usable = sched_getaffinity(None).unwrap();
            let first = (0..CpuSet::MAX_CPU).find(|core| usable.is_set(*core)).unwrap();
            pin(first).unwrap();
            assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
        })
        .join()
        .unwrap();
    }
}
