//! The configuration file of one node, or of all nodes of a group: TOML, read whole and checked before anything is
//! started. Every complaint is one line that begins with file and line.
//!
//! What it means is in `docs/operating.md`. Nothing here touches the network or a device.

mod dpu;
mod kv;
mod raw;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};

use ringleader_core::layout::{AREA_ALIGN, MAX_RING_LEN, MAX_SNAPSHOT_LEN, MIN_RING_LEN};
use ringleader_core::types::{MAX_NODES, NodeId};
use toml::Spanned;

use crate::exchange::{GroupName, Key};
use crate::profile::Profile;
use crate::{Confirm, Half, Idle, LeaseReads, Options, Quorum, Readmit};
pub use dpu::{Dpu, FenceHost, Placement};
pub use kv::Kv;
use raw::{FabricKind, Members, Raw, RawVerbs};

/// More than any configuration has.
const MAX_FILE_LEN: u64 = 1 << 20;
/// The longest path of a Unix socket (unix(7)), without the zero at its end.
const MAX_SOCKET_PATH: usize = 107;

/// A configuration that has been read and checked.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The file.
    pub path: PathBuf,
    /// The group's name: nodes of other names are no peers.
    pub group: GroupName,
    /// This node.
    pub node: u8,
    /// All nodes that there may be, in order.
    pub members: Vec<u8>,
    /// Those that form the group; empty: all of them.
    pub founders: Vec<u8>,
    /// What carries the verbs.
    pub fabric: Fabric,
    /// All durations.
    pub timing: Profile,
    /// Bytes of the ring.
    pub ring_len: u64,
    /// Bytes of a snapshot; as many as the ring has when not given.
    pub snapshot_len: Option<u64>,
    /// Which acknowledgements count for a commit.
    pub quorum: Quorum,
    /// What says that the bytes of a write are placed.
    pub confirm: Confirm,
    /// What the node does, as leader, about members that lost their memory.
    pub readmit: Readmit,
    /// Whether a leader answers reads by its lease, if clocks drift by less than this.
    pub lease_reads: Option<LeaseReads>,
    /// What the agent does when there is nothing to do.
    pub idle: Idle,
    /// The processor of the agent's thread.
    pub pin: Option<usize>,
    /// How a follower learns that its leader has written.
    pub notify: Notify,
    /// The socket by which `ringleader form` and `ringleader status` reach the node.
    pub control: PathBuf,
    /// How clients of `ringleader kv` find the nodes.
    pub kv: Kv,
    /// Where the process is asked for its health and its numbers, over HTTP; nowhere when not given.
    pub health: Option<SocketAddr>,
    /// The acceptor of this node is a process of its own.
    pub dpu: Option<Dpu>,
}

/// What carries the verbs, with what belongs to it alone.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Fabric {
    /// Shared memory between processes of one machine.
    Shm {
        /// The directory of the region files.
        directory: PathBuf,
    },
    /// RDMA.
    Verbs(Box<Verbs>),
}

/// What RDMA needs.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Verbs {
    /// Where this node is called by the exchange.
    pub listen: SocketAddr,
    /// Where the nodes are called, this one included, by id.
    pub addresses: [Option<String>; MAX_NODES + 1],
    /// The file of the group's key.
    pub key_file: PathBuf,
    /// The device; the first with an active port when not given.
    pub device: Option<String>,
    /// Its port; the first active one when not given.
    pub port: Option<u8>,
    /// The entry of its GID table; the RoCEv2 one of the port's address when not given.
    pub gid_index: Option<u8>,
}

/// How a follower learns that its leader has written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Notify {
    /// It looks, again and again.
    #[default]
    Poll,
    /// The leader's writes wake it.
    Imm,
}

/// What is wrong with a configuration.
#[derive(Debug)]
pub struct ConfigError {
    path: PathBuf,
    /// From 1.
    line: Option<usize>,
    what: String,
}

impl Config {
    /// Reads a file. `node` takes the place of the file's own `node`, so that one file can serve all nodes.
    pub fn read(path: &Path, node: Option<u8>) -> Result<Config, ConfigError> {
        let error = |what: String| ConfigError { path: path.to_owned(), line: None, what };
        let text = read(path).map_err(|e| error(e.to_string()))?;
        Config::parse(path, &text, node)
    }

    /// The same, of a text that stands in for the file at `path`.
    pub fn parse(path: &Path, text: &str, node: Option<u8>) -> Result<Config, ConfigError> {
        let source = Source { path, text };
        let raw: Raw = toml::from_str(text).map_err(|error| source.refused(&error))?;
        source.check(raw, node)
    }

    /// With `address`, where there is one, in place of the file's own for questions after health.
    pub fn with_health(mut self, address: Option<SocketAddr>) -> Config {
        self.health = address.or(self.health);
        self
    }

    /// What a node on shared memory is opened with; `None` for another fabric.
    pub fn shm_options(&self) -> Option<Options> {
        let Fabric::Shm { directory } = &self.fabric else { return None };
        let options = Options::new(directory, self.node, self.members.clone());
        Some(self.common(Options { group_name: Some(self.group), ..options }))
    }

    /// What a node on RDMA is opened with; `None` for another fabric, and in a build without it.
    #[cfg(feature = "verbs")]
    pub fn verbs_options(&self, key: Key) -> Option<Options> {
        let Fabric::Verbs(verbs) = &self.fabric else { return None };
        let choice = crate::fabric::verbs::Choice {
            device: verbs.device.clone(),
            port: verbs.port,
            gid_index: verbs.gid_index,
        };
        let addresses = verbs.addresses.clone();
        let verbs = crate::VerbsOptions { choice, listen: verbs.listen, addresses, key, group: self.group };
        Some(self.common(Options::verbs(verbs, self.timing.timing(), self.node, self.members.clone())))
    }

    /// What a node on RDMA is opened with: there is none in this build.
    #[cfg(not(feature = "verbs"))]
    pub fn verbs_options(&self, _: Key) -> Option<Options> {
        None
    }

    fn common(&self, mut options: Options) -> Options {
        options.half = if self.dpu.is_some() { Half::Proposer } else { Half::Whole };
        options.ring_len = self.ring_len;
        options.snapshot_len = self.snapshot_len;
        options.timing = self.timing.timing();
        options.quorum = self.quorum;
        options.confirm = self.confirm;
        options.readmit = self.readmit;
        options.founders.clone_from(&self.founders);
        options.lease_reads = self.lease_reads;
        options.idle = self.idle;
        options.pin = self.pin;
        options.notify = self.notify;
        options
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path.display(), self.what),
            None => write!(f, "{}: {}", self.path.display(), self.what),
        }
    }
}

impl Error for ConfigError {}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_FILE_LEN + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE_LEN {
        return Err(io::Error::other(format!("more than {MAX_FILE_LEN} bytes, which no configuration has")));
    }
    Ok(text)
}

/// The text, to say where in it something is wrong.
#[derive(Clone, Copy)]
struct Source<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Source<'_> {
    fn error(&self, at: Option<Range<usize>>, what: impl Into<String>) -> ConfigError {
        let line = at.map(|at| 1 + self.text.bytes().take(at.start).filter(|byte| *byte == b'\n').count());
        ConfigError { path: self.path.to_owned(), line, what: what.into() }
    }

    fn at<T>(&self, of: &Spanned<T>, what: impl Into<String>) -> ConfigError {
        self.error(Some(of.span()), what)
    }

    /// What the parser says, in one line, with a suggestion where a name is not known.
    fn refused(&self, error: &toml::de::Error) -> ConfigError {
        let message = error.message().replace('\n', "; ");
        // A key that is missing is missing everywhere.
        let is_missing = message.starts_with("missing field");
        let span = error.span().filter(|_| !is_missing);
        self.error(span, suggest(&message))
    }

    fn path(&self, path: &Path) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(path)
    }

    fn check(&self, raw: Raw, node: Option<u8>) -> Result<Config, ConfigError> {
        let group = GroupName::new(raw.group.get_ref()).ok_or_else(|| {
            let what = format!(
                "group {:?}: a name has 1 to {} letters, digits, '.', '_' or '-', and begins with a letter or digit",
                raw.group.get_ref(),
                GroupName::MAX_LEN
            );
            self.at(&raw.group, what)
        })?;
        let addresses = self.members(&raw)?;
        let members: Vec<u8> = addresses.keys().copied().collect();
        let node = self.node(&raw, node, &members)?;
        let founders = self.founders(&raw, &members)?;
        let fabric = match raw.fabric.get_ref() {
            FabricKind::Shm => self.shm(&raw)?,
            FabricKind::Verbs => self.verbs(&raw, node, addresses)?,
        };
        let control = match (&raw.control, &fabric) {
            (Some(path), _) => self.path(path.get_ref()),
            (None, Fabric::Shm { directory }) => directory.join(format!("node-{node}.control")),
            (None, Fabric::Verbs(_)) => PathBuf::from(format!("/run/ringleader/{group}-{node}.control")),
        };
        if control.as_os_str().len() > MAX_SOCKET_PATH {
            let what = format!(
                "control {}: the path of a socket has at most {MAX_SOCKET_PATH} bytes",
                control.display()
            );
            return Err(self.error(raw.control.map(|path| path.span()), what));
        }
        let default_timing = match fabric {
            Fabric::Shm { .. } => Profile::Local,
            Fabric::Verbs(_) => Profile::Hardware,
        };
        let kv = self.kv(&raw, node, &members)?;
        let health = raw.health.as_ref().map(|health| {
            crate::health::parse_address(health.listen.get_ref())
                .map_err(|what| self.at(&health.listen, format!("listen {what}")))
        });
        let dpu = self.dpu(&raw, group, node, &fabric)?;
        Ok(Config {
            path: self.path.to_owned(),
            group,
            node,
            members,
            founders,
            timing: raw.timing.unwrap_or(default_timing),
            ring_len: self.ring_len(&raw)?,
            snapshot_len: self.snapshot_len(&raw)?,
            quorum: raw.quorum.map_or(Quorum::Live, Into::into),
            confirm: raw.confirm.map_or(Confirm::Completion, Into::into),
            readmit: raw.readmit.map_or(Readmit::Ask, Into::into),
            lease_reads: self.lease_reads(&raw)?,
            idle: raw.idle.map_or(Idle::default(), Into::into),
            pin: raw.pin.map(usize::from),
            notify: raw.notify.map(Spanned::into_inner).unwrap_or_default(),
            fabric,
            control,
            kv,
            health: health.transpose()?,
            dpu,
        })
    }

    /// The members and their addresses, where they have some.
    fn members(&self, raw: &Raw) -> Result<BTreeMap<u8, Option<String>>, ConfigError> {
        let mut members = BTreeMap::new();
        let id = |id: i64, at: Range<usize>| {
            let valid = u8::try_from(id).ok().filter(|id| NodeId(*id).is_valid());
            valid.ok_or_else(|| {
                self.error(Some(at), format!("member {id} is no node id: they are 1 to {MAX_NODES}"))
            })
        };
        match (raw.members.get_ref(), raw.fabric.get_ref()) {
            (Members::List(ids), FabricKind::Shm) => {
                for of in ids {
                    if members.insert(id(*of.get_ref(), of.span())?, None).is_some() {
                        return Err(self.at(of, format!("member {} is named twice", of.get_ref())));
                    }
                }
            }
            (Members::Addresses(table), FabricKind::Verbs) => {
                for (key, address) in table {
                    let number = key.parse::<i64>().map_err(|_| {
                        self.at(address, format!("member {key:?} is no node id: they are 1 to {MAX_NODES}"))
                    })?;
                    let id = id(number, address.span())?;
                    let text = address.get_ref();
                    if !crate::exchange::is_address(text) {
                        let what =
                            format!("member {id}: {text:?} is no address:port, as in \"10.0.0.1:7400\"");
                        return Err(self.at(address, what));
                    }
                    let same = members.iter().find(|(_, other)| other.as_ref() == Some(text));
                    if let Some((other, _)) = same {
                        return Err(self.at(
                            address,
                            format!("members {other} and {id} have the same address {text:?}"),
                        ));
                    }
                    if members.insert(id, Some(text.clone())).is_some() {
                        return Err(self.at(address, format!("member {id} is named twice")));
                    }
                }
            }
            (Members::Addresses(_), FabricKind::Shm) => {
                let what = "members have no addresses with fabric = \"shm\": list their ids, as in members = [1, 2, 3]";
                return Err(self.at(&raw.members, what));
            }
            (Members::List(_), FabricKind::Verbs) => {
                let what = "members need addresses with fabric = \"verbs\": a table [members] with lines like 1 = \"10.0.0.1:7400\"";
                return Err(self.at(&raw.members, what));
            }
        }
        if members.is_empty() {
            return Err(self.at(&raw.members, "a group has members"));
        }
        Ok(members)
    }

    /// Those that form the group, each among the members and once.
    fn founders(&self, raw: &Raw, members: &[u8]) -> Result<Vec<u8>, ConfigError> {
        let mut founders = Vec::new();
        for id in raw.founders.iter().flatten() {
            let founder = u8::try_from(*id.get_ref()).ok().filter(|founder| members.contains(founder));
            match founder {
                Some(founder) if !founders.contains(&founder) => founders.push(founder),
                Some(founder) => return Err(self.at(id, format!("founder {founder} is named twice"))),
                None => {
                    let what = format!("founder {} is not among the members {}", id.get_ref(), list(members));
                    return Err(self.at(id, what));
                }
            }
        }
        Ok(founders)
    }

    fn node(&self, raw: &Raw, given: Option<u8>, members: &[u8]) -> Result<u8, ConfigError> {
        let (node, at) = match (given, &raw.node) {
            (Some(node), _) => (i64::from(node), None),
            (None, Some(node)) => (*node.get_ref(), Some(node.span())),
            (None, None) => {
                return Err(self.error(None, "which node is this? Say node = N here, or --node N"));
            }
        };
        let member = u8::try_from(node).ok().filter(|node| members.contains(node));
        member
            .ok_or_else(|| self.error(at, format!("node {node} is not among the members {}", list(members))))
    }

    fn lease_reads(&self, raw: &Raw) -> Result<Option<LeaseReads>, ConfigError> {
        let Some(ppm) = &raw.lease_reads_if_clocks_drift_below_ppm else { return Ok(None) };
        if !(1..500_000).contains(ppm.get_ref()) {
            let what = format!("a drift of {} parts per million: it is from 1 to 499999", ppm.get_ref());
            return Err(self.at(ppm, what));
        }
        Ok(Some(LeaseReads { clocks_drift_below_ppm: *ppm.get_ref() }))
    }

    fn ring_len(&self, raw: &Raw) -> Result<u64, ConfigError> {
        let Some(ring) = &raw.ring else { return Ok(Options::RING_LEN) };
        let len = ring.get_ref().0;
        if !len.is_power_of_two() || !(MIN_RING_LEN..=MAX_RING_LEN).contains(&len) {
            let what = format!("a ring of {len} bytes: the length is a power of two from 512K to 16G");
            return Err(self.at(ring, what));
        }
        Ok(len)
    }

    fn snapshot_len(&self, raw: &Raw) -> Result<Option<u64>, ConfigError> {
        let Some(snapshot) = &raw.snapshot else { return Ok(None) };
        let len = snapshot.get_ref().0;
        if !len.is_multiple_of(AREA_ALIGN) || len > MAX_SNAPSHOT_LEN {
            let what = format!("a snapshot of {len} bytes: the length is a multiple of 64K, or 0 for none");
            return Err(self.at(snapshot, what));
        }
        Ok(Some(len))
    }

    fn shm(&self, raw: &Raw) -> Result<Fabric, ConfigError> {
        if let Some(verbs) = &raw.verbs {
            return Err(self.at(verbs, "[verbs] has no meaning with fabric = \"shm\""));
        }
        let Some(shm) = &raw.shm else {
            return Err(self.at(&raw.fabric, "fabric = \"shm\" needs a table [shm] with a directory"));
        };
        Ok(Fabric::Shm { directory: self.path(&shm.get_ref().directory) })
    }

    fn verbs(
        &self,
        raw: &Raw,
        node: u8,
        members: BTreeMap<u8, Option<String>>,
    ) -> Result<Fabric, ConfigError> {
        if let Some(shm) = &raw.shm {
            return Err(self.at(shm, "[shm] has no meaning with fabric = \"verbs\""));
        }
        let Some(RawVerbs { key_file, listen, device, port, gid_index }) =
            raw.verbs.as_ref().map(Spanned::get_ref)
        else {
            return Err(self.at(&raw.fabric, "fabric = \"verbs\" needs a table [verbs] with a key_file"));
        };
        if let Some(device) = device.as_ref().filter(|device| {
            let name = device.get_ref();
            name.is_empty() || name.contains('/') || name.contains(char::is_whitespace)
        }) {
            return Err(self.at(device, format!("{:?} is no name of a device", device.get_ref())));
        }
        if let Some(port) = port.as_ref().filter(|port| *port.get_ref() == 0) {
            return Err(self.at(port, "port 0: the ports of a device are 1, 2, …"));
        }
        let mut addresses: [Option<String>; MAX_NODES + 1] = Default::default();
        for (id, address) in members {
            addresses[usize::from(id)] = address;
        }
        let own = addresses[usize::from(node)].as_deref().unwrap_or_default();
        let listen = match listen {
            Some(listen) => listen.get_ref().parse().map_err(|_| {
                let what = format!("listen {:?} is no address:port, as in \"0.0.0.0:7400\"", listen.get_ref());
                self.at(listen, what)
            })?,
            None => own.parse().map_err(|_| {
                let what = format!(
                    "node {node} has a name for an address, {own:?}: say where it listens, as in listen = \"0.0.0.0:7400\" in [verbs]"
                );
                self.at(&raw.members, what)
            })?,
        };
        Ok(Fabric::Verbs(Box::new(Verbs {
            listen,
            addresses,
            key_file: self.path(key_file),
            device: device.as_ref().map(|device| device.get_ref().clone()),
            port: port.as_ref().map(|port| *port.get_ref()),
            gid_index: *gid_index,
        })))
    }
}

/// A parser's message about a name that is not known becomes one with a suggestion.
fn suggest(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let what = match message.split_once(' ').map(|(first, rest)| (first, rest.split(' ').next())) {
        Some(("unknown", Some("field"))) => "key",
        Some(("unknown", Some("variant"))) => "value",
        Some(("missing", Some("field"))) => {
            return quoted
                .next()
                .map_or_else(|| message.to_owned(), |key| format!("the key {key:?} is missing"));
        }
        _ => return message.to_owned(),
    };
    let Some(found) = quoted.next() else { return message.to_owned() };
    let known: Vec<&str> = quoted.collect();
    // Names further apart than this have nothing in common.
    let close =
        |name: &&&str| strsim::damerau_levenshtein(found, name) <= 1 + found.len().max(name.len()) / 3;
    let nearest = known.iter().filter(close).min_by_key(|name| strsim::damerau_levenshtein(found, name));
    match nearest {
        Some(name) => format!("unknown {what} {found:?}: did you mean {name:?}?"),
        None => format!("unknown {what} {found:?}: there are {}", list(&known)),
    }
}

fn list(items: &[impl fmt::Display]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
