//! A thousand open answers: memory stays bounded, and the next client still gets in.

use super::*;

const STREAMS: usize = 1000;
/// Growth for client and server ends together, in this one process.
const GROWTH_BYTES_MAX: u64 = 160 << 20;

/// Resident bytes of this process.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_open_answers_take_bounded_memory() {
    let (lives, relayed): (Vec<_>, Vec<_>) = (0..STREAMS).map(|_| Live::new()).unzip();
    let house = House::start(relayed).await;
    let before = resident();
    let body = vec![b' '; 100_000];
    let mut clients = Vec::new();
    for _ in 0..STREAMS {
        let mut client = house.client().await;
        client.post("/v1/messages", "", &body).await;
        assert_eq!(client.head().await.status, 200);
        clients.push(client);
        // What the stage remembers for the test is not the server's.
        house.stage.seen.lock().unwrap().clear();
    }
    for live in &lives {
        live.say("data: 1\n\n");
    }
    for client in &mut clients {
        client.until("data: 1\n\n").await;
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < GROWTH_BYTES_MAX, "{} MiB for {STREAMS} answers", grown >> 20);
    assert_eq!(house.ask("GET /healthz HTTP/1.1\r\nhost: HOST\r\n\r\n").await.status, 200);
    drop(clients);
    for live in lives {
        within("an answer's end", live.ended).await.unwrap();
    }
}
