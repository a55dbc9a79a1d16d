//! HTTP connections with the limits that the protocol library leaves open.
//!
//! A stream wrapper counts time and bytes where the library reads and writes: a request's head arrives within 5 s
//! and 16 KiB, a kept connection idles at most 60 s, and a response waits at most 5 s for its reader. A middleware
//! tells the wrapper when a head is whole and when its response is made. Bodies have their own limits where they
//! are read.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderValue, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::serve::{IncomingStream, Listener};
use synod_config::{SynError, code};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, Sleep, sleep};

use crate::{
    bind::accept,
    budget::{Budget, PAUSE_MAX, Share},
    problem::Problem,
    stop::Stop,
    traffic::{Api, Traffic},
};

/// Longest time for a request's head to arrive.
const HEAD_MAX: Duration = Duration::from_secs(5);
/// Longest head, in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Longest time between two requests of a connection.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// Longest time that a response waits for its reader.
const WRITE_MAX: Duration = Duration::from_secs(5);
/// What a connection without a place reads.
const NO_PLACE: &[u8] = b"HTTP/1.1 429 Too Many Requests\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Where connections find a place, and who counts them.
#[derive(Clone)]
pub(crate) struct Places {
    budget: Arc<Budget>,
    traffic: Option<Arc<Traffic>>,
}

impl Places {
    /// Places of a listener that users meet.
    pub(crate) fn counted(budget: Arc<Budget>, traffic: Arc<Traffic>) -> Self {
        Self { budget, traffic: Some(traffic) }
    }

    /// Places of a listener for operators.
    pub(crate) fn uncounted(budget: Arc<Budget>) -> Self {
        Self { budget, traffic: None }
    }
}

/// What a request knows of its connection.
#[derive(Clone)]
pub(crate) struct Link {
    /// Its place, which numbers its lane and pays for its buffers.
    pub(crate) share: Arc<Share>,
    /// Heads and responses seen so far: odd while a request is being answered.
    marks: Arc<AtomicU64>,
    /// Whether the present request asked for a write, which may happen whatever becomes of the connection.
    wrote: Arc<AtomicBool>,
}

impl Link {
    /// The present request hands a write to the backend.
    pub(crate) fn writes(&self) {
        self.wrote.store(true, Ordering::Relaxed);
    }

    /// The response goes on behind its head: as long as this is held, the connection does not count as idle.
    pub(crate) fn goes_on(&self) -> GoesOn {
        self.marks.fetch_add(1, Ordering::Relaxed);
        GoesOn(Arc::clone(&self.marks))
    }
}

/// See [`Link::goes_on`].
pub(crate) struct GoesOn(Arc<AtomicU64>);

impl Drop for GoesOn {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Serves `router` until stop is said and every response is out.
pub(crate) async fn serve(listener: TcpListener, router: Router, places: Places, stop: Stop) {
    let router = router.layer(middleware::from_fn(mark));
    let service = router.into_make_service_with_connect_info::<Link>();
    let served = axum::serve(Guarded { listener, places }, service).with_graceful_shutdown(stop.stopped());
    if let Err(error) = served.await {
        tracing::error!(%error, "an HTTP listener ended");
    }
}

/// Tells the stream that a whole head is here, and then that its response is.
async fn mark(ConnectInfo(link): ConnectInfo<Link>, request: Request, next: Next) -> Response {
    link.marks.fetch_add(1, Ordering::Relaxed);
    link.wrote.store(false, Ordering::Relaxed);
    let response = tokio::select! {
        response = next.run(request) => response,
        () = link.share.evicted() => evicted(link.wrote.load(Ordering::Relaxed)),
    };
    link.share.settle(0);
    link.marks.fetch_add(1, Ordering::Relaxed);
    response
}

/// The answer to the largest holder of a spent budget: busy, or if it `wrote` that nobody knows.
fn evicted(wrote: bool) -> Response {
    let pause = u32::try_from(PAUSE_MAX.as_millis()).unwrap_or(u32::MAX);
    let problem = if wrote {
        SynError::of(code::CONNECTION_LOST, &[("id", "the request")]).into()
    } else {
        let busy = SynError::of(code::BUSY, &[("retry_ms", &pause.to_string())]);
        Problem::from(busy).after_ms(pause)
    };
    let mut response = problem.into_response();
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

struct Guarded {
    listener: TcpListener,
    places: Places,
}

impl Listener for Guarded {
    type Io = Stream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Stream, SocketAddr) {
        loop {
            let stream = accept(&self.listener).await;
            let Ok(peer) = stream.peer_addr() else { continue };
            match self.places.budget.admit() {
                Some(share) => return (Stream::new(stream, share, self.places.traffic.clone()), peer),
                None => {
                    if let Some(traffic) = &self.places.traffic {
                        traffic.cut();
                    }
                    // Best effort: a client that does not read learns it from the closed connection.
                    drop(stream.try_write(NO_PLACE));
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Connected<IncomingStream<'_, Guarded>> for Link {
    fn connect_info(stream: IncomingStream<'_, Guarded>) -> Self {
        stream.io().link.clone()
    }
}

/// What the stream waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The first byte of a request.
    Idle,
    /// The rest of a head.
    Head,
    /// Nothing by itself: a request is being answered.
    Busy,
}

/// One connection.
pub(crate) struct Stream {
    inner: TcpStream,
    link: Link,
    traffic: Option<Arc<Traffic>>,
    phase: Phase,
    /// The marks that `phase` follows.
    seen: u64,
    head_bytes: usize,
    /// When the present phase must end; `None` while busy.
    read_until: Option<Instant>,
    read_timer: Pin<Box<Sleep>>,
    /// When a write that waits must have moved.
    write_until: Option<Instant>,
    write_timer: Pin<Box<Sleep>>,
}

impl Stream {
    fn new(inner: TcpStream, share: Share, traffic: Option<Arc<Traffic>>) -> Self {
        if let Some(traffic) = &traffic {
            traffic.opened(Api::Http);
        }
        Self {
            inner,
            link: Link { share: Arc::new(share), marks: Arc::default(), wrote: Arc::default() },
            traffic,
            // A new connection has announced a request; it has not earned the patience for a kept one.
            phase: Phase::Head,
            seen: 0,
            head_bytes: 0,
            read_until: Some(Instant::now() + HEAD_MAX),
            read_timer: Box::pin(sleep(HEAD_MAX)),
            write_until: None,
            write_timer: Box::pin(sleep(WRITE_MAX)),
        }
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.head_bytes = 0;
        self.read_until = match phase {
            Phase::Idle => Some(Instant::now() + IDLE_MAX),
            Phase::Head => Some(Instant::now() + HEAD_MAX),
            Phase::Busy => None,
        };
        if let Some(until) = self.read_until {
            self.read_timer.as_mut().reset(until);
        }
    }

    /// Follows what the middleware said since the last read.
    fn follow(&mut self) {
        let marks = self.link.marks.load(Ordering::Relaxed);
        if marks != self.seen {
            self.seen = marks;
            self.enter(if marks % 2 == 1 { Phase::Busy } else { Phase::Idle });
        }
    }

    /// Waits for the end of the present phase; never ready without an error.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.read_until.is_none() || self.read_timer.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        Poll::Ready(Err(match self.phase {
            Phase::Idle => io::Error::new(io::ErrorKind::TimedOut, "a connection idled"),
            Phase::Head | Phase::Busy => self.cut("a head did not arrive"),
        }))
    }

    fn cut(&self, what: &'static str) -> io::Error {
        if let Some(traffic) = &self.traffic {
            traffic.cut();
        }
        io::Error::new(io::ErrorKind::TimedOut, what)
    }

    /// Judges a write that moved or waits.
    fn wrote<T>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.write_until = None;
            return result;
        }
        if self.write_until.is_none() {
            let until = Instant::now() + WRITE_MAX;
            self.write_until = Some(until);
            self.write_timer.as_mut().reset(until);
        }
        match self.write_timer.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(self.cut("a response was not read"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(traffic) = &self.traffic {
            traffic.left(Api::Http);
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        this.follow();
        let room = match this.phase {
            Phase::Busy => buffer.remaining(),
            Phase::Idle | Phase::Head => buffer.remaining().min(HEAD_BYTES_MAX - this.head_bytes),
        };
        if room == 0 && buffer.remaining() > 0 {
            return Poll::Ready(Err(this.cut("a head was too long")));
        }
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(room));
        match Pin::new(&mut this.inner).poll_read(cx, &mut part) {
            Poll::Ready(Ok(())) => {
                let count = part.filled().len();
                buffer.advance(count);
                if this.phase == Phase::Idle && count > 0 {
                    this.enter(Phase::Head);
                }
                this.head_bytes += if this.phase == Phase::Head { count } else { 0 };
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => this.poll_patience(cx),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.wrote(cx, result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Behind a response nobody may read again until the client sends, so its patience begins here.
        self.follow();
        if let Poll::Ready(Err(error)) = self.poll_patience(cx) {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        self.wrote(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
