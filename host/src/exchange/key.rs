//! The group's pre-shared key and the file it lives in. Whoever can read the file can join the group and read the
//! addresses and keys of its memory: so the file is refused when others may.

use std::error::Error;
use std::fmt::{self, Write as _};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use zeroize::{Zeroize, Zeroizing};

/// Bytes of a key.
pub const KEY_LEN: usize = 32;

/// 32 secret bytes. Never shown, and overwritten when dropped.
#[derive(Clone)]
pub struct Key([u8; KEY_LEN]);

/// What is wrong with a key file.
#[derive(Debug)]
#[non_exhaustive]
pub struct KeyError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub fault: KeyFault,
}

/// See [`KeyError`].
#[derive(Debug)]
#[non_exhaustive]
pub enum KeyFault {
    /// It cannot be read or made.
    Io(io::Error),
    /// It is no regular file.
    NotAFile,
    /// Group or others may read or write it: its mode.
    Open(u32),
    /// It belongs to another user, neither root nor the one that runs: the user's id.
    Owner(u32),
    /// Neither 32 bytes nor 64 hexadecimal digits: its length.
    Len(u64),
    /// 64 bytes, not all of them hexadecimal digits.
    Hex,
    /// All zeros, which is nobody's secret.
    Zero,
}

impl Key {
    /// A key of these bytes.
    pub fn from_bytes(bytes: [u8; KEY_LEN]) -> Key {
        Key(bytes)
    }

    /// Reads a key file: 32 bytes as they are, or 64 hexadecimal digits with or without a line feed.
    pub fn read(path: &Path) -> Result<Key, KeyError> {
        read(path).map_err(|fault| KeyError { path: path.to_owned(), fault })
    }

    /// Makes a file with a new random key, as hexadecimal digits, that only its owner may read. Never replaces one.
    pub fn make(path: &Path) -> Result<(), KeyError> {
        make(path).map_err(|error| KeyError { path: path.to_owned(), fault: KeyFault::Io(error) })
    }

    pub(super) fn bytes(&self) -> &[u8; KEY_LEN] {
        &self.0
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

fn read(path: &Path) -> Result<Key, KeyFault> {
    // What is opened is what is judged: the path may lead elsewhere a moment later. A pipe must not be waited for.
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(KeyFault::Io)?;
    let metadata = file.metadata().map_err(KeyFault::Io)?;
    if !metadata.is_file() {
        return Err(KeyFault::NotAFile);
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(KeyFault::Open(metadata.mode() & 0o7777));
    }
    if ![0, geteuid().as_raw()].contains(&metadata.uid()) {
        return Err(KeyFault::Owner(metadata.uid()));
    }
    // One more than any key has, reserved at once: a buffer that grows would leave copies behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(2 * KEY_LEN + 2));
    (&file).take(2 * KEY_LEN as u64 + 2).read_to_end(&mut bytes).map_err(KeyFault::Io)?;
    let key = parse(&bytes, metadata.len())?;
    if key.0 == [0; KEY_LEN] { Err(KeyFault::Zero) } else { Ok(key) }
}

fn parse(bytes: &[u8], file_len: u64) -> Result<Key, KeyFault> {
    if let Ok(raw) = <[u8; KEY_LEN]>::try_from(bytes) {
        return Ok(Key(raw));
    }
    let digits = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if digits.len() != 2 * KEY_LEN {
        return Err(KeyFault::Len(file_len));
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).ok_or(KeyFault::Hex);
    let mut key = Key([0; KEY_LEN]);
    for (byte, pair) in key.0.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Ok(key)
}

fn make(path: &Path) -> io::Result<()> {
    let mut bytes = Zeroizing::new([0; KEY_LEN]);
    File::open("/dev/urandom")?.read_exact(&mut *bytes)?;
    let mut text = Zeroizing::new(String::with_capacity(2 * KEY_LEN + 1));
    for byte in *bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text.push('\n');
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    // A part of a key is none, and would be in the way of the next attempt.
    written.inspect_err(|_| drop(fs::remove_file(path)))
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.fault {
            KeyFault::Io(error) => write!(f, "{path}: {error}"),
            KeyFault::NotAFile => write!(f, "{path}: not a regular file"),
            KeyFault::Open(mode) => {
                write!(f, "{path}: others than its owner may use it (mode {mode:04o}): chmod 600 {path}")
            }
            KeyFault::Owner(uid) => {
                write!(f, "{path}: belongs to user {uid}, and this is user {}", geteuid().as_raw())
            }
            KeyFault::Len(len) => {
                write!(f, "{path}: has {len} bytes; a key has 32 bytes or 64 hexadecimal digits")
            }
            KeyFault::Hex => write!(f, "{path}: not all of its 64 characters are hexadecimal digits"),
            KeyFault::Zero => write!(f, "{path}: the key is all zeros"),
        }
    }
}

impl Error for KeyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.fault {
            KeyFault::Io(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    fn file(bytes: &[u8], mode: u32) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("key");
        fs::write(&path, bytes).expect("writes");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("changes the mode");
        (dir, path)
    }

    fn said(bytes: &[u8], mode: u32) -> String {
        let (_dir, path) = file(bytes, mode);
        let said = Key::read(&path).expect_err("refused").to_string();
        assert!(said.starts_with(path.to_str().expect("text")) && !said.contains('\n'), "{said}");
        said
    }

    #[test]
    fn raw_and_hexadecimal_are_the_same_key() {
        let raw: [u8; KEY_LEN] = std::array::from_fn(|at| at as u8 * 7 + 1);
        let hex: String = raw.iter().map(|byte| format!("{byte:02x}")).collect();
        for bytes in
            [raw.to_vec(), hex.clone().into_bytes(), format!("{}\n", hex.to_uppercase()).into_bytes()]
        {
            for mode in [0o600, 0o400] {
                let (_dir, path) = file(&bytes, mode);
                assert_eq!(Key::read(&path).expect("a key").bytes(), &raw);
            }
        }
    }

    #[test]
    fn what_is_refused() {
        for mode in [0o640, 0o604, 0o620, 0o610, 0o666] {
            assert!(said(&[1; 32], mode).contains(&format!("mode {mode:04o}): chmod 600 /")));
        }
        assert!(said(&[1; 31], 0o600).contains("has 31 bytes"));
        assert!(said(&[1; 33], 0o600).contains("has 33 bytes"));
        assert!(said(&[b'a'; 100_000], 0o600).contains("has 100000 bytes"));
        assert!(said(b"", 0o600).contains("has 0 bytes"));
        assert!(said(&[b'x'; 64], 0o600).contains("hexadecimal"));
        assert!(said(&[0; 32], 0o600).contains("zeros"));
        assert!(said(&[b'0'; 64], 0o600).contains("zeros"));
        let dir = tempfile::tempdir().expect("a directory");
        let fault = Key::read(dir.path()).expect_err("a directory");
        assert!(fault.to_string().contains("not a regular file"));
        assert!(matches!(
            Key::read(&dir.path().join("none")).expect_err("not there").fault,
            KeyFault::Io(error) if error.kind() == io::ErrorKind::NotFound
        ));
    }

    #[test]
    fn a_new_key_is_random_and_replaces_none() {
        let dir = tempfile::tempdir().expect("a directory");
        let paths = [dir.path().join("a"), dir.path().join("b")];
        let keys = paths.each_ref().map(|path| {
            Key::make(path).expect("made");
            Key::read(path).expect("a key")
        });
        assert_ne!(keys[0].bytes(), keys[1].bytes());
        assert!(Key::make(&paths[0]).is_err());
        assert_eq!(format!("{:?}", keys[0]), "Key(..)");
    }
}
