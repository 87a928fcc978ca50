//! What the agent's thread does when a round of its loop found nothing to do.

/// How the agent waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Idle {
    /// Never gives the processor away: lowest latency, for a processor of its own.
    Busy,
    /// Spins, then yields, then sleeps for short times that grow.
    #[default]
    Adaptive,
}
