//! A line between a client and a server that goes dead at a chosen moment, and comes back when the test says so.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::spawn;

/// Passes bytes on until the client sends a text; that is passed on too, and nothing after it, in no direction and on
/// no connection. Dropping it lets all go on.
pub struct DeadLine {
    /// On 127.0.0.1.
    pub port: u16,
    line: Arc<Line>,
    /// Says when the line went dead.
    pub dead: Receiver<()>,
}

struct Line {
    until: &'static str,
    is_dead: Mutex<Option<bool>>,
    changed: Condvar,
}

impl DeadLine {
    /// Listens, and passes on to these ports of 127.0.0.1, each connection to the next one.
    pub fn start(to: &[u16], until: &'static str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let line = Arc::new(Line { until, is_dead: Mutex::new(None), changed: Condvar::new() });
        let (told, dead) = channel();
        let to = to.to_vec();
        spawn({
            let line = Arc::clone(&line);
            move || {
                for (client, to) in listener.incoming().zip(to.iter().cycle()) {
                    let (Ok(client), Ok(server)) = (client, TcpStream::connect((Ipv4Addr::LOCALHOST, *to))) else {
                        return;
                    };
                    let (from, back) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                    let (there, here, told) = (Arc::clone(&line), Arc::clone(&line), told.clone());
                    spawn(move || there.pass(from, server, Some(&told)));
                    spawn(move || here.pass(back, client, None));
                }
            }
        });
        Self { port, line, dead }
    }

    /// The line works from now on.
    pub fn revive(&self) {
        *self.line.is_dead.lock().unwrap() = Some(false);
        self.line.changed.notify_all();
    }
}

impl Drop for DeadLine {
    fn drop(&mut self) {
        self.revive();
    }
}

impl Line {
    fn pass(&self, mut from: TcpStream, mut to: TcpStream, told: Option<&Sender<()>>) {
        let mut buffer = [0; 16384];
        loop {
            let length = from.read(&mut buffer).unwrap_or(0);
            // A dead line does not tell that somebody has gone, either.
            let mut is_dead =
                self.changed.wait_while(self.is_dead.lock().unwrap(), |dead| *dead == Some(true)).unwrap();
            if length == 0 {
                break;
            }
            // A statement of a probe comes in one piece: it is short, and sent at once.
            let dies = is_dead.is_none()
                && told.is_some()
                && buffer[..length].windows(self.until.len()).any(|window| window == self.until.as_bytes());
            if dies {
                *is_dead = Some(true);
            }
            drop(is_dead);
            if to.write_all(&buffer[..length]).is_err() {
                break;
            }
            if let (true, Some(told)) = (dies, told) {
                let _ = told.send(());
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }
}
