//! Tests of signing and verifying beyond the shared vectors.
