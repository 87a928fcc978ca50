//! The checks of RDMA: library, devices, and which port a node would take.

use super::facts::Facts;
use super::port::{self, Port};
use super::{Carrier, Checks, Wants};
use crate::fabric::environment::{HARMFUL, Harmful, is_on};

/// What makes a device, also where there is no hardware for one.
pub(super) const NO_DEVICE: &str = "load the NIC's driver (modprobe mlx5_ib), or make a software NIC: \
    modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0";

const DEVICES: &str = "sys/class/infiniband";

pub(super) fn has_devices(facts: &Facts) -> bool {
    !facts.names(DEVICES).is_empty()
}

pub(super) fn check(facts: &Facts, wants: &Wants, checks: &mut Checks) {
    let (device, port, gid_index) = match &wants.carrier {
        Some(Carrier::Verbs { device, port, gid_index }) => (device.as_deref(), *port, *gid_index),
        _ => (None, None, None),
    };
    library(facts, checks);
    let ports = ports(facts);
    let asked = |other: &&Port| {
        device.is_none_or(|device| device == other.device)
            && port.is_none_or(|port| u64::from(port) == other.number)
    };
    // As a node chooses: what it is told, or the first that is active. When none is, the first is told what it lacks.
    let chosen =
        ports.iter().filter(asked).find(|port| port.is_active(facts)).or_else(|| ports.iter().find(asked));
    let Some(chosen) = chosen else {
        let wanted = match (device, port) {
            (Some(device), Some(port)) => format!("{device} port {port}"),
            (Some(device), None) => device.to_owned(),
            _ => format!("port {}", port.unwrap_or(1)),
        };
        let there: Vec<String> = ports.iter().map(Port::to_string).collect();
        let there = if there.is_empty() { "no port at all".to_owned() } else { there.join(", ") };
        checks.wrong("device", format!("no {wanted}"), format!("choose one of these: {there}"));
        return;
    };
    checks.subject = chosen.to_string();
    provider(facts, chosen, checks);
    data_order(facts, chosen, checks);
    port::check(facts, chosen, wants, gid_index, checks);
    for other in ports.iter().filter(|other| *other != chosen) {
        checks.subject = other.to_string();
        let state = other.state(facts);
        checks.absent("link", format!("{state}; not the one that a node would take"));
    }
}

fn ports(facts: &Facts) -> Vec<Port> {
    let of = |device: String| {
        let numbers = facts.names(&format!("{DEVICES}/{device}/ports")).into_iter();
        let numbers: Vec<u64> = numbers.filter_map(|number| number.parse().ok()).collect();
        numbers.into_iter().map(move |number| Port { device: device.clone(), number })
    };
    facts.names(DEVICES).into_iter().flat_map(of).collect()
}

fn library(facts: &Facts, checks: &mut Checks) {
    match facts.library("", |name| name.starts_with("libibverbs.so.1")) {
        Some(path) => checks.good("libibverbs", path),
        None => checks.wrong(
            "libibverbs",
            "not found",
            "apt install libibverbs1 ibverbs-providers (Fedora, RHEL: dnf install libibverbs)",
        ),
    }
}

/// What an agent refuses to start with.
pub(super) fn environment(facts: &Facts, checks: &mut Checks) {
    let is_set = |harmful: &&Harmful| facts.variables.contains_key(harmful.variable);
    let mut good = true;
    for Harmful { variable, harm } in HARMFUL.iter().filter(is_set) {
        let value = &facts.variables[variable];
        if is_on(value) {
            good = false;
            checks.wrong("ordering", format!("{variable}={value} {harm}"), format!("unset {variable}"));
        }
    }
    if good {
        checks.good("ordering", "not relaxed from outside");
    }
}

/// What the device says of the bytes of one WRITE. Nothing depends on it.
fn data_order(facts: &Facts, port: &Port, checks: &mut Checks) {
    match (facts.data_order)(&port.device, port.number as u8) {
        Ok(order) if order.is_in_order => checks.good("data order", order.text),
        Ok(order) => checks.absent("data order", order.text + ": nothing depends on it"),
        Err(error) => checks.absent("data order", format!("cannot be asked: {error}")),
    }
}

/// The part of the library that knows the device, and the device file that it opens.
fn provider(facts: &Facts, port: &Port, checks: &mut Checks) {
    let name = if port.is_mlx5(facts) {
        "mlx5"
    } else if port.is_rxe(facts) {
        "rxe"
    } else {
        ""
    };
    let mut details = vec![format!("driver {}", port.driver(facts))];
    let dir = format!("{DEVICES}/{}", port.device);
    details.extend(facts.text(&format!("{dir}/hca_type")).map(|kind| format!("type {kind}")));
    details.extend(facts.text(&format!("{dir}/board_id")).map(|board| format!("board {board}")));
    let details = details.join(", ");
    if name.is_empty() {
        checks.better(
            "device",
            format!("{details}: never tried with Ringleader"),
            "measure it first: ringleader bench fence",
        );
    } else if facts.library("libibverbs", |file| file.starts_with(&format!("lib{name}-rdmav"))).is_none() {
        checks.wrong(
            "device",
            format!("{details}: its provider for libibverbs is not installed"),
            "apt install ibverbs-providers (Fedora, RHEL: dnf install libibverbs)",
        );
    } else {
        checks.good("device", details);
    }
    match facts.text(&format!("{dir}/fw_ver")) {
        Some(version) => checks.good("firmware", version),
        None => checks.absent("firmware", "has none, or does not say"),
    }
    const FILES: &str = "sys/class/infiniband_verbs";
    let is_its =
        |file: &String| facts.text(&format!("{FILES}/{file}/ibdev")).as_deref() == Some(&*port.device);
    let Some(file) = facts.names(FILES).into_iter().find(is_its) else {
        return checks.wrong("device file", "the kernel has none for it", "modprobe ib_uverbs");
    };
    let path = format!("/dev/infiniband/{file}");
    if !facts.exists(&path) {
        checks.wrong(
            "device file",
            format!("{path} is missing"),
            format!("modprobe ib_uverbs (in a container: docker run --device={path})"),
        );
    } else if !facts.is_usable(&path) {
        checks.wrong("device file", format!("{path} may not be opened"), format!("chmod 666 {path}"));
    } else {
        checks.good("device file", path);
    }
}
