//! Everything of a node on its device that lives from start to end: domains, registered memory, and its place at the device.
//! Not: queue pairs, which come and go; nor what it shares with other groups (`device`).
//!
//! Two domains. *Control*: the control area for READ and WRITE, log and snapshot area for READ, the lines that READs come to. *Log*: the
//! log area for READ and WRITE, the staging area. A key of one is void on a queue pair of the other.

use std::sync::Arc;

use ringleader_core::layout::{AREA_ALIGN, control, log, snapshot};
use ringleader_core::options::Half;

use super::card::{Own, RemoteRange};
use super::context::{Context, Limits};
use super::cq::CompletionQueue;
use super::device::{Device, Needs, Place, completions_of};
use super::domain::Domain;
use super::error::VerbsError;
use super::inbound::FenceBy;
use super::memory::{Access, Region};
use super::order::{self, DataOrder};
use super::place::{HostLog, LentLog, LogArea, LogPlace};
use super::port::Port;
use super::posted::DEPTH;
use super::qp::{Path, QueuePair};
use super::receives::Receives;
use crate::fabric::map::Mapping;
use crate::fabric::{Mapped, locked_len};

/// Where memory begins that is mapped anywhere.
const PAGE: u64 = 4096;

/// See the module.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) context: Arc<Context>,
    pub(super) port: Port,
    limits: Limits,
    timeout: u8,
    control: Arc<Domain>,
    log: Arc<Domain>,
    pub(super) control_cq: Arc<CompletionQueue>,
    pub(super) log_cq: Arc<CompletionQueue>,
    /// In the control domain: the control area; the log area, to READ; the lines at the start of the staging area.
    pub(super) control_area: Arc<Region>,
    pub(super) log_readable: Arc<Region>,
    pub(super) lines: Arc<Region>,
    /// There too: the snapshot area, to READ, and to READ into.
    pub(super) snapshot: Option<Arc<Region>>,
    /// The same for the own host that is apart, which WRITEs there what it saves: no other card has this key.
    snapshot_of_host: Option<Arc<Region>>,
    /// In the log domain: the log area, and the staging area. A host's memory is reached by its key there, and is copied to `shadow`.
    pub(super) log_area: LogArea,
    pub(super) shadow: Option<Arc<Region>>,
    /// What a host has lent to its acceptor.
    pub(super) lent: Option<LentLog>,
    pub(super) staging: Arc<Region>,
    pub(super) half: Half,
    ring_len: u64,
    /// What wakes this node; `None` where it looks by itself.
    pub(super) receives: Option<Receives>,
    /// How this node's ends are fenced: by default in a way that is strict on this device.
    pub(super) fence_by: FenceBy,
    is_software: bool,
    pub(super) device: Arc<Device>,
    /// Declared last: what it stands for is free when all of the above is gone.
    pub(super) place: Place,
}

/// The memory of a node, all zeros.
#[derive(Clone, Debug)]
pub struct Areas {
    /// Control area: peers READ and WRITE it.
    pub control: Mapped,
    /// Log area: peers READ it, the one that is granted WRITEs it. Where it is in the host's memory, the acceptor's copy of that.
    pub log: Mapped,
    /// Staging area: private; sources of WRITEs and targets of READs.
    pub staging: Mapped,
    /// Snapshot area: peers READ it.
    pub snapshot: Mapped,
}

impl Parts {
    pub(super) fn new(
        device: &Arc<Device>,
        (half, log_place): (Half, &LogPlace),
        (ring_len, snapshot_len): (u64, u64),
        peers: u64,
        timeout: u8,
        fence_by: Option<FenceBy>,
        wakes: bool,
    ) -> Result<(Arc<Parts>, Areas), VerbsError> {
        let (context, is_software) = (Arc::clone(&device.context), device.is_software);
        let name = context.name().to_owned();
        let fence_by = fence_by.unwrap_or(FenceBy::strict(is_software));
        let area_len = log::len(ring_len);
        let of_writers = match fence_by {
            FenceBy::Deregister | FenceBy::Reregister => peers * area_len,
            _ => 0,
        };
        // Memory that is registered twice counts twice.
        let of_host = if half == Half::Acceptor { snapshot::len(snapshot_len) } else { 0 };
        let place = device.take_place(Needs {
            completions: completions_of(peers),
            // Two ends of each kind to a peer, and, at an acceptor, a control end to its host, and one that replaces it.
            queue_pairs: 6 * peers + 4,
            locked: locked_len(ring_len, snapshot_len) + of_writers + of_host,
        })?;

        let mapping = |len| {
            let mapping = Mapping::huge(len).and_then(|map| map.populate(0, u64::MAX).map(|()| map));
            mapping.map_err(VerbsError::call("mmap", &name))
        };
        let control_area = mapping(control::LEN)?.slice(0, control::LEN);
        let log_area = mapping(area_len)?.slice(0, area_len);
        let staging = mapping(area_len)?;
        let lines = staging.slice(0, AREA_ALIGN);
        let snapshot_area = match snapshot::len(snapshot_len) {
            0 => log_area.part(0, 0),
            len => mapping(len)?.slice(0, len),
        };
        let areas = Areas {
            control: control_area,
            log: log_area,
            staging: staging.slice(0, area_len),
            snapshot: snapshot_area,
        };

        let log_access = match fence_by {
            FenceBy::Flags | FenceBy::Reset | FenceBy::Renew => Access::Write,
            FenceBy::Window => Access::Bind,
            // Writers have registrations of their own.
            FenceBy::Deregister | FenceBy::Reregister => Access::Target,
        };
        // What a host has of its acceptor are copies, which nobody else reaches.
        let own_or = |access| if half == Half::Proposer { Access::Target } else { access };
        let control = Domain::new(&context)?;
        let log = match log_place {
            LogPlace::OfHost(log) => Domain::lent(&context, check_host_log(log, half, area_len, &name)?),
            LogPlace::Own | LogPlace::Lent(_) => Domain::new(&context)?,
        };
        let receives = match wakes {
            true => Some(Receives::new(&device.channel()?, &control, &log)?),
            false => None,
        };
        let parts = Parts {
            port: device.port.clone(),
            limits: device.limits,
            timeout,
            control_cq: Arc::clone(&device.control_cq),
            log_cq: Arc::clone(&device.log_cq),
            control_area: Region::register(&control, &areas.control, own_or(Access::Write))?,
            log_readable: Region::register(&control, &areas.log, own_or(Access::Read))?,
            lines: Region::register(&control, &lines, Access::Target)?,
            snapshot: match snapshot_len {
                0 => None,
                _ => Some(Region::register(&control, &areas.snapshot, Access::ReadTarget)?),
            },
            snapshot_of_host: match (half, snapshot_len) {
                (Half::Acceptor, 1..) => Some(Region::register(&control, &areas.snapshot, Access::Write)?),
                _ => None,
            },
            log_area: match log_place {
                LogPlace::OfHost(log) => LogArea::OfHost(log.clone()),
                _ => LogArea::Own(Region::register(&log, &areas.log, own_or(log_access))?),
            },
            shadow: match log_place {
                LogPlace::OfHost(_) => Some(Region::register(&log, &areas.log, Access::Target)?),
                _ => None,
            },
            lent: match log_place {
                LogPlace::Lent(lent) => Some(lent.clone()),
                _ => None,
            },
            // WRITEs are read from it, and READs that confirm them land in it.
            staging: Region::register(&log, &areas.staging, Access::Target)?,
            half,
            ring_len,
            receives,
            fence_by,
            is_software,
            context,
            control,
            log,
            device: Arc::clone(device),
            place,
        };
        Ok((Arc::new(parts), areas))
    }

    pub(super) fn control_qp(&self) -> Result<QueuePair, VerbsError> {
        let receives = self.receives.as_ref().map(|receives| (&receives.cq, &receives.control));
        QueuePair::new(&self.control, &self.control_cq, DEPTH as u32, receives)
    }

    pub(super) fn log_qp(&self) -> Result<QueuePair, VerbsError> {
        let receives = self.receives.as_ref().map(|receives| (&receives.cq, &receives.log));
        QueuePair::new(&self.log, &self.log_cq, DEPTH as u32, receives)
    }

    /// The same, whose completions go to a queue of its own.
    pub(super) fn log_qp_on(&self, cq: &Arc<CompletionQueue>, depth: u32) -> Result<QueuePair, VerbsError> {
        let receives = self.receives.as_ref().map(|receives| (&receives.cq, &receives.log));
        QueuePair::new(&self.log, cq, depth, receives)
    }

    pub(super) fn log_domain(&self) -> &Arc<Domain> {
        &self.log
    }

    /// What the device says of the order in which the bytes of a WRITE land.
    pub(super) fn data_order(&self) -> Result<DataOrder, VerbsError> {
        Ok(order::of(&self.log_qp()?))
    }

    /// Whether RESET ends all that came and comes over a queue pair ([`FenceBy::Renew`] says where it does not).
    pub(super) fn is_reset_strict(&self) -> bool {
        !self.is_software
    }

    pub(super) fn control_domain(&self) -> &Arc<Domain> {
        &self.control
    }

    pub(super) fn log_len(&self) -> u64 {
        log::len(self.ring_len)
    }

    pub(super) fn ring_len(&self) -> u64 {
        self.ring_len
    }

    /// What the card for its own host says, where that is apart.
    pub(super) fn own_for_host(&self) -> Own {
        let range = |region: &Region| RemoteRange {
            address: region.address(),
            len: region.len(),
            key: region.remote_key(),
            reserved: 0,
        };
        let snapshot = self.snapshot_of_host.as_ref().map_or_else(Default::default, |region| range(region));
        Own { snapshot, ..self.own() }
    }

    /// What this node's cards say.
    pub(super) fn own(&self) -> Own {
        let at = |address, len, key| match self.half {
            Half::Proposer => RemoteRange { len, ..RemoteRange::default() },
            _ => RemoteRange { address, len, key, reserved: 0 },
        };
        let range = |region: &Region, len| at(region.address(), len, region.remote_key());
        Own {
            lid: self.port.lid,
            mtu: self.port.mtu,
            gid: self.port.gid.map(|gid| gid.raw),
            reads_started: self.limits.reads_started,
            reads_served: self.limits.reads_served,
            wakes: self.receives.is_some(),
            control: range(&self.control_area, control::LEN),
            log_readable: range(&self.log_readable, self.log_len()),
            // Its key comes with each arm.
            log: at(self.log_area.address(), self.log_len(), 0),
            snapshot: self
                .snapshot
                .as_ref()
                .map_or_else(Default::default, |region| range(region, region.len())),
        }
    }

    /// The way to a peer with such a card; `None` when this node's own address is gone.
    pub(super) fn path(&self, peer: &Own) -> Option<Path> {
        let gid = match peer.gid {
            Some(gid) => Some((self.port.gid_index(&self.context)?, gid)),
            None => None,
        };
        Some(Path {
            port: self.port.number,
            gid,
            lid: peer.lid,
            mtu: self.port.mtu.min(peer.mtu),
            reads_started: self.limits.reads_started.min(peer.reads_served),
            reads_served: self.limits.reads_served.min(peer.reads_started),
            timeout: self.timeout,
        })
    }
}

/// A host's memory that can be this acceptor's log area.
fn check_host_log<'a>(
    log: &'a HostLog,
    half: Half,
    area_len: u64,
    device: &str,
) -> Result<&'a HostLog, VerbsError> {
    if half == Half::Acceptor && log.len() == area_len && log.address().is_multiple_of(PAGE) {
        return Ok(log);
    }
    Err(VerbsError::Unable {
        device: device.to_owned(),
        what: "use for memory of a host that is no log area of its length",
    })
}

/// 4.096 us times two to the power of `exponent`.
fn timeout_ns(exponent: u8) -> u64 {
    4096 << exponent.min(31)
}

/// The transport's timeout: a quarter of `suspect_after` at most. A packet that is lost is sent again before anybody is
/// suspected, and a dead peer is given up little later than the detector does.
pub(super) fn timeout_of(suspect_after_ns: u64) -> u8 {
    // 0 would mean for ever.
    (1..=21).rev().find(|exponent| 4 * timeout_ns(*exponent) <= suspect_after_ns).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringleader_core::timing::Timing;

    #[test]
    fn the_transport_gives_up_near_the_detector() {
        let exponents = [Timing::HARDWARE, Timing::LOCAL, Timing::SOFT_ROCE]
            .map(|timing| timeout_of(timing.suspect_after_ns));
        assert_eq!(exponents, [5, 11, 12]);
        assert_eq!(timeout_of(1), 1);
        for timing in [Timing::HARDWARE, Timing::LOCAL, Timing::SOFT_ROCE] {
            let all = 7 * timeout_ns(timeout_of(timing.suspect_after_ns));
            assert!(all < timing.quorum_lost_ns && all > timing.suspect_after_ns / 2);
        }
    }
}
