//! What stands between a client and a server, and has bad days of its own.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};
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
    known: Arc<Known>,
}

/// What its threads know.
struct Known {
    weather: AtomicU8,
    /// The port of 127.0.0.1 that it stands before.
    server: AtomicU16,
    /// So many bytes of the server's it hands on to each client before the weather matters.
    grace: usize,
}

impl Proxy {
    /// Stands before this port of 127.0.0.1.
    pub fn before(server: u16, weather: Weather) -> Self {
        Self::after(0, server, weather)
    }

    /// The same, where each client gets so many bytes of the server's first.
    pub fn after(grace: usize, server: u16, weather: Weather) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let known = Arc::new(Known { weather: AtomicU8::new(weather as u8), server: AtomicU16::new(server), grace });
        let here = Arc::clone(&known);
        spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if here.weather() == Weather::Closed {
                    continue;
                }
                let server = here.server.load(Ordering::SeqCst);
                let Ok(stream) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                let (client_too, stream_too) = (client.try_clone().unwrap(), stream.try_clone().unwrap());
                let (up, down) = (Arc::clone(&here), Arc::clone(&here));
                spawn(move || pump(client, stream, &up, server, false));
                spawn(move || pump(stream_too, client_too, &down, server, true));
            }
        });
        Self { port, known }
    }

    /// Changes the weather, for open connections too.
    pub fn turn(&self, weather: Weather) {
        self.known.weather.store(weather as u8, Ordering::SeqCst);
    }

    /// Stands before this port from now on, and closes the connections to the one before.
    pub fn lead_to(&self, server: u16) {
        self.known.server.store(server, Ordering::SeqCst);
    }
}

impl Known {
    fn weather(&self) -> Weather {
        match self.weather.load(Ordering::SeqCst) {
            0 => Weather::Fine,
            1 => Weather::Closed,
            2 => Weather::Lost,
            _ => Weather::Drip,
        }
    }

    /// Whether a connection to this port is to end.
    fn ends(&self, server: u16) -> bool {
        self.weather() == Weather::Closed || self.server.load(Ordering::SeqCst) != server
    }
}

/// Carries bytes in one direction until one side is closed, or the weather closes both.
fn pump(mut from: TcpStream, mut to: TcpStream, known: &Known, server: u16, from_server: bool) {
    from.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut buffer = [0; 8192];
    // What a client says is heard where the server's bytes are counted.
    let mut free = if from_server || known.grace == 0 { known.grace } else { usize::MAX };
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                if known.ends(server) {
                    break;
                }
                continue;
            }
            Err(_) => break,
        };
        let (now, later) = buffer[..read].split_at(read.min(free));
        free -= now.len();
        let sent = match known.weather() {
            _ if known.ends(server) || to.write_all(now).is_err() => false,
            Weather::Fine => to.write_all(later).is_ok(),
            Weather::Lost => true,
            Weather::Closed => false,
            Weather::Drip => drip(later, &mut to, known, from_server),
        };
        if !sent {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// One byte each second, the rest at once when the weather gets better.
fn drip(bytes: &[u8], to: &mut TcpStream, known: &Known, from_server: bool) -> bool {
    for (place, byte) in bytes.iter().enumerate() {
        if !from_server || known.weather() != Weather::Drip {
            return to.write_all(&bytes[place..]).is_ok();
        }
        if to.write_all(&[*byte]).is_err() {
            return false;
        }
        for _ in 0..20 {
            if known.weather() == Weather::Drip {
                sleep(Duration::from_millis(50));
            }
        }
    }
    true
}
