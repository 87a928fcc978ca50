//! The log of a program without `tracing`: one test, for the hook is the whole process's.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ringleader::logging::{self, Level};
use ringleader::{Entry, Node, Options, Role};

#[test]
fn a_hook_is_handed_what_it_asked_for_until_it_is_cleared() {
    logging::clear_hook();
    let lines = Arc::new(Mutex::new(Vec::<(Level, String)>::new()));
    let hook = |lines: &Arc<Mutex<Vec<(Level, String)>>>| {
        let lines = Arc::clone(lines);
        move |record: &logging::Record<'_>| {
            assert!(record.target.starts_with("ringleader"));
            lines.lock().unwrap().push((record.level, record.text.to_owned()));
        }
    };
    let live = |lines: &Mutex<Vec<(Level, String)>>| {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut options = Options::new(dir.path(), 7, [7]);
        options.ring_len = 1 << 20;
        let node = Node::open(options, |_: Entry<'_>| {}).unwrap();
        node.form(Duration::from_secs(60)).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while node.status().role != Role::Leader {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(1));
        }
        node.close().unwrap();
        std::mem::take(&mut *lines.lock().unwrap())
    };
    logging::set_hook(Level::INFO, hook(&lines)).unwrap();
    let said = live(&lines);
    assert!(
        said.iter()
            .any(|(level, text)| *level == Level::INFO && text.starts_with("node{id=7}: formed group=")),
        "{said:?}"
    );
    assert!(said.iter().all(|(level, _)| *level <= Level::INFO), "{said:?}");

    logging::set_hook(Level::DEBUG, hook(&lines)).unwrap();
    assert!(live(&lines).iter().any(|(level, _)| *level == Level::DEBUG));
    logging::set_hook(Level::ERROR, hook(&lines)).unwrap();
    assert_eq!(live(&lines), []);
    logging::set_hook(Level::TRACE, |_: &logging::Record<'_>| panic!("on purpose")).unwrap();
    live(&lines);
    logging::clear_hook();
    assert_eq!(live(&lines), []);
}
