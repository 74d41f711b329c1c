//! A keyring that is not exactly as it should be is refused with its detail and left alone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::os::unix::fs::{PermissionsExt, chown, symlink};

use agentspine_gate::Detail;
use common::{Home, issue, receipt};
use serde_json::{Value, json};

const KEYRING: &str = "keyring.json";

fn used() -> Home {
    let home = Home::new();
    issue(&mut home.vault(), receipt(1));
    home
}

#[test]
fn a_key_of_wrong_length_or_shape_is_refused_and_untouched() {
    let home = used();
    let good: Value = serde_json::from_slice(&home.read(KEYRING)).unwrap();
    let with = |change: &dyn Fn(&mut Value)| {
        let mut ring = good.clone();
        change(&mut ring);
        serde_json::to_vec(&ring).unwrap()
    };
    let key = good["keys"][0]["key"].as_str().unwrap().to_owned();
    let twice = |ring: &mut Value| {
        let first = ring["keys"][0].clone();
        ring["keys"].as_array_mut().unwrap().push(first);
    };
    let text = serde_json::to_string(&good).unwrap();
    let bad: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"{}".to_vec(),
        b"not json".to_vec(),
        vec![b' '; 70_000],
        with(&|ring| ring["keys"][0]["key"] = json!(key[..62])),
        with(&|ring| ring["keys"][0]["key"] = json!(format!("{key}00"))),
        with(&|ring| ring["keys"][0]["key"] = json!(key.to_uppercase() + "")),
        with(&|ring| ring["keys"][0]["key"] = json!("0".repeat(64))),
        with(&|ring| ring["keys"][0]["retiredSeq"] = json!(5)),
        with(&|ring| ring["keys"][0]["extra"] = json!(5)),
        with(&|ring| ring["keys"] = json!([])),
        with(&|ring| ring["current"] = json!("0000000000000000")),
        with(&|ring| ring["journalId"] = json!("short")),
        with(&twice),
        text.replacen("\"current\"", "\"current\":\"x\",\"current\"", 1).into_bytes(),
        [text.as_bytes(), b"{}"].concat(),
    ];
    for bytes in bad.into_iter().filter(|bytes| bytes != text.as_bytes()) {
        home.write(KEYRING, &bytes);
        assert_eq!(home.refused(), Detail::KeyLength, "{}", String::from_utf8_lossy(&bytes));
        assert_eq!(home.read(KEYRING), bytes);
    }
    home.write(KEYRING, text.as_bytes());
    home.vault();
}

#[test]
fn a_keyring_that_others_may_read_is_refused_until_it_is_mended() {
    let home = used();
    let path = home.dir.keyring();
    for mode in [0o644, 0o640, 0o604, 0o700, 0o400, 0o4600] {
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        assert_eq!(home.refused(), Detail::KeyMode, "{mode:o}");
    }
    let advice = home.open().err().unwrap().advice;
    assert!(advice.starts_with("Run `chmod 600 ") && advice.ends_with("keyring.json`."), "{advice}");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    home.vault();
}

#[test]
fn a_mode_that_changes_while_the_vault_is_open_is_noticed_at_the_next_use() {
    let home = used();
    let mut vault = home.vault();
    std::fs::set_permissions(home.dir.keyring(), PermissionsExt::from_mode(0o644)).unwrap();
    assert_eq!(vault.sign(b"{}").unwrap_err().detail, Detail::KeyMode);
}

#[test]
fn a_keyring_of_another_user_is_refused() {
    let home = used();
    // Only root can give a file away.
    if chown(home.dir.keyring(), Some(65_534), Some(65_534)).is_ok() {
        assert_eq!(home.refused(), Detail::KeyOwner);
    }
}

#[test]
fn a_link_a_directory_or_a_fifo_is_no_keyring() {
    let home = used();
    let path = home.dir.keyring();
    let elsewhere = home.spare("keys");
    std::fs::rename(&path, &elsewhere).unwrap();
    symlink(&elsewhere, &path).unwrap();
    assert_eq!(home.refused(), Detail::KeyMode);
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(home.refused(), Detail::KeyMode);
    std::fs::remove_dir(&path).unwrap();
    if std::process::Command::new("mkfifo").arg(&path).status().is_ok_and(|status| status.success()) {
        assert_eq!(home.refused(), Detail::KeyMode);
    }
}

#[test]
fn a_rotation_that_a_crash_cut_off_after_the_keyring_still_holds_together() {
    let home = used();
    let before = [
        ("journal.sqlite", home.read("journal.sqlite")),
        ("journal.sqlite-wal", home.read("journal.sqlite-wal")),
    ];
    let anchor = home.read("anchor");
    home.vault().rotate_key().unwrap();
    home.remove("journal.sqlite-shm");
    for (name, bytes) in &before {
        home.write(name, bytes);
    }
    home.write("anchor", &anchor);
    // A file that the crash left aside is in nobody's way.
    home.write("keyring.json.new", b"half");
    let mut vault = home.vault();
    issue(&mut vault, receipt(2));
    vault.rotate_key().unwrap();
    assert!(vault.verify_chain().unwrap().ok);
}
