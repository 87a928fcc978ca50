//! The three sets of durations by their names.

use ringleader_core::timing::Timing;
use serde::{Deserialize, Serialize};

/// One of the three sets of durations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// [`Timing::LOCAL`].
    Local,
    /// [`Timing::SOFT_ROCE`].
    SoftRoce,
    /// [`Timing::HARDWARE`].
    Hardware,
}

impl Profile {
    /// The durations.
    pub fn timing(self) -> Timing {
        match self {
            Profile::Local => Timing::LOCAL,
            Profile::SoftRoce => Timing::SOFT_ROCE,
            Profile::Hardware => Timing::HARDWARE,
        }
    }
}
