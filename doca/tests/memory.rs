//! A host's memory: exported, imported, written by who has the key, and taken away from either side.
#![cfg(stand_in)]

mod common;

use std::io::{self, BufRead};
use std::sync::Arc;

use common::{Machine, Other, say};
use ringleader_doca::stand_in::{self, Memory, Refusal};
use ringleader_doca::{Access, Code, Descriptor, Device, Domain, Error, Export, Import, Library, Range};

const LEN: usize = 1 << 16;

fn export(device: &Arc<Device>, access: Access) -> Export<Memory> {
    Export::new(device, Memory::new(LEN).expect("memory"), access).expect("exported")
}

fn import(device: &Arc<Device>, export: &Export<Memory>) -> (Import, u32) {
    let import = Import::new(device, export.descriptor(), export.range()).expect("imported");
    let key = import.key(&Domain::new(device).expect("a domain")).expect("a key");
    (import, key)
}

/// The host of the tests with two processes: it exports, and says what it sees where it is asked to look.
#[test]
#[ignore = "a part of others"]
fn host() {
    let library = Library::load().expect("the stand-in");
    let export = export(&Device::open(&library, "standin_host").expect("a device"), Access::Write);
    let hex: String = export.descriptor().secret().iter().map(|byte| format!("{byte:02x}")).collect();
    say(&format!("{} {} {hex}", export.range().address(), export.range().len()));
    for line in io::stdin().lock().lines() {
        let offset = line.expect("a line").parse().expect("an offset");
        say(&String::from_utf8_lossy(&export.memory().bytes(offset, 5)));
    }
    drop(export);
    assert_eq!(stand_in::live(), 0);
}

fn exported_by(host: &mut Other) -> (Descriptor, Range) {
    let said = host.hear();
    let mut parts = said.split(' ');
    let mut number = || parts.next().expect("a part").parse().expect("a number");
    let range = Range::new(number(), number()).expect("a range");
    let hex = parts.next().expect("a descriptor");
    let bytes = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("a byte");
    let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(bytes).collect();
    (Descriptor::new(&bytes).expect("a descriptor"), range)
}

#[test]
fn what_is_written_by_the_import_is_seen_by_the_host() {
    let machine = Machine::new();
    let mut host = machine.other("host");
    let (descriptor, range) = exported_by(&mut host);
    let device = machine.dpu();
    let import = Import::new(&device, &descriptor, range).expect("imported");
    assert_eq!((import.range(), range.len()), (range, LEN as u64));
    let key = import.key(&Domain::new(&device).expect("a domain")).expect("a key");
    for (offset, text) in [(0, "first"), (4096, "later"), (LEN - 5, "last.")] {
        assert_eq!(stand_in::write(key, range.address() + offset as u64, text.as_bytes()), Ok(()));
        host.tell(&offset.to_string());
        assert_eq!(host.hear(), text);
    }
    let mut bytes = [0; 5];
    assert_eq!(stand_in::read(key, range.address(), &mut bytes), Ok(()));
    assert_eq!(&bytes, b"first");
    // Nothing beyond the range, and nothing once the DPU has revoked it, while the host still has it.
    let end = range.address() + range.len();
    for (address, len) in [(end - 4, 5), (range.address() - 1, 5), (end, 1), (0, 1), (u64::MAX, 1)] {
        assert_eq!(stand_in::write(key, address, &vec![1; len]), Err(Refusal::Range), "{address:#x}");
    }
    import.revoke().expect("revoked");
    assert_eq!(stand_in::write(key, range.address(), b"wrong"), Err(Refusal::Key));
    host.tell("0");
    assert_eq!(host.hear(), "first");
}

#[test]
fn what_the_host_takes_away_is_gone_for_the_dpu() {
    let machine = Machine::new();
    let export = export(&machine.host(), Access::Write);
    let (import, key) = import(&machine.dpu(), &export);
    let (range, descriptor) = (export.range(), export.descriptor().clone());
    assert_eq!(stand_in::write(key, range.address(), b"bytes"), Ok(()));
    let memory = export.end().expect("ended");
    assert_eq!(stand_in::write(key, range.address(), b"wrong"), Err(Refusal::Export));
    assert_eq!(memory.bytes(0, 5), b"bytes");
    // A descriptor of what is over is worth nothing.
    let again = Import::new(&machine.dpu(), &descriptor, range).expect_err("over");
    assert!(matches!(again, Error::Call { code: Code::NOT_PERMITTED, .. }), "{again}");
    drop(import);
}

#[test]
fn what_may_be_read_may_not_be_written() {
    let machine = Machine::new();
    let export = export(&machine.host(), Access::Read);
    let (_import, key) = import(&machine.dpu(), &export);
    let address = export.range().address();
    assert_eq!(stand_in::write(key, address, b"wrong"), Err(Refusal::Permission));
    assert_eq!(stand_in::read(key, address, &mut [0; 8]), Ok(()));
}

#[test]
fn descriptors_that_are_cut_forged_or_of_something_else_open_nothing() {
    let machine = Machine::new();
    let (host, dpu) = (machine.host(), machine.dpu());
    let export = export(&host, Access::Write);
    let (bytes, range) = (export.descriptor().secret(), export.range());
    let before = stand_in::live();
    let refused = |bytes: &[u8]| {
        let descriptor = Descriptor::new(bytes).expect("a descriptor");
        let error = Import::new(&dpu, &descriptor, range).expect_err("refused");
        assert!(matches!(error, Error::Call { call: "doca_mmap_create_from_export", .. }), "{error}");
    };
    for len in 1..bytes.len() {
        refused(&bytes[..len]);
    }
    refused(&[bytes, &[0]].concat());
    refused(&[0xff; 2048]);
    for at in 0..bytes.len() {
        let mut forged = bytes.to_vec();
        forged[at] ^= 1;
        refused(&forged);
    }
    // The right one, with a wrong word about what it is of.
    for (address, len) in [
        (range.address() + 1, range.len()),
        (range.address(), range.len() - 1),
        (range.address(), range.len() + 1),
        (4096, 4096),
    ] {
        let said = Range::new(address, len).expect("a range");
        let error = Import::new(&dpu, export.descriptor(), said).expect_err("another range");
        assert!(matches!(error, Error::Range { found, .. } if found == range), "{error}");
    }
    assert_eq!(stand_in::live(), before);
    Import::new(&dpu, export.descriptor(), range).expect("the right one");
}

#[test]
fn each_side_can_do_its_own_part_only() {
    let machine = Machine::new();
    let memory = Memory::new(LEN).expect("memory");
    let error = Export::new(&machine.dpu(), memory, Access::Write).expect_err("no host");
    assert!(matches!(error, Error::Unable { .. }), "{error}");
    let export = export(&machine.host(), Access::Write);
    let error = Import::new(&machine.host(), export.descriptor(), export.range()).expect_err("no DPU");
    assert_eq!(
        error.to_string(),
        "standin_host cannot import memory of its host: it is no function of a DPU"
    );
}

#[test]
fn a_key_is_of_one_domain() {
    let machine = Machine::new();
    let export = export(&machine.host(), Access::Write);
    let (import, _) = import(&machine.dpu(), &export);
    let other = Device::open(&machine.library, "standin_sf0").expect("a device");
    let error = import.key(&Domain::new(&other).expect("a domain")).expect_err("another domain");
    assert!(error.to_string().contains("doca_rdma_bridge_get_mmap_mkey_from_pd"), "{error}");
}

#[test]
fn a_revocation_that_fails_is_told_and_can_be_tried_again() {
    let machine = Machine::new();
    let export = export(&machine.host(), Access::Write);
    let (import, key) = import(&machine.dpu(), &export);
    stand_in::fail("doca_mmap_destroy", 2);
    let (import, error) = import.revoke().expect_err("it fails");
    assert!(matches!(error, Error::Call { code: Code::NOT_PERMITTED, .. }), "{error}");
    assert_eq!(stand_in::write(key, export.range().address(), b"still"), Ok(()));
    let (export, _) = export.end().expect_err("it fails");
    stand_in::mend();
    import.revoke().expect("revoked");
    assert_eq!(stand_in::write(key, export.range().address(), b"wrong"), Err(Refusal::Key));
    let memory = export.end().expect("ended");
    assert_eq!(memory.bytes(0, 5), b"still");
}

#[test]
fn memory_that_a_nic_may_still_write_to_is_never_given_back() {
    let mut machine = Machine::new();
    let export = export(&machine.host(), Access::Write);
    let range = export.range();
    let (import, key) = import(&machine.dpu(), &export);
    stand_in::freed();
    stand_in::fail("doca_mmap_destroy", 2);
    drop(export);
    // It is mapped and its device open, so that what comes does no harm.
    assert_eq!(stand_in::write(key, range.address(), b"bytes"), Ok(()));
    assert_eq!(machine.live(), 4, "two maps and two devices");
    drop(import);
    assert_eq!(machine.live(), 4, "the same");
    assert_eq!(stand_in::freed(), [""; 0], "nor was it tried to close a device that is in use");
    let files = std::fs::read_dir(machine.dir.path()).expect("a directory").flatten();
    let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    assert_eq!(names.filter(|name| name.starts_with("memory-")).count(), 1, "the memory is still there");
    stand_in::mend();
    machine.leave();
}

#[test]
fn whatever_is_dropped_first_the_device_is_closed_last() {
    let machine = Machine::new();
    let host = machine.host();
    let export = export(&host, Access::Write);
    let dpu = machine.dpu();
    let import = Import::new(&dpu, export.descriptor(), export.range()).expect("imported");
    let domain = Domain::new(&dpu).expect("a domain");
    stand_in::freed();
    drop((host, dpu));
    assert_eq!(stand_in::freed(), [""; 0]);
    drop(import);
    assert_eq!(stand_in::freed(), ["doca_mmap_destroy"]);
    // What is made in the domain holds it.
    let held = domain.clone();
    drop(domain);
    assert_eq!(stand_in::freed(), [""; 0]);
    drop(held);
    assert_eq!(stand_in::freed(), ["doca_dev_close"]);
    drop(export);
    assert_eq!(stand_in::freed(), ["doca_mmap_destroy", "doca_dev_close"]);
}

#[test]
fn whatever_fails_is_named_and_leaves_nothing() {
    let machine = Machine::new();
    let (host, dpu) = (machine.host(), machine.dpu());
    let whole = export(&host, Access::Write);
    let before = machine.live();
    for call in [
        "doca_mmap_cap_is_export_pci_supported",
        "doca_mmap_create",
        "doca_mmap_add_dev",
        "doca_mmap_set_memrange",
        "doca_mmap_set_permissions",
        "doca_mmap_start",
        "doca_mmap_export_pci",
    ] {
        stand_in::fail(call, 77);
        let memory = Memory::new(LEN).expect("memory");
        let error = Export::new(&host, memory, Access::Write).expect_err(call).to_string();
        assert!(error.contains(call) && error.contains("77"), "{call}: {error}");
        stand_in::mend();
        assert_eq!(machine.live(), before, "{call}");
    }
    for call in [
        "doca_mmap_cap_is_create_from_export_pci_supported",
        "doca_mmap_create_from_export",
        "doca_mmap_get_memrange",
    ] {
        stand_in::fail(call, 77);
        let error = Import::new(&dpu, whole.descriptor(), whole.range()).expect_err(call).to_string();
        assert!(error.contains(call) && error.contains("77"), "{call}: {error}");
        stand_in::mend();
        assert_eq!(machine.live(), before, "{call}");
    }
    stand_in::fail("doca_rdma_bridge_get_dev_pd", 77);
    Domain::new(&dpu).expect_err("no domain");
    stand_in::mend();
    let (import, domain) = (
        Import::new(&dpu, whole.descriptor(), whole.range()).expect("imported"),
        Domain::new(&dpu).expect("a domain"),
    );
    stand_in::fail("doca_rdma_bridge_get_mmap_mkey_from_pd", 77);
    import.key(&domain).expect_err("no key");
}

#[test]
fn a_descriptor_is_not_printed_with_what_has_it() {
    let machine = Machine::new();
    let export = export(&machine.host(), Access::Write);
    let text = format!("{export:?}");
    assert!(text.contains("Descriptor(") && text.contains("secret bytes)"), "{text}");
    let first = export.descriptor().secret()[0];
    assert!(!text.contains(&format!("[{first}, ")), "{text}");
}
