//! Which signatures pass.

use crate::client::{Client, Post, SECRET, completed, mac, now, signature};
use crate::world::{OLD_SECRET, Setup, World};

fn with_signature(body: &[u8], value: impl AsRef<[u8]>) -> Post {
    Post::unsigned(body).header("Webhook-Signature", value)
}

#[tokio::test]
async fn one_valid_signature_in_a_list_is_enough_whatever_its_place_and_whichever_secret_made_it() {
    let world = World::start().await;
    let (body, t) = (completed("rotation"), now());
    let (good, old) = (mac(SECRET, t, &body), mac(OLD_SECRET, t, &body));
    let (stranger, zeros) = (mac("whsec_nobody", t, &body), "0".repeat(64));
    let passing = [
        format!("t={t},v1={zeros},v1={good}"),
        format!("t={t},v1={good},v1={zeros}"),
        format!("t={t},v1={old}"),
        format!("t={t},v0={zeros},v1={good}"),
        format!("v1={good},t={t}"),
        format!("t={t}, v1={good}"),
        format!("t={t},v1={}", good.to_uppercase()),
    ];
    for value in &passing {
        assert_eq!(
            world.post(&with_signature(&body, value)).await.status,
            204,
            "{value}"
        );
    }
    assert_eq!(world.events.count().await, 1);
    let failing = [
        format!("t={t},v1={zeros},v1={stranger}"),
        format!("t={t},v0={good}"),
        format!("t={t}"),
    ];
    for value in &failing {
        let answer = world.post(&with_signature(&completed("forged"), value)).await;
        assert_eq!(
            (answer.status, answer.problem()),
            (400, "signature".to_owned()),
            "{value}"
        );
    }
    assert_eq!(world.events.count().await, 1);
    assert_eq!(
        world.ingress.metric(r#"ingress_verified_by_key_total{key="0"}"#),
        6.0
    );
    assert_eq!(
        world.ingress.metric(r#"ingress_verified_by_key_total{key="1"}"#),
        1.0
    );
}

#[tokio::test]
async fn signatures_are_checked_over_the_bytes_received_and_those_bytes_are_stored() {
    let world = World::start().await;
    let task = |id: &str| format!(r#""task":{{"id":"{id}","status":"COMPLETED"}}"#);
    let bodies = [
        format!(r#"{{  {}  ,"response":{{"b":1.0,"a":1e2}}}}"#, task("spaces")),
        format!(r#"{{"response":{{"z":1,"a":2}},{}}}"#, task("keys reversed")),
        format!(r#"{{{},"response":"caf\u00e9 café"}}"#, task("escapes")),
        format!("{{{},\"response\":null}}\n", task("newline")),
    ];
    for body in &bodies {
        assert_eq!(world.deliver(body.as_bytes()).await, 204, "{body}");
        let t = now();
        let respaced = body.replacen(':', ": ", 1);
        let forged = with_signature(respaced.as_bytes(), signature(SECRET, t, body.as_bytes()));
        assert_eq!(world.post(&forged).await.status, 400, "{respaced}");
    }
    let stored = world.events.all().await;
    assert_eq!(
        stored.iter().map(|event| &event.body[..]).collect::<Vec<_>>(),
        bodies.map(String::into_bytes)
    );
}

#[tokio::test]
async fn a_signed_byte_order_mark_is_quarantined_and_no_bad_signature() {
    let world = World::start().await;
    let body = [b"\xef\xbb\xbf", &completed("bom")[..]].concat();
    assert_eq!(world.deliver(body.clone()).await, 204);
    let stored = world.events.all().await;
    assert!(stored[0].subject.ends_with(".quarantine"), "{stored:?}");
    assert_eq!(stored[0].body, body);
}

#[tokio::test]
async fn broken_signature_headers_are_400_and_the_connection_lives_on() {
    let world = World::start().await;
    let (body, t) = (completed("broken"), now());
    let good = mac(SECRET, t, &body);
    let values: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b"x".to_vec(),
        format!("t={t},v1={}", &good[1..]).into_bytes(),
        format!("t={t},v1={good}0").into_bytes(),
        format!("t={t},v1={}", "y".repeat(64)).into_bytes(),
        format!("t={t},v1={good},{}", "x".repeat(10_000)).into_bytes(),
        format!("t={t},v1={good}{}", format!(",v1={good}").repeat(16)).into_bytes(),
        [format!("t={t},v1={good},").as_bytes(), b"\xff"].concat(),
        format!("t={t},v1={good},é={}", "ö".repeat(9)).into_bytes(),
        b"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=".to_vec(),
    ];
    let mut client = world.client().await;
    assert_eq!(client.post(&Post::unsigned(body.clone())).await.status, 400);
    for value in values {
        let answer = client.post(&with_signature(&body, &value)).await;
        assert_eq!(
            (answer.status, answer.problem()),
            (400, "signature".to_owned()),
            "{}",
            value.escape_ascii()
        );
        assert!(!answer.closes());
    }
    assert_eq!(world.events.count().await, 0);
    assert_eq!(world.ingress.metric("ingress_wrong_scheme_suspected_total"), 1.0);
    assert_eq!(client.post(&Post::signed(body)).await.status, 204);
}

#[tokio::test]
async fn two_signature_lines_are_one_list_in_the_list_scheme_and_an_error_in_the_standard_one() {
    let (body, t) = (completed("lines"), now());
    let world = World::start().await;
    let lines = with_signature(&body, format!("t={t}"))
        .header("Webhook-Signature", format!("v1={}", mac(SECRET, t, &body)));
    assert_eq!(world.post(&lines).await.status, 204);

    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let standard = Setup::shared()
        .await
        .set("SIGNATURE_SCHEME", "standard")
        .set("KEY_ENCODING", "base64")
        .set("WEBHOOK_SECRETS", secret)
        .start()
        .await;
    let key = schemas::signature::SigningKey::new(secret, schemas::signature::KeyEncoding::Base64).unwrap();
    let headers = schemas::signature::sign(&schemas::signature::Scheme::Standard, &[key], "msg_1", t, &body);
    let signed = headers.iter().fold(Post::unsigned(body), |post, (name, value)| {
        post.header(name.as_str(), value)
    });
    assert_eq!(standard.post(&signed).await.status, 204);
    let (name, value) = &headers[2];
    assert_eq!(
        standard.post(&signed.header(name.as_str(), value)).await.status,
        400
    );
}

#[tokio::test]
async fn stamps_that_are_stale_or_none_are_refused_and_fresh_ones_on_either_side_pass() {
    let world = World::start().await;
    let body = completed("stamps");
    let mut client = world.client().await;
    // A few seconds of room: the test's clock reads are not the process's. The exact second is a unit test of the verifier.
    for age in [-310, 310, 100_000, -100_000] {
        let stale = with_signature(&body, signature(SECRET, now() - age, &body));
        assert_eq!(client.post(&stale).await.status, 400, "{age}");
    }
    let t = now();
    let good = mac(SECRET, t, &body);
    for stamp in [
        "",
        "now",
        &format!("+{t}"),
        "-1",
        &format!("{t}000"),
        &"1".repeat(40),
        &format!("0{t}"),
        &format!("{t}.0"),
    ] {
        let odd = with_signature(&body, format!("t={stamp},v1={good}"));
        assert_eq!(client.post(&odd).await.status, 400, "{stamp}");
    }
    assert_eq!(world.events.count().await, 0);
    for age in [-290, 290] {
        let fresh = with_signature(&body, signature(SECRET, now() - age, &body));
        assert_eq!(client.post(&fresh).await.status, 204, "{age}");
    }
}

#[tokio::test]
async fn a_split_header_scheme_takes_its_headers_from_the_settings() {
    let world = Setup::shared()
        .await
        .set("SIGNATURE_SCHEME", "split_header")
        .set("SIGNATURE_HEADER", "X-Sender-Signature")
        .set("TIMESTAMP_HEADER", "X-Sender-Timestamp")
        .start()
        .await;
    let (body, t) = (completed("split"), now());
    let post = Post::unsigned(body.clone())
        .header("x-sender-timestamp", t.to_string())
        .header("x-sender-signature", format!("v1={}", mac(SECRET, t, &body)));
    assert_eq!(
        Client::connect(world.ingress.listen)
            .await
            .post(&post)
            .await
            .status,
        204
    );
    assert_eq!(world.deliver(body).await, 400);
}
