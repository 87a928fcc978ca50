//! `include/ringleader.h` is what cbindgen makes of the sources. `RINGLEADER_BLESS=1` writes it (`make header`).

use std::fs;
use std::path::{Path, PathBuf};

/// The order of the header's chapters.
const SOURCES: [&str; 16] = [
    "src/version.rs",
    "acceptor/src/status.rs",
    "src/guard.rs",
    "src/log.rs",
    "acceptor/src/timing.rs",
    "acceptor/src/event.rs",
    "src/agent.rs",
    "src/options.rs",
    "src/application.rs",
    "src/node.rs",
    "src/group.rs",
    "src/lane.rs",
    "src/reader.rs",
    "acceptor/src/verb.rs",
    "acceptor/src/object.rs",
    "acceptor/src/convert.rs",
];

fn made() -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let config = cbindgen::Config::from_file(here.join("cbindgen.toml")).expect("a configuration");
    let builder = SOURCES.iter().fold(cbindgen::Builder::new().with_config(config), |builder, source| {
        builder.with_src(here.join(source))
    });
    let mut made = Vec::new();
    builder.generate().expect("cbindgen understands the sources").write(&mut made);
    String::from_utf8(made).expect("a header is UTF-8")
}

fn header() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include/ringleader.h")
}

#[test]
fn the_header_is_that_of_the_sources() {
    let (made, path) = (made(), header());
    if std::env::var_os("RINGLEADER_BLESS").is_some() {
        fs::write(&path, &made).expect("it can be written");
    }
    let kept = fs::read_to_string(&path).expect("include/ringleader.h is there");
    let differs = made.lines().zip(kept.lines()).find(|(made, kept)| made != kept);
    assert!(made == kept, "make header: the first line that differs: {differs:?}");
}

#[test]
fn every_file_with_functions_is_in_the_header() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    // Not the file, which the other test may be writing.
    let header = made();
    for dir in ["src", "acceptor/src"] {
        for entry in fs::read_dir(here.join(dir)).expect("a directory") {
            let text = fs::read_to_string(entry.expect("an entry").path()).expect("a source");
            for exported in text.split("extern \"C\" fn ringleader_").skip(1) {
                let name = exported.split('(').next().expect("a name");
                assert!(header.contains(&format!("ringleader_{name}(")), "ringleader_{name} is missing");
            }
        }
    }
}
