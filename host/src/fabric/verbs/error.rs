//! What can be wrong with a device, or with getting one ready: one line each, naming the verb that failed.

use std::{fmt, io};

/// A device that cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum VerbsError {
    /// libibverbs is not installed.
    NoLibrary,
    /// The machine has no such RDMA device.
    NoDevice {
        /// The one that was asked for; any when `None`.
        wanted: Option<String>,
        /// Those that are there.
        there: Vec<String>,
    },
    /// The device has no such port, or none that is active.
    NoPort {
        /// The device.
        device: String,
        /// The one that was asked for; any active one when `None`.
        wanted: Option<u8>,
    },
    /// The port has no such GID, or none of RoCEv2.
    NoGid {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// The index that was asked for; any of RoCEv2 when `None`.
        wanted: Option<u8>,
    },
    /// An environment variable takes away what the protocol builds on.
    Environment {
        /// Its name.
        variable: &'static str,
        /// What it does, after "which".
        harm: &'static str,
    },
    /// The process may lock too little memory.
    Memlock {
        /// Bytes needed.
        needed: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// The device has too little of something.
    Limit {
        /// The device.
        device: String,
        /// Of what.
        what: &'static str,
        /// How much is needed.
        needed: u64,
        /// How much there is.
        limit: u64,
    },
    /// The device cannot do something.
    Unable {
        /// The device.
        device: String,
        /// What, after "it has no".
        what: &'static str,
    },
    /// A verb or a system call failed.
    Call {
        /// Its name.
        call: &'static str,
        /// The device.
        device: String,
        /// The system's answer.
        error: io::Error,
    },
}

impl VerbsError {
    /// Makes the error of `call` out of the system's answer.
    pub(super) fn call<E: Into<io::Error>>(call: &'static str, device: &str) -> impl FnOnce(E) -> VerbsError {
        move |error| VerbsError::Call { call, device: device.to_owned(), error: error.into() }
    }
}

impl fmt::Display for VerbsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VerbsError::NoLibrary => f.write_str(
                "libibverbs is not installed (libibverbs1 and ibverbs-providers on Debian and Ubuntu): no RDMA device can be used",
            ),
            VerbsError::NoDevice { wanted: None, .. } => f.write_str("this machine has no RDMA device"),
            VerbsError::NoDevice { wanted: Some(wanted), there } if there.is_empty() => {
                write!(f, "no RDMA device {wanted}: this machine has none")
            }
            VerbsError::NoDevice { wanted: Some(wanted), there } => {
                write!(f, "no RDMA device {wanted}; there are: {}", there.join(", "))
            }
            VerbsError::NoPort { device, wanted: None } => write!(f, "{device}: no port is active"),
            VerbsError::NoPort { device, wanted: Some(port) } => write!(f, "{device}: no port {port}"),
            VerbsError::NoGid { device, port, wanted: None } => {
                write!(f, "{device}: port {port} has no RoCEv2 address: give its network interface an IP address")
            }
            VerbsError::NoGid { device, port, wanted: Some(index) } => {
                write!(f, "{device}: port {port} has no GID with index {index}")
            }
            VerbsError::Environment { variable, harm } => {
                write!(f, "the environment variable {variable} is set, which {harm}: unset it")
            }
            VerbsError::Memlock { needed, limit } => write!(
                f,
                "{} MiB must be locked in memory, and {} MiB are allowed: raise the limit (ulimit -l, LimitMEMLOCK=)",
                needed.div_ceil(1 << 20),
                limit >> 20
            ),
            VerbsError::Limit { device, what, needed, limit } => {
                write!(f, "{device}: {needed} {what} are needed, and it has {limit}")
            }
            VerbsError::Unable { device, what } => write!(f, "{device} has no {what}"),
            VerbsError::Call { call, device, error } => write!(f, "{device}: {call}: {error}"),
        }
    }
}

impl std::error::Error for VerbsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            VerbsError::Call { error, .. } => Some(error),
            _ => None,
        }
    }
}
