//! All integration tests in one binary: it links once, and its servers are started from one template per version.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking; clippy allows it by itself only inside #[test] functions"
)]

mod audit;
mod bad_days;
mod cases;
mod connect;
mod deadlines;
mod demo;
mod documents;
mod drivers;
mod exporter;
mod guard;
mod hashes;
mod import;
mod leases;
mod output;
mod package;
mod parsers;
mod polls;
mod poolers;
mod pools;
mod probe;
mod purity;
mod real_tools;
mod runner;
mod state_file;
mod state_places;
mod statements;
mod support;
mod terminal;
mod top;
