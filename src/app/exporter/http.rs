//! The server: sockets, connections and their limits. One thread, one current-thread runtime.
//!
//! 256 connections; 10 seconds for the TLS handshake, and for the head of a request; heads of 8 kB. A peer that does
//! not keep to that loses its connection, and nobody else notices. Nor does anybody wait for those who send nothing: see
//! [`super::places`].

use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use openssl::ssl::Ssl;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_openssl::SslStream;
use tower::ServiceExt as _;

use super::places::{Place, Places};
use super::stream::Patient;
use super::web_config::WebConfig;
use crate::error::{Error, Result};

/// So many connections at a time. One more takes the place of the one that has sent no request for the longest.
const CONNECTIONS: usize = 256;

/// For the TLS handshake, and for each request's head.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest head of a request, in bytes.
const HEAD: usize = 8 * 1024;

/// The most header lines.
const HEADERS: usize = 64;

/// How long running answers may take when we end.
const GOODBYE: Duration = Duration::from_millis(500);

/// The web config in use: replaced as a whole when its file has changed.
pub(super) type Shared = Arc<RwLock<WebConfig>>;

/// The web config that is in use now.
pub(super) fn current(shared: &Shared) -> WebConfig {
    shared.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// How a request came in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    /// Our own address of the connection.
    pub local: SocketAddr,
    /// The peer has shown a certificate that was verified.
    pub client_certificate: bool,
}

/// A running server.
pub(super) struct Server {
    end: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

impl Server {
    /// Serves on these sockets until it is stopped.
    ///
    /// # Errors
    /// The system gives no thread, or no runtime.
    pub fn start(listeners: Vec<TcpListener>, router: Router, config: Shared) -> Result<Self> {
        let cannot = |error| Error::failure("cannot start the web server").caused_by(error);
        // Passwords are checked in threads of their own: bcrypt is slow on purpose.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(2)
            .thread_keep_alive(Duration::from_secs(10))
            .build()
            .map_err(cannot)?;
        let listeners: Vec<_> = {
            let _entered = runtime.enter();
            listeners.into_iter().map(tokio::net::TcpListener::from_std).collect::<Result<_, _>>().map_err(cannot)?
        };
        let (end, ended) = watch::channel(false);
        let thread = thread::Builder::new()
            .name("web".to_owned())
            .spawn(move || {
                runtime.block_on(serve(listeners, &router, &config, ended));
                runtime.shutdown_background();
            })
            .map_err(cannot)?;
        Ok(Self { end, thread })
    }

    /// Takes no more connections, and lets running answers end.
    pub fn stop(self) {
        // It fails only if the thread has ended already.
        let _ = self.end.send(true);
        let _ = self.thread.join();
    }
}

/// A socket that listens at this address: `host:port`, `[v6]:port`, or `:port` for all addresses.
///
/// # Errors
/// It is no address, or it cannot be listened at.
pub(super) fn listen(address: &str) -> Result<TcpListener> {
    let wrong = || {
        Error::usage(format!("--web.listen-address {address} is no address"))
            .hint("Write it as 127.0.0.1:10187, [::1]:10187 or :10187.")
    };
    let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
    let port: u16 = port.parse().map_err(|_| wrong())?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let bound = if host.is_empty() {
        // One socket for both families; where there is no IPv6, for the other.
        TcpListener::bind((std::net::Ipv6Addr::UNSPECIFIED, port))
            .or_else(|_| TcpListener::bind((std::net::Ipv4Addr::UNSPECIFIED, port)))
    } else {
        let addresses: Vec<SocketAddr> = (host, port).to_socket_addrs().map_err(|_| wrong())?.collect();
        TcpListener::bind(addresses.as_slice())
    };
    let listener = bound.map_err(|error| {
        Error::failure(format!("cannot listen at {address}"))
            .caused_by(error)
            .hint("Another exporter may run already; --web.listen-address names another address.")
    })?;
    prepare(listener)
}

/// The sockets that systemd hands over.
///
/// # Errors
/// There are none, or one is no TCP socket.
pub(super) fn from_systemd() -> Result<Vec<TcpListener>> {
    let mut handed = listenfd::ListenFd::from_env();
    let mut listeners = Vec::new();
    for place in 0..handed.len() {
        let listener = handed
            .take_tcp_listener(place)
            .map_err(|error| Error::usage("systemd handed over what is no TCP socket").caused_by(error))?;
        if let Some(listener) = listener {
            listeners.push(prepare(listener)?);
        }
    }
    if listeners.is_empty() {
        return Err(Error::usage("--web.systemd-socket: systemd handed over no socket")
            .hint("Start it from a service that has a .socket unit of the same name."));
    }
    Ok(listeners)
}

fn prepare(listener: TcpListener) -> Result<TcpListener> {
    listener
        .set_nonblocking(true)
        .map_err(|error| Error::failure("cannot prepare a listening socket").caused_by(error))?;
    Ok(listener)
}

async fn serve(
    listeners: Vec<tokio::net::TcpListener>,
    router: &Router,
    config: &Shared,
    mut ended: watch::Receiver<bool>,
) {
    let places = Places::new(CONNECTIONS);
    for listener in listeners {
        let (router, config, places, ended) = (router.clone(), Arc::clone(config), Arc::clone(&places), ended.clone());
        tokio::spawn(accept(listener, router, config, places, ended));
    }
    // It fails when nobody can end us any more: that is an end too.
    let _ = ended.wait_for(|end| *end).await;
    let _ = tokio::time::timeout(GOODBYE, places.all_free()).await;
}

async fn accept(
    listener: tokio::net::TcpListener,
    router: Router,
    config: Shared,
    places: Arc<Places>,
    mut ended: watch::Receiver<bool>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = ended.wait_for(|end| *end) => return,
        };
        let Ok((stream, _)) = accepted else {
            // No descriptor is free, say. Whoever waits in the queue gets another chance.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let place = places.take().await;
        let (router, config, ended) = (router.clone(), current(&config), ended.clone());
        tokio::spawn(async move {
            let place = Arc::new(place);
            tokio::select! {
                () = connection(stream, router, config, ended, &place) => {}
                () = place.is_needed() => {}
            }
        });
        // Whoever has sent its request is read before the next one may need its place.
        tokio::task::yield_now().await;
    }
}

async fn connection(
    stream: TcpStream,
    router: Router,
    config: WebConfig,
    ended: watch::Receiver<bool>,
    place: &Arc<Place>,
) {
    let Ok(local) = stream.local_addr() else { return };
    // Answers are written whole: waiting for more helps nobody.
    let _ = stream.set_nodelay(true);
    let Some(acceptor) = &config.tls else {
        return requests(stream, router, Arrival { local, client_certificate: false }, ended, place).await;
    };
    let Ok(mut tls) = Ssl::new(acceptor.context()).and_then(|ssl| SslStream::new(ssl, stream)) else { return };
    if let Ok(Ok(())) = tokio::time::timeout(PATIENCE, Pin::new(&mut tls).accept()).await {
        let client_certificate = config.client_certificates && tls.ssl().peer_certificate().is_some();
        requests(tls, router, Arrival { local, client_certificate }, ended, place).await;
    }
}

async fn requests<S>(stream: S, router: Router, arrival: Arrival, mut ended: watch::Receiver<bool>, place: &Arc<Place>)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (at_work, at_rest) = (Arc::clone(place), Arc::clone(place));
    let router = router
        .map_request(move |mut request: Request<hyper::body::Incoming>| {
            at_work.work();
            request.extensions_mut().insert(arrival);
            request.map(Body::new)
        })
        .map_future(move |answer| {
            let place = Arc::clone(&at_rest);
            async move {
                let answer = answer.await;
                place.rest();
                answer
            }
        });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(HEAD)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(Patient::new(stream)), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    // Errors are the peer's: it went away, was too slow, or sent what is no HTTP.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = ended.wait_for(|end| *end) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
