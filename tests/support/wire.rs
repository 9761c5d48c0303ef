//! The few messages of PostgreSQL's protocol that the `postgres` crate cannot be asked for: a walsender session
//! (`replication=database`). Simple queries only, trust authentication only.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

/// A walsender session that answers SQL.
pub struct WalSender {
    stream: TcpStream,
    /// Its backend.
    pub pid: i32,
}

impl WalSender {
    /// Connects to a server on 127.0.0.1.
    pub fn connect(port: u16, user: &str, database: &str, application_name: &str) -> Result<Self, String> {
        let stream = TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())?;
        let mut session = Self { stream, pid: 0 };
        let mut body = 196_608_i32.to_be_bytes().to_vec();
        for (name, value) in [
            ("user", user),
            ("database", database),
            ("application_name", application_name),
            ("client_encoding", "UTF8"),
            ("replication", "database"),
        ] {
            for text in [name, value] {
                body.extend_from_slice(text.as_bytes());
                body.push(0);
            }
        }
        body.push(0);
        session.send(None, &body)?;
        session.until_ready()?;
        Ok(session)
    }

    /// Runs SQL, and waits until it has ended.
    pub fn execute(&mut self, sql: &str) -> Result<(), String> {
        let mut body = sql.as_bytes().to_vec();
        body.push(0);
        self.send(Some(b'Q'), &body)?;
        self.until_ready()
    }

    fn send(&mut self, kind: Option<u8>, body: &[u8]) -> Result<(), String> {
        let mut message: Vec<u8> = kind.into_iter().collect();
        message.extend_from_slice(&i32::try_from(body.len() + 4).unwrap().to_be_bytes());
        message.extend_from_slice(body);
        self.stream.write_all(&message).map_err(|error| error.to_string())
    }

    /// Reads up to ReadyForQuery; returns the message of an ErrorResponse on the way.
    fn until_ready(&mut self) -> Result<(), String> {
        let mut result = Ok(());
        loop {
            let (kind, body) = self.receive().map_err(|error| match &result {
                // A FATAL error is followed by the end of the connection: say the error.
                Err(said) => String::clone(said),
                Ok(()) => error.to_string(),
            })?;
            match kind {
                b'Z' => return result,
                b'K' => self.pid = i32::from_be_bytes(body[..4].try_into().unwrap()),
                b'E' => result = Err(error_message(&body)),
                b'R' if body[..4] != [0; 4] => return Err("the server wants a password".to_owned()),
                _ => {}
            }
        }
    }

    fn receive(&mut self) -> std::io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes(head[1..].try_into().unwrap());
        let mut body = vec![0; length as usize - 4];
        self.stream.read_exact(&mut body)?;
        Ok((head[0], body))
    }
}

/// The field M of an ErrorResponse.
fn error_message(body: &[u8]) -> String {
    body.split(|byte| *byte == 0)
        .find_map(|field| field.strip_prefix(b"M"))
        .map_or_else(|| "an error without a message".to_owned(), |text| String::from_utf8_lossy(text).into_owned())
}
