//! The rows of the table of refusals, and what becomes of the connection.

use crate::client::{Client, PATH, Post, chunk, completed};
use crate::world::{Setup, World};

#[tokio::test]
async fn the_hook_is_served_with_and_without_a_final_slash_and_nothing_else_is() {
    let world = World::start().await;
    let post = Post::signed(completed("paths"));
    let mut client = world.client().await;
    for path in [
        PATH.to_owned(),
        format!("{PATH}/"),
        format!("{PATH}?from=dashboard"),
    ] {
        let answer = client
            .post(&post.clone().line(&format!("POST {path} HTTP/1.1")))
            .await;
        assert_eq!((answer.status, answer.body.as_str()), (204, ""), "{path}");
    }
    for path in [
        "/",
        "/hooks",
        &format!("{PATH}//"),
        &format!("{PATH}/more"),
        "/metrics",
        "/Hooks/answers",
    ] {
        let answer = client
            .post(&post.clone().line(&format!("POST {path} HTTP/1.1")))
            .await;
        assert_eq!(
            (answer.status, answer.problem()),
            (404, "not-found".to_owned()),
            "{path}"
        );
        assert!(answer.header("location").is_none() && !answer.closes());
    }
}

#[tokio::test]
async fn other_methods_are_405_and_told_which_one_is_right() {
    let world = World::start().await;
    let mut client = world.client().await;
    for method in ["GET", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        let answer = client
            .post(&Post::signed(completed("m")).line(&format!("{method} {PATH} HTTP/1.1")))
            .await;
        assert_eq!(
            (answer.status, answer.header("allow")),
            (405, Some("POST")),
            "{method}"
        );
        assert_eq!(answer.problem(), "method");
    }
    assert_eq!(client.post(&Post::signed(completed("m"))).await.status, 204);
}

#[tokio::test]
async fn encoded_bodies_are_415_and_nothing_of_them_is_stored() {
    let world = World::start().await;
    let mut client = world.client().await;
    for coding in ["gzip", "br", "zstd", "identity, gzip", ""] {
        let answer = client
            .post(&Post::signed(completed("coded")).header("Content-Encoding", coding))
            .await;
        assert_eq!(
            (answer.status, answer.problem()),
            (415, "content-encoding".to_owned()),
            "{coding}"
        );
    }
    assert_eq!(world.events.count().await, 0);
    let plain = Post::signed(completed("coded")).header("Content-Encoding", "Identity");
    assert_eq!(client.post(&plain).await.status, 204);
    // Signed bytes that happen to be compressed are bytes like any others: no task can be read from them.
    let gzip = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\xae\x05\x00\x43\xbf\xa6\xa3\x02\x00\x00\x00";
    assert_eq!(client.post(&Post::signed(*gzip)).await.status, 204);
    assert!(world.events.all().await[1].subject.ends_with(".quarantine"));
}

#[tokio::test]
async fn the_content_type_does_not_matter() {
    let world = World::start().await;
    for kind in [
        "application/json",
        "text/plain",
        "application/x-www-form-urlencoded",
        "nonsense",
    ] {
        assert_eq!(
            world
                .post(&Post::signed(completed(kind)).header("Content-Type", kind))
                .await
                .status,
            204
        );
    }
    assert_eq!(world.deliver(completed("no type at all")).await, 204);
}

#[tokio::test]
async fn what_is_left_of_a_refused_body_is_never_read_as_a_request() {
    let world = World::start().await;
    let inside = Post::signed(completed("smuggled")).bytes();
    let mut client = world.client().await;
    for refused in [
        Post::forged(inside.clone()),
        Post::unsigned(inside.clone()).line("POST /elsewhere HTTP/1.1"),
    ] {
        for bytes in [refused.bytes(), refused.bytes_chunked(100)] {
            client.send(&bytes).await;
            assert!(matches!(client.answer().await.status, 400 | 404));
            assert_eq!(client.post(&Post::signed(completed("real"))).await.status, 204);
        }
    }
    assert_eq!(world.events.result_ids().await, ["real"]);
}

#[tokio::test]
async fn a_sender_refused_in_the_middle_of_a_large_body_reads_the_whole_refusal() {
    const LENGTH: usize = 20 << 20;
    let world = World::start().await;
    let body = vec![b'x'; LENGTH];
    let head = Post::forged("").head_declaring(LENGTH);
    for round in 0..100 {
        let mut client = world.client().await;
        client.send(&head).await;
        client.send(&body).await;
        let answer = client.answer().await;
        assert_eq!(
            (answer.status, answer.problem()),
            (413, "too-large".to_owned()),
            "round {round}"
        );
        assert!(answer.closes());
        client.closed().await;
    }
    assert_eq!(world.deliver(completed("after")).await, 204);
}

#[tokio::test]
async fn a_large_body_without_a_length_is_refused_at_the_limit_and_the_refusal_is_readable() {
    let world = World::start().await;
    let piece = chunk(&vec![b'x'; 64 << 10]);
    let head = Post::forged("").head_chunked();
    for round in 0..5 {
        let mut client = world.client().await;
        client.send(&head).await;
        for _ in 0..320 {
            client.send(&piece).await;
        }
        client.send(b"0\r\n\r\n").await;
        let answer = client.answer().await;
        assert_eq!(
            (answer.status, answer.problem()),
            (413, "too-large".to_owned()),
            "round {round}"
        );
        client.closed().await;
    }
}

#[tokio::test]
async fn the_limit_is_the_last_length_that_passes_with_and_without_a_declared_length() {
    let limit = 1_048_577;
    let world = Setup::shared()
        .await
        .set("BODY_LIMIT", &limit.to_string())
        .start()
        .await;
    let padded = |id: &str, length: usize| {
        let mut body = completed(id);
        body.resize(length, b' ');
        Post::signed(body)
    };
    for (length, status) in [(limit - 1, 204), (limit, 204), (limit + 1, 413)] {
        let whole = world.post(&padded(&format!("declared {length}"), length)).await;
        assert_eq!(whole.status, status, "{length}");
        let mut client = world.client().await;
        client
            .send(&padded(&format!("chunked {length}"), length).bytes_chunked(100_000))
            .await;
        assert_eq!(client.answer().await.status, status, "{length}");
    }
    assert_eq!(world.events.count().await, 4);
    assert_eq!(
        world
            .ingress
            .metric(r#"ingress_refusals_total{reason="too_large"}"#),
        2.0
    );
}

#[tokio::test]
async fn a_sender_that_waits_for_a_100_gets_it_at_once() {
    let world = World::start().await;
    let post = Post::signed(completed("patient")).header("Expect", "100-continue");
    let mut client = world.client().await;
    client.send(&post.head_declaring(post.body().len())).await;
    let asked = tokio::time::Instant::now();
    assert_eq!(client.answer().await.status, 100);
    assert!(asked.elapsed().as_secs_f64() < 1.0);
    client.send(post.body()).await;
    assert_eq!(client.answer().await.status, 204);
    assert_eq!(client.post(&Post::signed(completed("next"))).await.status, 204);
}

#[tokio::test]
async fn a_body_that_nobody_wants_is_not_asked_for() {
    let world = World::start().await;
    let waiting = |post: Post| post.header("Expect", "100-continue");
    for (post, length, status) in [
        (Post::signed(completed("huge")), 1 << 30, 413),
        (
            Post::signed(completed("lost")).line("POST /elsewhere HTTP/1.1"),
            200,
            404,
        ),
        (
            Post::signed(completed("put")).line(&format!("PUT {PATH} HTTP/1.1")),
            200,
            405,
        ),
        (Post::unsigned(completed("nobody")), 200, 400),
    ] {
        let mut client = world.client().await;
        client.send(&waiting(post).head_declaring(length)).await;
        let answer = client.answer().await;
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(
            answer.closes(),
            "a body might follow or not, so nothing else can: {answer:?}"
        );
        client.closed().await;
    }
}

#[tokio::test]
async fn a_sender_that_closes_its_sending_half_still_gets_its_answer() {
    let world = World::start().await;
    let mut client = world.client().await;
    client.send(&Post::signed(completed("half")).bytes()).await;
    client.close_sending().await;
    assert_eq!(client.answer().await.status, 204);
    client.closed().await;
}

#[tokio::test]
async fn requests_sent_in_one_go_are_answered_in_order() {
    let world = World::start().await;
    let mut client = world.client().await;
    let good = Post::signed(completed("one of two"));
    client
        .send(&[good.bytes(), Post::forged("{}").bytes(), good.bytes()].concat())
        .await;
    let statuses = [
        client.answer().await.status,
        client.answer().await.status,
        client.answer().await.status,
    ];
    assert_eq!(statuses, [204, 400, 204]);
}

#[tokio::test]
async fn what_is_no_http_is_refused_and_the_connection_closed() {
    let world = World::start().await;
    for (bytes, status) in [
        ("nonsense\r\n\r\n".to_owned(), 400),
        (
            format!("POST {PATH} HTTP/1.1\r\nHost: h\r\nContent-Length: many\r\n\r\n"),
            400,
        ),
        (
            format!(
                "POST {PATH} HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n",
                "x".repeat(100_000)
            ),
            431,
        ),
    ] {
        let mut client = Client::connect(world.ingress.listen).await;
        client.send(bytes.as_bytes()).await;
        assert_eq!(client.answer().await.status, status);
        client.gone().await;
    }
    let mut client = world.client().await;
    client.send(&Post::forged("").head_chunked()).await;
    client.send(b"zz\r\n").await;
    let answer = client.answer().await;
    assert_eq!(
        (answer.status, answer.problem()),
        (408, "incomplete-body".to_owned())
    );
    assert!(answer.closes());
    assert_eq!(world.deliver(completed("after")).await, 204);
}
