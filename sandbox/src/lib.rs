//! The provider on your machine, and real servers for it to meet: what the demo and every test that needs a broker or
//! a database are built on.

pub mod account;
pub mod api;
pub mod clock;
pub mod demo;
pub mod eventually;
pub mod faults;
pub mod fill;
pub mod program;
pub mod provider;
pub mod runner;
pub mod seed;
pub mod sender;
pub mod serve;
pub mod servers;
pub mod workload;

pub use eventually::eventually;
