//! Chaos: real processes form a group and are killed, stopped, continued, started again without their memory, added,
//! promoted, removed and made leaders, while clients write and read; then everything that was told to anybody is judged.
//!
//! A round is drawn from its seed (`plan`): the seed fixes which faults come when and to whom they are meant, not how the
//! processes interleave. Each node is a process of this program (`node`) with a replicated list (`list`), asked over a
//! socket (`wire`). The parent starts and strikes them (`group`), watches them (`watch`), knows whom it may strike without
//! ending the group for good (`book`), and plays the `round` with its faults (`round::strike`); `client` threads write and read and record what they are told
//! (`record`). `judge` compares that with what every life of every node applied, by the simulator's own judgement of client
//! histories. `totals` counts.

pub mod book;
pub mod client;
pub mod group;
pub mod judge;
pub mod list;
pub mod node;
pub mod plan;
pub mod record;
pub mod round;
pub mod totals;
pub mod watch;
pub mod wire;
