use proptest::prelude::*;

use super::*;

const SHM: &str = r#"group = "orders"
node = 2
members = [3, 1, 2]
fabric = "shm"

[shm]
directory = "/dev/shm/orders"
"#;

const VERBS: &str = r#"group = "orders"
node = 1
fabric = "verbs"

[members]
1 = "10.0.0.1:7400"
2 = "[fd00::2]:7400"
3 = "three.example:7400"

[verbs]
key_file = "orders.key"
"#;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(Path::new("/etc/ringleader/node.toml"), text, None)
}

/// What is said of `text` when `from` is replaced; without the file's name.
#[track_caller]
fn said(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from}");
    let said = parse(&text.replacen(from, to, 1)).expect_err("refused").to_string();
    assert!(!said.contains('\n'), "{said}");
    let rest = said.strip_prefix("/etc/ringleader/node.toml:").expect("begins with the file");
    rest.trim_start().to_owned()
}

#[test]
fn what_is_not_said_has_its_default() {
    let config = parse(SHM).expect("right");
    assert_eq!(config.group.as_str(), "orders");
    assert_eq!((config.node, &config.members[..]), (2, &[1, 2, 3][..]));
    assert_eq!((config.timing, config.ring_len, config.pin), (Profile::Local, 64 << 20, None));
    assert_eq!((config.quorum, config.idle, config.notify), (Quorum::Live, Idle::Adaptive, Notify::Poll));
    assert_eq!(config.confirm, Confirm::Completion);
    assert_eq!(config.control, Path::new("/dev/shm/orders/node-2.control"));
    let options = config.shm_options().expect("of shared memory");
    assert_eq!((options.dir.to_str(), options.node), (Some("/dev/shm/orders"), 2));
    let config = parse(VERBS).expect("right");
    assert_eq!(config.timing, Profile::Hardware);
    assert_eq!(config.control, Path::new("/run/ringleader/orders-1.control"));
    assert!(config.shm_options().is_none());
    let Fabric::Verbs(verbs) = &config.fabric else { panic!("verbs") };
    assert_eq!(verbs.listen, "10.0.0.1:7400".parse().expect("an address"));
    assert_eq!(verbs.key_file, Path::new("/etc/ringleader/orders.key"));
    assert_eq!((&verbs.device, verbs.port, verbs.gid_index), (&None, None, None));
}

#[test]
#[cfg(feature = "verbs")]
fn a_node_on_rdma_gets_all_addresses() {
    let config = parse(VERBS).expect("right");
    let options = config.verbs_options(Key::from_bytes([1; 32])).expect("verbs");
    let crate::Transport::Verbs(verbs) = options.transport else { panic!("verbs") };
    let peers: Vec<Option<&str>> = verbs.addresses[..4].iter().map(Option::as_deref).collect();
    assert_eq!(peers[0], None);
    assert_eq!(peers[2..], [Some("[fd00::2]:7400"), Some("three.example:7400")]);
    assert!(parse(SHM).expect("right").verbs_options(Key::from_bytes([1; 32])).is_none());
}

#[test]
fn everything_can_be_said() {
    let text = VERBS.replace(
        "fabric = \"verbs\"\n",
        "fabric = \"verbs\"\ntiming = \"soft-roce\"\nring = 1048576\nsnapshot = \"128M\"\nquorum = \"stored\"\nidle = \"busy\"\npin = 3\n\
         notify = \"imm\"\nconfirm = \"readback\"\ncontrol = \"run/one\"\n",
    ) + "listen = \"0.0.0.0:7401\"\ndevice = \"mlx5_0\"\nport = 2\ngid_index = 3\n";
    let config = parse(&text).expect("right");
    assert_eq!((config.timing, config.ring_len, config.pin), (Profile::SoftRoce, 1 << 20, Some(3)));
    assert_eq!((config.quorum, config.idle, config.notify), (Quorum::Stored, Idle::Busy, Notify::Imm));
    assert_eq!((config.confirm, config.snapshot_len), (Confirm::Readback, Some(128 << 20)));
    assert_eq!(config.control, Path::new("/etc/ringleader/run/one"));
    let Fabric::Verbs(verbs) = config.fabric else { panic!("verbs") };
    assert_eq!((verbs.device.as_deref(), verbs.port, verbs.gid_index), (Some("mlx5_0"), Some(2), Some(3)));
    assert_eq!(verbs.listen.port(), 7401);
}

#[test]
fn one_file_serves_all_nodes() {
    let text = SHM.replace("node = 2\n", "");
    let path = Path::new("group.toml");
    assert_eq!(Config::parse(path, &text, Some(3)).expect("right").node, 3);
    assert_eq!(Config::parse(path, SHM, Some(3)).expect("right").node, 3);
    let said = |node| Config::parse(path, &text, node).expect_err("refused").to_string();
    assert_eq!(said(None), "group.toml: which node is this? Say node = N here, or --node N");
    assert_eq!(said(Some(4)), "group.toml: node 4 is not among the members 1, 2, 3");
}

#[test]
fn unknown_names_come_with_line_and_suggestion() {
    assert_eq!(said(SHM, "node = 2", "nood = 2"), "2: unknown key \"nood\": did you mean \"node\"?");
    assert_eq!(
        said(SHM, "directory", "directroy"),
        "7: unknown key \"directroy\": did you mean \"directory\"?"
    );
    assert_eq!(said(SHM, "\"shm\"", "\"smh\""), "4: unknown value \"smh\": did you mean \"shm\"?");
    assert_eq!(
        said(VERBS, "key_file = \"orders.key\"", "key_file = \"k\"\ngid_indx = 3"),
        "12: unknown key \"gid_indx\": did you mean \"gid_index\"?"
    );
    assert_eq!(
        said(SHM, "node = 2", "node = 2\ntiming = \"hardwear\""),
        "3: unknown value \"hardwear\": did you mean \"hardware\"?"
    );
    assert_eq!(
        said(SHM, "fabric = \"shm\"", "fabric = \"carrier pigeon\""),
        "4: unknown value \"carrier pigeon\": there are verbs, shm"
    );
}

#[test]
fn every_mistake_is_one_line_that_names_it() {
    let shm = |from, to| said(SHM, from, to);
    let verbs = |from, to| said(VERBS, from, to);
    assert_eq!(shm("node = 2", "node = 4"), "2: node 4 is not among the members 1, 2, 3");
    assert_eq!(shm("node = 2", "node = -1"), "2: node -1 is not among the members 1, 2, 3");
    assert!(shm("node = 2", "node = \"2\"").starts_with("2: invalid type: string"));
    assert!(shm("node = 2", "node = ").starts_with("2: "));
    assert!(shm("node = 2", "node = 2\nnode = 3").starts_with("3: duplicate key"));
    assert_eq!(shm("group = \"orders\"\n", ""), "the key \"group\" is missing");
    assert_eq!(shm("directory = \"/dev/shm/orders\"\n", ""), "the key \"directory\" is missing");
    assert!(shm("\"orders\"", "\"or ders\"").starts_with("1: group \"or ders\": a name has 1 to 32"));
    assert_eq!(shm("[3, 1, 2]", "[3, 1, 2, 16]"), "3: member 16 is no node id: they are 1 to 15");
    assert_eq!(shm("[3, 1, 2]", "[3, 1, 2, 3]"), "3: member 3 is named twice");
    assert_eq!(shm("[3, 1, 2]", "[]"), "3: a group has members");
    assert!(shm("[3, 1, 2]", "7").starts_with("3: invalid type: integer `7`, expected a list of node ids"));
    assert!(shm("[3, 1, 2]", "{ 1 = \"a:1\" }").starts_with("3: members have no addresses"));
    assert_eq!(
        shm("node = 2", "node = 2\nring = \"3M\""),
        "3: a ring of 3145728 bytes: the length is a power of two from 512K to 16G"
    );
    assert!(
        shm("node = 2", "node = 2\nsnapshot = 1000")
            .starts_with("3: a snapshot of 1000 bytes: the length is a multiple of 64K")
    );
    assert!(shm("node = 2", "node = 2\nring = \"big\"").starts_with("3: \"big\" is no length in bytes"));
    assert!(shm("node = 2", "node = 2\nring = -5").starts_with("3: -5 is no length"));
    assert!(shm("node = 2", "node = 2\npin = -5").starts_with("3: "));
    let hope = shm("node = 2", "node = 2\nconfirm = \"hope\"");
    assert_eq!(hope, "3: unknown value \"hope\": there are completion, readback");
    assert!(shm("[shm]\ndirectory = \"/dev/shm/orders\"", "").contains("needs a table [shm]"));
    assert!(shm("[shm]", "[verbs]\nkey_file = \"k\"\n[shm]").starts_with("6: [verbs] has no meaning"));
    let long = format!("control = \"/{}\"\n[shm]", "x".repeat(120));
    assert!(shm("[shm]", &long).starts_with("6: control /xxx"));
    assert!(verbs("[verbs]\nkey_file = \"orders.key\"", "").contains("needs a table [verbs]"));
    assert!(verbs("[verbs]", "[shm]\ndirectory = \"d\"\n[verbs]").starts_with("10: [shm] has no meaning"));
    assert!(verbs("10.0.0.1:7400", "10.0.0.1").starts_with("6: member 1: \"10.0.0.1\" is no address:port"));
    assert!(verbs("[fd00::2]", "10.0.0.1").starts_with("7: members 1 and 2 have the same address"));
    assert!(verbs("2 =", "two =").starts_with("7: member \"two\" is no node id"));
    assert!(
        verbs("node = 1", "node = 3")
            .starts_with("5: node 3 has a name for an address, \"three.example:7400\"")
    );
    assert!(verbs("key_file", "port = 0\nkey_file").starts_with("11: port 0"));
    assert!(verbs("key_file", "port = 256\nkey_file").starts_with("11: "));
    assert!(verbs("key_file", "device = \"/dev/x\"\nkey_file").starts_with("11: \"/dev/x\" is no name"));
    assert!(verbs("key_file", "listen = \"x\"\nkey_file").starts_with("11: listen \"x\""));
    let list = VERBS.replace(
        "[members]\n1 = \"10.0.0.1:7400\"\n2 = \"[fd00::2]:7400\"\n3 = \"three.example:7400\"\n",
        "",
    );
    let said = said(&list, "node = 1\n", "node = 1\nmembers = [1, 2, 3]\n");
    assert!(said.starts_with("3: members need addresses with fabric = \"verbs\""), "{said}");
}

#[test]
fn a_file_that_is_none_is_named() {
    let said = Config::read(Path::new("/nowhere/node.toml"), None).expect_err("not there").to_string();
    assert!(said.starts_with("/nowhere/node.toml: No such file"), "{said}");
    assert!(Config::read(Path::new("/dev/zero"), None).is_err());
    assert!(Config::read(Path::new("/"), None).is_err());
}

#[test]
fn the_examples_are_right() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples");
    for (name, nodes) in [("shm.toml", 3), ("verbs.toml", 3)] {
        for node in 1..=nodes {
            let config = Config::read(&examples.join(name), Some(node)).expect(name);
            assert_eq!((config.node, config.members.len()), (node, usize::from(nodes)));
        }
    }
    let packaged = Config::read(&examples.join("../../packaging/deb/node.toml"), None).expect("right");
    assert_eq!(packaged.health, Some("127.0.0.1:7490".parse().expect("an address")));
}

proptest::proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Lines of right files, left out, doubled, moved and bent: an answer, in one line, and never a panic.
    #[test]
    fn no_text_makes_it_panic(
        picks in prop::collection::vec((0_usize..30, 0_usize..40, prop::char::any(), any::<bool>()), 0..30),
        wild in ".{0,200}",
    ) {
        let lines: Vec<&str> = SHM.lines().chain(VERBS.lines()).collect();
        let mut text = String::new();
        for (pick, at, with, bend) in picks {
            let mut line: Vec<char> = lines[pick % lines.len()].chars().collect();
            if bend && let Some(place) = line.get_mut(at) {
                *place = with;
            }
            text.extend(line);
            text.push('\n');
        }
        for text in [text, wild] {
            if let Err(error) = parse(&text) {
                let said = error.to_string();
                prop_assert!(said.starts_with("/etc/ringleader/node.toml") && !said.contains('\n'), "{}", said);
            }
        }
    }
}

#[test]
fn lease_reads_are_off_unless_a_drift_is_named_that_can_be() {
    let with = |line: &str| SHM.replace("fabric =", &format!("{line}\nfabric ="));
    assert_eq!(parse(SHM).expect("right").lease_reads, None);
    let config = parse(&with("lease_reads_if_clocks_drift_below_ppm = 200")).expect("right");
    assert_eq!(config.lease_reads.map(|reads| reads.clocks_drift_below_ppm), Some(200));
    assert_eq!(config.shm_options().expect("shared memory").lease_reads, config.lease_reads);
    for wrong in ["0", "500000"] {
        let line = format!("lease_reads_if_clocks_drift_below_ppm = {wrong}\nfabric =");
        let said = said(SHM, "fabric =", &line);
        assert_eq!(said, format!("4: a drift of {wrong} parts per million: it is from 1 to 499999"));
    }
}

#[test]
fn clients_are_served_on_loopback_unless_there_is_a_password() {
    let by_default = parse(SHM).expect("right").kv;
    assert_eq!(by_default.listen, "127.0.0.1:7002".parse().expect("an address"));
    assert_eq!(by_default.addresses[&3], "127.0.0.1:7003");
    assert_eq!(
        (by_default.addresses.len(), by_default.password_file, by_default.max_clients),
        (3, None, 10_000)
    );
    let table = "[kv.addresses]\n1 = \"10.0.0.1:7001\"\n2 = \"two.example:7001\"\n3 = \"10.0.0.3:7001\"\n";
    let with = |kv: &str| format!("{SHM}\n[kv]\n{kv}\n{table}");
    let right = with("listen = \"0.0.0.0:7001\"\npassword_file = \"secret\"\nmax_clients = 5");
    let kv = parse(&right).expect("right").kv;
    assert_eq!((kv.listen.port(), kv.addresses[&2].as_str(), kv.max_clients), (7001, "two.example:7001", 5));
    assert_eq!(kv.password_file.as_deref(), Some(Path::new("/etc/ringleader/secret")));
    assert!(said(&right, "password_file = \"secret\"", "").contains("can be reached from other machines"));
    assert!(said(&right, "listen = \"0.0.0.0:7001\"", "").contains("say where it listens"));
    assert!(said(&right, "0.0.0.0:7001", "everywhere").contains("is no address:port"));
    assert!(said(&right, "max_clients = 5", "max_clients = 0").contains("from 1 to 1000000"));
    assert!(said(&right, "3 = \"10.0.0.3:7001\"", "").contains("node 3 has no address in [kv.addresses]"));
    assert!(said(&right, "10.0.0.3:7001", "10.0.0.1:7001").contains("have the same address"));
    assert!(said(&right, "10.0.0.3:7001", "10.0.0.3").contains("no address:port"));
    assert!(said(&right, "3 = \"10", "4 = \"10").contains("not among the members"));
    assert!(said(&right, "max_clients", "max_client").contains("did you mean \"max_clients\"?"));
    // Loopback needs none.
    for listen in ["127.0.0.1:7001", "127.1.2.3:7001", "[::1]:7001", "[::ffff:127.0.0.1]:7001"] {
        parse(&with(&format!("listen = \"{listen}\""))).expect("right");
    }
    for listen in ["10.0.0.2:7001", "[::]:7001", "[fd00::2]:7001"] {
        parse(&with(&format!("listen = \"{listen}\""))).expect_err("no password");
    }
}

#[test]
fn health_is_asked_for_nowhere_unless_said_and_never_on_the_port_of_node_exporter() {
    assert_eq!(parse(SHM).expect("right").health, None);
    let with = |listen: &str| format!("{SHM}\n[health]\nlisten = {listen:?}\n");
    let config = parse(&with("127.0.0.1:7490")).expect("right");
    assert_eq!(config.health, Some("127.0.0.1:7490".parse().expect("an address")));
    let other = "[::1]:7491".parse().expect("an address");
    assert_eq!(config.clone().with_health(Some(other)).health, Some(other));
    assert_eq!(config.clone().with_health(None), config);
    let right = with("127.0.0.1:7490");
    assert_eq!(
        said(&right, "7490", "9100"),
        "10: listen 127.0.0.1:9100: port 9100 is node_exporter's, and taken on every DPU: choose another, such as 7490"
    );
    assert!(said(&right, "127.0.0.1:7490", "here").starts_with("10: listen \"here\" is no address:port"));
    assert!(said(&right, "listen", "listne").contains("did you mean \"listen\"?"));
}

#[test]
fn a_log_in_the_hosts_memory_has_what_it_takes() {
    let table = "\n[dpu]\nplacement = \"host\"\nchannel = \"mlx5_0\"\nhost = \"0000:3b:00.0\"\n";
    let right = format!("{}{table}", VERBS.replace("fabric =", "notify = \"poll\"\nsnapshot = 0\nfabric ="));
    let dpu = parse(&right).expect("right").dpu.expect("apart");
    assert_eq!((dpu.placement, dpu.channel.as_deref()), (Placement::Host, Some("mlx5_0")));
    assert_eq!(dpu.host.as_deref(), Some("0000:3b:00.0"));
    assert!(
        said(&right, "placement = \"host\"", "placement = \"dpu\"").contains("are for placement = \"host\"")
    );
    assert!(said(&right, "0000:3b:00.0", "the host").contains("no device and no PCI address"));
    assert!(said(&right, "\"mlx5_0\"", "\"\"").contains("no device and no PCI address"));
    assert!(
        said(&right, "notify = \"poll\"", "notify = \"imm\"").starts_with("3: notify = \"imm\" wakes nobody")
    );
    let said = parse(&format!("{SHM}{table}")).expect_err("one memory").to_string();
    assert!(said.contains("one memory"), "{said}");
}
