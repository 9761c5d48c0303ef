//! What stands between a client and a server, and has bad days of its own.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::{sleep, spawn};
use std::time::Duration;

/// What it does with the bytes that come by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Weather {
    /// It hands them on.
    Fine,
    /// It closes each new connection at once, and the old ones.
    Closed,
    /// It takes them and hands nothing on, in either direction: they are lost for good.
    Lost,
    /// It hands on one byte of the server's each second.
    Drip,
}

/// A proxy on 127.0.0.1. Its threads end with the connections, and the listening one with the process.
pub struct Proxy {
    /// Where it listens.
    pub port: u16,
    weather: Arc<AtomicU8>,
}

impl Proxy {
    /// Stands before this port of 127.0.0.1.
    pub fn before(server: u16, weather: Weather) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let weather = Arc::new(AtomicU8::new(weather as u8));
        let known = Arc::clone(&weather);
        spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if now(&known) == Weather::Closed {
                    continue;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                let (client_too, server_too) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let (up, down) = (Arc::clone(&known), Arc::clone(&known));
                spawn(move || pump(client, server, &up, false));
                spawn(move || pump(server_too, client_too, &down, true));
            }
        });
        Self { port, weather }
    }

    /// Changes the weather, for open connections too.
    pub fn turn(&self, weather: Weather) {
        self.weather.store(weather as u8, Ordering::SeqCst);
    }
}

fn now(weather: &AtomicU8) -> Weather {
    match weather.load(Ordering::SeqCst) {
        0 => Weather::Fine,
        1 => Weather::Closed,
        2 => Weather::Lost,
        _ => Weather::Drip,
    }
}

/// Carries bytes in one direction until one side is closed, or the weather closes both.
fn pump(mut from: TcpStream, mut to: TcpStream, weather: &AtomicU8, from_server: bool) {
    from.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut buffer = [0; 8192];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                if now(weather) == Weather::Closed {
                    break;
                }
                continue;
            }
            Err(_) => break,
        };
        let sent = match now(weather) {
            Weather::Fine => to.write_all(&buffer[..read]).is_ok(),
            Weather::Lost => true,
            Weather::Closed => false,
            Weather::Drip => drip(&buffer[..read], &mut to, weather, from_server),
        };
        if !sent {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// One byte each second, the rest at once when the weather gets better.
fn drip(bytes: &[u8], to: &mut TcpStream, weather: &AtomicU8, from_server: bool) -> bool {
    for (place, byte) in bytes.iter().enumerate() {
        if !from_server || now(weather) != Weather::Drip {
            return to.write_all(&bytes[place..]).is_ok();
        }
        if to.write_all(&[*byte]).is_err() {
            return false;
        }
        for _ in 0..20 {
            if now(weather) == Weather::Drip {
                sleep(Duration::from_millis(50));
            }
        }
    }
    true
}
