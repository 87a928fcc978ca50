//! The checks of any machine: system, memory, processors, clock.

use super::facts::{Facts, count, has};
use super::{Checks, Wants, mib};
use crate::fabric::HUGE_PAGE;

/// `CAP_IPC_LOCK` (capabilities(7)).
const CAP_IPC_LOCK: u32 = 14;

/// `is_rdma`: with those that only RDMA asks for.
pub(super) fn check(facts: &Facts, wants: &Wants, is_rdma: bool, checks: &mut Checks) {
    kernel(facts, checks);
    memory(facts, wants, checks);
    shared_memory(facts, wants, is_rdma, checks);
    clock(facts, checks);
    processors(facts, wants, is_rdma, checks);
    if is_rdma {
        locked_memory(facts, wants, checks);
        huge_pages(facts, wants, checks);
        governor(facts, wants, checks);
    }
}

fn kernel(facts: &Facts, checks: &mut Checks) {
    let Some(release) = facts.text("proc/sys/kernel/osrelease") else {
        return checks.absent("kernel", "its release cannot be read");
    };
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= (5, 3) {
        checks.good("kernel", release);
    } else {
        checks.wrong("kernel", format!("{release} is too old"), "install Linux 5.3 or newer");
    }
}

fn memory(facts: &Facts, wants: &Wants, checks: &mut Checks) {
    let needed = wants.memory_len();
    match meminfo(facts, "MemAvailable") {
        None => checks.absent("memory", "how much is free cannot be read"),
        Some(free) if free >= needed => {
            checks.good("memory", format!("{} free, a node needs {}", mib(free), mib(needed)));
        }
        Some(free) => checks.wrong(
            "memory",
            format!("{} free, and a node needs {}", mib(free), mib(needed)),
            "take a smaller ring, as in ring = \"16M\"",
        ),
    }
}

fn shared_memory(facts: &Facts, wants: &Wants, is_rdma: bool, checks: &mut Checks) {
    // The demo has three nodes.
    let needed = 3 * wants.region_len();
    let more = needed.next_power_of_two().max(1 << 30) >> 20;
    let mend =
        format!("mount -o remount,size={more}m /dev/shm (in a container: docker run --shm-size={more}m)");
    match facts.shm {
        Some(space) if space.free >= needed => checks.good(
            "/dev/shm",
            format!("{} free of {}, three nodes need {}", mib(space.free), mib(space.total), mib(needed)),
        ),
        Some(space) => {
            let found = format!(
                "{} free of {}, and three nodes of fabric = \"shm\" need {}",
                mib(space.free),
                mib(space.total),
                mib(needed)
            );
            if is_rdma {
                checks.better("/dev/shm", found, mend)
            } else {
                checks.wrong("/dev/shm", found, mend)
            }
        }
        None if is_rdma => checks.absent("/dev/shm", "not there: fabric = \"shm\" has to use a disk"),
        None => checks.better(
            "/dev/shm",
            "not there: fabric = \"shm\" has to use a disk, which is slow",
            "mount -t tmpfs -o size=1g tmpfs /dev/shm",
        ),
    }
}

fn clock(facts: &Facts, checks: &mut Checks) {
    const DIR: &str = "sys/devices/system/clocksource/clocksource0";
    let Some(current) = facts.text(&format!("{DIR}/current_clocksource")) else {
        return checks.absent("clock", "its source cannot be read");
    };
    // These are read in the process, in some tens of nanoseconds; others are asked of the kernel, or of a chip.
    const FAST: [&str; 4] = ["tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page"];
    if FAST.contains(&current.as_str()) {
        return checks.good("clock", current);
    }
    let available = facts.text(&format!("{DIR}/available_clocksource")).unwrap_or_default();
    let faster = FAST.iter().find(|name| available.split_whitespace().any(|other| other == **name));
    checks.better(
        "clock",
        format!("{current}: each look at it may take microseconds"),
        match faster {
            Some(name) => format!("echo {name} > /{DIR}/current_clocksource"),
            None => "boot with clocksource=tsc tsc=reliable, where the processor's counter is invariant"
                .to_owned(),
        },
    );
}

fn processors(facts: &Facts, wants: &Wants, is_rdma: bool, checks: &mut Checks) {
    const DIR: &str = "sys/devices/system/cpu";
    let Some(online) = facts.text(&format!("{DIR}/online")) else {
        return checks.absent("processors", "cannot be read");
    };
    let isolated = facts.text(&format!("{DIR}/isolated")).unwrap_or_default();
    let quiet = facts.text(&format!("{DIR}/nohz_full")).unwrap_or_default();
    match wants.pin {
        Some(pin) if !has(&online, pin) => {
            return checks.wrong(
                "processors",
                format!("pin = {pin}, and online are {online}"),
                format!("choose one of {online}"),
            );
        }
        Some(pin) if has(&isolated, pin) && has(&quiet, pin) => {
            return checks
                .good("processors", format!("{pin} is isolated and without ticks (online: {online})"));
        }
        Some(pin) => {
            let what = match (has(&isolated, pin), has(&quiet, pin)) {
                (true, _) => "has the scheduler's ticks",
                (_, true) => "is not isolated",
                _ => "is not isolated, and has the scheduler's ticks",
            };
            return checks.better(
                "processors",
                format!("pin = {pin}: the processor {what}"),
                format!("boot with isolcpus={pin} nohz_full={pin} rcu_nocbs={pin}"),
            );
        }
        None => {}
    }
    let all = count(&online);
    if is_rdma && count(&isolated) == 0 {
        // The first keeps the system's own work.
        let last = all.saturating_sub(1);
        checks.better(
            "processors",
            format!("{all} online, none isolated: others' work delays the agent"),
            format!("boot with isolcpus={last} nohz_full={last} rcu_nocbs={last}, and say pin = {last}"),
        );
    } else if isolated.is_empty() {
        checks.good("processors", format!("{all} online"));
    } else {
        checks.good("processors", format!("{all} online, isolated: {isolated}"));
    }
}

fn governor(facts: &Facts, wants: &Wants, checks: &mut Checks) {
    let cpu = wants.pin.unwrap_or(0);
    let path = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
    match facts.text(&path).as_deref() {
        None => checks.absent("governor", "the frequency is not governed here"),
        Some("performance") => checks.good("governor", format!("performance (processor {cpu})")),
        Some(other) => checks.better(
            "governor",
            format!("{other} (processor {cpu}): it slows down between two entries"),
            "cpupower frequency-set -g performance",
        ),
    }
}

/// Registered memory is locked; the kernel refuses to register more than the limit.
fn locked_memory(facts: &Facts, wants: &Wants, checks: &mut Checks) {
    let capable = facts.text("proc/self/status").and_then(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?.trim().to_owned();
        u64::from_str_radix(&line, 16).ok()
    });
    if capable.is_some_and(|capable| capable >> CAP_IPC_LOCK & 1 == 1) {
        return checks.good("memlock", "without limit (CAP_IPC_LOCK)");
    }
    let limit = facts.text("proc/self/limits").and_then(|limits| {
        let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?.to_owned();
        line.split_whitespace().next().map(str::to_owned)
    });
    let needed = wants.locked_len();
    match limit.as_deref() {
        None => checks.absent("memlock", "the limit cannot be read"),
        Some("unlimited") => checks.good("memlock", "without limit"),
        Some(limit) => match limit.parse::<u64>() {
            Ok(limit) if limit >= needed => {
                checks.good("memlock", format!("{}, a node needs {}", mib(limit), mib(needed)));
            }
            Ok(limit) => checks.wrong(
                "memlock",
                format!("{} may be locked, and a node needs {}", mib(limit), mib(needed)),
                "ulimit -l unlimited (systemd: LimitMEMLOCK=infinity; for users: memlock in /etc/security/limits.conf)",
            ),
            Err(_) => checks.absent("memlock", format!("the limit is {limit:?}")),
        },
    }
}

/// Those that a fabric asks for. What /proc/meminfo counts are pages of the kernel's default size, which may be another one.
fn huge_pages(facts: &Facts, wants: &Wants, checks: &mut Checks) {
    let pool = format!("sys/kernel/mm/hugepages/hugepages-{}kB", HUGE_PAGE >> 10);
    let is_default = meminfo(facts, "Hugepagesize") == Some(HUGE_PAGE);
    let free = facts.text(&format!("{pool}/free_hugepages")).and_then(|free| free.parse::<u64>().ok());
    let free = free.or_else(|| is_default.then(|| meminfo_count(facts, "HugePages_Free"))?);
    let Some(free) = free else {
        return checks.absent("huge pages", format!("the kernel has none of {}", mib(HUGE_PAGE)));
    };
    let needed = wants.huge_pages();
    let found = format!("{free} free of {}", mib(HUGE_PAGE));
    if free >= needed {
        return checks.good("huge pages", format!("{found}, a node needs {needed}"));
    }
    let mend = if is_default {
        format!("sysctl -w vm.nr_hugepages={needed} (more for several nodes; for good: /etc/sysctl.d)")
    } else {
        format!(
            "echo {needed} > /{pool}/nr_hugepages (more for several nodes; for good: boot with hugepagesz=2M hugepages={needed})"
        )
    };
    checks.better(
        "huge pages",
        format!("{found}, and a node needs {needed}: small ones cost the NIC translations"),
        mend,
    );
}

/// A line of /proc/meminfo in bytes.
fn meminfo(facts: &Facts, name: &str) -> Option<u64> {
    let value = meminfo_line(facts, name)?;
    value.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// One that counts.
fn meminfo_count(facts: &Facts, name: &str) -> Option<u64> {
    meminfo_line(facts, name)?.parse().ok()
}

fn meminfo_line(facts: &Facts, name: &str) -> Option<String> {
    let text = facts.text("proc/meminfo")?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(value.trim().to_owned())
}
