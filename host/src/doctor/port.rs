//! The checks of one port of a device: link, addresses, packet sizes, flow control, counters.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::facts::{Facts, has};
use super::{Checks, Wants};

/// One port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Port {
    pub(super) device: String,
    pub(super) number: u64,
}

/// Counters that tell of trouble on the way, by driver (`hw_counters` of mlx5 and rxe).
const MLX5_COUNTERS: [&str; 15] = [
    "out_of_sequence",
    "packet_seq_err",
    "local_ack_timeout_err",
    "rnr_nak_retry_err",
    "duplicate_request",
    "implied_nak_seq_err",
    "np_ecn_marked_roce_packets",
    "np_cnp_sent",
    "rp_cnp_handled",
    "rp_cnp_ignored",
    "resp_remote_access_errors",
    "req_remote_access_errors",
    "req_transport_retries_exceeded",
    "roce_adp_retrans",
    "roce_slow_restart",
];
const RXE_COUNTERS: [&str; 15] = [
    "sent_pkts",
    "rcvd_pkts",
    "duplicate_request",
    "out_of_seq_request",
    "rcvd_rnr_err",
    "send_rnr_err",
    "rcvd_seq_err",
    "ack_deferred",
    "retry_exceeded_err",
    "retry_rnr_exceeded_err",
    "completer_retry_err",
    "send_err",
    "link_downed",
    "rdma_sends",
    "rdma_recvs",
];
/// Counters of traffic, not of trouble.
const TRAFFIC: [&str; 5] = ["sent_pkts", "rcvd_pkts", "ack_deferred", "rdma_sends", "rdma_recvs"];
/// Headers of a RoCEv2 packet at their longest (`iboe_get_mtu` in the kernel's `rdma/ib_addr.h`).
const ROCE_HEADERS: u64 = 96;

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} port {}", self.device, self.number)
    }
}

impl Port {
    fn device_dir(&self) -> String {
        format!("sys/class/infiniband/{}", self.device)
    }

    fn dir(&self) -> String {
        format!("{}/ports/{}", self.device_dir(), self.number)
    }

    fn text(&self, facts: &Facts, name: &str) -> Option<String> {
        facts.text(&format!("{}/{name}", self.dir()))
    }

    /// Such as ACTIVE: what stands behind the number.
    pub(super) fn state(&self, facts: &Facts) -> String {
        named(self.text(facts, "state"))
    }

    pub(super) fn is_active(&self, facts: &Facts) -> bool {
        self.state(facts) == "ACTIVE"
    }

    pub(super) fn is_mlx5(&self, facts: &Facts) -> bool {
        self.driver(facts).starts_with("mlx5")
    }

    /// A software NIC has no device below it, but a network interface.
    pub(super) fn is_rxe(&self, facts: &Facts) -> bool {
        self.driver(facts) == "rxe"
    }

    pub(super) fn driver(&self, facts: &Facts) -> String {
        let dir = self.device_dir();
        let software = || facts.text(&format!("{dir}/parent")).map(|_| "rxe".to_owned());
        facts.link(&format!("{dir}/device/driver")).or_else(software).unwrap_or_else(|| "unknown".to_owned())
    }

    fn is_ethernet(&self, facts: &Facts) -> bool {
        self.text(facts, "link_layer").as_deref() == Some("Ethernet")
    }

    fn netdev(&self, facts: &Facts) -> Option<String> {
        let dir = self.device_dir();
        self.text(facts, "gid_attrs/ndevs/0")
            .or_else(|| facts.names(&format!("{dir}/device/net")).into_iter().next())
            .or_else(|| facts.text(&format!("{dir}/parent")))
    }
}

/// What stands behind the number in `4: ACTIVE`.
fn named(text: Option<String>) -> String {
    let text = text.unwrap_or_else(|| "unknown".to_owned());
    text.split_once(": ").map_or(text.clone(), |(_, name)| name.to_owned())
}

pub(super) fn check(facts: &Facts, port: &Port, wants: &Wants, gid_index: Option<u8>, checks: &mut Checks) {
    link(facts, port, checks);
    if port.is_ethernet(facts) {
        addresses(facts, port, gid_index, checks);
        packet_size(facts, port, checks);
        flow_control(facts, port, checks);
    } else {
        infiniband(facts, port, checks);
    }
    node(facts, port, wants, checks);
    counters(facts, port, checks);
}

fn link(facts: &Facts, port: &Port, checks: &mut Checks) {
    let layer = port.text(facts, "link_layer").unwrap_or_else(|| "unknown link layer".to_owned());
    let physical = named(port.text(facts, "phys_state"));
    let rate = port.text(facts, "rate").map_or_else(String::new, |rate| format!(", {rate}"));
    let state = port.state(facts);
    let found = format!("{layer}, {state}, {physical}{rate}");
    if state == "ACTIVE" {
        return checks.good("link", found);
    }
    let mend = match (port.is_ethernet(facts), port.netdev(facts)) {
        (true, Some(netdev)) => format!("ip link set {netdev} up; if it stays down: cable and switch port"),
        (true, None) => "bring its network interface up, or plug the cable in".to_owned(),
        (false, _) if state == "INIT" => {
            "no subnet manager answers: systemctl start opensm, on one host".to_owned()
        }
        (false, _) => "plug the cable in, or enable the switch port: ibportstate -D 0 1 enable".to_owned(),
    };
    checks.wrong("link", found, mend);
}

/// An entry of the GID table.
struct Gid {
    index: u64,
    address: Ipv6Addr,
    is_v2: bool,
}

impl Gid {
    fn v4(&self) -> Option<Ipv4Addr> {
        self.address.to_ipv4_mapped()
    }

    fn is_link_local(&self) -> bool {
        self.address.segments()[0] & 0xffc0 == 0xfe80
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.v4() {
            Some(v4) => write!(f, "{} ({v4})", self.index),
            None => write!(f, "{} ({})", self.index, self.address),
        }
    }
}

fn gids(facts: &Facts, port: &Port) -> Vec<Gid> {
    let of = |index: String| {
        let address: Ipv6Addr = port.text(facts, &format!("gids/{index}"))?.parse().ok()?;
        let kind = port.text(facts, &format!("gid_attrs/types/{index}"));
        let is_v2 = kind.is_some_and(|kind| kind.contains("v2"));
        (!address.is_unspecified()).then_some(Gid { index: index.parse().ok()?, address, is_v2 })
    };
    facts.names(&format!("{}/gids", port.dir())).into_iter().filter_map(of).collect()
}

fn addresses(facts: &Facts, port: &Port, wanted: Option<u8>, checks: &mut Checks) {
    let gids = gids(facts, port);
    let v2: Vec<&Gid> = gids.iter().filter(|gid| gid.is_v2).collect();
    let all = v2.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let netdev = port.netdev(facts).unwrap_or_else(|| "its network interface".to_owned());
    if v2.is_empty() {
        return checks.wrong(
            "gid",
            if gids.is_empty() { "the table is empty" } else { "no entry for RoCEv2" },
            format!("ip addr add ADDRESS/24 dev {netdev}"),
        );
    }
    if let Some(wanted) = wanted {
        let Some(gid) = v2.iter().find(|gid| gid.index == u64::from(wanted)) else {
            return checks.wrong(
                "gid",
                format!("gid_index = {wanted} is no entry for RoCEv2"),
                format!("choose one of these: {all}"),
            );
        };
        return checks.good("gid", format!("RoCEv2 {gid}, of {all}"));
    }
    // As a node chooses.
    let chosen =
        v2.iter().find(|gid| gid.v4().is_some()).or_else(|| v2.iter().find(|gid| !gid.is_link_local()));
    match chosen {
        Some(gid) => checks.good("gid", format!("RoCEv2 {gid}, of {all}")),
        None => checks.better(
            "gid",
            format!("RoCEv2 only of the link: {all}"),
            format!("ip addr add ADDRESS/24 dev {netdev}"),
        ),
    }
}

fn packet_size(facts: &Facts, port: &Port, checks: &mut Checks) {
    let Some(netdev) = port.netdev(facts) else { return checks.absent("mtu", "its interface is not known") };
    let Some(mtu) = facts.number(&format!("sys/class/net/{netdev}/mtu")) else {
        return checks.absent("mtu", format!("that of {netdev} cannot be read"));
    };
    let room = mtu.saturating_sub(ROCE_HEADERS);
    let path = [4096, 2048, 1024, 512, 256].into_iter().find(|path| *path <= room);
    let Some(path) = path else {
        let mend = format!("ip link set {netdev} mtu 9000");
        return checks.wrong("mtu", format!("{netdev} has {mtu}: too small for RoCE"), mend);
    };
    let found = format!("{netdev} has {mtu}, RDMA packets {path}");
    if path == 4096 || port.is_rxe(facts) {
        checks.good("mtu", found);
    } else {
        checks.better(
            "mtu",
            format!("{found}: large entries go in more packets than need be"),
            format!("ip link set {netdev} mtu 9000, on all hosts and the switch"),
        );
    }
}

fn flow_control(facts: &Facts, port: &Port, checks: &mut Checks) {
    if port.is_rxe(facts) {
        return;
    }
    let Some(netdev) = port.netdev(facts) else { return };
    // The driver shows it to tools only, over netlink.
    checks.absent("pfc", format!("not to be read here: dcb pfc show dev {netdev}, or mlnx_qos -i {netdev}"));
    let dir = format!("sys/class/net/{netdev}/ecn");
    let on = |side: &str| -> Option<Vec<String>> {
        let names = facts.names(&format!("{dir}/{side}/enable"));
        let is_on = |priority: &String| facts.number(&format!("{dir}/{side}/enable/{priority}")) == Some(1);
        (!names.is_empty()).then(|| names.into_iter().filter(is_on).collect())
    };
    match (on("roce_np"), on("roce_rp")) {
        (Some(np), Some(rp)) if np.is_empty() || rp.is_empty() => checks.better(
            "ecn",
            "off: a congested switch drops packets instead of marking them",
            format!("echo 1 > /{dir}/roce_np/enable/3; echo 1 > /{dir}/roce_rp/enable/3 (3: the traffic's priority)"),
        ),
        (Some(np), Some(rp)) => {
            checks.good("ecn", format!("answers marks of priorities {}, slows down on {}", np.join(" "), rp.join(" ")));
        }
        _ => checks.absent("ecn", "not to be read here (this driver does not show it)"),
    }
}

fn infiniband(facts: &Facts, port: &Port, checks: &mut Checks) {
    let lid = port.text(facts, "lid").unwrap_or_default();
    let number = u64::from_str_radix(lid.trim_start_matches("0x"), 16).unwrap_or(0);
    if number == 0 {
        checks.wrong(
            "lid",
            "the port has no address",
            "no subnet manager answers: systemctl start opensm, on one host",
        );
    } else {
        checks.good("lid", lid);
    }
}

/// Memory and processor of one half of the machine, the NIC at the other: each access crosses over.
fn node(facts: &Facts, port: &Port, wants: &Wants, checks: &mut Checks) {
    let Some(node) = facts.number(&format!("{}/device/numa_node", port.device_dir())) else { return };
    let Some(near) = facts.text(&format!("sys/devices/system/node/node{node}/cpulist")) else { return };
    match wants.pin {
        Some(pin) if has(&near, pin) => {
            checks.good("numa", format!("processor {pin} is on the device's node {node}"));
        }
        Some(pin) => checks.better(
            "numa",
            format!("processor {pin} is not on the device's node {node}"),
            format!("pin to one of {near}"),
        ),
        None => checks.good("numa", format!("node {node}, processors {near}")),
    }
}

fn counters(facts: &Facts, port: &Port, checks: &mut Checks) {
    let names = if port.is_rxe(facts) { &RXE_COUNTERS } else { &MLX5_COUNTERS };
    // On the Arm side of a DPU they are the device's.
    let dirs = [format!("{}/hw_counters", port.dir()), format!("{}/hw_counters", port.device_dir())];
    let Some(dir) = dirs.iter().find(|dir| !facts.names(dir).is_empty()) else {
        return checks.absent("counters", "the device shows none");
    };
    let values = names.map(|name| (name, facts.number(&format!("{dir}/{name}"))));
    let list = |of: &mut dyn Iterator<Item = String>| of.collect::<Vec<_>>().join(", ");
    let absent =
        list(&mut values.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| (*name).to_owned()));
    let counted = list(&mut values.iter().filter_map(|(name, value)| {
        value.filter(|value| *value > 0 && !TRAFFIC.contains(name)).map(|value| format!("{name} {value}"))
    }));
    let mut found =
        format!("{} of {}", values.iter().filter(|(_, value)| value.is_some()).count(), names.len());
    found +=
        &if counted.is_empty() { ", no trouble counted".to_owned() } else { format!(", counted: {counted}") };
    if !absent.is_empty() {
        found += &format!("; absent: {absent}");
    }
    checks.good("counters", found);
}
