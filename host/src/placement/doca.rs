//! What both sides need of DOCA before they begin: the library, and a device by which they reach each other.

use std::sync::Arc;

use ringleader_doca::{Device, Library};

use crate::config::{Config, Dpu, Fabric};
use crate::service::Error;

/// For tests, never for use: an environment variable that, set to 1, lets a program that was built for the tests run with the tests'
/// stand-in for DOCA.
const TRIAL: &str = "RINGLEADER_TEST_DOCA_STAND_IN";

/// The library, if it is one that may serve.
pub(super) fn library() -> Result<Library, Error> {
    let library = Library::load().map_err(wrong)?;
    let is_trial = cfg!(test) || std::env::var_os(TRIAL).is_some_and(|set| set == "1");
    check(&library, is_trial)?;
    Ok(library)
}

pub(super) fn check(library: &Library, is_trial: bool) -> Result<(), Error> {
    if library.is_stand_in() && !is_trial {
        let what = format!(
            "placement = \"host\": this program was built with {library}: build it with NVIDIA's SDK"
        );
        return Err(Error::Wrong(what));
    }
    Ok(())
}

/// The table that asks for it.
pub(super) fn table(config: &Config) -> Result<&Dpu, Error> {
    config.dpu.as_ref().ok_or_else(|| Error::Wrong(format!("{}: no table [dpu]", config.path.display())))
}

/// The device of the channel.
pub(super) fn channel(library: &Library, config: &Config) -> Result<Arc<Device>, Error> {
    let named = table(config)?.channel.as_deref().or(verbs_device(config)).ok_or_else(|| {
        let path = config.path.display();
        let what = "placement = \"host\" needs the device between host and DPU: channel in [dpu], or device in [verbs]";
        Error::Wrong(format!("{path}: {what}"))
    })?;
    Device::open(library, named).map_err(wrong)
}

/// The device of the fabric, where it is named.
pub(super) fn verbs_device(config: &Config) -> Option<&str> {
    match &config.fabric {
        Fabric::Verbs(verbs) => verbs.device.as_deref(),
        Fabric::Shm { .. } => None,
    }
}

pub(super) fn wrong(error: impl std::fmt::Display) -> Error {
    Error::Wrong(error.to_string())
}
