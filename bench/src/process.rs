//! What processes cost, as Linux counts it.

pub mod busy;
pub mod cpu;
pub mod memory;
