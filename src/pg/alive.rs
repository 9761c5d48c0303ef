//! Whether somebody answers at an address, asked with deadlines that are kept.
//!
//! The client cannot be interrupted while it waits for a server's first answer. Where a second address stands ready,
//! the first must not be able to hold it up for ever, so it is asked on a connection of its own, which is closed again
//! before the client connects.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::conninfo::{Address, Endpoint};

/// SSLRequest ("Message Formats" in PostgreSQL's manual, 55.7). Every server and pooler answers it with one byte,
/// whether or not it has TLS, and logs nothing if that is all that is asked.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// Asks for one byte. A host with several addresses is alive if one of them is.
pub(crate) fn answers(address: &Address, timeout: Duration) -> io::Result<()> {
    match &address.endpoint {
        Endpoint::Socket(folder) => {
            let stream = UnixStream::connect(folder.join(format!(".s.PGSQL.{}", address.port)))?;
            stream.set_read_timeout(Some(timeout))?;
            stream.set_write_timeout(Some(timeout))?;
            ask(stream)
        }
        Endpoint::Host { addr: Some(addr), .. } => ask_host(&SocketAddr::new(*addr, address.port), timeout),
        Endpoint::Host { name, addr: None } => {
            let mut last = io::Error::from(io::ErrorKind::NotFound);
            for addr in (name.as_str(), address.port).to_socket_addrs()? {
                match ask_host(&addr, timeout) {
                    Ok(()) => return Ok(()),
                    Err(error) => last = error,
                }
            }
            Err(last)
        }
    }
}

fn ask_host(addr: &SocketAddr, timeout: Duration) -> io::Result<()> {
    let stream = TcpStream::connect_timeout(addr, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    ask(stream)
}

fn ask(mut stream: impl Read + Write) -> io::Result<()> {
    stream.write_all(&SSL_REQUEST)?;
    stream.read_exact(&mut [0])
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    fn at(listener: &TcpListener) -> Address {
        let port = listener.local_addr().unwrap().port();
        Address { endpoint: Endpoint::Host { name: "127.0.0.1".to_owned(), addr: None }, port }
    }

    #[test]
    fn a_silent_listener_is_not_alive() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let error = answers(&at(&listener), Duration::from_millis(50)).unwrap_err();
        assert!(matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut), "{error}");
    }

    #[test]
    fn one_byte_is_enough() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = at(&listener);
        let server = thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let mut request = [0; 8];
            stream.read_exact(&mut request).unwrap();
            stream.write_all(b"N").unwrap();
            request
        });
        answers(&address, Duration::from_secs(5)).unwrap();
        assert_eq!(server.join().unwrap(), SSL_REQUEST);
    }

    #[test]
    fn nobody_there_is_an_error_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = at(&listener);
        drop(listener);
        let error = answers(&address, Duration::from_secs(5)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}
