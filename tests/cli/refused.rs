//! What is refused, or checked, before anything is done; each error says what helps.

use std::fs;

use super::{folder, forebay, output, refusal};

#[test]
fn wrong_settings_are_refused_in_one_line() {
    let folder = folder();
    fs::write(folder.path().join("f.toml"), "memory = '1GiB'\nlisten_on = '127.0.0.1:1'\ndurabilty = 'always'\n")
        .expect("written");
    let refused = |line: &[&str]| refusal(forebay(folder.path(), line));
    assert_eq!(
        refused(&["serve", "--config", "f.toml"]),
        "f.toml line 2: unknown key 'listen_on'; did you mean 'listen'?"
    );
    assert!(refused(&["serve", "--memory", "lots"]).starts_with("--memory 'lots': give a size"));
    assert!(refused(&["config", "--policy", "mru"]).starts_with("--policy 'mru': no policy 'mru'; choose one of lru"));
    assert!(refused(&["serve", "--store", "mysql://localhost/shop"]).contains("give embedded:PATH"));
    assert!(refused(&["serve", "--config", "none.toml"]).starts_with("can't read the configuration none.toml"));
    let public = refused(&["serve", "--listen", "0.0.0.0:6379"]);
    assert!(public.contains("forebay password") && public.contains("--password-file"), "{public}");
    assert!(fs::read_dir(folder.path()).expect("readable").count() == 1, "a refused start leaves nothing behind");
}

/// `config` finds what `serve` would refuse, and both name the setting.
#[test]
fn config_reads_the_files_that_settings_name() {
    let folder = folder();
    let tls = ["--tls-listen", "127.0.0.1:0", "--tls-cert", "none", "--tls-key", "none"];
    let database = ["--store", "postgres://app@localhost/shop", "--store-password-file", "none"];
    for (line, setting) in [
        (&["--password-file", "none"][..], "--password-file"),
        (&["--users-file", "none"], "--users-file"),
        (&["--graphs", "none"], "--graphs"),
        (&tls, "--tls-cert"),
        (&database, "--store-password-file"),
    ] {
        for command in ["config", "serve"] {
            let text = refusal(forebay(folder.path(), &[&[command], line].concat()));
            assert!(text.contains("none") && text.ends_with(&format!("check {setting}")), "{command}: {text}");
        }
    }
    assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 0, "nothing is made");
}

#[test]
fn an_error_says_what_helps() {
    let folder = folder();
    let refused = |line: &[&str]| refusal(forebay(folder.path(), line));
    let size = refused(&["config", "--bulk-bytes-max", "4GiB"]);
    assert!(size.ends_with("to 4294967295B, such as 512KiB or 256MiB"), "{size}");
    for name in ["bulk-bytes-max", "inline-bytes-max", "request-bytes-max"] {
        let size = refused(&["config", &format!("--{name}"), "1B"]);
        assert!(size.contains("give a size from 1KiB"), "{size}");
    }
    let pause = refused(&["config", "--breaker-pause-ms", "3000"]);
    assert!(pause.contains("above breaker-pause-ms-max"), "{pause}");
    let journal = refused(&["config", "--journal", "off"]);
    assert!(journal.contains("--on-outage refuse"), "{journal}");
    let output = output(forebay(folder.path(), &["nosuch"]));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && !text.contains("bench"), "{text}");
}

/// `--keys` beside `--map`: what contradicts is one line that says what to do, before the database is asked.
#[cfg(feature = "postgres")]
#[test]
fn keys_that_contradict_mappings_are_refused_in_one_line() {
    let folder = folder();
    let store = ["--store", "postgres://app@127.0.0.1:1/shop"];
    let map = ["--map", "user:{id} -> users(id)"];
    let refused =
        |settings: &[&[&str]]| refusal(forebay(folder.path(), &[&["config"], &settings.concat()[..]].concat()));
    let of = |keys: &str| refused(&[&store, &map, &["--keys", keys]]);
    for keys in ["user:* -> documents", "user:{id} -> documents", "user:1 -> documents", "user:{id}:cart -> documents"]
    {
        let error = of(keys);
        let says = "each such key has the form of --map 'user:{id} -> users(id)' and stays its row; give other keys";
        assert!(error.contains(says), "{keys}: {error}");
    }
    for (keys, says) in [
        ("s:* -> memory", "'memory' is not built yet: use documents, as in 's:* -> documents'"),
        ("s:* -> rows", "keys can't be 'rows'; give documents"),
        ("s:*", "give PATTERN -> documents"),
        (" -> documents", "the pattern is empty; '*' stands for all keys"),
        ("s:{id -> documents", "a closing brace is missing"),
    ] {
        let error = of(keys);
        assert!(error.starts_with("--keys '") && error.contains(says), "{keys}: {error}");
    }
    assert!(refused(&[&store, &["--keys", "s:* -> documents"]]).contains("without --map all keys are documents"));
    assert!(refused(&[&["--keys", "s:* -> documents"]]).contains("--store names no database"));
    fs::write(folder.path().join("f.toml"), "keys = ['s:* -> documents', 3]\n").expect("written");
    assert!(refused(&[&["--config", "f.toml"]]).contains("f.toml line 1: a list of keys holds texts"));
    fs::write(
        folder.path().join("f.toml"),
        "map = 'user:{id} -> users(id)'\nkeys = ['s:* -> documents', 'user:1 -> documents']\n",
    )
    .expect("written");
    assert!(refused(&[&store, &["--config", "f.toml"]]).contains("has the form of --map"));
    fs::write(folder.path().join("f.toml"), "map = 'user:{id} -> users(id)'\nkeys = ['s:* -> documents', '{x}!']\n")
        .expect("written");
    assert!(refused(&[&store, &["--config", "f.toml"]]).contains("give PATTERN -> documents"));
    let shown = forebay(
        folder.path(),
        &[&["config"], &store[..], &map, &["--keys", "s:* -> documents", "--keys", "t -> documents"]].concat(),
    );
    let shown = String::from_utf8_lossy(&output(shown).stdout).into_owned();
    assert!(shown.contains("s:* -> documents; t -> documents"), "{shown}");
}
