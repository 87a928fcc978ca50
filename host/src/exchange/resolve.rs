//! Names to addresses, in a thread of its own: the system's resolver may wait for seconds, and nothing else is to.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ringleader_core::types::NodeId;

use super::wake::Wake;

/// How long an end waits for an answer that nobody wants any more.
const PATIENCE: Duration = Duration::from_millis(100);

/// The thread. Dropped, it ends once the question that it works on is answered.
pub(super) struct Resolver {
    questions: Option<Sender<(NodeId, String)>>,
    answers: Receiver<(NodeId, Option<SocketAddr>)>,
    thread: Option<JoinHandle<()>>,
}

impl Resolver {
    /// Whoever asks is woken when there is an answer.
    pub(super) fn start(wake: Arc<Wake>) -> io::Result<Resolver> {
        let (questions, asked) = channel::<(NodeId, String)>();
        let (answer, answers) = channel();
        let thread = thread::Builder::new().name("resolve".to_owned()).spawn(move || {
            for (turn, (node, name)) in asked.into_iter().enumerate() {
                let found: Vec<SocketAddr> =
                    name.to_socket_addrs().map_or_else(|_| Vec::new(), Iterator::collect);
                // One after the other, should the first not be the one that answers.
                let one = (!found.is_empty()).then(|| found[turn % found.len()]);
                if answer.send((node, one)).is_err() {
                    return;
                }
                wake.wake();
            }
        })?;
        Ok(Resolver { questions: Some(questions), answers, thread: Some(thread) })
    }

    pub(super) fn ask(&self, node: NodeId, name: &str) {
        if let Some(questions) = &self.questions {
            // The thread lives as long as this does.
            let _ = questions.send((node, name.to_owned()));
        }
    }

    pub(super) fn answer(&self) -> Option<(NodeId, Option<SocketAddr>)> {
        self.answers.try_recv().ok()
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        self.questions = None;
        let Some(thread) = self.thread.take() else { return };
        let begun = Instant::now();
        while !thread.is_finished() {
            if begun.elapsed() > PATIENCE {
                // The system's resolver cannot be told to stop. The thread has nothing but its question, and ends with it.
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
        let _ = thread.join();
    }
}
