//! Tells the tests whether DOCA is the tests' stand-in for it here.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(stand_in)");
    if std::env::var_os("DEP_RINGLEADER_DOCA_STAND_IN").is_some() {
        println!("cargo::rustc-cfg=stand_in");
    }
}
