//! The schedule, and bad days that need no PostgreSQL.

use std::io::{self, Read as _};
use std::net::TcpListener;
use std::sync::mpsc::{self, RecvTimeoutError};

use super::*;
use crate::analysis::report::FailureKind;
use crate::pg::ConnInfo;
use crate::pg::conninfo::FixedEnvironment;

const INTERVAL: Duration = Duration::from_millis(50);

fn watch(port: u16, timeout: Duration) -> (Handle, Receiver<(usize, Update)>) {
    let text = format!("host=127.0.0.1 port={port} user=nobody");
    let settings = ConnInfo::parse(&text).unwrap().complete(&FixedEnvironment::default()).unwrap();
    let observe = Box::new(|_| panic!("there is no server"));
    let spec = TargetSpec {
        name: "t".to_owned(),
        settings,
        poolers: Vec::new(),
        interval: INTERVAL,
        timeout,
        leases: [].into(),
        observe,
    };
    let (updates, inbox) = mpsc::channel();
    (Schedule::start().unwrap().spawn(7, spec, updates).unwrap(), inbox)
}

fn failure(inbox: &Receiver<(usize, Update)>) -> (Failure, Duration) {
    match inbox.recv_timeout(Duration::from_secs(10)).unwrap() {
        (7, Update::Failed { failure, retry_in }) => (failure, retry_in),
        other => panic!("{other:?}"),
    }
}

#[test]
fn pauses_double_up_to_half_a_minute() {
    let seconds = |interval, failures| pause(Duration::from_secs(interval), failures).as_secs();
    assert_eq!([1, 2, 3, 4].map(|failures| seconds(5, failures)), [5, 10, 20, 30]);
    assert_eq!(seconds(5, 1_000), 30);
    assert_eq!(seconds(300, 1), 300);
    assert_eq!(seconds(300, 9), 300);
}

#[test]
fn a_refused_connection_is_tried_again_later_and_later() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let (handle, inbox) = watch(port, Duration::from_secs(5));
    let pauses: Vec<Duration> = (0..3)
        .map(|_| {
            let (failure, retry_in) = failure(&inbox);
            assert_eq!(failure.kind, FailureKind::Connect);
            assert!(failure.message.contains(&format!("127.0.0.1:{port}: connection refused")), "{failure:?}");
            assert!(!failure.hints.is_empty());
            retry_in
        })
        .collect();
    for (failures, pause) in (0..).zip(pauses) {
        let middle = INTERVAL * 2_u32.pow(failures);
        assert!(pause >= middle.mul_f64(0.8) && pause <= middle.mul_f64(1.2), "{pause:?} around {middle:?}");
    }
    handle.stop();
}

#[test]
fn a_silent_listener_is_told_in_time_connected_once_and_left_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let timeout = Duration::from_millis(200);
    let began = Instant::now();
    let (handle, inbox) = watch(listener.local_addr().unwrap().port(), timeout);
    let (first, _) = failure(&inbox);
    assert!(began.elapsed() >= timeout);
    assert_eq!(first.kind, FailureKind::Timeout);
    // It is spoken of again, but nothing new is begun while the first may still be open.
    failure(&inbox);
    failure(&inbox);
    handle.refresh_now();
    assert!(listener.accept().is_ok());
    assert_eq!(listener.accept().map(drop).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    let stopping = Instant::now();
    handle.stop();
    assert!(stopping.elapsed() < Duration::from_secs(1));
}

#[test]
fn a_server_that_hangs_up_is_tried_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (handle, inbox) = watch(listener.local_addr().unwrap().port(), Duration::from_secs(5));
    for _ in 0..2 {
        let mut stream = listener.accept().unwrap().0;
        stream.read_exact(&mut [0; 8]).unwrap();
        drop(stream);
        let (failure, _) = failure(&inbox);
        assert_eq!(failure.kind, FailureKind::Connect);
        assert!(failure.message.contains("closed before the server had answered"), "{failure:?}");
    }
    handle.refresh_now();
    assert!(listener.accept().is_ok());
}

#[test]
fn it_ends_when_nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let (handle, inbox) = watch(port, Duration::from_secs(5));
    drop(inbox);
    assert_eq!(handle.ended.recv_timeout(Duration::from_secs(10)), Err(RecvTimeoutError::Disconnected));
}

#[test]
fn pollers_that_begin_together_spread_over_the_interval() {
    assert!((share(0) - 1.0).abs() < f64::EPSILON, "a single one keeps its interval");
    let mut shares: Vec<f64> = (0..200).map(share).collect();
    shares.sort_by(f64::total_cmp);
    assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)));
    let gap = shares.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
    assert!(gap < 2.0 / 200.0, "nobody polls for {gap} of the interval");
}

/// A target that nobody can reach, whose poller ends badly when it judges.
#[test]
fn a_poller_that_crashes_is_told_once_and_no_report_stays() {
    let (updates, inbox) = mpsc::channel();
    let settings =
        ConnInfo::parse("host=127.0.0.1 user=nobody").unwrap().complete(&FixedEnvironment::default()).unwrap();
    let spec = TargetSpec {
        name: "t".to_owned(),
        settings,
        poolers: Vec::new(),
        interval: INTERVAL,
        timeout: INTERVAL,
        leases: [].into(),
        observe: Box::new(|_| panic!("nothing is judged")),
    };
    let mut controller = Controller::new(7, &spec, updates);
    assert!(controller.handle(Event::Worker(Progress::Crashed)).is_err(), "it is over");
    let (failure, _) = failure(&inbox);
    assert!(failure.message.contains("a defect of pglockwatch"), "{failure:?}");
}
