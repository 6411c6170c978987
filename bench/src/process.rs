//! What processes cost, as Linux counts it.

pub mod cpu;
pub mod memory;
