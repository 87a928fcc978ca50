//! `ringleader doctor` as a program: what it prints, and how it ends. What it finds is this machine's own affair.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

fn doctor(options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ringleader")).arg("doctor").args(options).output().expect("runs")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

#[test]
fn its_exit_status_says_whether_something_must_be_mended() {
    let dir = tempfile::tempdir().expect("a directory");
    let shm = dir.path().join("shm.toml");
    let text = "group = \"test\"\nmembers = [1, 2, 3]\nfabric = \"shm\"\nring = \"512K\"\n[shm]\ndirectory = \"d\"\n";
    fs::write(&shm, text).expect("written");
    let shm = shm.to_str().expect("text");
    for options in [&[][..], &["--config", shm, "--node", "1"]] {
        let output = doctor(&[options, &["--json"]].concat());
        let report = json(&output);
        let good = report["good"].as_bool().expect("said");
        assert_eq!(output.status.code(), Some(if good { 0 } else { 1 }), "{report}");
        let checks = report["checks"].as_array().expect("a list");
        assert!(
            checks.len() >= 5
                && checks.iter().all(|check| !check["found"].as_str().expect("text").is_empty())
        );
        let text = String::from_utf8(doctor(options).stdout).expect("text");
        assert!(text.starts_with("machine\n") && text.contains("mended"), "{text}");
    }
    // A processor that no machine has.
    let wrong = text.replace("ring =", "pin = 65535\nring =");
    fs::write(shm, wrong).expect("written");
    let output = doctor(&["--config", shm, "--node", "1", "--json"]);
    assert_eq!((output.status.code(), json(&output)["good"].as_bool()), (Some(1), Some(false)));
    // And a configuration that is none.
    fs::write(shm, "fabric").expect("written");
    let output = doctor(&["--config", shm]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("shm.toml:1: "));
    assert_eq!(doctor(&["--node", "1"]).status.code(), Some(2));
}

/// What somebody set from outside so that a completed WRITE may be seen before its bytes: no node starts, and the doctor says
/// the same as the node.
#[cfg(feature = "verbs")]
#[test]
fn relaxed_ordering_from_outside_is_refused() {
    use std::net::{Ipv4Addr, TcpListener};

    const VARIABLE: &str = "MLX5_RELAXED_PACKET_ORDERING_ON";
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name);
    let program = || Command::new(env!("CARGO_BIN_EXE_ringleader"));
    assert!(program().arg("key").arg(path("key")).status().expect("runs").success());
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port").local_addr().expect("one").port();
    let text = format!(
        "group = \"test\"\nnode = 1\nfabric = \"verbs\"\nring = \"512K\"\ncontrol = \"control\"\n\
         [members]\n1 = \"127.0.0.1:{free}\"\n2 = \"127.0.0.1:1\"\n3 = \"127.0.0.1:2\"\n\
         [verbs]\nkey_file = \"key\"\n"
    );
    fs::write(path("node.toml"), text).expect("written");
    let run = |command: &str, value: &str| {
        program()
            .arg(command)
            .arg("--config")
            .arg(path("node.toml"))
            .env(VARIABLE, value)
            .output()
            .expect("runs")
    };
    for value in ["1", "all"] {
        let refused = run("run", value);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains(VARIABLE) && said.contains("unset it"), "{said}");
        let named = run("doctor", value);
        let said = String::from_utf8_lossy(&named.stdout);
        assert_eq!(named.status.code(), Some(1));
        assert!(said.contains(&format!("{VARIABLE}={value}")), "{said}");
    }
    let said = run("doctor", "0");
    assert!(!String::from_utf8_lossy(&said.stdout).contains(VARIABLE));
}
