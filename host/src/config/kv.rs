//! The table `[kv]`: where `ringleader kv` listens, and how clients find the nodes.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use super::raw::{Raw, RawKv};
use super::{ConfigError, Source, list};

/// The port of node N is this and N, where nothing else is said.
const BASE_PORT: u16 = 7000;
/// Clients served at a time, where nothing else is said.
const MAX_CLIENTS: usize = 10_000;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Kv {
    /// Where this node listens.
    pub listen: SocketAddr,
    /// Where clients find the nodes, this one included, `host:port` by id.
    pub addresses: BTreeMap<u8, String>,
    /// The file with the password that clients show. Without one only loopback addresses are listened at.
    pub password_file: Option<PathBuf>,
    /// Clients served at a time.
    pub max_clients: usize,
}

impl Source<'_> {
    pub(super) fn kv(&self, raw: &Raw, node: u8, members: &[u8]) -> Result<Kv, ConfigError> {
        let by_default = |id: u8| SocketAddr::from((Ipv4Addr::LOCALHOST, BASE_PORT + u16::from(id)));
        let Some(table) = &raw.kv else {
            return Ok(Kv {
                listen: by_default(node),
                addresses: members.iter().map(|id| (*id, by_default(*id).to_string())).collect(),
                password_file: None,
                max_clients: MAX_CLIENTS,
            });
        };
        let RawKv { listen, addresses, password_file, max_clients } = table.get_ref();
        let addresses = match addresses {
            None => members.iter().map(|id| (*id, by_default(*id).to_string())).collect(),
            Some(given) => self.kv_addresses(given, members)?,
        };
        let listen_at: SocketAddr = match listen {
            Some(listen) => listen.get_ref().parse().map_err(|_| {
                let what =
                    format!("listen {:?} is no address:port, as in \"127.0.0.1:7001\"", listen.get_ref());
                self.at(listen, what)
            })?,
            None => {
                let own = addresses.get(&node).map(String::as_str).unwrap_or_default();
                own.parse().map_err(|_| {
                    let what = format!(
                        "node {node} has {own:?} for an address in [kv]: say where it listens, as in listen = \"0.0.0.0:7001\""
                    );
                    self.at(table, what)
                })?
            }
        };
        if password_file.is_none() && !is_loopback(listen_at.ip()) {
            let what = format!(
                "{listen_at} can be reached from other machines: password_file = \"...\" must name a file with a password"
            );
            return Err(match listen {
                Some(listen) => self.at(listen, what),
                None => self.at(table, what),
            });
        }
        let max_clients = match max_clients {
            Some(max) if !(1..=1_000_000).contains(max.get_ref()) => {
                return Err(self.at(max, format!("max_clients {}: it is from 1 to 1000000", max.get_ref())));
            }
            max => max.as_ref().map_or(MAX_CLIENTS, |max| *max.get_ref()),
        };
        let password_file = password_file.as_ref().map(|path| self.path(path));
        Ok(Kv { listen: listen_at, addresses, password_file, max_clients })
    }

    fn kv_addresses(
        &self,
        given: &BTreeMap<String, toml::Spanned<String>>,
        members: &[u8],
    ) -> Result<BTreeMap<u8, String>, ConfigError> {
        let mut addresses = BTreeMap::new();
        for (key, address) in given {
            let Some(id) = key.parse().ok().filter(|id| members.contains(id)) else {
                let what = format!("{key:?} in [kv.addresses] is not among the members {}", list(members));
                return Err(self.at(address, what));
            };
            let text = address.get_ref();
            if !crate::exchange::is_address(text) {
                let what = format!("node {id}: {text:?} is no address:port, as in \"10.0.0.1:7001\"");
                return Err(self.at(address, what));
            }
            if let Some((other, _)) = addresses.iter().find(|(_, other)| *other == text) {
                let what = format!("nodes {other} and {id} have the same address {text:?} in [kv.addresses]");
                return Err(self.at(address, what));
            }
            addresses.insert(id, text.clone());
        }
        match members.iter().find(|id| !addresses.contains_key(*id)) {
            None => Ok(addresses),
            Some(id) => Err(self.error(
                given.values().next().map(toml::Spanned::span),
                format!(
                    "node {id} has no address in [kv.addresses]: clients would not find it when it leads"
                ),
            )),
        }
    }
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}
