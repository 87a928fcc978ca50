//! Names the shared library for the linker: programs ask for this name, whatever the file is called.

fn main() {
    let said = |name| std::env::var(name).expect("cargo says so");
    let (major, minor) = (said("CARGO_PKG_VERSION_MAJOR"), said("CARGO_PKG_VERSION_MINOR"));
    // What is compatible has one name. Before 1.0 that ends with the minor version.
    let abi = if major == "0" { format!("0.{minor}") } else { major };
    if said("CARGO_CFG_TARGET_OS") == "linux" {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libringleader.so.{abi}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
