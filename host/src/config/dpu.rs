//! The table `[dpu]`: the acceptor of this node is a process of its own, on a DPU. Without it a node is one process.

use std::path::PathBuf;

use serde::Deserialize;

use super::raw::{Raw, RawDpu};
use super::{ConfigError, Fabric, Notify, Source};
use crate::exchange::GroupName;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Dpu {
    /// Whose memory holds the log.
    pub placement: Placement,
    /// What is done to a host that hangs while it leads.
    pub fence_host: FenceHost,
    /// With the log in the host's memory: the device by which host and DPU reach each other over DOCA, by the name that libibverbs has for it
    /// or its PCI address; that of the fabric when not given.
    pub channel: Option<String>,
    /// With that, on the DPU: the PCI address of the host's function, as the host has it.
    pub host: Option<String>,
    /// The socket by which the acceptor is asked how it is.
    pub control: PathBuf,
}

/// Whose memory holds the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// The DPU's.
    #[default]
    Dpu,
    /// The host's, which is exported to the DPU: with DOCA alone.
    Host,
}

/// What is done to a host that hangs while it leads.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum FenceHost {
    /// Nothing: acceptors fence it one by one, as any leader that is deposed.
    #[default]
    None,
    /// The port by which the host is connected to the embedded switch is taken down, until another node leads.
    Representor {
        /// The network device of that port, on the DPU.
        device: String,
    },
}

impl Source<'_> {
    pub(super) fn dpu(
        &self,
        raw: &Raw,
        group: GroupName,
        node: u8,
        fabric: &Fabric,
    ) -> Result<Option<Dpu>, ConfigError> {
        let Some(table) = &raw.dpu else { return Ok(None) };
        let RawDpu { placement, fence_host, representor, channel, host, control } = table.get_ref();
        let placement = placement.as_ref().map(|placement| *placement.get_ref()).unwrap_or_default();
        if let (Placement::Host, Fabric::Shm { .. }) = (placement, fabric) {
            let at = table;
            return Err(
                self.at(at, "placement = \"host\" has no meaning with fabric = \"shm\": there is one memory")
            );
        }
        if placement == Placement::Dpu
            && let Some(only) = channel.as_ref().or(host.as_ref())
        {
            return Err(self.at(only, "channel and host are for placement = \"host\""));
        }
        if let Some(odd) = channel.iter().chain(host).find(|name| !is_function(name.get_ref())) {
            let what = format!("{:?} is no device and no PCI address", odd.get_ref());
            return Err(self.at(odd, what));
        }
        if let (Placement::Host, Some(notify)) = (placement, &raw.notify)
            && *notify.get_ref() == Notify::Imm
        {
            let what =
                "notify = \"imm\" wakes nobody with placement = \"host\": the log is read, again and again";
            return Err(self.at(notify, what));
        }
        let fence_host = match (fence_host.as_ref().map(|how| how.get_ref().as_str()), representor) {
            (None | Some("none"), None) => FenceHost::None,
            (None | Some("none"), Some(device)) => {
                return Err(self.at(device, "a representor is for fence_host = \"representor\""));
            }
            (Some("representor"), Some(device)) if is_device(device.get_ref()) => {
                FenceHost::Representor { device: device.get_ref().clone() }
            }
            (Some("representor"), Some(device)) => {
                return Err(self.at(device, format!("{:?} is no name of a network device", device.get_ref())));
            }
            (Some("representor"), None) => {
                let what = "fence_host = \"representor\" needs the network device of the host's port on the DPU, as in representor = \"pf0hpf\"";
                return Err(self.at(table, what));
            }
            (Some(other), _) => {
                let what = format!("fence_host {other:?}: it is \"none\" or \"representor\"");
                return Err(match fence_host {
                    Some(at) => self.at(at, what),
                    None => self.at(table, what),
                });
            }
        };
        let control = match (control, fabric) {
            (Some(path), _) => self.path(path),
            (None, Fabric::Shm { directory }) => directory.join(format!("node-{node}.dpu.control")),
            (None, Fabric::Verbs(_)) => PathBuf::from(format!("/run/ringleader/{group}-{node}.dpu.control")),
        };
        let [channel, host] = [channel, host].map(|name| name.as_ref().map(|name| name.get_ref().clone()));
        Ok(Some(Dpu { placement, fence_host, channel, host, control }))
    }
}

/// Whether that may be what DOCA calls a function: a name, or a PCI address.
fn is_function(name: &str) -> bool {
    let usual = |byte: u8| byte.is_ascii_alphanumeric() || b"_-:.".contains(&byte);
    (1..64).contains(&name.len()) && name.bytes().all(usual)
}

/// Whether that may be the name of a network device (the kernel's `dev_valid_name`): it is handed to a command.
fn is_device(name: &str) -> bool {
    let odd = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
    !name.is_empty()
        && name.len() < 16
        && ![".", ".."].contains(&name)
        && !name.contains(odd)
        && !name.starts_with('-')
}
