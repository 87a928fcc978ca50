//! What a measurement of commit latency gives.

use hdrhistogram::Histogram;

/// Latencies of one closed loop with one proposal outstanding, and of the bare writes under it.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// From `propose` to committed, in the leader's agent, in nanoseconds.
    pub commit_ns: Histogram<u64>,
    /// The same bytes written to the same followers by bare fabric writes, until a majority has them, before and after.
    pub floor_ns: Histogram<u64>,
}
