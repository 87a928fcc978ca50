//! Nodes of one machine on its RDMA devices: at which ports, and by which key, they find each other.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Transport;
use crate::exchange::Key;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Neighbours {
    /// Ports of this machine: node n has the one at place n - 1.
    pub ports: Vec<u16>,
    /// The file of the group's key.
    pub key_file: PathBuf,
    /// The device; the first that is active when not given.
    pub device: Option<String>,
}

impl Neighbours {
    /// For that many nodes; the key is made in that directory. The ports are free now; whoever takes one before its node
    /// does is named by that node.
    pub fn arrange(nodes: u16, dir: &Path) -> Result<Neighbours, String> {
        let key_file = dir.join("group.key");
        Key::make(&key_file).map_err(|error| error.to_string())?;
        let listen = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listeners = (0..nodes).map(listen).collect::<Result<Vec<TcpListener>, _>>();
        let ports = listeners
            .and_then(|all| all.iter().map(|one| Ok(one.local_addr()?.port())).collect())
            .map_err(|error| format!("no port for the nodes: {error}"))?;
        Ok(Neighbours { ports, key_file, device: None })
    }

    /// The same on that device.
    pub fn on(&self, device: Option<&str>) -> Neighbours {
        Neighbours { device: device.map(str::to_owned), ..self.clone() }
    }

    /// What a node is to be opened with, in a group of that name.
    #[cfg(feature = "verbs")]
    pub fn transport(&self, node: u8, group: &str) -> Result<Transport, String> {
        use std::net::SocketAddr;

        use crate::VerbsOptions;
        use crate::exchange::GroupName;
        use crate::fabric::verbs::Choice;

        let address = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let port_of = |id: usize| id.checked_sub(1).and_then(|place| self.ports.get(place)).copied();
        let others = |id: usize| port_of(id).filter(|_| id != usize::from(node));
        Ok(Transport::Verbs(Box::new(VerbsOptions {
            choice: Choice { device: self.device.clone(), ..Choice::default() },
            listen: address(port_of(usize::from(node)).ok_or("there is no port for this node")?),
            addresses: std::array::from_fn(|id| others(id).map(|port| address(port).to_string())),
            key: Key::read(&self.key_file).map_err(|error| error.to_string())?,
            group: GroupName::new(group).ok_or("that is no name of a group")?,
        })))
    }

    /// What a node is to be opened with, in a group of that name.
    #[cfg(not(feature = "verbs"))]
    pub fn transport(&self, _: u8, _: &str) -> Result<Transport, String> {
        Err("this program was built without RDMA".to_owned())
    }
}
