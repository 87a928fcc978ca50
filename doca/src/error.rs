//! What can be wrong with the library, a device or a piece of memory. Not: with the channel (`channel::error`).

use std::fmt;

use crate::code::Code;
use crate::device::Listed;
use crate::library::{FLOOR, Version};
use crate::range::Range;

/// Why something of DOCA cannot be had.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The library says no version, or none that can be read.
    NoVersion {
        /// What it says.
        said: String,
    },
    /// The library is older than [`FLOOR`].
    TooOld {
        /// What it says.
        found: Version,
    },
    /// The library is of another version than the headers: its functions may take other arguments under the same names.
    Differs {
        /// That of the library.
        found: Version,
        /// That of the headers.
        built: Version,
    },
    /// The stand-in of the tests is loaded, which is no DOCA; or it is not, in a build for it.
    StandIn {
        /// Whether this was built against it.
        built: bool,
    },
    /// There is no such device, or more than one.
    NoDevice {
        /// What was asked for.
        wanted: String,
        /// How many are called so.
        matches: usize,
        /// All that are there.
        there: Vec<Listed>,
    },
    /// The device shows no such function of its host.
    NoRepresentor {
        /// The device.
        device: String,
        /// What was asked for.
        wanted: String,
        /// Those that it shows.
        there: Vec<String>,
    },
    /// The device cannot do something.
    Unable {
        /// The device.
        device: String,
        /// What, after "it cannot".
        what: &'static str,
    },
    /// A descriptor is empty or longer than any.
    Descriptor {
        /// How long it is.
        len: usize,
    },
    /// What was imported is not what was said to be exported.
    Range {
        /// What was said.
        said: Range,
        /// What the descriptor is of.
        found: Range,
    },
    /// A function of DOCA failed.
    Call {
        /// Its name.
        call: &'static str,
        /// The device.
        device: String,
        /// Its answer.
        code: Code,
    },
    /// A function of DOCA said that all is well, and gave nothing.
    Nothing {
        /// Its name.
        call: &'static str,
        /// The device.
        device: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoVersion { said } => write!(f, "DOCA says no version that can be read: {said:?}"),
            Error::TooOld { found } => {
                write!(f, "DOCA {found} is installed, and {FLOOR} or newer is needed: install a newer DOCA")
            }
            Error::Differs { found, built } => write!(
                f,
                "DOCA {found} is installed, and this was built against {built}: build it against what is installed, since the \
                 library's name does not change when its functions do"
            ),
            Error::StandIn { built: false } => f.write_str(
                "what is loaded as DOCA is the stand-in of the tests: mend LD_LIBRARY_PATH or LD_PRELOAD",
            ),
            Error::StandIn { built: true } => f.write_str(
                "this was built for tests, against the stand-in for DOCA, and another library is loaded",
            ),
            Error::NoDevice { wanted, matches: 0, there } if there.is_empty() => {
                write!(f, "no DOCA device {wanted}: there is none at all")
            }
            Error::NoDevice { wanted, matches: 0, there } => {
                write!(f, "no DOCA device {wanted}; there are: {}", list(there))
            }
            Error::NoDevice { wanted, matches, there } => write!(
                f,
                "{matches} DOCA devices are at {wanted}: name one by what ibv_devices calls it; there are: {}",
                list(there)
            ),
            Error::NoRepresentor { device, wanted, there } if there.is_empty() => write!(
                f,
                "{device} shows no function {wanted} of a host, nor any other: is this a DPU in DPU mode, and the device its \
                 physical function?"
            ),
            Error::NoRepresentor { device, wanted, there } => {
                write!(f, "{device} shows no function {wanted} of its host; it shows: {}", there.join(", "))
            }
            Error::Unable { device, what } => write!(f, "{device} cannot {what}"),
            Error::Descriptor { len } => write!(
                f,
                "a descriptor of {len} bytes: it is empty, or longer than {} bytes",
                crate::MAX_DESCRIPTOR_LEN
            ),
            Error::Range { said, found } => {
                write!(f, "{said} is said to be exported, and the descriptor is of {found}")
            }
            Error::Call { call, device, code } => write!(f, "{device}: {call}: {code}"),
            Error::Nothing { call, device } => write!(f, "{device}: {call} succeeds, and gives nothing"),
        }
    }
}

impl std::error::Error for Error {}

fn list(devices: &[Listed]) -> String {
    devices.iter().map(Listed::to_string).collect::<Vec<_>>().join(", ")
}
