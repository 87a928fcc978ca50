//! The hard fence: a host that hangs while it leads is cut off from the network, where the operator allows that.
//!
//! It is not needed for safety: every acceptor fences a leader that is deposed. It keeps a host whose NIC may still send what it was
//! told from loading the network with what will be refused. Its port at the embedded switch is taken down; for a representor of mlx5 the
//! kernel then sets the port's administrative state, which stops RDMA too (`mlx5e_rep_close`,
//! drivers/net/ethernet/mellanox/mlx5/core/en_rep.c). It is taken up again when another term has come, for then the host leads
//! nothing, and when this ends.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use ringleader::{HostState, Status};
use tracing::{error, warn};

/// See the module.
#[derive(Debug)]
pub struct HostFence {
    /// The term in which the host was last seen to lead.
    led: Option<u64>,
    /// The term in which it was cut off, as long as it is.
    cut: Option<u64>,
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

/// What the port is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    Down,
    Up,
}

impl HostFence {
    /// For the host behind that network device. An error when there is no `ip` (iproute2) to do it with, or no such device.
    pub fn new(device: &str) -> Result<HostFence, String> {
        if !Path::new("/sys/class/net").join(device).exists() {
            return Err(format!("representor {device}: there is no such network device"));
        }
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let ip = std::env::split_paths(&paths).map(|dir| dir.join("ip")).find(|ip| ip.is_file());
        let ip =
            ip.ok_or("fence_host = \"representor\" takes the command ip (iproute2), which is not in PATH")?;
        HostFence::with(ip, device)
    }

    /// With that command in the place of `ip`.
    fn with(ip: PathBuf, device: &str) -> Result<HostFence, String> {
        let (orders, receiver) = mpsc::channel();
        let device = device.to_owned();
        // A command takes its time, which whoever looks after the acceptor has not.
        let carry_out = move || {
            for order in receiver {
                carry_out(&ip, &device, order);
            }
        };
        let thread = thread::Builder::new().name("fence".to_owned()).spawn(carry_out);
        let thread = thread.map_err(|error| format!("a thread for the fence: {error}"))?;
        Ok(HostFence { led: None, cut: None, orders: Some(orders), thread: Some(thread) })
    }

    /// Looks at the acceptor.
    pub fn look(&mut self, status: &Status) {
        if self.cut.is_some_and(|term| term != status.term) {
            self.cut = None;
            self.order(Order::Up);
        }
        match status.host {
            Some(HostState { leads: true, .. }) => self.led = Some(status.term),
            // Whoever died in another term leads nothing.
            Some(HostState { alive: false, .. })
                if self.led.take() == Some(status.term) && self.cut.is_none() =>
            {
                self.cut = Some(status.term);
                self.order(Order::Down);
            }
            _ => {}
        }
    }

    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            // It lives as long as this.
            let _ = orders.send(order);
        }
    }
}

impl Drop for HostFence {
    fn drop(&mut self) {
        if self.cut.is_some() {
            self.order(Order::Up);
        }
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn carry_out(ip: &Path, device: &str, order: Order) {
    let state = match order {
        Order::Down => "down",
        Order::Up => "up",
    };
    let ran = Command::new(ip).args(["link", "set", "dev", device, state]).stdin(Stdio::null()).output();
    match ran {
        Ok(output) if output.status.success() => match order {
            Order::Down => warn!(device, "the host hangs while it leads: it is cut off"),
            Order::Up => warn!(device, "the host is no leader any more: it is let back"),
        },
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            error!(device, state, status = %output.status, said = said.trim(), "the port of the host was not changed");
        }
        Err(error) => error!(device, state, %error, "the port of the host was not changed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// An `ip` that writes down what it was told.
    fn pretender(dir: &Path) -> PathBuf {
        let ip = dir.join("ip");
        fs::write(&ip, format!("#!/bin/sh\necho \"$@\" >> {}/told\n", dir.display())).expect("written");
        fs::set_permissions(&ip, fs::Permissions::from_mode(0o755)).expect("set");
        ip
    }

    fn told(dir: &Path) -> Vec<String> {
        let text = fs::read_to_string(dir.join("told")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn status(term: u64, alive: bool, leads: bool) -> Status {
        let mut host = HostState::default();
        (host.alive, host.leads, host.boot) = (alive, leads, 7);
        Status { term, host: Some(host), ..Status::default() }
    }

    #[test]
    fn a_host_that_hangs_while_it_leads_is_cut_off_until_another_term_comes() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut fence = HostFence::with(pretender(dir.path()), "pf0hpf").expect("started");
        for seen in
            [status(3, true, false), status(3, true, true), status(3, false, false), status(3, false, false)]
        {
            fence.look(&seen);
        }
        fence.look(&status(4, false, false));
        // It comes back, and leads nothing.
        fence.look(&status(4, true, false));
        fence.look(&status(4, false, false));
        drop(fence);
        assert_eq!(told(dir.path()), ["link set dev pf0hpf down", "link set dev pf0hpf up"]);
    }

    #[test]
    fn it_is_let_back_when_the_fence_ends() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut fence = HostFence::with(pretender(dir.path()), "pf0hpf").expect("started");
        fence.look(&status(1, true, true));
        fence.look(&status(1, false, false));
        drop(fence);
        assert_eq!(told(dir.path()), ["link set dev pf0hpf down", "link set dev pf0hpf up"]);
    }

    #[test]
    fn a_host_that_follows_is_left_alone_and_what_is_not_there_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut fence = HostFence::with(pretender(dir.path()), "pf0hpf").expect("started");
        for seen in
            [status(1, true, true), status(2, true, false), status(2, false, false), Status::default()]
        {
            fence.look(&seen);
        }
        drop(fence);
        assert!(told(dir.path()).is_empty());
        assert!(HostFence::new("no-such-port").expect_err("not there").contains("no-such-port"));
    }
}
