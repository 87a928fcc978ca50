//! Finds the SDK, and makes bindings to the functions that are used, into OUT_DIR: neither NVIDIA's headers nor anything made of
//! them may be handed on, so nothing of it is ever written into the source tree.
//!
//! With RINGLEADER_DOCA_STAND_IN=1 in the environment it is built against the stand-in of the tests instead, which is no SDK: it
//! lets the code be compiled and run where there is none, and what is built so runs with nothing else.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(stand_in)");
    #[cfg(feature = "doca")]
    if let Err(why) = sdk::bind() {
        println!("cargo::error={why}");
    }
}

#[cfg(feature = "doca")]
mod sdk {
    use std::env;
    use std::path::{Path, PathBuf};

    /// The oldest one whose headers have all that is used.
    const FLOOR: &str = "2.9";
    /// Stands in the stand-in's header, and in no other.
    const STAND_IN_HEADER: &str = "ringleader_doca_stand_in.h";
    const STAND_IN: &str = "RINGLEADER_DOCA_STAND_IN";
    /// The version that the stand-in's signatures are of.
    const STAND_IN_VERSION: &str = "2.10.0";

    /// All that is called, and with it the types it takes.
    const FUNCTIONS: &[&str] = &[
        "doca_version_runtime",
        "doca_error_get_(name|descr)",
        "doca_devinfo_(create_list|destroy_list|get_pci_addr_str|get_ibdev_name)",
        "doca_dev_(open|close|as_devinfo)",
        "doca_devinfo_rep_(create_list|destroy_list|get_pci_addr_str)",
        "doca_dev_rep_(open|close)",
        "doca_mmap_(create|destroy|add_dev|set_memrange|set_permissions|start|export_pci|create_from_export|get_memrange)",
        "doca_mmap_cap_is_(export_pci|create_from_export_pci)_supported",
        "doca_rdma_bridge_(get_dev_pd|get_mmap_mkey_from_pd)",
        "doca_pe_(create|destroy|progress|connect_ctx)",
        "doca_ctx_(start|stop|get_state|set_user_data|get_user_data)",
        "doca_task_(submit|free|get_status)",
        "doca_comch_cap_(get_max_name_len|get_max_msg_size|server_is_supported|client_is_supported)",
        "doca_comch_server_(create|destroy|set_max_msg_size|as_ctx|disconnect|get_server_ctx)",
        "doca_comch_server_(task_send_set_conf|task_send_alloc_init)",
        "doca_comch_server_(event_msg_recv_register|event_connection_status_changed_register)",
        "doca_comch_client_(create|destroy|set_max_msg_size|as_ctx|get_connection|get_client_ctx)",
        "doca_comch_client_(task_send_set_conf|task_send_alloc_init|event_msg_recv_register)",
        "doca_comch_task_send_as_task",
        "ringleader_doca_stand_in.*",
    ];
    /// Values that are compared with or handed over. Enumerations are numbers: what a library of tomorrow answers is one, too.
    const VALUES: &[&str] = &[
        "doca_error",
        "doca_ctx_states",
        "doca_access_flag",
        "doca_devinfo_rep_filter",
        "ringleader_doca_stand_in_access",
    ];
    const SIZES: &str = "DOCA_DEVINFO_(PCI_ADDR|IBDEV_NAME|REP_PCI_ADDR)_SIZE";

    struct Found {
        includes: Vec<PathBuf>,
        defines: Vec<&'static str>,
        version: String,
    }

    pub(super) fn bind() -> Result<(), String> {
        println!("cargo::rerun-if-changed=wrapper.h");
        println!("cargo::rerun-if-env-changed={STAND_IN}");
        let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: this is run by cargo")?);
        let found = match env::var(STAND_IN) {
            Ok(one) if one == "1" => stand_in(&out)?,
            Ok(empty) if empty.is_empty() => installed()?,
            Ok(other) => return Err(format!("{STAND_IN}={other:?}: 1 or nothing")),
            Err(_) => installed()?,
        };
        println!("cargo::rustc-env=RINGLEADER_DOCA_BUILT_AGAINST={}", found.version);
        let mut builder = bindgen::Builder::default()
            .header("wrapper.h")
            .clang_args(found.includes.iter().map(|path| format!("-I{}", path.display())))
            .clang_args(found.defines.iter().map(|define| format!("-D{define}")))
            .default_enum_style(bindgen::EnumVariation::Consts)
            .prepend_enum_name(false)
            .rust_edition(bindgen::RustEdition::Edition2024)
            // That of libibverbs, which others bind to: here it is only handed on.
            .blocklist_type("ibv_.*")
            .allowlist_var(SIZES)
            .raw_line("#[repr(C)] pub struct ibv_pd { _private: [u8; 0] }");
        for function in FUNCTIONS {
            builder = builder.allowlist_function(function);
        }
        for value in VALUES {
            builder = builder.allowlist_type(value);
        }
        let bindings = builder
            .generate()
            .map_err(|error| format!("bindgen: {}", error.to_string().replace('\n', "; ")))?;
        bindings.write_to_file(out.join("bindings.rs")).map_err(|error| format!("bindings.rs: {error}"))
    }

    /// The SDK that pkg-config knows.
    fn installed() -> Result<Found, String> {
        let mut includes = Vec::new();
        let mut version = String::new();
        for package in ["doca-comch", "doca-common"] {
            let library =
                pkg_config::Config::new().atleast_version(FLOOR).probe(package).map_err(|error| {
                    let error = error.to_string().replace('\n', " ");
                    format!(
                        "feature `doca` takes NVIDIA's DOCA SDK, {FLOOR} or newer, and pkg-config does not find {package} (is \
                         /opt/mellanox/doca/lib/*/pkgconfig in PKG_CONFIG_PATH?). Without the feature everything else builds; see \
                         docs/doca.md. {error}"
                    )
                })?;
            includes.extend(library.include_paths);
            version = library.version;
        }
        if let Some(path) = includes.iter().find(|path| path.join(STAND_IN_HEADER).exists()) {
            return Err(format!(
                "{}: pkg-config leads to the stand-in of the tests, which is no SDK: set {STAND_IN}=1 if it is meant",
                path.display()
            ));
        }
        Ok(Found { includes, defines: vec!["DOCA_ALLOW_EXPERIMENTAL_API"], version })
    }

    /// The stand-in, built here, where nothing else looks for a library.
    fn stand_in(out: &Path) -> Result<Found, String> {
        let dir = Path::new("tests/stand-in");
        println!("cargo::rerun-if-changed={}", dir.display());
        println!("cargo::rustc-cfg=stand_in");
        // For the tests of what is built on this.
        println!("cargo::metadata=STAND_IN=1");
        let library = out.join("libringleader_doca_stand_in.so");
        let sources = ["base.c", "device.c", "memory.c", "verbs.c", "channel.c"].map(|name| dir.join(name));
        let compiler = cc::Build::new().try_get_compiler().map_err(|error| error.to_string())?;
        let status = compiler
            .to_command()
            .args(["-shared", "-fPIC", "-pthread", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I"])
            .arg(dir)
            .arg("-Wl,-soname,libringleader_doca_stand_in.so")
            .arg("-o")
            .arg(&library)
            .args(sources)
            .status()
            .map_err(|error| format!("the C compiler: {error}"))?;
        if !status.success() {
            return Err(format!("the C compiler on the stand-in: {status}"));
        }
        println!("cargo::rustc-link-search=native={}", out.display());
        println!("cargo::rustc-link-lib=dylib=ringleader_doca_stand_in");
        println!("cargo::rustc-link-arg=-Wl,-rpath,{}", out.display());
        Ok(Found {
            includes: vec![dir.to_owned()],
            defines: vec![STAND_IN],
            version: STAND_IN_VERSION.to_owned(),
        })
    }
}
