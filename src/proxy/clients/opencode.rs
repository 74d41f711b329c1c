//! opencode: `OPENCODE_CONFIG_CONTENT`, laid over its configuration files (<https://opencode.ai/docs/config>).

use serde_json::{Map, Value, json};

use super::{HEADER, Told, WORKSPACE};
use crate::config::Config;
use crate::report::Failure;

/// Configuration as JSON; wins over its files.
const CONTENT: &str = "OPENCODE_CONFIG_CONTENT";
/// The providers whose dialects we speak, by the names it knows them under.
const PROVIDERS: [&str; 2] = ["anthropic", "openai"];

pub(super) fn told(base: &str, secret: &str, config: &Config) -> Result<Told, Failure> {
    let mut content = match config.environment.text(CONTENT) {
        None => json!({}),
        Some(text) => serde_json::from_str(text).map_err(|_| unmergeable())?,
    };
    for name in PROVIDERS {
        let options = ["provider", name, "options"].iter().try_fold(&mut content, |at, key| enter(at, key));
        let options = options.and_then(Value::as_object_mut).ok_or_else(unmergeable)?;
        options.insert("baseURL".to_owned(), format!("{base}/v1").into());
        let headers = options.entry("headers").or_insert_with(|| json!({}));
        headers.as_object_mut().ok_or_else(unmergeable)?.insert(HEADER.to_owned(), secret.into());
    }
    let variables = vec![(CONTENT, content.to_string()), (WORKSPACE, secret.to_owned())];
    Ok(Told { variables, args: Vec::new() })
}

/// The object below a key, made where it is missing.
fn enter<'a>(value: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    let object: &mut Map<String, Value> = value.as_object_mut()?;
    Some(object.entry(key).or_insert_with(|| json!({})))
}

fn unmergeable() -> Failure {
    Failure::usage(
        format!("{CONTENT} is set to what is no JSON configuration"),
        format!("unset {CONTENT}, or set it to a JSON object"),
    )
}
