//! projector
