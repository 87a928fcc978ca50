//! The configuration as it stands in the file: keys and types, no more. Each knows where it stands, to be complained of.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use toml::Spanned;

use super::{Notify, Placement};
use crate::len::parse_len;
use crate::profile::Profile;
use crate::{Confirm, Idle, Quorum, Readmit};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Raw {
    pub(super) group: Spanned<String>,
    pub(super) node: Option<Spanned<i64>>,
    pub(super) members: Spanned<Members>,
    pub(super) founders: Option<Vec<Spanned<i64>>>,
    pub(super) fabric: Spanned<FabricKind>,
    pub(super) timing: Option<Profile>,
    pub(super) ring: Option<Spanned<Len>>,
    pub(super) snapshot: Option<Spanned<Len>>,
    pub(super) quorum: Option<RawQuorum>,
    pub(super) readmit: Option<RawReadmit>,
    pub(super) lease_reads_if_clocks_drift_below_ppm: Option<Spanned<u64>>,
    pub(super) idle: Option<RawIdle>,
    pub(super) pin: Option<u16>,
    pub(super) notify: Option<Spanned<Notify>>,
    pub(super) confirm: Option<RawConfirm>,
    pub(super) control: Option<Spanned<PathBuf>>,
    pub(super) shm: Option<Spanned<RawShm>>,
    pub(super) verbs: Option<Spanned<RawVerbs>>,
    pub(super) kv: Option<Spanned<RawKv>>,
    pub(super) health: Option<RawHealth>,
    pub(super) dpu: Option<Spanned<RawDpu>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawShm {
    pub(super) directory: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawVerbs {
    pub(super) key_file: PathBuf,
    pub(super) listen: Option<Spanned<String>>,
    pub(super) device: Option<Spanned<String>>,
    pub(super) port: Option<Spanned<u8>>,
    pub(super) gid_index: Option<u8>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawKv {
    pub(super) listen: Option<Spanned<String>>,
    pub(super) addresses: Option<BTreeMap<String, Spanned<String>>>,
    pub(super) password_file: Option<PathBuf>,
    pub(super) max_clients: Option<Spanned<usize>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawHealth {
    pub(super) listen: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDpu {
    pub(super) placement: Option<Spanned<Placement>>,
    pub(super) fence_host: Option<Spanned<String>>,
    pub(super) representor: Option<Spanned<String>>,
    pub(super) channel: Option<Spanned<String>>,
    pub(super) host: Option<Spanned<String>>,
    pub(super) control: Option<PathBuf>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FabricKind {
    Verbs,
    Shm,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RawQuorum {
    Live,
    Stored,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RawReadmit {
    Ask,
    Auto,
}

impl From<RawReadmit> for Readmit {
    fn from(raw: RawReadmit) -> Readmit {
        match raw {
            RawReadmit::Ask => Readmit::Ask,
            RawReadmit::Auto => Readmit::Auto,
        }
    }
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RawIdle {
    Adaptive,
    Busy,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RawConfirm {
    Completion,
    Readback,
}

impl From<RawConfirm> for Confirm {
    fn from(raw: RawConfirm) -> Confirm {
        match raw {
            RawConfirm::Completion => Confirm::Completion,
            RawConfirm::Readback => Confirm::Readback,
        }
    }
}

impl From<RawQuorum> for Quorum {
    fn from(raw: RawQuorum) -> Quorum {
        match raw {
            RawQuorum::Live => Quorum::Live,
            RawQuorum::Stored => Quorum::Stored,
        }
    }
}

impl From<RawIdle> for Idle {
    fn from(raw: RawIdle) -> Idle {
        match raw {
            RawIdle::Adaptive => Idle::Adaptive,
            RawIdle::Busy => Idle::Busy,
        }
    }
}

/// Ids in a list, or a table from ids to addresses.
pub(super) enum Members {
    List(Vec<Spanned<i64>>),
    Addresses(Vec<(String, Spanned<String>)>),
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of node ids, or a table from node ids to addresses")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Members, A::Error> {
                let mut ids = Vec::new();
                while let Some(id) = seq.next_element()? {
                    ids.push(id);
                }
                Ok(Members::List(ids))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut addresses = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    addresses.push(entry);
                }
                Ok(Members::Addresses(addresses))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// A length in bytes: a number, or a text such as "64M".
pub(super) struct Len(pub(super) u64);

impl<'de> Deserialize<'de> for Len {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Len, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Len;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a length in bytes, such as 1048576 or \"64M\"")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Len, E> {
                let wrong = || E::custom(format!("{number} is no length in bytes"));
                u64::try_from(number).map(Len).map_err(|_| wrong())
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Len, E> {
                parse_len(text).map(Len).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Either)
    }
}
