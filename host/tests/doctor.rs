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
