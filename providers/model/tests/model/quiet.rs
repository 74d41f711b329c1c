//! What the client does not do: read the environment, print keys, ask anybody it was not told to ask.
#![allow(clippy::disallowed_methods)]

use agentspine_model::{Dialect, Found, HttpConfig, LocalServer, ModelClient, Secret, Url};
use serde_json::json;

use crate::fake_model::{Answer, FakeModel};
use crate::{KEY, call, client, drain, target, text_of};

/// Set for the child process only: where the model is.
const CHILD: &str = "AGENTSPINE_TEST_MODEL";
const THIS: &str = "quiet::a_proxy_in_the_environment_is_not_asked";

#[tokio::test]
async fn a_proxy_in_the_environment_is_not_asked() {
    if let Ok(base) = std::env::var(CHILD) {
        let reply = call(&client(), &target(Dialect::OpenAiChat, &base), b"{}").await.unwrap();
        assert_eq!(text_of(&drain(reply).await.0), "direct");
        return;
    }
    let model = FakeModel::start([Answer::text(&["direct"])]).await;
    let proxy = FakeModel::start([Answer::text(&["through the proxy"])]).await;
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", THIS]).env_clear().env(CHILD, model.base());
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy"] {
        child.env(name, proxy.base());
    }
    let output = child.output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!((model.requests().len(), proxy.requests().len()), (1, 0));
}

#[tokio::test]
async fn a_configured_proxy_is_asked_for_other_machines_only() {
    let proxy = FakeModel::start([Answer::text(&["through"])]).await;
    let local = FakeModel::start([Answer::text(&["direct"])]).await;
    let url = Url::parse(proxy.base()).unwrap();
    let client = ModelClient::new(HttpConfig { proxy: Some(url), ..HttpConfig::default() }).unwrap();
    for (base, expected) in [("http://model.example", "through"), (local.base(), "direct")] {
        let reply = call(&client, &target(Dialect::OpenAiChat, base), b"{}").await.unwrap();
        assert_eq!(text_of(&drain(reply).await.0), expected);
    }
    assert_eq!((proxy.requests().len(), local.requests().len()), (1, 1));
    assert_eq!(proxy.requests()[0].header("host"), Some("model.example"));
}

#[test]
fn a_secret_has_no_readable_form() {
    let secret = Secret::new(format!("\t{KEY} \n")).unwrap();
    let target = target(Dialect::OpenAiChat, "");
    assert_eq!(format!("{secret:?} {:?}", target.credential), "Secret(***) Some(Secret(***))");
    assert!(!format!("{target:#?}").contains("canary"));
    assert!(Secret::new(" \n".into()).is_none());
}

#[tokio::test]
async fn local_servers_are_found_by_a_bare_get() {
    let ollama = json!({ "models": [{ "name": "qwen3:8b" }, { "name": "bad\u{1b}[31m" }, { "size": 1 }] });
    let llama = json!({ "object": "list", "data": [{ "id": "gemma" }] });
    let (tags, models) = (
        FakeModel::start([Answer::json(200, &ollama)]).await,
        FakeModel::start([Answer::json(200, &llama)]).await,
    );
    let client = patient();
    let found = |server: &FakeModel, name: &str| {
        Some(Found { base_url: server.base().into(), models: vec![name.into()] })
    };
    assert_eq!(client.find(LocalServer::Ollama(tags.port())).await, found(&tags, "qwen3:8b"));
    assert_eq!(client.find(LocalServer::Compatible(models.port())).await, found(&models, "gemma"));
    let first = found(&tags, "qwen3:8b").and_then(|found| found.first()).unwrap();
    assert_eq!(first, format!("chat:qwen3:8b@{}", tags.base()));
    for (server, path) in [(&tags, "/api/tags"), (&models, "/v1/models")] {
        let request = &server.requests()[0];
        assert_eq!((request.method.as_str(), request.path.as_str(), request.body.len()), ("GET", path, 0));
        assert_eq!((request.header("authorization"), request.header("x-api-key")), (None, None));
    }
}

#[tokio::test]
async fn what_is_no_such_server_is_not_found() {
    let empty = Answer::json(200, &json!({ "data": [] }));
    let answers = [
        Answer::status(404, &[], "no"),
        Answer::status(200, &[], "<html>"),
        empty,
        Answer::redirect("http://model.example/"),
    ];
    let server = FakeModel::start(answers).await;
    let client = patient();
    for _ in 0..4 {
        assert_eq!(client.find(LocalServer::Compatible(server.port())).await, None);
    }
    server.push(Answer::Hang);
    let hasty = crate::hasty(|config, short| config.probe = short);
    assert_eq!(hasty.find(LocalServer::Compatible(server.port())).await, None);
}

/// A client whose probe does not depend on how busy this machine is.
fn patient() -> ModelClient {
    ModelClient::new(HttpConfig { probe: HttpConfig::default().head, ..HttpConfig::default() }).unwrap()
}
