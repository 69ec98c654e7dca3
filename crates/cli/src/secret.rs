//! Passwords in what was typed: an error that quotes it shows `***` in their place.

/// What stands for a password.
const HIDDEN: &str = "***";

/// Keys of an address whose values are passwords.
const KEYS: [&str; 2] = ["password=", "sslpassword="];

/// The text as an error may quote it: in an address, `scheme://user:password@host` or with `password=`, no password.
/// Where a password may end in several places, the last counts: then too much is hidden, not too little.
pub fn hidden(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let rest = match rest.rsplit_once('@') {
        Some((login, host)) => match login.split_once(':') {
            Some((user, _)) => format!("{user}:{HIDDEN}@{host}"),
            None => rest.to_owned(),
        },
        None => rest.to_owned(),
    };
    let Some((place, query)) = rest.split_once('?') else { return format!("{scheme}://{rest}") };
    let pairs = query.split('&').map(|pair| match KEYS.iter().find(|key| pair.starts_with(**key)) {
        Some(key) => format!("{key}{HIDDEN}"),
        None => pair.to_owned(),
    });
    format!("{scheme}://{place}?{}", pairs.collect::<Vec<_>>().join("&"))
}

/// Why an address is refused. A parser's reason may quote a part of a password.
pub fn why_refused(address: &str, why: String) -> String {
    match hidden(address) == address {
        true => why,
        false => {
            "a password in it would be shown to everyone; put it into a file and give --store-password-file FILE".into()
        }
    }
}

/// A line that may quote the command line, without the passwords in that.
pub fn quoting(line: &str) -> String {
    let mut line = line.to_owned();
    for argument in std::env::args_os().skip(1) {
        let argument = argument.to_string_lossy();
        let shown = hidden(&argument);
        if shown != *argument {
            // `--flag=value` is quoted whole or without the flag.
            let (typed, shown) = match (argument.split_once('='), shown.split_once('=')) {
                (Some((flag, typed)), Some((_, shown))) if flag.starts_with("--") => (typed, shown),
                _ => (&*argument, &*shown),
            };
            line = line.replace(typed, shown);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_left() {
        for (typed, shown) in [
            ("postgres://root:pw@host/db", "postgres://root:***@host/db"),
            ("postgres://root:p@w:x/y?z@host/db", "postgres://root:***@host/db"),
            ("postgresql://root:@host", "postgresql://root:***@host"),
            (
                "postgres://root@host/db?password=a&sslmode=require",
                "postgres://root@host/db?password=***&sslmode=require",
            ),
            ("--store=postgres://root:pw@host/db", "--store=postgres://root:***@host/db"),
            ("postgres://root@host:5432/db", "postgres://root@host:5432/db"),
            ("embedded:a:b@c", "embedded:a:b@c"),
            ("256MiB", "256MiB"),
        ] {
            assert_eq!(hidden(typed), shown);
        }
    }
}
