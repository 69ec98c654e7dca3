//! Where a PostgreSQL is, as a URL: `postgres://user@host:port/database?sslmode=..&sslrootcert=..`,
//! with `sslcert=..&sslkey=..` for a server that asks for a certificate.
//!
//! Two rules differ from libpq's. A password does not stand in the URL, where a list of processes and `forebay config`
//! would show it. And TLS, where it is used, always checks the server's certificate: `require` means what libpq calls
//! `verify-full`. Without `sslmode` a server on this machine is reached without TLS, any other with it.

use std::path::PathBuf;
use std::str::FromStr;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::error::OpenError;

/// The URL of a PostgreSQL, without a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    config: Config,
    tls: bool,
    root_certificates: Option<PathBuf>,
    client: Option<ClientFiles>,
}

/// Who we are to the server, by TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClientFiles {
    /// A certificate and those that vouch for it, PEM.
    pub(super) certificate: PathBuf,
    /// Its key, PEM.
    pub(super) key: PathBuf,
}

/// Beginnings of such a URL.
pub const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        if !SCHEMES.iter().any(|scheme| text.starts_with(scheme)) {
            return Err("give postgres://user@host/database".into());
        }
        let (place, query) = text.split_once('?').unwrap_or((text, ""));
        let (mut tls, mut root_certificates, mut others) = (None, None, Vec::new());
        let (mut certificate, mut key) = (None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", mode)) => tls = Some(tls_of(mode)?),
                Some(("sslrootcert", file)) => root_certificates = Some(PathBuf::from(file)),
                Some(("sslcert", file)) => certificate = Some(PathBuf::from(file)),
                Some(("sslkey", file)) => key = Some(PathBuf::from(file)),
                _ => others.push(pair),
            }
        }
        let bare = match others.is_empty() {
            true => place.to_owned(),
            false => format!("{place}?{}", others.join("&")),
        };
        let mut config = bare
            .parse::<Config>()
            .map_err(|error| format!("{}; give postgres://user@host/database", super::classify::told(&error)))?;
        if config.get_password().is_some() {
            return Err(
                "a password in it would be shown to everyone; put it into a file and give --store-password-file FILE"
                    .into(),
            );
        }
        if config.get_dbname().or(config.get_user()).is_none() {
            return Err("it names no database; give postgres://user@host/database".into());
        }
        if config.get_hosts().is_empty() {
            config.host("localhost");
        }
        let tls = tls.unwrap_or_else(|| !config.get_hosts().iter().all(is_here));
        if root_certificates.is_some() && !tls {
            return Err("sslrootcert is of no use without TLS; add sslmode=require".into());
        }
        let client = match (certificate, key) {
            (Some(certificate), Some(key)) => Some(ClientFiles { certificate, key }),
            (None, None) => None,
            _ => return Err("sslcert and sslkey belong together; give both, or neither".into()),
        };
        if client.is_some() && !tls {
            return Err("sslcert is of no use without TLS; add sslmode=require".into());
        }
        config.ssl_mode(if tls { SslMode::Require } else { SslMode::Disable });
        Ok(Address { config, tls, root_certificates, client })
    }
}

fn tls_of(mode: &str) -> Result<bool, String> {
    match mode {
        "disable" => Ok(false),
        "require" | "verify-full" => Ok(true),
        "allow" | "prefer" | "verify-ca" => {
            Err(format!("sslmode={mode} would let anyone stand in for the server; give sslmode=require or disable"))
        }
        mode => Err(format!("there is no sslmode={mode}; give require or disable")),
    }
}

fn is_here(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            let address = name.parse::<std::net::IpAddr>();
            name == "localhost" || address.is_ok_and(|address| address.to_canonical().is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

impl Address {
    /// Of an address that was read before.
    pub(super) fn read(address: &crate::Address) -> Result<Address, OpenError> {
        let failed = |why| OpenError::Failed { place: address.place().to_owned(), why };
        address.text().parse().map_err(failed)
    }

    /// Where to connect.
    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// Whether to use TLS.
    pub(super) fn tls(&self) -> bool {
        self.tls
    }

    /// Roots of the server's certificate, PEM; the system's if `None`.
    pub(super) fn root_certificates(&self) -> Option<&PathBuf> {
        self.root_certificates.as_ref()
    }

    /// Who we are to the server, if it asks for a certificate.
    pub(super) fn client(&self) -> Option<&ClientFiles> {
        self.client.as_ref()
    }

    /// User, host and database in short, for people.
    pub fn place(&self) -> String {
        let host = match self.config.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            #[cfg(unix)]
            Some(Host::Unix(path)) => path.display().to_string(),
            None => "localhost".to_owned(),
        };
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        format!("{host}:{port}/{}", self.database())
    }

    /// The name of the database: the user's, if none is said.
    pub fn database(&self) -> &str {
        self.config.get_dbname().or(self.config.get_user()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Address, String> {
        text.parse()
    }

    #[test]
    fn a_database_is_named() {
        for text in ["postgres://", "postgres://localhost", "postgres://localhost:5432/"] {
            assert!(read(text).expect_err("no database").starts_with("it names no database"), "{text}");
        }
        assert_eq!(read("postgres://app@localhost").expect("the user's").database(), "app");
    }

    #[test]
    fn tls_is_for_others_and_always_checked() {
        assert!(!read("postgres://app@localhost/shop").expect("an address").tls());
        assert!(!read("postgresql://app@[::1]:5433/shop").expect("an address").tls());
        assert!(!read("postgres://app@/shop").expect("an address").tls());
        assert!(read("postgres://app@db.example/shop").expect("an address").tls());
        assert!(!read("postgres://app@db.example/shop?sslmode=disable").expect("an address").tls());
        assert!(read("postgres://app@localhost/shop?sslmode=verify-full").expect("an address").tls());
        assert!(read("postgres://app@db.example/shop?sslmode=prefer").expect_err("refused").contains("require"));
        assert!(read("postgres://localhost/shop?sslrootcert=x").expect_err("refused").contains("sslmode=require"));
        for half in ["sslcert=c.pem", "sslkey=k.pem"] {
            let text = format!("postgres://app@h/shop?{half}");
            assert!(read(&text).expect_err("refused").contains("belong together"));
        }
        let text = "postgres://localhost/shop?sslcert=c.pem&sslkey=k.pem";
        assert!(read(text).expect_err("refused").contains("sslmode=require"));
        let address = read("postgres://app@h/shop?sslrootcert=a.pem&connect_timeout=3").expect("an address");
        assert_eq!(address.root_certificates(), Some(&PathBuf::from("a.pem")));
        assert_eq!(address.config().get_connect_timeout().map(|time| time.as_secs()), Some(3));
    }

    #[test]
    fn no_password_in_the_open() {
        assert!(read("postgres://app:secret@h/shop").expect_err("refused").contains("--store-password-file"));
        assert!(read("mysql://h/shop").is_err());
        assert!(read("postgres://h/shop?nonsense=1").is_err());
        assert_eq!(read("postgres://app@h:7/shop").expect("an address").place(), "h:7/shop");
    }
}
