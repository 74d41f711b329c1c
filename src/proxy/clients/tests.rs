//! What clients are told, over homes of their own.

use agentspine_gate::turn::Injection;

use super::background::Wanted;
use super::codex::Login;
use super::*;
use crate::config::{Environment, Flags, Secret};

const BASE: &str = "http://127.0.0.1:4321";
const SECRET: &str = "0123456789abcdef0123456789abcdef";

struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn config(&self, variables: &[(&str, &str)]) -> Config {
        let home = [("HOME", self.0.path().to_str().unwrap())];
        let all: Vec<_> = home.iter().chain(variables).copied().collect();
        Config::load(&Flags::default(), Environment::of(&all)).unwrap()
    }

    fn workspace(&self, client: Client) -> Workspace {
        let named = Some(InstructionHost::Claude);
        let binding = binding(client, self.0.path(), named, &self.config(&[])).unwrap();
        Workspace { secret: Secret::new(SECRET.to_owned()), binding, injection: Injection::On }
    }

    fn told(&self, client: Client, variables: &[(&str, &str)]) -> Told {
        told(client, BASE, &self.workspace(client), &self.config(variables)).unwrap()
    }

    fn gateway(&self, client: Client, variables: &[(&str, &str)]) -> Result<(), Failure> {
        gateway(client, BASE, &self.config(variables))
    }
}

fn variables(pairs: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
    pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
}

#[test]
fn claude_gets_its_address_and_one_header_more() {
    let desk = Desk::new();
    let header = format!("x-agentspine-workspace: {SECRET}");
    let plain = Told {
        variables: variables(&[("ANTHROPIC_BASE_URL", BASE), ("ANTHROPIC_CUSTOM_HEADERS", &header)]),
        args: vec![],
    };
    assert_eq!(desk.told(Client::Claude, &[]), plain);
    let before = [("ANTHROPIC_CUSTOM_HEADERS", "x-team: a\nX-Agentspine-Workspace: old\n")];
    let after = desk.told(Client::Claude, &before);
    assert_eq!(after.variables[1].1, format!("x-team: a\n{header}"));
}

#[test]
fn codex_gets_overrides_without_the_secret_in_them() {
    let desk = Desk::new();
    let told = desk.told(Client::Codex, &[]);
    assert_eq!(told.variables, variables(&[("AGENTSPINE_WORKSPACE", SECRET)]));
    let expected = [
        "model_provider=\"agentspine\"",
        "model_providers.agentspine.name=\"OpenAI\"",
        "model_providers.agentspine.base_url=\"http://127.0.0.1:4321/v1\"",
        "model_providers.agentspine.wire_api=\"responses\"",
        "model_providers.agentspine.env_key=\"OPENAI_API_KEY\"",
        "model_providers.agentspine.env_http_headers={\"x-agentspine-workspace\"=\"AGENTSPINE_WORKSPACE\"}",
    ];
    let expected: Vec<_> = expected.iter().flat_map(|setting| ["-c", setting]).collect();
    assert_eq!(told.args, expected);
    assert!(!told.args.iter().any(|arg| arg.contains(SECRET)));
}

#[test]
fn codex_keeps_its_login_and_a_chatgpt_login_goes_to_chatgpt() {
    let desk = Desk::new();
    for (auth, login, upstreams) in [
        ("{\"OPENAI_API_KEY\": null, \"tokens\": {\"id_token\": \"t\"}}", Login::ChatGpt, Upstreams::ChatGpt),
        ("{\"OPENAI_API_KEY\": \"sk\", \"tokens\": {\"id_token\": \"t\"}}", Login::ApiKey, Upstreams::OpenAi),
        ("{\"OPENAI_API_KEY\": \"sk\", \"tokens\": null}", Login::ApiKey, Upstreams::OpenAi),
        ("{}", Login::None, Upstreams::OpenAi),
        ("no json", Login::None, Upstreams::OpenAi),
    ] {
        desk.write(".codex/auth.json", auth);
        assert_eq!(codex::login(&desk.config(&[])), login, "{auth}");
        assert_eq!(desk.workspace(Client::Codex).binding.upstreams, upstreams, "{auth}");
        let asks = desk.told(Client::Codex, &[]).args.join(" ").contains("requires_openai_auth=true");
        assert_eq!(asks, login != Login::None, "{auth}");
    }
}

#[test]
fn opencode_gets_a_configuration_laid_over_its_own() {
    let desk = Desk::new();
    let before = [(
        "OPENCODE_CONFIG_CONTENT",
        "{\"model\": \"m\", \"provider\": {\"openai\": {\"options\": {\"timeout\": 1, \"headers\": {\"a\": \"b\"}}}}}",
    )];
    let told = desk.told(Client::OpenCode, &before);
    let content: serde_json::Value = serde_json::from_str(&told.variables[0].1).unwrap();
    assert_eq!(
        content,
        serde_json::json!({
            "model": "m",
            "provider": {
                "openai": {"options": {
                    "timeout": 1, "baseURL": "http://127.0.0.1:4321/v1",
                    "headers": {"a": "b", "x-agentspine-workspace": SECRET},
                }},
                "anthropic": {"options": {
                    "baseURL": "http://127.0.0.1:4321/v1", "headers": {"x-agentspine-workspace": SECRET},
                }},
            },
        })
    );
    for wrong in ["no json", "[]", "{\"provider\": 1}"] {
        let config = desk.config(&[("OPENCODE_CONFIG_CONTENT", wrong)]);
        assert!(told_fails(&desk, &config), "{wrong}");
    }
}

fn told_fails(desk: &Desk, config: &Config) -> bool {
    told(Client::OpenCode, BASE, &desk.workspace(Client::OpenCode), config).is_err()
}

#[test]
fn any_other_client_gets_addresses_with_the_secret_in_their_path() {
    let told = Desk::new().told(Client::Other, &[]);
    let expected = [
        ("ANTHROPIC_BASE_URL", format!("{BASE}/w/{SECRET}")),
        ("OPENAI_BASE_URL", format!("{BASE}/w/{SECRET}/v1")),
        ("AGENTSPINE_WORKSPACE", SECRET.to_owned()),
    ];
    assert_eq!(told.variables, expected);
}

#[test]
fn an_http_proxy_of_the_environment_never_gets_to_see_the_secret() {
    let desk = Desk::new();
    let direct = |before: &[(&str, &str)]| {
        let told = desk.told(Client::Claude, before);
        told.variables.into_iter().filter(|(name, _)| name.contains("NO_PROXY")).collect::<Vec<_>>()
    };
    assert_eq!(direct(&[]), []);
    let proxy = ("HTTP_PROXY", "http://proxy:3128");
    assert_eq!(direct(&[proxy]), variables(&[("NO_PROXY", "127.0.0.1")]));
    assert_eq!(direct(&[proxy, ("NO_PROXY", "a,b")]), variables(&[("NO_PROXY", "a,b,127.0.0.1")]));
    assert_eq!(direct(&[proxy, ("NO_PROXY", "a, 127.0.0.1")]), []);
}

#[test]
fn a_gateway_of_the_person_is_replaced_only_where_it_is_the_upstream() {
    let desk = Desk::new();
    let named = |url: &'static str| [("ANTHROPIC_BASE_URL", url)];
    for fine in ["https://api.anthropic.com/", "https://api.anthropic.com/v1", "http://127.0.0.1:4321/w/x"] {
        assert_eq!(desk.gateway(Client::Claude, &named(fine)), Ok(()), "{fine}");
    }
    let refused = desk.gateway(Client::Claude, &named("https://gateway.example/team")).unwrap_err();
    let Failure::Said { message, advice, .. } = refused else { panic!("{refused:?}") };
    assert!(message.contains("ANTHROPIC_BASE_URL"), "{message}");
    assert!(advice.contains("[proxy] anthropic = \"https://gateway.example/team\""), "{advice}");
    // What may be a credential is not repeated.
    let refused = desk.gateway(Client::Claude, &named("https://me:pass@gateway.example/")).unwrap_err();
    assert!(!format!("{refused:?}").contains("pass@"), "{refused:?}");

    desk.write(".config/agentspine/config.toml", "[proxy]\nanthropic = \"https://gateway.example/team\"\n");
    assert_eq!(desk.gateway(Client::Claude, &named("https://gateway.example/team/")), Ok(()));
    assert!(desk.gateway(Client::Other, &[("OPENAI_BASE_URL", "https://gateway.example")]).is_err());
    assert_eq!(desk.gateway(Client::Codex, &[("OPENAI_BASE_URL", "https://gateway.example")]), Ok(()));
}

#[test]
fn a_provider_of_codex_is_replaced_only_where_it_is_the_upstream() {
    let desk = Desk::new();
    let azure =
        "model_provider = \"azure\"\n[model_providers.azure]\nbase_url = \"https://azure.example/v1\"\n";
    for (config, fine) in [
        ("model = \"x\"\n", true),
        ("model_provider = \"openai\"\n", true),
        ("openai_base_url = \"https://api.openai.com/v1\"\n", true),
        ("openai_base_url = \"https://gateway.example/v1\"\n", false),
        ("model_provider = \"ollama\"\n", false),
        (azure, false),
    ] {
        desk.write(".codex/config.toml", config);
        assert_eq!(desk.gateway(Client::Codex, &[]).is_ok(), fine, "{config}");
    }
    desk.write(".config/agentspine/config.toml", "[proxy]\nopenai = \"https://azure.example/\"\n");
    assert_eq!(desk.gateway(Client::Codex, &[]), Ok(()));
}

#[test]
fn an_env_block_of_claude_that_leads_elsewhere_is_named_by_its_file() {
    let desk = Desk::new();
    let dir = desk.0.path().join("project");
    let found = |base| strays(Client::Claude, base, &dir, &desk.config(&[]));
    assert_eq!(found(Some(BASE)), []);
    desk.write(".claude/settings.json", "{\"env\": {\"ANTHROPIC_BASE_URL\": \"https://gateway.example\"}}");
    desk.write("project/.claude/settings.local.json", "{\"env\": {\"CLAUDE_CODE_USE_BEDROCK\": \"1\"}}");
    let strays = found(Some(BASE));
    assert_eq!(strays.len(), 2, "{strays:?}");
    assert!(strays[0].message.contains("~/.claude/settings.json sets ANTHROPIC_BASE_URL"), "{strays:?}");
    assert!(strays[1].message.contains("settings.local.json sets CLAUDE_CODE_USE_BEDROCK"), "{strays:?}");
    desk.write(".claude/settings.json", "{\"env\": {\"ANTHROPIC_BASE_URL\": \"http://127.0.0.1:4321\"}}");
    assert_eq!(found(Some(BASE)).len(), 1);
    assert_eq!(found(None).len(), 2);
}

#[test]
fn a_background_process_of_codex_is_judged_by_the_environment_of_its_start() {
    let desk = Desk::new();
    let codex_home = desk.0.path().join(".codex");
    let process = |pid: u32, args: &[&str], variables: &[&str]| {
        desk.write(&format!("proc/{pid}/cmdline"), &args.join("\0"));
        desk.write(&format!("proc/{pid}/environ"), &variables.join("\0"));
    };
    let daemon = ["codex", "app-server", "--listen", "unix://", "--managed-daemon"];
    let home = format!("HOME={}", desk.0.path().display());
    let with = |secret: &str| format!("AGENTSPINE_WORKSPACE={secret}");
    process(1, &["codex", "exec"], &[&home]);
    process(2, &daemon, &["HOME=/home/other"]);
    process(3, &daemon, &[&home]);
    process(4, &daemon, &[&home, &with("another")]);
    process(5, &daemon, &[&home, &with(SECRET)]);
    let old = "model_providers.agentspine.base_url=\"http://127.0.0.1:1/v1\"";
    process(6, &[&daemon[..], &["-c", old]].concat(), &[&home, &with(SECRET)]);

    let this = Secret::new(SECRET.to_owned());
    let found = background::find(&desk.0.path().join("proc"), &codex_home);
    let mut strays: Vec<_> = found
        .iter()
        .filter_map(|process| process.stray(Wanted::This(&this), Some(BASE)))
        .map(|stray| stray.message)
        .collect();
    strays.sort();
    assert_eq!(found.len(), 4);
    assert_eq!(
        strays,
        [
            "Codex's background process 3 was started without agentspine: the calls it makes pass no gate",
            "Codex's background process 4 still has another workspace: its calls are bound to another directory",
            "Codex's background process 6 still has another address of agentspine: its calls fail",
        ]
    );
}
