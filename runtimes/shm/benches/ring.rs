//! `ring_pingpong_p50_ns`: a message of 64 bytes to another thread over mapped memory and back, while both poll.
//! On one core each poll that finds nothing yields, as replicas that share a core do; on two cores both spin.

use std::thread;
use std::time::Instant;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use synod_shm::{Agreed, Rest, Shown, Written, cores, offer, see};
use synod_tail::ring::{Header, Polled, Reader, Ring, RingSpec, Writer};

const ROUNDS: usize = 200_000;

fn shared(ring: Ring) -> (Written, Shown) {
    let (written, descriptor) = offer("bench", ring.words()).expect("memory");
    let uid = rustix::process::geteuid().as_raw();
    (written, see(descriptor, Agreed { words: ring.words(), uid }).expect("as agreed"))
}

fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).expect("an allowed core");
}

fn take(reader: &mut Reader<Shown>, buffer: &mut [u8], rest: Rest) {
    while !matches!(reader.poll(buffer), Polled::Message(_)) {
        match rest {
            Rest::Yield => thread::yield_now(),
            Rest::Spin => std::hint::spin_loop(),
        }
    }
}

/// The median and the 99th percentile of a round, in nanoseconds.
fn rounds(here: usize, there: usize, rest: Rest) -> (u128, u128) {
    let ring = Ring::new(RingSpec { depth: 264, slot_bytes: 128 }).expect("a ring");
    let header = Header { queue: 1, epoch: 0 };
    let (ping, pong) = (shared(ring), shared(ring));
    let other = thread::spawn(move || {
        pin(there);
        let (mut reader, mut writer, mut buffer) =
            (Reader::new(ring, ping.1), Writer::new(ring, pong.0), [0; 112]);
        for _ in 0..ROUNDS {
            take(&mut reader, &mut buffer, rest);
            writer.send(header, &buffer[..64]).expect("short");
        }
    });
    pin(here);
    let (mut reader, mut writer, mut buffer) =
        (Reader::new(ring, pong.1), Writer::new(ring, ping.0), [0; 112]);
    let mut taken: Vec<u128> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            writer.send(header, &[7; 64]).expect("short");
            take(&mut reader, &mut buffer, rest);
            start.elapsed().as_nanos()
        })
        .collect();
    other.join().expect("it ends");
    taken.sort_unstable();
    (taken[ROUNDS / 2], taken[ROUNDS * 99 / 100])
}

fn main() {
    let (count, set) = (cores().expect("cores"), sched_getaffinity(None).expect("cores"));
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect();
    let (first, last) = (allowed[0], allowed[allowed.len() - 1]);
    let show = |placement: &str, (p50, p99): (u128, u128)| {
        println!(
            "{{\"cores\":{count},\"placement\":\"{placement}\",\"ring_pingpong_p50_ns\":{p50},\"p99_ns\":{p99}}}"
        );
    };
    show("one core, yielding", rounds(first, first, Rest::Yield));
    if first != last {
        show("two cores, yielding", rounds(first, last, Rest::Yield));
        show("two cores, spinning", rounds(first, last, Rest::Spin));
    }
}
