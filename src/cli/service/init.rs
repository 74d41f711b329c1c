//! The system's service init: the file it reads, and how it is asked.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::config::Config;
use crate::report::Failure;

/// Name of the systemd unit.
const UNIT: &str = "agentspine.service";
/// Name of the launchd job.
const LABEL: &str = "io.github.agentspine.proxy";
/// Variables that decide where state and configuration are.
const VARIABLES: [&str; 3] = ["AGENTSPINE_STATE_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME"];

/// Which service init.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Linux.
    Systemd,
    /// macOS.
    Launchd,
}

/// The init of this system and the file it reads.
pub(super) struct Init {
    kind: Kind,
    /// The service's file.
    pub path: PathBuf,
}

impl Init {
    /// This system's.
    pub(super) fn of(config: &Config) -> Self {
        let kind = if cfg!(target_os = "macos") { Kind::Launchd } else { Kind::Systemd };
        let path = match kind {
            Kind::Systemd => config.config_home().join("systemd/user").join(UNIT),
            Kind::Launchd => config.homes.home.join("Library/LaunchAgents").join(format!("{LABEL}.plist")),
        };
        Self { kind, path }
    }

    /// What the file says.
    pub(super) fn file(&self, program: &Path, config: &Config) -> Result<String, Failure> {
        let variables = config.variables(|name| VARIABLES.contains(&name));
        let text = |value: &std::ffi::OsStr| value.to_str().map(str::to_owned);
        let variables: Option<Vec<_>> =
            variables.iter().map(|(name, value)| Some((text(name)?, text(value)?))).collect();
        let (Some(program), Some(variables)) = (program.to_str(), variables) else {
            return Err(Failure::other(
                "A path of this program is not UTF-8",
                "Install it below a UTF-8 path",
            ));
        };
        Ok(match self.kind {
            Kind::Systemd => unit(program, &variables),
            Kind::Launchd => plist(program, &variables),
        })
    }

    /// Starts it now and at every login; the commands for the person where it did not.
    pub(super) fn start(&self) -> Result<(), String> {
        match self.kind {
            Kind::Systemd => all(&[
                &["systemctl", "--user", "daemon-reload"],
                &["systemctl", "--user", "enable", "--now", UNIT],
            ]),
            Kind::Launchd => all(&[&["launchctl", "bootstrap", &domain(), &self.path.to_string_lossy()]]),
        }
    }

    /// Stops it for good.
    pub(super) fn stop(&self) -> Result<(), String> {
        match self.kind {
            Kind::Systemd => all(&[&["systemctl", "--user", "disable", "--now", UNIT]]),
            Kind::Launchd => all(&[&["launchctl", "bootout", &format!("{}/{LABEL}", domain())]]),
        }
    }

    /// Lets it notice that the file is gone.
    pub(super) fn forget(&self) {
        if self.kind == Kind::Systemd {
            // It notices by itself at the next login at the latest.
            let _ = all(&[&["systemctl", "--user", "daemon-reload"]]);
        }
    }

    /// Whether it runs.
    pub(super) fn is_active(&self) -> bool {
        match self.kind {
            Kind::Systemd => asks(&["systemctl", "--user", "is-active", "--quiet", UNIT]),
            Kind::Launchd => asks(&["launchctl", "print", &format!("{}/{LABEL}", domain())]),
        }
    }
}

fn domain() -> String {
    format!("gui/{}", rustix::process::getuid().as_raw())
}

/// Runs commands until one fails; all of them as one line then.
fn all(commands: &[&[&str]]) -> Result<(), String> {
    if commands.iter().all(|command| asks(command)) {
        return Ok(());
    }
    let lines: Vec<_> = commands.iter().map(|command| command.join(" ")).collect();
    Err(lines.join(" && "))
}

fn asks(command: &[&str]) -> bool {
    let [program, args @ ..] = command else { return false };
    let quiet = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    quiet.is_ok_and(|status| status.success())
}

/// systemd.service(5), systemd.exec(5). Tried again for ever: it takes the post once a daemon that `run` started has left.
fn unit(program: &str, variables: &[(String, String)]) -> String {
    let assignment = |(name, value): &(String, String)| systemd_word(&format!("{name}={value}"));
    let lines: Vec<_> = variables.iter().map(|pair| format!("Environment={}\n", assignment(pair))).collect();
    let environment = lines.concat();
    format!(
        "[Unit]\nDescription=agentspine: the gate in front of this user's agents\nStartLimitIntervalSec=0\n\n\
         [Service]\nExecStart={} proxy --service\nRestart=on-failure\nRestartSec=30\n{environment}\n\
         [Install]\nWantedBy=default.target\n",
        systemd_word(program)
    )
}

/// One word: quoted, specifiers and variables switched off.
fn systemd_word(text: &str) -> String {
    let escaped = text.replace('\\', r"\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    format!("\"{escaped}\"")
}

/// launchd.plist(5).
fn plist(program: &str, variables: &[(String, String)]) -> String {
    let string = |text: &str| format!("<string>{}</string>", xml(text));
    let args: String = [program, "proxy", "--service"].iter().map(|arg| string(arg)).collect();
    let pair = |(name, value): &(String, String)| format!("<key>{}</key>{}", xml(name), string(value));
    let environment = variables.iter().map(pair).collect::<Vec<_>>().concat();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
         <plist version=\"1.0\"><dict>\n<key>Label</key>{}\n<key>ProgramArguments</key><array>{args}</array>\n\
         <key>EnvironmentVariables</key><dict>{environment}</dict>\n<key>RunAtLoad</key><true/>\n\
         <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>\n<key>ThrottleInterval</key><integer>30</integer>\n\
         </dict></plist>\n",
        string(LABEL)
    )
}

fn xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_holds_the_program_and_where_its_state_is_each_as_one_word() {
        let variables = [("AGENTSPINE_STATE_DIR".to_owned(), "/a b/100%".to_owned())];
        assert_eq!(
            unit("/opt/my \"tools\"/agentspine", &variables),
            "[Unit]\nDescription=agentspine: the gate in front of this user's agents\nStartLimitIntervalSec=0\n\n\
             [Service]\nExecStart=\"/opt/my \\\"tools\\\"/agentspine\" proxy --service\nRestart=on-failure\nRestartSec=30\n\
             Environment=\"AGENTSPINE_STATE_DIR=/a b/100%%\"\n\n[Install]\nWantedBy=default.target\n"
        );
    }

    #[test]
    fn a_plist_holds_the_same() {
        let text = plist("/a&b/agentspine", &[("XDG_STATE_HOME".to_owned(), "/s".to_owned())]);
        let args = "<array><string>/a&amp;b/agentspine</string><string>proxy</string><string>--service</string></array>";
        assert!(text.contains(args), "{text}");
        assert!(text.contains("<key>XDG_STATE_HOME</key><string>/s</string>"), "{text}");
    }
}
