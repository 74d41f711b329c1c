//! The end of a server: with grace, then at once.

use super::*;

#[tokio::test]
async fn what_has_begun_is_finished_and_nothing_new_is_taken() {
    let (live, relayed) = Live::new();
    let house = House::start([relayed]).await;
    let mut idle = house.client().await;
    idle.send(b"GET /healthz HTTP/1.1\r\nhost: HOST\r\n\r\n").await;
    assert_eq!(idle.answer().await.status, 200);
    let mut client = house.client().await;
    client.post("/v1/messages", "", b"{}").await;
    client.head().await;
    house.stop.send(Stop::Drain).unwrap();
    assert_eq!(idle.rest().await, b"", "a resting connection is closed");
    live.say("data: last\n\n");
    client.until("data: last\n\n").await;
    assert!(TcpStream::connect(("127.0.0.1", house.port)).await.is_err(), "nobody listens any more");
    drop(live);
    assert_eq!(client.chunk().await.unwrap(), None, "a proper end");
    assert_eq!(client.rest().await, b"");
    within("the server's end", house.done).await.unwrap();
}

#[tokio::test]
async fn an_answer_that_begins_while_the_server_ends_says_that_the_connection_closes() {
    let mut house = House::start([]).await;
    let mut client = house.client().await;
    client.send(b"POST /v1/messages HTTP/1.1\r\nhost: HOST\r\nx-agentspine-workspace: SECRET\r\ncontent-type: application/json\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n").await;
    assert_eq!(client.head().await.status, 100);
    house.stop.send(Stop::Drain).unwrap();
    while TcpStream::connect(("127.0.0.1", house.port)).await.is_ok() {
        tokio::task::yield_now().await;
    }
    house.stage.script.lock().unwrap().push_back(ok());
    client.send(b"{}").await;
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    within("the server's end", &mut house.done).await.unwrap();
}

#[tokio::test]
async fn a_second_signal_cuts_what_has_begun() {
    let (live, relayed) = Live::new();
    let house = House::start([relayed]).await;
    let mut client = house.client().await;
    client.post("/v1/messages", "", b"{}").await;
    client.head().await;
    live.say("data: 1\n\n");
    client.until("data: 1\n\n").await;
    house.stop.send(Stop::Drain).unwrap();
    house.stop.send(Stop::Now).unwrap();
    assert_ne!(client.rest().await, b"0\r\n\r\n");
    assert_eq!(live.ended.await.unwrap().how, super::super::reply::How::Interrupted);
    within("the server's end", house.done).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn draining_ends_after_five_minutes() {
    let (live, relayed) = Live::with(&[]);
    let house = House::start([relayed]).await;
    let mut client = house.client().await;
    client.post("/v1/messages", "", b"{}").await;
    client.head().await;
    let start = tokio::time::Instant::now();
    house.stop.send(Stop::Drain).unwrap();
    house.done.await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 300);
    assert!(live.to.is_closed());
}
