//! The library that is loaded, and whether the bindings fit it. Its soname has stayed when its functions changed, so it is asked,
//! and nothing else is called before.

#![expect(unsafe_code, reason = "asks the library for its version")]

use std::ffi::CStr;
use std::fmt;

use crate::error::Error;
use crate::{BUILT_AGAINST, sys};

/// The oldest version that has all that is used.
pub const FLOOR: Version = Version { major: 2, minor: 9 };

/// A version of DOCA. What comes behind the second dot changes no function.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Version {
    /// Before the first dot.
    pub major: u32,
    /// Behind it.
    pub minor: u32,
}

/// The loaded library, known to fit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Library {
    said: String,
}

impl Library {
    /// Looks at what is loaded.
    pub fn load() -> Result<Library, Error> {
        let built = cfg!(stand_in);
        if is_stand_in() != built {
            return Err(Error::StandIn { built });
        }
        // SAFETY: takes nothing, and answers with a constant or nothing.
        let said = unsafe { sys::doca_version_runtime() };
        let said = match said.is_null() {
            true => String::new(),
            // SAFETY: a text that ends in a zero and is never freed.
            false => unsafe { CStr::from_ptr(said) }.to_string_lossy().into_owned(),
        };
        judge(&said, BUILT_AGAINST.unwrap_or_default())?;
        Ok(Library { said })
    }

    /// What it says of its version.
    pub fn version(&self) -> &str {
        &self.said
    }

    /// Whether it is the stand-in of the tests. A program that serves says so, or does not start.
    pub fn is_stand_in(&self) -> bool {
        cfg!(stand_in)
    }
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_stand_in() {
            true => write!(f, "the tests' stand-in for DOCA {}, which is no DOCA", self.said),
            false => write!(f, "DOCA {}", self.said),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Version {
    /// Of a text like 2.10.0087.
    fn parse(text: &str) -> Option<Version> {
        let mut parts = text.split('.').map(|part| {
            let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| part.parse().ok()).flatten()
        });
        let (major, minor) = (parts.next()??, parts.next()??);
        Some(Version { major, minor })
    }
}

/// Whether a library that says this fits headers of that version.
fn judge(said: &str, built: &str) -> Result<(), Error> {
    let read = |said: &str| Version::parse(said).ok_or_else(|| Error::NoVersion { said: said.to_owned() });
    let (found, built) = (read(said)?, read(built)?);
    if found < FLOOR {
        return Err(Error::TooOld { found });
    }
    if found != built {
        return Err(Error::Differs { found, built });
    }
    Ok(())
}

fn is_stand_in() -> bool {
    // SAFETY: looks through what is loaded for a name that ends in a zero.
    !unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"ringleader_doca_stand_in".as_ptr()) }.is_null()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_bindings_fit_is_taken() {
        judge("2.10.0087", "2.10.0").expect("the same");
        judge("2.9.1", "2.9.1004").expect("the floor");
        for old in ["2.8.0", "2.5.0105", "1.99.9", "0.0.0"] {
            assert!(matches!(judge(old, "2.10.0"), Err(Error::TooOld { .. })), "{old}");
        }
        for other in ["2.9.0", "2.11.0", "3.0.0", "3.10.0087"] {
            assert!(matches!(judge(other, "2.10.0"), Err(Error::Differs { .. })), "{other}");
        }
        for none in ["", "2", "2.", ".10", "two.ten", "+2.10", "2.-1", "99999999999.1", "2 .10"] {
            assert!(matches!(judge(none, "2.10.0"), Err(Error::NoVersion { .. })), "{none}");
        }
    }

    #[test]
    fn two_digits_are_more_than_one() {
        assert!(Version::parse("2.10.1") > Version::parse("2.9.9999"));
    }
}
