//! The password that clients show, and the file that it is in. Whoever can read the file can change everything: so the file is
//! refused when others may.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::process::geteuid;
use zeroize::Zeroizing;

/// Bytes of a password.
const MIN_LEN: usize = 8;
const MAX_LEN: usize = 512;

/// Never shown, and overwritten when it is dropped.
pub(super) struct Password(Zeroizing<Vec<u8>>);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

impl Password {
    /// Reads the first line of a file, which is all that may be in it.
    pub(super) fn read(path: &Path) -> Result<Password, String> {
        let named = |what: String| format!("password file {}: {what}", path.display());
        // A pipe must not be waited for; and what is opened is what is judged.
        let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let file = opened.map_err(|error| named(error.to_string()))?;
        let metadata = file.metadata().map_err(|error| named(error.to_string()))?;
        if !metadata.is_file() {
            return Err(named("not a regular file".to_owned()));
        }
        if metadata.mode() & 0o077 != 0 {
            let mode = metadata.mode() & 0o7777;
            let path = path.display();
            return Err(named(format!(
                "others than its owner may use it (mode {mode:04o}): chmod 600 {path}"
            )));
        }
        if ![0, geteuid().as_raw()].contains(&metadata.uid()) {
            let (theirs, ours) = (metadata.uid(), geteuid().as_raw());
            return Err(named(format!("belongs to user {theirs}, and this is user {ours}")));
        }
        // Reserved at once: a buffer that grows would leave copies behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_LEN + 3));
        let read = file.take(MAX_LEN as u64 + 3).read_to_end(&mut bytes);
        read.map_err(|error| named(error.to_string()))?;
        if bytes.ends_with(b"\n") {
            bytes.pop();
        }
        if bytes.ends_with(b"\r") {
            bytes.pop();
        }
        if bytes.contains(&b'\n') {
            return Err(named("has several lines: it has the password and nothing else".to_owned()));
        }
        if !(MIN_LEN..=MAX_LEN).contains(&bytes.len()) {
            return Err(named(format!("a password has {MIN_LEN} to {MAX_LEN} bytes")));
        }
        Ok(Password(bytes))
    }

    /// Whether it is this. How long that takes does not tell how much of it is right.
    pub(super) fn is(&self, shown: &[u8]) -> bool {
        let differ = |(at, byte): (usize, &u8)| byte ^ shown.get(at).copied().unwrap_or(!byte);
        let sum = self.0.iter().enumerate().map(differ).fold(0, |sum, differs| sum | differs);
        std::hint::black_box(sum) == 0 && shown.len() == self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    fn read(bytes: &[u8], mode: u32) -> Result<Password, String> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("password");
        fs::write(&path, bytes).expect("written");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("set");
        Password::read(&path)
    }

    #[test]
    fn it_is_the_line_in_a_file_that_nobody_else_reads() {
        for bytes in [&b"open sesame"[..], b"open sesame\n", b"open sesame\r\n"] {
            let password = read(bytes, 0o600).expect("a password");
            assert!(password.is(b"open sesame"));
            for wrong in [&b""[..], b"open sesam", b"open sesame ", b"Open sesame", b"open sesame\n"] {
                assert!(!password.is(wrong));
            }
            assert_eq!(format!("{password:?}"), "Password(..)");
        }
        let said = |bytes, mode| read(bytes, mode).expect_err("refused");
        assert!(said(b"open sesame", 0o640).contains("chmod 600"));
        assert!(said(b"short", 0o600).contains("8 to 512 bytes"));
        assert!(said(&[b'a'; 513], 0o600).contains("8 to 512 bytes"));
        assert!(said(b"open sesame\nclose", 0o600).contains("several lines"));
        let dir = tempfile::tempdir().expect("a directory");
        assert!(Password::read(dir.path()).expect_err("a directory").contains("not a regular file"));
        assert!(Password::read(&dir.path().join("none")).expect_err("nothing").contains("password file"));
    }
}
