//! One connection through a proxy.

use super::proxies::{Manner, Order, State};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

/// Bytes of a chunk.
const CHUNK: usize = 16 << 10;
/// Chunks of a direction that wait.
const CHUNKS: usize = 64;
/// Pause between two bytes of a link that drips.
const DROP: Duration = Duration::from_secs(1);
/// Longest life of the side of a half-open connection that was told nothing.
const FORGOTTEN: Duration = Duration::from_secs(120);

/// Carries bytes between the dialler and the dialled until one of them ends the connection or an order does.
pub(super) async fn carry(
    (mut dialler, mut dialled): (TcpStream, TcpStream),
    [there, back]: [watch::Receiver<State>; 2],
    mut orders: watch::Receiver<Option<Order>>,
    corrupted: &(dyn Fn() + Send + Sync),
) {
    // Small frames wait for nobody, with proxies as without; a socket that cannot is as good as dead.
    drop((dialler.set_nodelay(true), dialled.set_nodelay(true)));
    let order = {
        let (from_dialler, to_dialler) = dialler.split();
        let (from_dialled, to_dialled) = dialled.split();
        tokio::select! {
            () = pump(from_dialler, to_dialled, there, corrupted) => None,
            () = pump(from_dialled, to_dialler, back, corrupted) => None,
            order = orders.wait_for(Option::is_some) => order.map_or(None, |order| *order),
        }
    };
    match order {
        None => {}
        Some(Order::Reset) => {
            abort(dialler);
            abort(dialled);
        }
        Some(Order::TellDialled) => {
            abort(dialled);
            forget(dialler).await;
        }
        Some(Order::TellDialler) => {
            abort(dialler);
            forget(dialled).await;
        }
    }
}

/// Ends a connection with a reset.
fn abort(stream: TcpStream) {
    // Without it the other side sees an orderly end, which is an end as well.
    drop(stream.set_zero_linger());
}

/// Keeps a connection open and says nothing, until its other side has had enough.
async fn forget(mut stream: TcpStream) {
    let mut chunk = vec![0; CHUNK];
    let read = async { while stream.read(&mut chunk).await.is_ok_and(|length| length > 0) {} };
    drop(tokio::time::timeout(FORGOTTEN, read).await);
}

/// Carries one direction until its source has ended and everything is written, or until nobody takes it.
async fn pump(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut link: watch::Receiver<State>,
    corrupted: &(dyn Fn() + Send + Sync),
) {
    let (say, mut hear) = mpsc::channel::<(Instant, Vec<u8>)>(CHUNKS);
    let read = async move {
        let mut chunk = vec![0; CHUNK];
        while let Ok(length @ 1..) = from.read(&mut chunk).await {
            if say.send((Instant::now(), chunk[..length].to_vec())).await.is_err() {
                return;
            }
        }
    };
    let write = async move {
        let mut done = link.borrow().corrupt;
        while let Some((came, mut chunk)) = hear.recv().await {
            let wanted = link.borrow().corrupt;
            let middle = chunk.len() / 2;
            if wanted != done
                && let Some(byte) = chunk.get_mut(middle)
            {
                *byte ^= 0x10;
                done = wanted;
                corrupted();
            }
            if pass(&mut to, &chunk, came, &mut link).await.is_err() {
                return;
            }
        }
        // Whoever does not hear the end sees the connection close in a moment.
        drop(to.shutdown().await);
    };
    tokio::pin!(read, write);
    tokio::select! {
        () = &mut write => {}
        () = &mut read => write.await,
    }
}

/// Writes one chunk in the manner of its link, which may change meanwhile.
async fn pass(
    to: &mut WriteHalf<'_>,
    chunk: &[u8],
    came: Instant,
    link: &mut watch::Receiver<State>,
) -> io::Result<()> {
    let mut rest = chunk;
    while !rest.is_empty() {
        let manner = link.borrow_and_update().manner;
        let pause = match manner {
            Manner::Late(by) if came + by > Instant::now() => Some(sleep_until(came + by)),
            Manner::Pass | Manner::Late(_) => return to.write_all(rest).await,
            Manner::Hold => None,
            Manner::Drip => {
                let (byte, others) = rest.split_at(1);
                to.write_all(byte).await?;
                rest = others;
                Some(sleep_until(Instant::now() + DROP))
            }
        };
        let gone = || io::Error::other("the links have gone");
        match pause {
            Some(pause) => tokio::select! {
                () = pause => {}
                changed = link.changed() => changed.map_err(|_| gone())?,
            },
            None => link.changed().await.map_err(|_| gone())?,
        }
    }
    Ok(())
}
