//! A host's memory in the hands of its DPU: exported by the host, imported by the DPU, which lets peers write to it over its own
//! queue pairs, and can shut them out again whatever the host does. And the channel by which the two tell each other of it where
//! there is no network between them yet.
//!
//! All of it is done by NVIDIA's DOCA SDK (`doca-common` and `doca-comch`), against which bindings are made when this is built with
//! the feature `doca`. Without the feature there is nothing here but [`BUILT_AGAINST`], which is `None`. docs/doca.md says how to
//! build it, and what only hardware can show.
//!
//! It begins with `Library::load`, which refuses a library that the bindings do not fit. The host then has an `Export`, the DPU an
//! `Import` of it and the `Domain` for its queue pairs; an `Offer` carries the `Descriptor` from the one to the other.

/// The version of the SDK that this was built against; `None` when it was built without.
pub const BUILT_AGAINST: Option<&str> = option_env!("RINGLEADER_DOCA_BUILT_AGAINST");

/// What to say to who asks for it where it was built without.
pub const NOT_BUILT: &str = "this build is without DOCA: build it with the feature `doca` where NVIDIA's SDK is installed (docs/doca.md)";

#[cfg(feature = "doca")]
mod call;
#[cfg(feature = "doca")]
pub mod channel;
#[cfg(feature = "doca")]
mod code;
#[cfg(feature = "doca")]
mod descriptor;
#[cfg(feature = "doca")]
mod device;
#[cfg(feature = "doca")]
mod domain;
#[cfg(feature = "doca")]
mod error;
#[cfg(feature = "doca")]
mod export;
#[cfg(feature = "doca")]
mod import;
#[cfg(feature = "doca")]
mod library;
#[cfg(feature = "doca")]
mod map;
#[cfg(feature = "doca")]
mod range;
#[cfg(feature = "doca")]
mod representor;
#[cfg(all(feature = "doca", stand_in))]
pub mod stand_in;
#[cfg(feature = "doca")]
mod sys;

#[cfg(feature = "doca")]
pub use {
    code::Code,
    descriptor::{Descriptor, MAX_DESCRIPTOR_LEN},
    device::{Device, Listed, devices},
    domain::Domain,
    error::Error,
    export::{Access, Export, HostMemory},
    import::Import,
    library::{FLOOR, Library, Version},
    range::Range,
    representor::Representor,
};

#[cfg(all(test, not(feature = "doca")))]
mod tests {
    use super::*;

    #[test]
    fn it_says_that_it_is_without() {
        assert_eq!(BUILT_AGAINST, None);
        assert!(NOT_BUILT.contains("feature `doca`"));
    }
}
