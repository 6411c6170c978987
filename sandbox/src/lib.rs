//! The provider on your machine, and real servers for it to meet: what the demo and every test that needs a broker or
//! a database are built on.

pub mod eventually;
pub mod servers;

pub use eventually::eventually;
