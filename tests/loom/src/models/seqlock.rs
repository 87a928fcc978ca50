//! The board on which an agent posts its status.

use loom::sync::Arc;
use loom::thread;

use super::explore;
use crate::seqlock::SeqLock;

/// What is read was posted together, and is never older than what was read before.
pub fn no_mixture() {
    explore(4, || {
        let board = Arc::new(SeqLock::<2>::new());
        let posted = Arc::clone(&board);
        let agent = thread::spawn(move || {
            posted.post(&[1, 1]);
            posted.post(&[2, 2]);
        });
        let mut before = 0;
        for _ in 0..2 {
            let [a, b] = board.read();
            assert_eq!(a, b, "a mixture");
            assert!(a >= before, "it goes back");
            before = a;
        }
        agent.join().expect("the agent ends");
        assert_eq!(board.read(), [2, 2]);
    });
}
