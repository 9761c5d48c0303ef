//! What decides and what renders, at sizes that matter. The load is made from one seed: it is the same in every run.
//!
//! `cargo bench --bench pure`. Each group has 10,000 and 20,000, where the time should at most double, and 100,000.

mod load;
mod shapes;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use pglockwatch::analysis::report::TargetReport;
use pglockwatch::analysis::{Grouping, Thresholds};
use pglockwatch::app::top::Rehearsal;
use pglockwatch::keys::{Dictionary, KeyBook};
use pglockwatch::model::Snapshot;
use pglockwatch::monitor::Monitor;
use pglockwatch::render::metrics::{Format, Gathered, Identity, Own, Rows, TargetMetrics};
use pglockwatch::render::style::Screen;
use pglockwatch::render::{json, runbook, table};

const SIZES: [usize; 3] = [10_000, 20_000, 100_000];

fn monitor(book: KeyBook) -> Monitor {
    Monitor::new("orders".to_owned(), Thresholds::default(), Arc::new(book), Grouping::default(), false)
}

/// A monitor that has seen the load twice, so that nothing is new to it, and its last Report.
fn settled(locks: usize) -> (Monitor, TargetReport) {
    let mut monitor = monitor(KeyBook::new(&[] as &[Dictionary]));
    monitor.observe(load::snapshot(locks, 0));
    let report = monitor.observe(load::snapshot(locks, 1));
    (monitor, report)
}

/// One poll after the other at once, and as it is in a process that polls: there the processor has done other things for a
/// second or more since the last poll, and has nothing of it in its caches.
fn analysis(criterion: &mut Criterion) {
    judge(criterion, "analysis", || ());
    let mut memory = vec![0_u8; OTHER_WORK];
    judge(criterion, "analysis after other work", || {
        memory.iter_mut().step_by(CACHE_LINE).for_each(|byte| *byte = byte.wrapping_add(1));
        black_box(&memory);
    });
}

/// More than the caches of one core hold, in bytes.
const OTHER_WORK: usize = 32 << 20;
const CACHE_LINE: usize = 64;

fn judge(criterion: &mut Criterion, name: &str, mut other_work: impl FnMut()) {
    let mut group = criterion.benchmark_group(name);
    for locks in SIZES {
        let mut monitor = None;
        let mut polls = 1;
        group.bench_function(BenchmarkId::from_parameter(locks), |bencher| {
            // Only where this size is asked for.
            let monitor = monitor.get_or_insert_with(|| settled(locks).0);
            let mut next = || -> Snapshot {
                polls += 1;
                let snapshot = load::snapshot(locks, polls);
                other_work();
                snapshot
            };
            bencher.iter_batched(&mut next, |snapshot| monitor.observe(snapshot), BatchSize::PerIteration);
        });
    }
    group.finish();
}

/// What is dear in another respect than the number of locks.
fn shapes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("shapes");
    group.sample_size(20);
    for (name, shape, sizes) in shapes::SHAPES {
        for size in sizes {
            let mut monitor = None;
            let mut polls = 1;
            group.bench_function(BenchmarkId::new(name, size), |bencher| {
                let monitor = monitor.get_or_insert_with(|| {
                    let mut monitor = self::monitor(KeyBook::new(&[] as &[Dictionary]));
                    monitor.observe(shape(size, 0));
                    monitor.observe(shape(size, 1));
                    monitor
                });
                let mut next = || -> Snapshot {
                    polls += 1;
                    shape(size, polls)
                };
                bencher.iter_batched(&mut next, |snapshot| monitor.observe(snapshot), BatchSize::PerIteration);
            });
        }
    }
    group.finish();
}

fn rendering(criterion: &mut Criterion) {
    let (_, report) = settled(10_000);
    let mut group = criterion.benchmark_group("render");
    let screen = Screen { color: true, width: Some(200), height: Some(60) };
    // Advice is worded for who first reads it: each round has a report that nobody has read, and gives it back.
    let mut render = |name: &str, with: &dyn Fn(&[TargetReport]) -> usize| {
        group.bench_function(name, |bencher| {
            let unread = || [report.clone()];
            bencher.iter_batched(unread, |reports| (with(&reports), reports), BatchSize::PerIteration);
        });
    };
    render("table", &|reports| table::render(reports, screen).len());
    render("json", &|reports| json::render(reports, "1.2.3").map_or(0, |text| text.len()));
    render("runbook", &|reports| runbook::render(reports, &runbook::Selection::default(), screen).len());
    render("advice of all findings", &|reports| {
        reports.iter().flat_map(|report| &report.findings).map(|finding| finding.advice.steps.len()).sum()
    });
    group.finish();
}

fn encoding(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("metrics");
    let (_, report) = settled(10_000);
    let report = Arc::new(report);
    let now = Duration::from_secs(10);
    let identity = Identity { target: "orders".to_owned(), interval: Duration::from_secs(5), ..Identity::default() };
    let mut target = TargetMetrics::new(identity);
    let applications = target.admit(&report, now);
    group.bench_function("count", |bencher| bencher.iter(|| Rows::of(&report, &applications, false)));
    target.observe(Arc::clone(&report), Rows::of(&report, &applications, false), now, load::time(0.0));
    let own = Own { version: "1.2.3", config_reload_success: true, dictionary_reload_success: true };
    for format in Format::ALL {
        group.bench_function(format!("page {format:?}"), |bencher| {
            bencher.iter(|| Gathered::of(own, [&target], now).encode(format));
        });
    }
    group.finish();
}

fn dictionary(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("dictionary");
    group.sample_size(10);
    for entries in SIZES {
        let text = load::dictionary(entries);
        group.bench_function(BenchmarkId::new("read", entries), |bencher| {
            bencher.iter(|| Dictionary::parse("keys.toml", black_box(&text)).map_err(|problems| problems.len()));
        });
    }
    let (read, _) = Dictionary::read("keys.toml", &load::dictionary(100_000), &[]);
    group.bench_function("index 100000", |bencher| bencher.iter(|| KeyBook::new([&read])));
    let mut monitor = monitor(KeyBook::new([&read]));
    let mut polls = 0;
    group.bench_function("analysis of 10000 locks with 100000 names", |bencher| {
        let mut next = || -> Snapshot {
            polls += 1;
            load::snapshot(10_000, polls)
        };
        bencher.iter_batched(&mut next, |snapshot| monitor.observe(snapshot), BatchSize::PerIteration);
    });
    group.finish();
}

/// The interactive screen at 10,000 locks: drawing alone, and from a key to what it draws.
fn screen(criterion: &mut Criterion) {
    let (_, report) = settled(10_000);
    let mut rehearsal = Rehearsal::new(250, 80);
    rehearsal.show(Arc::new(report));
    let mut group = criterion.benchmark_group("top");
    for (view, name) in [('1', "findings"), ('2', "locks"), ('3', "waits"), ('5', "keys")] {
        rehearsal.press(view);
        group.bench_function(format!("frame, {name}"), |bencher| bencher.iter(|| rehearsal.draw()));
        group.bench_function(format!("key press, {name}"), |bencher| {
            bencher.iter(|| {
                rehearsal.press('j');
                rehearsal.draw();
            });
        });
    }
    rehearsal.press('2');
    for (key, name) in [('>', "sort"), ('e', "expected")] {
        group.bench_function(format!("key press, {name}"), |bencher| {
            bencher.iter(|| {
                rehearsal.press(key);
                rehearsal.draw();
            });
        });
    }
    rehearsal.press('/');
    let mut typed = 0;
    group.bench_function("key press, a letter of the filter", |bencher| {
        bencher.iter(|| {
            // A filter of one or two letters, again and again.
            typed += 1;
            rehearsal.press(if typed % 3 == 0 { '\u{1b}' } else { '7' });
            if typed % 3 == 0 {
                rehearsal.press('/');
            }
            rehearsal.draw();
        });
    });
    group.finish();
}

criterion_group!(pure, analysis, shapes, rendering, encoding, dictionary, screen);
criterion_main!(pure);
