//! Tests on a device. They are always compiled, and run where there is one: `make lab` runs them on soft-RoCE in a virtual
//! machine, with `--ignored`. What a software NIC cannot show: posted writes of a bus, and what a firmware does in RESET.

mod fabric;
mod fence;
mod rig;
