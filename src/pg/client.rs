//! A connection that moves only while somebody waits for its answer: no thread of its own, nothing between two messages.
//!
//! Knows the library's runtime and connection, and the simple protocol; hands on what comes while the server still
//! sends, so that reading an answer takes no time of its own. It has no deadline: the caller must give each call one.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};

use futures_core::Stream as _;
use tokio::runtime::Runtime;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Config, Error, SimpleQueryMessage, Socket};

/// See the module.
pub(crate) struct Client {
    // The order matters: when this is dropped the link ends, and says so to the server.
    requests: tokio_postgres::Client,
    link: Link,
}

impl Client {
    /// Connects, in this runtime, which no other connection may have.
    pub(crate) fn connect<T>(runtime: Runtime, config: &Config, tls: T) -> Result<Self, Error>
    where
        T: MakeTlsConnect<Socket>,
        T::Stream: Send + 'static,
    {
        let (requests, mut connection) = runtime.block_on(config.connect(tls))?;
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
