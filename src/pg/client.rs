//! A connection that moves only while somebody waits for its answer: no thread of its own, nothing between two messages.
//!
//! Knows the library's runtime and connection, and the simple protocol; hands on what comes while the server still
//! sends, so that reading an answer takes no time of its own. It has no deadline: the caller must give each call one.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};

use futures_core::Stream as _;
use tokio::runtime::Runtime;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Config, Error, SimpleQueryMessage, Socket};

/// So often may we be woken by a server before the session begins: a login needs three or four. Each time up to about a
/// megabyte is read, and the library keeps what is made of it: a deadline alone would let it grow until memory ends.
const MOST_WAKINGS: usize = 200;

/// Why there is no session.
pub(crate) enum NotConnected {
    /// The library says so.
    Failed(Error),
    /// The server sends and sends, and the login has no end.
    Endless,
}

/// See the module.
pub(crate) struct Client {
    // The order matters: when this is dropped the link ends, and says so to the server.
    requests: tokio_postgres::Client,
    link: Link,
}

impl Client {
    /// Connects, in this runtime, which no other connection may have.
    pub(crate) fn connect<T>(runtime: Runtime, config: &Config, tls: T) -> Result<Self, NotConnected>
    where
        T: MakeTlsConnect<Socket>,
        T::Stream: Send + 'static,
    {
        let mut wakings = 0;
        let mut connecting = Box::pin(config.connect(tls));
        let (requests, mut connection) = runtime.block_on(poll_fn(|context| {
            wakings += 1;
            if wakings > MOST_WAKINGS {
                return Poll::Ready(Err(NotConnected::Endless));
            }
            connecting.as_mut().poll(context).map_err(NotConnected::Failed)
        }))?;
        drop(connecting);
        let next = Box::new(move |context: &mut Context<'_>| connection.poll_message(context));
        Ok(Self { requests, link: Link { runtime, next } })
    }

    /// Sends a message and returns its whole answer.
    pub(crate) fn simple_query(&mut self, message: &str) -> Result<Vec<SimpleQueryMessage>, Error> {
        let mut answer = Vec::new();
        self.each(message, |part| answer.push(part))?;
        Ok(answer)
    }

    /// Sends a message and hands on each part of its answer as it comes: also those before an error.
    pub(crate) fn each(&mut self, message: &str, mut take: impl FnMut(SimpleQueryMessage)) -> Result<(), Error> {
        let Self { requests, link: Link { runtime, next } } = self;
        let answer = runtime.block_on(requests.simple_query_raw(message))?;
        let mut answer = pin!(answer);
        runtime.block_on(poll_fn(|context| {
            loop {
                let link = advance(next, context);
                let mut came = false;
                while let Poll::Ready(part) = answer.as_mut().poll_next(context) {
                    let Some(part) = part else { return Poll::Ready(Ok(())) };
                    take(part?);
                    came = true;
                }
                // What the server said before it hung up came first.
                if let Poll::Ready(Err(error)) = link {
                    return Poll::Ready(Err(error));
                }
                // A link waits for its answers to be taken.
                if !came {
                    return Poll::Pending;
                }
            }
        }))
    }

    /// Whether the connection is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.requests.is_closed()
    }
}

/// The next message that is no answer to any, or the end.
type Next = Box<dyn FnMut(&mut Context<'_>) -> Poll<Option<Result<AsyncMessage, Error>>> + Send>;

struct Link {
    runtime: Runtime,
    next: Next,
}

impl Drop for Link {
    fn drop(&mut self) {
        let Self { runtime, next } = self;
        // An error is an end too.
        let _ = runtime.block_on(poll_fn(|context| advance(next, context)));
    }
}

/// Sends what there is to send and reads what has come. Ready when the connection has ended.
fn advance(next: &mut Next, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
    loop {
        match next(context) {
            Poll::Ready(Some(Ok(AsyncMessage::Notice(notice)))) => {
                tracing::debug!(notice = notice.message(), "the server says");
            }
            Poll::Ready(Some(Ok(_))) => {}
            Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
            Poll::Ready(None) => return Poll::Ready(Ok(())),
            Poll::Pending => return Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc::{self, Receiver};
    use std::thread::{self, JoinHandle};
    use std::time::Duration;

    use tokio::runtime::Builder;
    use tokio_postgres::NoTls;
    use tokio_postgres::error::SqlState;

    use super::*;
    use crate::model::Texts;
    use crate::pg::answer::Answer;
    use crate::pg::hoards::Hoards;

    /// What takes longer hangs.
    const SOON: Duration = Duration::from_secs(60);

    /// A message of the protocol: its kind, its length, its body.
    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [&[kind], length.as_slice(), body].concat()
    }

    /// A set with this one row of texts.
    fn set(row: &[&str]) -> Vec<u8> {
        let count = u16::try_from(row.len()).unwrap().to_be_bytes();
        let column = [b"c\0".as_slice(), &[0; 18]].concat();
        let description = [count.as_slice(), &column.repeat(row.len())].concat();
        let cell = |text: &&str| [&u32::try_from(text.len()).unwrap().to_be_bytes(), text.as_bytes()].concat();
        let cells: Vec<u8> = row.iter().flat_map(cell).collect();
        [message(b'T', &description), message(b'D', &[count.as_slice(), &cells].concat())].concat()
    }

    fn ready() -> Vec<u8> {
        message(b'Z', b"I")
    }

    fn read_message(stream: &mut TcpStream, kind: bool) -> io::Result<Vec<u8>> {
        let mut head = vec![0; 4 + usize::from(kind)];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes(*head.last_chunk().unwrap());
        let mut body = vec![0; length as usize - 4];
        stream.read_exact(&mut body)?;
        Ok([head, body].concat())
    }

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_all().build().unwrap()
    }

    fn config(listener: &TcpListener) -> Config {
        let mut config = Config::new();
        config.host("127.0.0.1").port(listener.local_addr().unwrap().port()).user("nobody");
        config.ssl_mode(tokio_postgres::config::SslMode::Disable);
        config
    }

    /// A server that answers the first message like this, and returns the one after it.
    fn server(answer: impl FnOnce(&mut TcpStream) + Send + 'static) -> (Client, JoinHandle<Option<Vec<u8>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let config = config(&listener);
        let served = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(SOON)).unwrap();
            read_message(&mut stream, false).unwrap();
            stream.write_all(&[message(b'R', &[0; 4]), ready()].concat()).unwrap();
            read_message(&mut stream, true).unwrap();
            answer(&mut stream);
            read_message(&mut stream, true).ok()
        });
        let client = Client::connect(runtime(), &config, NoTls);
        (client.unwrap_or_else(|_| panic!("it does not connect")), served)
    }

    fn rows_of(part: &SimpleQueryMessage) -> usize {
        usize::from(matches!(part, SimpleQueryMessage::Row(_)))
    }

    #[test]
    fn a_login_that_has_no_end_is_given_up() {
        const MOST: usize = 300_000_000;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let config = config(&listener);
        let served = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            read_message(&mut stream, false).unwrap();
            stream.write_all(&message(b'R', &[0; 4])).unwrap();
            let notices = message(b'N', b"SNOTICE\0VNOTICE\0C00000\0Mwelcome\0\0").repeat(1_000);
            (0..MOST / notices.len()).take_while(|_| stream.write_all(&notices).is_ok()).count() * notices.len()
        });
        let client = Client::connect(runtime(), &config, NoTls);
        assert!(matches!(client, Err(NotConnected::Endless)));
        assert!(served.join().unwrap() < MOST - MOST / 10);
    }

    #[test]
    fn a_row_is_handed_on_before_the_next_is_sent_and_the_end_is_said() {
        let (taken, next): (_, Receiver<()>) = mpsc::channel();
        let (mut client, served) = server(move |stream| {
            stream.write_all(&set(&["first"])).unwrap();
            next.recv_timeout(SOON).unwrap();
            stream.write_all(&[set(&["second"]), ready()].concat()).unwrap();
        });
        let mut rows = 0;
        client
            .each("SELECT", |part| {
                rows += rows_of(&part);
                if rows == 1 {
                    // More than once: the description of the second set comes too.
                    let _ = taken.send(());
                }
            })
            .unwrap();
        assert_eq!(rows, 2);
        drop(client);
        assert_eq!(served.join().unwrap(), Some(message(b'X', b"")));
    }

    #[test]
    fn what_the_server_says_before_it_hangs_up_is_heard() {
        let (mut client, served) = server(|stream| {
            let fatal = message(b'E', b"SFATAL\0VFATAL\0C57P01\0Mthat is all\0\0");
            stream.write_all(&[set(&["a row"]), fatal].concat()).unwrap();
            stream.shutdown(std::net::Shutdown::Both).unwrap();
        });
        let mut rows = 0;
        let error = client.each("SELECT", |part| rows += rows_of(&part)).unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::ADMIN_SHUTDOWN), "{error}");
        assert_eq!(rows, 1);
        served.join().unwrap();
        assert!(client.simple_query("SELECT").is_err());
        assert!(client.is_closed());
    }

    #[test]
    fn an_answer_that_is_no_poll_is_read_to_its_end() {
        let (mut client, served) = server(|stream| {
            let clock = set(&[r"\000\000\000\000\000\000\000\001"]);
            for [pid, label] in [["no pid", "ShareLock"], ["7", "ShareLock/so"]] {
                let locks = set(&[pid, "7/1", "5", "1", label, "7", ""]);
                stream.write_all(&[clock.clone(), locks, clock.clone(), ready()].concat()).unwrap();
                read_message(stream, true).unwrap();
            }
            stream.write_all(&[set(&["well"]), ready()].concat()).unwrap();
        });
        for (sets, says) in [
            (3, "column 0 of the locks cannot be read"),
            (3, "column 4 of the locks cannot be read"),
            (7, "1 result sets where 7"),
        ] {
            let hoards = Hoards::default();
            let mut texts = Texts::default();
            let mut answer = Answer::new(&hoards, &mut texts);
            client.each("SELECT", |part| answer.take(part)).unwrap();
            let error = answer.parts(sets).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(says), "{error:?} does not say {says:?}");
        }
        drop(client);
        served.join().unwrap();
    }
}
