use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::facts::DataOrder;
use super::*;

/// A machine made of files.
struct Machine {
    dir: tempfile::TempDir,
    facts: Facts,
}

fn facts(root: &Path) -> Facts {
    let data_order = |_: &str, _: u8| Ok(DataOrder { is_in_order: true, text: "in order".to_owned() });
    Facts { root: root.to_owned(), variables: BTreeMap::new(), data_order, shm: None }
}

impl Machine {
    /// One without RDMA on which shared memory runs.
    fn new() -> Machine {
        let dir = tempfile::tempdir().expect("a directory");
        let space = Space { total: 8 << 30, free: 8 << 30 };
        let facts = Facts { shm: Some(space), ..facts(dir.path()) };
        let machine = Machine { dir, facts };
        machine.set("proc/sys/kernel/osrelease", "6.1.0-53-amd64");
        machine.set(
            "proc/meminfo",
            "MemTotal: 24689764 kB\nMemAvailable:   16312348 kB\nHugePages_Total:     128\nHugePages_Free:      128\nHugepagesize:       2048 kB\n",
        );
        machine.set("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc");
        machine.set("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet acpi_pm");
        machine.set("sys/devices/system/cpu/online", "0-7");
        machine.set("sys/devices/system/cpu/isolated", "");
        machine.set("sys/devices/system/cpu/nohz_full", "(null)");
        machine.set("proc/self/status", "Name:\tx\nCapEff:\t0000000000000000\n");
        machine.set(
            "proc/self/limits",
            "Limit  Soft Limit  Hard Limit  Units\nMax locked memory         unlimited            unlimited            bytes\n",
        );
        machine
    }

    fn set(&self, path: &str, text: &str) {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(path, format!("{text}\n")).expect("written");
    }

    fn remove(&self, path: &str) {
        let path = self.dir.path().join(path);
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.expect("removed");
    }

    fn with_library(self, provider: &str) -> Machine {
        self.set("usr/lib/x86_64-linux-gnu/libibverbs.so.1", "");
        self.set(&format!("usr/lib/x86_64-linux-gnu/libibverbs/lib{provider}-rdmav34.so"), "");
        self
    }

    fn with_device(self, device: &str, driver: &str, file: &str) -> Machine {
        let dir = format!("sys/class/infiniband/{device}");
        self.set(&format!("{dir}/fw_ver"), "22.43.1014");
        self.set(&format!("{dir}/hca_type"), "MT4125");
        self.set(&format!("{dir}/board_id"), "MT_0000000359");
        self.set(&format!("{dir}/device/numa_node"), "0");
        symlink(format!("../../bus/pci/drivers/{driver}"), self.dir.path().join(&dir).join("device/driver"))
            .expect("linked");
        self.set("sys/devices/system/node/node0/cpulist", "0-3");
        self.set(&format!("sys/class/infiniband_verbs/{file}/ibdev"), device);
        self.set(&format!("dev/infiniband/{file}"), "");
        self
    }

    /// A ConnectX on Ethernet with everything as it should be.
    fn roce() -> Machine {
        let machine = Machine::new().with_library("mlx5").with_device("mlx5_0", "mlx5_core", "uverbs0");
        let port = "sys/class/infiniband/mlx5_0/ports/1";
        machine.set(&format!("{port}/state"), "4: ACTIVE");
        machine.set(&format!("{port}/phys_state"), "5: LinkUp");
        machine.set(&format!("{port}/rate"), "100 Gb/sec (2X HDR)");
        machine.set(&format!("{port}/link_layer"), "Ethernet");
        let gids = [
            ("0", "fe80:0000:0000:0000:0e42:a1ff:fe00:0001", "IB/RoCE v1"),
            ("1", "fe80:0000:0000:0000:0e42:a1ff:fe00:0001", "RoCE v2"),
            ("2", "0000:0000:0000:0000:0000:ffff:0a00:0001", "IB/RoCE v1"),
            ("3", "0000:0000:0000:0000:0000:ffff:0a00:0001", "RoCE v2"),
            ("4", "0000:0000:0000:0000:0000:0000:0000:0000", ""),
        ];
        for (index, gid, kind) in gids {
            machine.set(&format!("{port}/gids/{index}"), gid);
            machine.set(&format!("{port}/gid_attrs/types/{index}"), kind);
            machine.set(&format!("{port}/gid_attrs/ndevs/{index}"), "ens1f0");
        }
        for name in ["out_of_sequence", "local_ack_timeout_err", "np_cnp_sent", "req_remote_access_errors"] {
            machine.set(&format!("{port}/hw_counters/{name}"), "0");
        }
        machine.set("sys/class/net/ens1f0/mtu", "9000");
        for priority in 0..8 {
            for side in ["roce_np", "roce_rp"] {
                machine.set(&format!("sys/class/net/ens1f0/ecn/{side}/enable/{priority}"), "1");
            }
        }
        machine.set("sys/devices/system/cpu/isolated", "3");
        machine.set("sys/devices/system/cpu/nohz_full", "3");
        machine.set("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "performance");
        machine
    }

    fn infiniband() -> Machine {
        let machine = Machine::new().with_library("mlx5").with_device("mlx5_0", "mlx5_core", "uverbs0");
        let port = "sys/class/infiniband/mlx5_0/ports/1";
        machine.set(&format!("{port}/state"), "4: ACTIVE");
        machine.set(&format!("{port}/phys_state"), "5: LinkUp");
        machine.set(&format!("{port}/link_layer"), "InfiniBand");
        machine.set(&format!("{port}/lid"), "0x12");
        machine.set(&format!("{port}/gids/0"), "fe80:0000:0000:0000:0e42:a103:0000:0001");
        machine
    }

    fn rxe() -> Machine {
        let machine = Machine::new().with_library("rxe");
        let dir = "sys/class/infiniband/rxe0";
        machine.set(&format!("{dir}/parent"), "v0");
        machine.set(&format!("{dir}/ports/1/state"), "4: ACTIVE");
        machine.set(&format!("{dir}/ports/1/phys_state"), "5: LinkUp");
        machine.set(&format!("{dir}/ports/1/link_layer"), "Ethernet");
        machine.set(&format!("{dir}/ports/1/gids/0"), "fe80:0000:0000:0000:0000:00ff:fe00:0001");
        machine.set(&format!("{dir}/ports/1/gids/1"), "0000:0000:0000:0000:0000:ffff:0a00:0001");
        machine.set(&format!("{dir}/ports/1/gid_attrs/types/0"), "RoCE v2");
        machine.set(&format!("{dir}/ports/1/gid_attrs/types/1"), "RoCE v2");
        machine.set(&format!("{dir}/ports/1/gid_attrs/ndevs/0"), "v0");
        machine.set(&format!("{dir}/ports/1/hw_counters/duplicate_request"), "7");
        machine.set(&format!("{dir}/ports/1/hw_counters/sent_pkts"), "99");
        machine.set("sys/class/infiniband_verbs/uverbs0/ibdev", "rxe0");
        machine.set("dev/infiniband/uverbs0", "");
        machine.set("sys/class/net/v0/mtu", "1500");
        machine
    }

    fn examine(&self, wants: &Wants) -> Report {
        let report = examine(&self.facts, wants);
        let text = report.to_string();
        for check in &report.checks {
            assert!(!check.found.is_empty() && !check.found.contains('\n'), "{text}");
            // Whatever is not as it should be comes with what to do.
            let needs = matches!(check.state, State::Wrong | State::Better);
            assert_eq!(needs, check.mend.is_some(), "{text}");
        }
        report
    }
}

fn pinned() -> Wants {
    Wants { pin: Some(3), ..Wants::default() }
}

fn verbs(device: Option<&str>, port: Option<u8>, gid_index: Option<u8>) -> Wants {
    let device = device.map(str::to_owned);
    Wants { carrier: Some(Carrier::Verbs { device, port, gid_index }), ..pinned() }
}

impl Report {
    #[track_caller]
    fn find(&self, name: &str) -> &Check {
        self.checks.iter().find(|check| check.name == name).unwrap_or_else(|| panic!("no {name}: {self}"))
    }

    #[track_caller]
    fn expect(&self, name: &str, state: State, found: &str, mend: &str) {
        let check = self.find(name);
        assert_eq!(check.state, state, "{self}");
        assert!(check.found.contains(found), "{check:?}");
        assert!(check.mend.as_deref().unwrap_or_default().contains(mend), "{check:?}");
    }
}

#[test]
fn a_machine_without_rdma_says_so_in_one_line_and_is_good() {
    let machine = Machine::new();
    let report = machine.examine(&Wants::default());
    assert!(report.good, "{report}");
    let about: Vec<&Check> = report.checks.iter().filter(|check| check.found.contains("RDMA")).collect();
    assert_eq!(about.len(), 1);
    report.expect("rdma", State::Absent, "`ringleader demo` and all tests work", "");
    assert!(report.checks.iter().all(|check| check.state != State::Wrong && check.subject == "machine"));
    // Nor does one that is asked for shared memory speak of RDMA; one that is asked for RDMA cannot.
    let shm = Wants { carrier: Some(Carrier::Shm), ..Wants::default() };
    assert!(!machine.examine(&shm).to_string().contains("RDMA"));
    assert!(Machine::roce().examine(&shm).checks.iter().all(|check| check.subject == "machine"));
    let report = machine.examine(&verbs(None, None, None));
    assert!(!report.good);
    report.expect("rdma", State::Wrong, "no RDMA device", "rdma link add rxe0");
}

#[test]
fn a_machine_that_says_nothing_at_all_is_not_accused() {
    let dir = tempfile::tempdir().expect("a directory");
    let facts = facts(dir.path());
    let report = examine(&facts, &Wants::default());
    assert!(report.good, "{report}");
}

#[test]
fn a_roce_machine_as_it_should_be() {
    let machine = Machine::roce();
    for wants in [pinned(), verbs(Some("mlx5_0"), Some(1), Some(3))] {
        let report = machine.examine(&wants);
        let other = report.checks.iter().find(|check| !matches!(check.state, State::Good | State::Absent));
        assert!(report.good && other.is_none(), "{report}");
        report.expect("link", State::Good, "Ethernet, ACTIVE, LinkUp, 100 Gb/sec", "");
        report.expect("gid", State::Good, "RoCEv2 3 (10.0.0.1), of 1 (fe80::", "");
        report.expect("mtu", State::Good, "ens1f0 has 9000, RDMA packets 4096", "");
        report.expect("firmware", State::Good, "22.43.1014", "");
        report.expect("device", State::Good, "driver mlx5_core, type MT4125", "");
        report.expect("pfc", State::Absent, "dcb pfc show dev ens1f0", "");
        report.expect("ecn", State::Good, "0 1 2 3 4 5 6 7", "");
        report.expect("counters", State::Good, "4 of 15, no trouble counted; absent: packet_seq_err", "");
        report.expect("processors", State::Good, "3 is isolated and without ticks", "");
        assert!(report.to_string().ends_with("nothing must be mended\n"));
    }
}

#[test]
fn what_is_wrong_with_a_roce_machine_comes_with_its_command() {
    let port = "sys/class/infiniband/mlx5_0/ports/1";
    let check = |spoil: &dyn Fn(&mut Machine), name: &str, state, found: &str, mend: &str| {
        let mut machine = Machine::roce();
        spoil(&mut machine);
        let report = machine.examine(&pinned());
        report.expect(name, state, found, mend);
        assert_eq!(report.good, state != State::Wrong, "{report}");
    };
    use State::{Absent, Better, Good, Wrong};
    check(&|m| m.set(&format!("{port}/state"), "1: DOWN"), "link", Wrong, "DOWN", "ip link set ens1f0 up");
    check(
        &|m| m.set(&format!("{port}/gid_attrs/types/3"), "IB/RoCE v1"),
        "gid",
        Better,
        "only of the link",
        "ip addr add",
    );
    check(
        &|m| {
            m.set(&format!("{port}/gid_attrs/types/1"), "IB/RoCE v1");
            m.set(&format!("{port}/gid_attrs/types/3"), "IB/RoCE v1");
        },
        "gid",
        Wrong,
        "no entry for RoCEv2",
        "ip addr add ADDRESS/24 dev ens1f0",
    );
    check(&|m| m.remove(&format!("{port}/gids")), "gid", Wrong, "empty", "ip addr add");
    check(&|m| m.set("sys/class/net/ens1f0/mtu", "1500"), "mtu", Better, "RDMA packets 1024", "mtu 9000");
    check(&|m| m.set("sys/class/net/ens1f0/mtu", "4192"), "mtu", Good, "RDMA packets 4096", "");
    check(&|m| m.set("sys/class/net/ens1f0/mtu", "4191"), "mtu", Better, "RDMA packets 2048", "");
    check(&|m| m.set("sys/class/net/ens1f0/mtu", "300"), "mtu", Wrong, "too small", "mtu 9000");
    check(&|m| m.remove("sys/class/net/ens1f0/ecn"), "ecn", Absent, "not to be read", "");
    check(
        &|m| {
            for priority in 0..8 {
                m.set(&format!("sys/class/net/ens1f0/ecn/roce_rp/enable/{priority}"), "0");
            }
        },
        "ecn",
        Better,
        "off",
        "ens1f0/ecn/roce_rp/enable/3",
    );
    let limits = "Max locked memory         8388608              8388608              bytes";
    check(
        &|m| m.set("proc/self/limits", limits),
        "memlock",
        Wrong,
        "8 MiB may be locked",
        "ulimit -l unlimited",
    );
    check(
        &|m| {
            m.set("proc/self/limits", limits);
            m.set("proc/self/status", "CapEff:\t000001ffffffffff");
        },
        "memlock",
        Good,
        "CAP_IPC_LOCK",
        "",
    );
    let some = "MemAvailable: 16312348 kB\nHugePages_Free: 3\nHugepagesize: 2048 kB";
    check(&|m| m.set("proc/meminfo", some), "huge pages", Better, "3 free", "sysctl -w vm.nr_hugepages=100");
    // Where small pages have 64 KiB the default huge ones have 512 MiB, which nobody asks for.
    let large = "MemAvailable: 16312348 kB\nHugePages_Free: 200\nHugepagesize: 524288 kB";
    let pool = "sys/kernel/mm/hugepages/hugepages-2048kB";
    let with_pool = |free: &'static str| {
        move |m: &mut Machine| {
            m.set("proc/meminfo", large);
            m.set(&format!("{pool}/free_hugepages"), free);
        }
    };
    check(
        &with_pool("3"),
        "huge pages",
        Better,
        "3 free of 2 MiB",
        "echo 100 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
    );
    check(&with_pool("100"), "huge pages", Good, "100 free of 2 MiB", "");
    check(&|m| m.set("proc/meminfo", large), "huge pages", Absent, "none of 2 MiB", "");
    check(&|m| m.set("proc/meminfo", "MemAvailable: 1000 kB"), "memory", Wrong, "1000 KiB free", "ring = ");
    let set = |variable: &'static str, value: &str| {
        let value = value.to_owned();
        move |m: &mut Machine| drop(m.facts.variables.insert(variable, value.clone()))
    };
    let relaxed = "MLX5_RELAXED_PACKET_ORDERING_ON";
    check(&set(relaxed, "1"), "ordering", Wrong, "=1 lets a completed WRITE", "unset MLX5_RELAXED");
    check(&set(relaxed, "all"), "ordering", Wrong, "=all", "unset MLX5_RELAXED");
    check(&set(relaxed, "0"), "ordering", Good, "not relaxed", "");
    check(&set("MLX5_SINGLE_THREADED", "1"), "ordering", Wrong, "unsafe to fence", "unset MLX5_SINGLE");
    check(
        &|m| m.facts.data_order = |_, _| Ok(DataOrder { is_in_order: false, text: "any".to_owned() }),
        "data order",
        Absent,
        "any: nothing depends on it",
        "",
    );
    check(&|m| m.facts.data_order = |_, _| Err("gone".to_owned()), "data order", Absent, "gone", "");
    let clock = "sys/devices/system/clocksource/clocksource0";
    check(
        &|m| m.set(&format!("{clock}/current_clocksource"), "hpet"),
        "clock",
        Better,
        "hpet",
        "echo tsc > /sys/devices",
    );
    check(
        &|m| {
            m.set(&format!("{clock}/current_clocksource"), "acpi_pm");
            m.set(&format!("{clock}/available_clocksource"), "acpi_pm");
        },
        "clock",
        Better,
        "acpi_pm",
        "boot with",
    );
    check(
        &|m| m.set("sys/devices/system/cpu/isolated", ""),
        "processors",
        Better,
        "is not isolated",
        "isolcpus=3",
    );
    check(&|m| m.set("sys/devices/system/cpu/online", "0-2"), "processors", Wrong, "pin = 3", "0-2");
    check(
        &|m| m.set("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "powersave"),
        "governor",
        Better,
        "powersave",
        "cpupower",
    );
    check(&|m| m.set("sys/devices/system/node/node0/cpulist", "4-7"), "numa", Better, "not on", "4-7");
    check(&|m| m.set("proc/sys/kernel/osrelease", "4.19.0"), "kernel", Wrong, "4.19.0", "5.3");
    let lib = "usr/lib/x86_64-linux-gnu";
    check(
        &|m| m.remove(&format!("{lib}/libibverbs.so.1")),
        "libibverbs",
        Wrong,
        "not found",
        "apt install libibverbs1",
    );
    check(
        &|m| m.remove(&format!("{lib}/libibverbs")),
        "device",
        Wrong,
        "provider",
        "apt install ibverbs-providers",
    );
    check(
        &|m| m.remove("dev/infiniband/uverbs0"),
        "device file",
        Wrong,
        "is missing",
        "--device=/dev/infiniband/uverbs0",
    );
    check(
        &|m| m.remove("sys/class/infiniband_verbs"),
        "device file",
        Wrong,
        "has none",
        "modprobe ib_uverbs",
    );
    check(
        &|m| m.set(&format!("{port}/hw_counters/out_of_sequence"), "5"),
        "counters",
        Good,
        "counted: out_of_sequence 5",
        "",
    );
    check(&|m| m.remove(&format!("{port}/hw_counters")), "counters", Absent, "none", "");
    check(
        &|m| m.facts.shm = Some(Space { total: 64 << 20, free: 60 << 20 }),
        "/dev/shm",
        Better,
        "60 MiB",
        "remount",
    );
}

#[test]
fn a_dpus_counters_are_the_devices() {
    let machine = Machine::roce();
    machine.remove("sys/class/infiniband/mlx5_0/ports/1/hw_counters");
    machine.set("sys/class/infiniband/mlx5_0/hw_counters/out_of_sequence", "2");
    machine.examine(&pinned()).expect("counters", State::Good, "1 of 15, counted: out_of_sequence 2", "");
}

#[test]
fn what_is_asked_for_and_not_there_is_named() {
    let machine = Machine::roce();
    let report = machine.examine(&verbs(Some("mlx5_7"), None, None));
    report.expect("device", State::Wrong, "no mlx5_7", "mlx5_0 port 1");
    let report = machine.examine(&verbs(Some("mlx5_0"), Some(2), None));
    report.expect("device", State::Wrong, "no mlx5_0 port 2", "mlx5_0 port 1");
    let report = machine.examine(&verbs(None, None, Some(2)));
    report.expect("gid", State::Wrong, "gid_index = 2 is no entry for RoCEv2", "3 (10.0.0.1)");
}

#[test]
fn the_first_active_port_is_taken_and_the_others_are_only_named() {
    let machine = Machine::roce();
    machine.set("sys/class/infiniband/mlx5_0/ports/2/state", "1: DOWN");
    machine.set("sys/class/infiniband/abc_0/ports/1/state", "1: DOWN");
    let report = machine.examine(&pinned());
    assert!(report.good, "{report}");
    let of = |subject: &str| report.checks.iter().filter(|check| check.subject == subject).count();
    assert_eq!((of("mlx5_0 port 2"), of("abc_0 port 1")), (1, 1), "{report}");
    assert!(of("mlx5_0 port 1") > 5);
}

#[test]
fn infiniband_needs_a_subnet_manager_and_no_ethernet() {
    let machine = Machine::infiniband();
    let report = machine.examine(&Wants::default());
    assert!(report.good, "{report}");
    report.expect("link", State::Good, "InfiniBand, ACTIVE", "");
    report.expect("lid", State::Good, "0x12", "");
    assert!(
        report.checks.iter().all(|check| !["gid", "mtu", "pfc", "ecn"].contains(&check.name)),
        "{report}"
    );
    machine.set("sys/class/infiniband/mlx5_0/ports/1/state", "2: INIT");
    machine.set("sys/class/infiniband/mlx5_0/ports/1/lid", "0x0");
    let report = machine.examine(&Wants::default());
    assert!(!report.good);
    report.expect("link", State::Wrong, "INIT", "opensm");
    report.expect("lid", State::Wrong, "no address", "opensm");
}

#[test]
fn a_software_nic_is_one_too() {
    let machine = Machine::rxe();
    let report = machine.examine(&Wants::default());
    assert!(report.good, "{report}");
    report.expect("device", State::Good, "driver rxe", "");
    report.expect("firmware", State::Absent, "none", "");
    report.expect("gid", State::Good, "RoCEv2 1 (10.0.0.1)", "");
    report.expect("mtu", State::Good, "v0 has 1500, RDMA packets 1024", "");
    report.expect("counters", State::Good, "2 of 15, counted: duplicate_request 7; absent: rcvd_pkts", "");
    assert!(report.checks.iter().all(|check| !["pfc", "ecn", "numa"].contains(&check.name)), "{report}");
}

#[test]
fn too_little_shared_memory_is_wrong_where_nothing_else_is() {
    let mut machine = Machine::new();
    machine.facts.shm = Some(Space { total: 64 << 20, free: 64 << 20 });
    let report = machine.examine(&Wants::default());
    assert!(!report.good);
    report.expect("/dev/shm", State::Wrong, "64 MiB free of 64 MiB", "--shm-size=1024m");
    let small = Wants { ring_len: Some(1 << 20), ..Wants::default() };
    assert!(machine.examine(&small).good);
}

#[test]
fn a_device_file_that_may_not_be_opened_is_told() {
    let machine = Machine::roce();
    let file = machine.dir.path().join("dev/infiniband/uverbs0");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).expect("changed");
    let state = machine.examine(&pinned()).find("device file").state;
    // Root may open anything.
    assert!(if rustix::process::geteuid().is_root() { state == State::Good } else { state == State::Wrong });
}

#[test]
fn a_report_is_json_too() {
    let json = serde_json::to_value(Machine::rxe().examine(&Wants::default())).expect("JSON");
    assert_eq!(json["good"], true);
    let first = &json["checks"][0];
    assert_eq!((first["name"].as_str(), first["state"].as_str()), (Some("kernel"), Some("good")));
    assert!(first.get("mend").is_none());
}
