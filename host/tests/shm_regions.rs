//! Region files: who may make them, what is refused, what is left behind.

mod shm_common;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use ringleader::fabric::Fabric;
use ringleader::fabric::shm::{Observed, Options, Owner, ShmFabric, path_of};
use ringleader_core::mem::Area;
use ringleader_core::options::Half;
use ringleader_core::types::{Boot, Incarnation, NodeId};
use ringleader_core::verb::{Class, Status, Verb};
use shm_common::{ACCEPTOR, RING, WRITER, child_command, create, id, role, run, wait_for};

const HOLDER: &str = "RINGLEADER_TEST_HOLDER_IN";

/// Not a test: a process that holds a region of node 1 until it is killed.
#[test]
fn holder_process() {
    let Some(dir) = role(HOLDER) else { return };
    let _region = create(&dir, ACCEPTOR).unwrap();
    fs::write(dir.join("ready"), "").unwrap();
    loop {
        std::thread::park();
    }
}

/// Starts a holder and waits until it holds.
fn holder(dir: &Path) -> std::process::Child {
    let child = child_command("holder_process").env(HOLDER, dir).stdout(Stdio::null()).spawn().unwrap();
    wait_for("the holder", || dir.join("ready").exists().then_some(()));
    fs::remove_file(dir.join("ready")).unwrap();
    child
}

fn refusal(dir: &Path, node: NodeId, ring_len: u64) -> String {
    let options = Options {
        dir,
        node,
        boot: Boot(7),
        incarnation: Incarnation(7),
        ring_len,
        snapshot_len: 0,
        half: Half::Whole,
        group_name: None,
        fence_limit_ns: 1_000_000_000,
    };
    ShmFabric::create(&options).map(|_| ()).unwrap_err().to_string()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_region_has_one_owner_and_a_dead_one_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = holder(dir.path());
    let path = path_of(dir.path(), ACCEPTOR);
    assert_eq!(
        refusal(dir.path(), ACCEPTOR, RING),
        format!("{}: in use by process {}", path.display(), child.id())
    );
    assert_eq!(Observed::open(&path).unwrap().owner().unwrap(), Owner::Running);
    child.kill().unwrap();
    child.wait().unwrap();

    let dead = Observed::open(&path).unwrap();
    assert_eq!(dead.owner().unwrap(), Owner::Dead);
    let (fabric, _areas) = create(dir.path(), ACCEPTOR).unwrap();
    assert_eq!(names(dir.path()), ["node-1.region"]);
    let new = Observed::open(&path).unwrap();
    assert_ne!(dead.header().boot, new.header().boot);
    assert_eq!(new.header().pid, u64::from(std::process::id()));
    assert_eq!(new.owner().unwrap(), Owner::Running);
    fabric.unlink().unwrap();
    assert!(names(dir.path()).is_empty());
}

#[test]
fn of_many_that_start_at_once_one_owns_the_region() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..20 {
        // Each round replaces the dead region of the round before.
        let made: Vec<_> = std::thread::scope(|scope| {
            let starts: Vec<_> = (0..4).map(|_| scope.spawn(|| create(dir.path(), ACCEPTOR))).collect();
            starts.into_iter().map(|start| start.join().unwrap()).collect()
        });
        assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1);
        for error in made.iter().filter_map(|made| made.as_ref().err()) {
            assert!(error.to_string().contains("in use by"), "{error}");
        }
        assert_eq!(names(dir.path()), ["node-1.region"]);
    }
}

#[test]
fn files_and_directories_are_private() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("group");
    let _region = create(&dir, WRITER).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&dir), 0o700);
    assert_eq!(mode(&path_of(&dir, WRITER)), 0o600);
    assert_eq!(fs::metadata(path_of(&dir, WRITER)).unwrap().len(), 3 * 65536 + RING);
}

#[test]
fn impossible_regions_are_refused_and_leave_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("group");
    for ring_len in [0, 1, RING / 2, RING + 64, 3 * RING, 1 << 35, u64::MAX] {
        let error = refusal(&dir, ACCEPTOR, ring_len);
        assert!(error.contains(&format!("a ring of {ring_len} bytes")), "{error}");
    }
    for node in [0, 16, 255] {
        let error = refusal(&dir, NodeId(node), RING);
        assert!(error.contains(&format!("{node} is no node id")), "{error}");
    }
    assert!(!dir.exists());
    let error = refusal(&dir.join("deeper"), ACCEPTOR, RING);
    assert!(error.contains("cannot create the directory: No such file"), "{error}");
    fs::write(&dir, "").unwrap();
    let error = refusal(&dir, ACCEPTOR, RING);
    assert!(error.contains("cannot open the directory: Not a directory"), "{error}");
}

#[test]
fn what_is_no_region_is_neither_used_nor_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = path_of(dir.path(), ACCEPTOR);
    fs::write(&path, [b'x'; 4096]).unwrap();
    assert!(refusal(dir.path(), ACCEPTOR, RING).ends_with("not a region file (wrong magic)"));
    fs::write(&path, "short").unwrap();
    assert!(refusal(dir.path(), ACCEPTOR, RING).ends_with("cut short: 5 bytes of at least 192"));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(refusal(dir.path(), ACCEPTOR, RING).contains("cannot open: Is a directory"));
    fs::remove_dir(&path).unwrap();
    symlink("/etc/passwd", &path).unwrap();
    assert!(refusal(dir.path(), ACCEPTOR, RING).contains("cannot open"));
    assert_eq!(names(dir.path()), ["node-1.region"]);
}

/// A tmpfs of its own; `None`, with the reason printed, where none can be mounted.
struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    fn new(dir: &'a Path, options: &str) -> Option<Mounted<'a>> {
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(dir).output();
        match done {
            Ok(output) if output.status.success() => Some(Mounted(dir)),
            Ok(output) => {
                println!("skipped, cannot mount: {}", String::from_utf8_lossy(&output.stderr));
                None
            }
            Err(error) => {
                println!("skipped, cannot run mount: {error}");
                None
            }
        }
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_is_told_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_mounted) = Mounted::new(dir.path(), "size=400k") else { return };
    let group = dir.path().join("group");
    let error = refusal(&group, ACCEPTOR, RING);
    assert!(error.contains("node-1.region: cannot reserve its memory: No space left on device"), "{error}");
    assert!(names(dir.path()).is_empty(), "{:?}", names(dir.path()));
    let error = refusal(dir.path(), ACCEPTOR, RING);
    assert!(error.contains("No space left on device"), "{error}");
    assert!(names(dir.path()).is_empty());
}

#[test]
fn a_read_only_disk_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_mounted) = Mounted::new(dir.path(), "size=8m,ro") else { return };
    let error = refusal(dir.path(), ACCEPTOR, RING);
    assert!(error.contains("node-1.region: cannot create: Read-only file system"), "{error}");
    let error = refusal(&dir.path().join("group"), ACCEPTOR, RING);
    assert!(error.contains("group: cannot create the directory: Read-only file system"), "{error}");
}

/// Connects to whatever stands where node 2's region should be.
fn connect(dir: &Path) -> Status {
    let (mut fabric, _areas) = create(dir, ACCEPTOR).unwrap();
    let status = run(&mut fabric, Verb::Connect { id: id(WRITER, Class::Connect, 1) }).0;
    let read = Verb::Read { id: id(WRITER, Class::Progress, 1), from: 0, to: 0, len: 64 };
    fabric.post(&read);
    let done = shm_common::reap_one(&mut fabric).unwrap();
    assert_eq!(done.status == Status::Success, status == Status::Success);
    status
}

#[test]
fn a_damaged_region_is_named_and_not_connected_to() {
    let dir = tempfile::tempdir().unwrap();
    let (_owner, areas) = create(dir.path(), WRITER).unwrap();
    Area::new(areas.control.clone()).store(0, 5);
    let path = path_of(dir.path(), WRITER);
    assert_eq!(connect(dir.path()), Status::Success);
    let observed = Observed::open(&path).unwrap();
    assert_eq!(Area::new(observed.control()).load(0), 5);
    assert_eq!(Area::new(observed.log()).len(), 65536 + RING);

    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    for offset in 0..192 {
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).unwrap();
        file.write_all_at(&[byte[0] ^ 0x10], offset).unwrap();
        let error = Observed::open(&path).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: ", path.display())) && !error.contains('\n'), "{error}");
        if offset % 16 == 3 {
            assert_eq!(connect(dir.path()), Status::Failed, "byte {offset}");
        }
        file.write_all_at(&byte, offset).unwrap();
    }
    for offset in [192, 2047, 4000, 4096 + 8, 8192, 65535] {
        file.write_all_at(&[1], offset).unwrap();
        let error = Observed::open(&path).unwrap_err().to_string();
        assert!(error.ends_with(&format!("damaged: byte {offset} should be zero")), "{error}");
        file.write_all_at(&[0], offset).unwrap();
    }
    assert!(Observed::open(&path).is_ok());
}

#[test]
fn a_region_of_another_length_node_or_version_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (owner, _areas) = create(dir.path(), WRITER).unwrap();
    let path = path_of(dir.path(), WRITER);
    let whole = fs::read(&path).unwrap();
    // A file of the same bytes without an owner.
    drop(owner);
    fs::remove_file(&path).unwrap();
    let told = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let error = Observed::open(&path).map(|_| ()).unwrap_err().to_string();
        assert!(matches!(connect(dir.path()), Status::Failed));
        error.strip_prefix(&format!("{}: ", path.display())).unwrap().to_owned()
    };
    let full = whole.len();
    assert_eq!(told(&whole[..0]), "cut short: 0 bytes of at least 192");
    assert_eq!(told(&whole[..191]), "cut short: 191 bytes of at least 192");
    assert_eq!(told(&whole[..192]), format!("cut short: 192 bytes of at least {full}"));
    assert_eq!(told(&whole[..full - 1]), format!("cut short: {} bytes of at least {full}", full - 1));
    let longer = [whole.as_slice(), &[0]].concat();
    assert_eq!(told(&longer), format!("{} bytes long, but its header says {full}", full + 1));
    let mut other = whole.clone();
    other[8] = 9;
    assert_eq!(told(&other), "region format 9; this program knows format 5");

    // The region of node 2 under the name of node 3.
    fs::write(&path, &whole).unwrap();
    assert_eq!(connect(dir.path()), Status::Unreachable, "whole, but nobody owns it");
    fs::rename(&path, path_of(dir.path(), NodeId(3))).unwrap();
    let (mut fabric, _areas) = create(dir.path(), ACCEPTOR).unwrap();
    let connect = Verb::Connect { id: id(NodeId(3), Class::Connect, 1) };
    assert_eq!(run(&mut fabric, connect).0, Status::Failed);

    let error = Observed::open(dir.path().join("missing")).unwrap_err().to_string();
    assert!(error.ends_with("missing: cannot open: No such file or directory (os error 2)"), "{error}");
    let error = Observed::open(dir.path()).unwrap_err().to_string();
    assert!(error.ends_with("not a regular file"), "{error}");
}
