//! Which device, port and address: chosen by name, or the first that is active. Not: what goes over it.

#![expect(unsafe_code, reason = "calls libibverbs")]

use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use rdma_sys as sys;

use super::context::{Context, check, names};
use super::error::VerbsError;

/// What a user asks for; all of it may be left open.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Choice {
    /// Name of the device, such as `mlx5_0`. The first with an active port when `None`.
    pub device: Option<String>,
    /// Number of the port, from 1. The first active one when `None`.
    pub port: Option<u8>,
    /// Index in the port's table of GIDs. When `None`: the RoCEv2 GID of an IPv4 address, or else of an IPv6 address; on
    /// InfiniBand LIDs are used.
    pub gid_index: Option<u8>,
}

/// A port that can be used, and the address to use on it.
#[derive(Clone, Debug)]
pub(super) struct Port {
    pub(super) number: u8,
    pub(super) lid: u16,
    /// `IBV_MTU_*`, 1 (256 bytes) to 5 (4096).
    pub(super) mtu: u8,
    /// `None`: by LID alone.
    pub(super) gid: Option<Gid>,
    pub(super) is_active: bool,
}

/// A row of the port's table of GIDs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Gid {
    pub(super) raw: [u8; 16],
    pub(super) index: u8,
}

impl Gid {
    /// The IP address that a RoCEv2 GID is.
    pub(super) fn address(&self) -> IpAddr {
        let address = Ipv6Addr::from(self.raw);
        address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4)
    }
}

/// Opens the device and finds the port and the address.
pub(super) fn open(choice: &Choice) -> Result<(Arc<Context>, Port), VerbsError> {
    let names = match &choice.device {
        Some(name) => vec![name.clone()],
        None => names()?,
    };
    let mut refused = None;
    for name in &names {
        let context = Context::open(name)?;
        match find(&context, choice) {
            Ok(port) => return Ok((context, port)),
            // The device that was named, or the first of all, says best what is missing.
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or(VerbsError::NoDevice { wanted: None, there: names }))
}

/// The port and the address on a device that is open.
pub(super) fn find(context: &Arc<Context>, choice: &Choice) -> Result<Port, VerbsError> {
    let device = || context.name().to_owned();
    let ports = context.limits()?.ports;
    let numbers = match choice.port {
        Some(port) if port == 0 || port > ports => {
            return Err(VerbsError::NoPort { device: device(), wanted: Some(port) });
        }
        Some(port) => port..=port,
        None => 1..=ports,
    };
    for number in numbers {
        let (mut port, is_ethernet) = query(context, number)?;
        if !port.is_active && choice.port.is_none() {
            continue;
        }
        let wanted = choice.gid_index;
        port.gid = match wanted {
            Some(index) => gid(context, number, index).map(|(gid, _)| gid),
            None if is_ethernet => best_gid(context, number),
            None => return Ok(port),
        };
        return match port.gid {
            Some(_) => Ok(port),
            None => Err(VerbsError::NoGid { device: device(), port: number, wanted }),
        };
    }
    Err(VerbsError::NoPort { device: device(), wanted: None })
}

/// The port as it is now, without an address, and whether it is one of Ethernet.
fn query(context: &Arc<Context>, number: u8) -> Result<(Port, bool), VerbsError> {
    let mut attr = MaybeUninit::<sys::ibv_port_attr>::zeroed();
    // SAFETY: the context is open, and the structure is as large as the call is told.
    let code = unsafe { sys::ibv_query_port(context.raw(), number, attr.as_mut_ptr()) };
    check(code).map_err(VerbsError::call("ibv_query_port", context.name()))?;
    // SAFETY: integers only; all were zeroed, and the call has filled in what it knows.
    let attr = unsafe { attr.assume_init() };
    let port = Port {
        number,
        lid: attr.lid,
        mtu: attr.active_mtu.clamp(1, 5) as u8,
        gid: None,
        is_active: attr.state == sys::ibv_port_state::IBV_PORT_ACTIVE,
    };
    Ok((port, attr.link_layer == sys::IBV_LINK_LAYER_ETHERNET))
}

/// The GID in one row of the table, and whether it is one of RoCEv2; `None` for an empty row.
fn gid(context: &Arc<Context>, port: u8, index: u8) -> Option<(Gid, bool)> {
    let mut entry = MaybeUninit::<sys::ibv_gid_entry>::zeroed();
    // SAFETY: the context is open, and the structure is as large as the call is told.
    let code = unsafe {
        sys::ibv_query_gid_ex(context.raw(), u32::from(port), u32::from(index), entry.as_mut_ptr(), 0)
    };
    if code != 0 {
        return None;
    }
    // SAFETY: integers only; all were zeroed.
    let entry = unsafe { entry.assume_init() };
    // SAFETY: sixteen bytes, whichever member of the union they were stored as.
    let raw = unsafe { entry.gid.raw };
    (raw != [0; 16]).then_some((Gid { raw, index }, entry.gid_type == sys::IBV_GID_TYPE_ROCE_V2))
}

/// The RoCEv2 GID of an IPv4 address; of a routable IPv6 address; of any.
fn best_gid(context: &Arc<Context>, port: u8) -> Option<Gid> {
    let rank = |gid: &Gid| match gid.address() {
        IpAddr::V4(_) => 0,
        IpAddr::V6(address) if !address.is_unicast_link_local() => 1,
        IpAddr::V6(_) => 2,
    };
    let rows = (0..=u8::MAX).filter_map(|index| gid(context, port, index));
    rows.filter(|(_, is_v2)| *is_v2).map(|(gid, _)| gid).min_by_key(rank)
}

impl Port {
    /// Where its address stands in the table now: rows move when the network interface goes down and comes back.
    pub(super) fn gid_index(&self, context: &Arc<Context>) -> Option<u8> {
        let own = self.gid?;
        let stands = |index: u8| gid(context, self.number, index).is_some_and(|(gid, _)| gid.raw == own.raw);
        if stands(own.index) {
            return Some(own.index);
        }
        let is_v2 = |index: &u8| {
            gid(context, self.number, *index).is_some_and(|(gid, is_v2)| gid.raw == own.raw && is_v2)
        };
        (0..=u8::MAX).find(is_v2)
    }
}
