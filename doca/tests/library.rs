//! Which library is taken, which devices are found, and what is said of codes that nobody here knows.
#![cfg(stand_in)]

mod common;

use common::Machine;
use ringleader_doca::{
    BUILT_AGAINST, Code, Device, Error, FLOOR, Library, Representor, Version, devices, stand_in,
};

#[test]
fn a_library_that_the_bindings_do_not_fit_is_refused() {
    let machine = Machine::new();
    let load = |version: Option<&str>| {
        stand_in::set_version(version);
        let loaded = Library::load();
        stand_in::set_version(Some("2.10.0087"));
        loaded
    };
    assert_eq!(FLOOR, Version { major: 2, minor: 9 });
    let Err(error) = load(Some("2.8.0082")) else { panic!("below the floor") };
    assert_eq!(error.to_string(), "DOCA 2.8 is installed, and 2.9 or newer is needed: install a newer DOCA");
    assert!(matches!(load(Some("2.5.0105")), Err(Error::TooOld { .. })));
    let Err(error) = load(Some("2.11.0")) else { panic!("another one") };
    assert!(error.to_string().contains("this was built against 2.10: build it against what is installed"));
    assert!(matches!(load(Some("3.0.0")), Err(Error::Differs { .. })));
    assert!(matches!(load(Some("2.9.0")), Err(Error::Differs { .. })));
    for none in [None, Some(""), Some("DOCA"), Some("2.x")] {
        assert!(matches!(load(none), Err(Error::NoVersion { .. })), "{none:?}");
    }
    assert!(load(Some("2.10.9999")).is_ok());
    drop(machine);
}

#[test]
fn the_stand_in_says_what_it_is() {
    let machine = Machine::new();
    assert!(machine.library.is_stand_in());
    assert_eq!(machine.library.to_string(), "the tests' stand-in for DOCA 2.10.0087, which is no DOCA");
    assert_eq!(machine.library.version(), "2.10.0087");
    assert_eq!(BUILT_AGAINST, Some("2.10.0"));
}

#[test]
fn devices_are_found_by_address_and_by_name() {
    let machine = Machine::new();
    let listed = devices(&machine.library).expect("a list");
    let listed: Vec<String> = listed.iter().map(ToString::to_string).collect();
    assert_eq!(
        listed,
        [
            "standin_host (0000:3b:00.0)",
            "standin_dpu (0000:03:00.0)",
            "standin_sf0 (0000:03:00.1)",
            "standin_sf1 (0000:03:00.1)"
        ]
    );
    for wanted in ["0000:3b:00.0", "3B:00.0", "standin_host"] {
        let device = Device::open(&machine.library, wanted).expect("found");
        assert_eq!(device.listed().name.as_deref(), Some("standin_host"), "{wanted}");
    }
    let error = Device::open(&machine.library, "mlx5_7").expect_err("not there").to_string();
    assert!(error.starts_with("no DOCA device mlx5_7; there are: standin_host (0000:3b:00.0), "), "{error}");
    // Sub-functions have their parent's address: which one is meant must be said.
    let error = Device::open(&machine.library, "03:00.1").expect_err("two").to_string();
    assert!(error.starts_with("2 DOCA devices are at 03:00.1: name one"), "{error}");
    Device::open(&machine.library, "standin_sf1").expect("found");
}

#[test]
fn the_host_is_found_behind_its_dpu() {
    let machine = Machine::new();
    for wanted in ["0000:3b:00.0", "3b:00.0"] {
        Representor::open(&machine.dpu(), wanted).expect("found");
    }
    let error = Representor::open(&machine.dpu(), "af:00.0").expect_err("not there").to_string();
    assert_eq!(error, "standin_dpu shows no function af:00.0 of its host; it shows: 0000:3b:00.0");
    let error = Representor::open(&machine.host(), "3b:00.0").expect_err("no DPU");
    assert!(matches!(error, Error::Call { code: Code::NOT_SUPPORTED, .. }), "{error}");
}

#[test]
fn codes_that_nobody_knows_are_told_as_numbers() {
    let machine = Machine::new();
    for code in [31, 77, u32::MAX] {
        stand_in::fail("doca_dev_open", code);
        let error = Device::open(&machine.library, "standin_host").expect_err("it fails");
        let Error::Call { code: found, call: "doca_dev_open", .. } = error else { panic!("{error}") };
        assert_eq!((found.number(), found.name(), found.description()), (code, None, None));
        assert_eq!(
            error.to_string(),
            format!("standin_host: doca_dev_open: code {code}, which this version of DOCA does not name")
        );
    }
    stand_in::fail("doca_dev_open", 21);
    let error = Device::open(&machine.library, "standin_host").expect_err("it fails").to_string();
    assert_eq!(error, "standin_host: doca_dev_open: DOCA_ERROR_DRIVER (21: as the stand-in says)");
}

#[test]
fn a_device_without_a_name_is_listed_and_found_by_its_address() {
    let machine = Machine::new();
    stand_in::fail("doca_devinfo_get_ibdev_name", 4);
    assert!(devices(&machine.library).expect("a list").iter().all(|listed| listed.name.is_none()));
    Device::open(&machine.library, "3b:00.0").expect("found");
    assert!(matches!(Device::open(&machine.library, "standin_host"), Err(Error::NoDevice { .. })));
}

#[test]
fn whatever_fails_is_named_and_leaves_nothing() {
    let machine = Machine::new();
    for call in ["doca_devinfo_create_list", "doca_devinfo_get_pci_addr_str", "doca_dev_open"] {
        stand_in::fail(call, 77);
        let error = Device::open(&machine.library, "standin_host").expect_err(call).to_string();
        assert!(error.contains(call), "{call}: {error}");
        stand_in::mend();
        assert_eq!(machine.live(), 0, "{call}");
    }
    let dpu = machine.dpu();
    for call in ["doca_devinfo_rep_create_list", "doca_devinfo_rep_get_pci_addr_str", "doca_dev_rep_open"] {
        stand_in::fail(call, 77);
        let error = Representor::open(&dpu, "3b:00.0").expect_err(call).to_string();
        assert!(error.contains(call), "{call}: {error}");
        stand_in::mend();
        assert_eq!(machine.live(), 1, "{call}");
    }
}
