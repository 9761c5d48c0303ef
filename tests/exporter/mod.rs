//! The exporter as strangers meet it: scrapers, browsers, on-call, and peers that mean no good.

mod alerts;
mod chaos;
mod dashboards;
pub mod harness;
mod kubernetes;
pub mod life;
mod metrics;
mod pages;
mod postgres_exporter;
mod web;
