//! Servers that are asked the same slots end alike.

use proptest::prelude::*;
use synod_service::App;
use synod_wire::{Bytes, Drawn};

use crate::floor::{Floor, body};

const KEYS: &[&str] = &["a", "b", "c", "d"];

fn line(draw: &mut Drawn) -> String {
    let mut one = |choices: &[&str]| {
        choices[usize::try_from(draw.below(choices.len() as u64)).expect("few")].to_owned()
    };
    let form = one(&[
        "SET K W",
        "SET K W NX",
        "SET K W PX T",
        "SET K W KEEPTTL",
        "SET K W XX GET",
        "GET K",
        "APPEND K W",
        "INCR K",
        "DEL K",
        "EXPIRE K 1",
        "PEXPIRE K T",
        "PERSIST K",
        "TTL K",
        "PTTL K",
        "GETDEL K",
        "RPUSH K W W",
        "LPOP K",
        "LRANGE K 0 -1",
        "SADD K W W W",
        "SREM K W",
        "SPOP K",
        "SPOP K 2",
        "SRANDMEMBER K -3",
        "SMEMBERS K",
        "SUNIONSTORE K K K",
        "HSET K W W",
        "HDEL K W",
        "HGETALL K",
        "HVALS K",
        "HRANDFIELD K",
        "ZADD K 3 W 4 W",
        "ZREM K W",
        "ZRANDMEMBER K",
        "XADD K * W W",
        "XRANGE K - +",
        "RANDOMKEY",
        "SCAN 0",
        "SSCAN K 0",
        "KEYS *",
        "DBSIZE",
        "RENAME K K",
        "FLUSHALL",
        "TIME",
    ]);
    let form = if form == "FLUSHALL" && draw.below(6) > 0 { "DBSIZE".to_owned() } else { form };
    let words = form.split(' ').map(|word| match word {
        "K" => KEYS[usize::try_from(draw.below(4)).expect("few")].to_owned(),
        "W" => draw.below(6).to_string(),
        "T" => (1 + draw.below(30)).to_string(),
        other => other.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

fn slot(draw: &mut Drawn) -> Vec<Bytes> {
    (0..1 + draw.below(5)).map(|_| body(&line(draw))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn two_servers_with_the_same_slots_end_with_equal_replies_and_roots_and_so_does_a_restored_one(
        seed in any::<u64>(), count in 1..80_u64, cut in any::<u64>(),
    ) {
        let (mut first, mut second) = (Floor::new(1), Floor::new(seed));
        let mut third: Option<Floor> = None;
        let (mut draw, cut) = (Drawn::new(seed), cut % count);
        for at in 0..count {
            let bodies = slot(&mut draw);
            let time = first.time + draw.below(12);
            (first.time, second.time) = (time, time);
            let replies = first.slot(&bodies);
            prop_assert_eq!(&second.slot(&bodies), &replies);
            prop_assert_eq!(first.adapter.root(), second.adapter.root());
            if let Some(third) = &mut third {
                third.time = time;
                prop_assert_eq!(&third.slot(&bodies), &replies, "restored");
                prop_assert_eq!(third.adapter.root(), first.adapter.root());
            }
            if at == cut {
                let mut other = Floor::new(seed ^ 1);
                for index in 0..first.adapter.chunks() {
                    other.adapter.restore(index, &first.adapter.chunk(index)).expect("its own chunk");
                }
                other.position = first.position;
                prop_assert_eq!(other.adapter.root(), first.adapter.root());
                third = Some(other);
            }
        }
        prop_assert!(third.is_some());
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let mut floor = Floor::new(1);
        floor.ask("SET a 1");
        let reply = floor.slot(&[Bytes::from(bytes)]).remove(0);
        prop_assert!(matches!(synod_redis_adapter::resp::Reply::read(&reply), Ok(Some((_, length))) if length == reply.len()));
    }
}
