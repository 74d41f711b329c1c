//! `agentspine env`: what `run` would set, to be set by the person.

use agentspine_gate::turn::InstructionHost;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Map, Value, json};

use super::flags::{IdentityFlags, instruction_host};
use super::run::{Renewal, prepare};
use crate::config::{Config, Flags};
use crate::proxy::clients::{self, Client, Told};
use crate::report::{Failure, Output, Report};

/// Schema of what is printed as JSON.
const SCHEMA: &str = "agentspine.env/v1";

/// Print the variables that lead a client's calls from this directory through the gate
#[derive(Args)]
#[command(after_help = "Examples:
  eval \"$(agentspine env claude)\" && claude
  eval \"$(agentspine env --instruction-host codex generic)\" && python agent.py
  agentspine env codex --json

What is printed holds this directory's secret. The proxy is started if none serves; one that nobody uses for half an hour
leaves, unless it is a service: agentspine service install")]
pub(super) struct EnvArgs {
    /// Which client
    #[arg(value_name = "CLIENT", value_parser = client())]
    client: Client,
    /// Whose instruction files are mandatory [default: the client's own; else instruction_host of the configuration]
    #[arg(long, value_name = "HOST", value_parser = instruction_host())]
    instruction_host: Option<InstructionHost>,
    /// Draw a new secret for this directory first: clients that were started with the old one are refused
    #[arg(long)]
    renew: bool,
    /// Print JSON (agentspine.env/v1)
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    identity: IdentityFlags,
}

fn client() -> impl TypedValueParser<Value = Client> {
    PossibleValuesParser::new(["claude", "codex", "opencode", "generic"])
        .map(|name| Client::of(name.as_ref()))
}

impl EnvArgs {
    pub(super) fn flags(&self) -> Flags {
        Flags { instruction_host: self.instruction_host, ..self.identity.flags() }
    }
}

/// Prints them.
pub(super) fn run(args: &EnvArgs, config: &Config, report: &mut Report) -> Result<(), Failure> {
    let secret = if args.renew { Renewal::New } else { Renewal::Same };
    let prepared = prepare(args.client, args.instruction_host, secret, config)?;
    let told = clients::told(args.client, &prepared.serving.notice.base(), &prepared.workspace, config)?;
    match report.output() {
        Output::Json => report.json(&document(&told)),
        Output::People => report.lines(lines(&told)),
    }
    Ok(())
}

fn document(told: &Told) -> Value {
    let variables: Map<_, _> = told
        .variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), Value::from(value.as_str())))
        .collect();
    json!({"schema": SCHEMA, "variables": variables, "arguments": told.args})
}

/// For a POSIX shell's `eval`. Arguments become a function of the client's name: only Codex has any.
fn lines(told: &Told) -> Vec<String> {
    let export = |(name, value): &(&str, String)| format!("export {name}={}", quoted(value));
    let mut lines: Vec<_> = told.variables.iter().map(export).collect();
    if !told.args.is_empty() {
        let args: Vec<_> = told.args.iter().map(|arg| quoted(arg)).collect();
        lines.push(format!("codex() {{ command codex {} \"$@\"; }}", args.join(" ")));
    }
    lines
}

/// One word of a POSIX shell, whatever it holds.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_one_shell_word_each() {
        let told = Told {
            variables: vec![("A", "it's $(x) `y`\nz".to_owned())],
            args: vec!["-c".to_owned(), "a={\"b\"=\"c\"}".to_owned()],
        };
        assert_eq!(
            lines(&told),
            ["export A='it'\\''s $(x) `y`\nz'", "codex() { command codex '-c' 'a={\"b\"=\"c\"}' \"$@\"; }"]
        );
    }
}
