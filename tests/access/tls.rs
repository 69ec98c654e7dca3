//! TLS through the real binary, with a client of rustls and, where it can, redis-cli.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::serving::{Serving, hash_of, refusal};

/// Who signs.
type Root = CertifiedIssuer<'static, KeyPair>;

fn root(folder: &Path, name: &str) -> Root {
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    // OpenSSL takes a certificate for its own root if both have one name.
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a root");
    fs::write(folder.join(format!("{name}.pem")), root.pem()).expect("written");
    root
}

/// Writes NAME.pem and NAME.key, valid for localhost from one year to another.
fn certificate(folder: &Path, name: &str, root: &Root, years: (i32, i32)) {
    let mut params = CertificateParams::new(vec!["localhost".into(), "127.0.0.1".into()]).expect("parameters");
    (params.not_before, params.not_after) = (date_time_ymd(years.0, 1, 1), date_time_ymd(years.1, 1, 1));
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, root).expect("signed");
    fs::write(folder.join(format!("{name}.pem")), certificate.pem()).expect("written");
    fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).expect("written");
}

const VALID: (i32, i32) = (2020, 2090);

/// A client that trusts `root`.pem, and shows `identity`.pem if there is one.
fn client_config(folder: &Path, root: &str, identity: Option<&str>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let pem = |name: &str| CertificateDer::from_pem_file(folder.join(format!("{name}.pem"))).expect("a certificate");
    roots.add(pem(root)).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.expect("versions").with_root_certificates(roots);
    Arc::new(match identity {
        None => builder.with_no_client_auth(),
        Some(name) => {
            let key = PrivateKeyDer::from_pem_file(folder.join(format!("{name}.key"))).expect("a key");
            builder.with_client_auth_cert(vec![pem(name)], key).expect("certificate and key")
        }
    })
}

type Stream = StreamOwned<ClientConnection, TcpStream>;

fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> Stream {
    let name = "localhost".try_into().expect("a name");
    let session = ClientConnection::new(config.clone(), name).expect("a session");
    StreamOwned::new(session, TcpStream::connect(address).expect("it listens"))
}

/// One inline command and as many bytes of its answer as `expected` has; an error of TLS is told.
fn ask(stream: &mut Stream, command: &str, expected: &str) -> Result<(), String> {
    let told = |error: std::io::Error| error.to_string();
    stream.write_all(format!("{command}\r\n").as_bytes()).and_then(|()| stream.flush()).map_err(told)?;
    let mut reply = vec![0; expected.len()];
    stream.read_exact(&mut reply).map_err(told)?;
    assert_eq!(String::from_utf8_lossy(&reply), expected, "{command}");
    Ok(())
}

fn pong(address: SocketAddr, config: &Arc<ClientConfig>) -> Result<(), String> {
    ask(&mut connect(address, config), "PING", "+PONG\r\n")
}

const FILES: [&str; 6] = ["--tls-listen", "127.0.0.1:0", "--tls-cert", "server.pem", "--tls-key", "server.key"];

#[test]
fn tls_beside_the_plain_address() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    certificate(folder, "server", &root(folder, "root"), VALID);
    let replies = ["--client-reply-bytes-max", "64MiB", "--replies-bytes-max", "64MiB"];
    let serving = Serving::start(folder, &[&FILES[..], &replies].concat());
    let tls = serving.tls.expect("an address for TLS");
    assert_ne!(serving.address, tls);
    let config = client_config(folder, "root", None);
    let mut stream = connect(tls, &config);
    ask(&mut stream, "SET k v", "+OK\r\n").expect("TLS");
    // Much more than a record or a socket's buffer takes, both ways, and read late.
    let value = "x".repeat(3 << 20);
    let mut pipeline = format!("*3\r\n$3\r\nSET\r\n$1\r\nl\r\n${}\r\n{value}\r\n", value.len()).into_bytes();
    pipeline.extend_from_slice(&b"*2\r\n$3\r\nGET\r\n$1\r\nl\r\n".repeat(8));
    stream.write_all(&pipeline).and_then(|()| stream.flush()).expect("written");
    let mut ok = [0; 5];
    stream.read_exact(&mut ok).expect("OK");
    for _ in 0..8 {
        let mut reply = vec![0; value.len() + 12];
        stream.read_exact(&mut reply).expect("the value");
        assert!(reply.starts_with(b"$3145728\r\nxxx") && reply.ends_with(b"xxx\r\n"));
    }
    let mut plain = crate::common::Connection::new(serving.address);
    assert_eq!(plain.call(&["GET", "k"]), forebay_protocol::Reply::bulk(b"v"));
    // QUIT ends it in TLS's own way, not by cutting it off.
    ask(&mut stream, "QUIT", "+OK\r\n").expect("TLS");
    assert_eq!(stream.read(&mut ok).expect("an end that TLS knows"), 0);
    // A client that does not speak TLS is told so by TLS, and holds up no other.
    let mut wrong = TcpStream::connect(tls).expect("it listens");
    wrong.write_all(b"PING\r\n").expect("written");
    let mut answer = Vec::new();
    assert!(wrong.read_to_end(&mut answer).is_ok_and(|_| !answer.starts_with(b"+PONG")));
    serving.logs("no TLS with a client");
    let strangers = client_config_of_another_root(folder);
    assert!(pong(tls, &strangers).is_err());
    assert_eq!(pong(tls, &config), Ok(()));
    redis_cli(folder, tls);
}

/// forebay's client library over TLS, as a user with a password.
#[tokio::test]
async fn the_client_library_speaks_tls() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    certificate(folder, "server", &root(folder, "root"), VALID);
    let users = format!("user ann on #{} ~* +@all\n", hash_of("a secret of ann").trim_end());
    fs::write(folder.join("users"), users).expect("written");
    let serving = Serving::start(folder, &[&FILES[..], &["--users-file", "users"]].concat());
    let address = serving.tls.expect("an address for TLS").to_string();
    let options = forebay_client::Options::new(&address).user("ann");
    let trusting = options.clone().tls(client_config(folder, "root", None));
    let client = trusting.clone().password("a secret of ann").connect().await.expect("it serves");
    let value = vec![b'x'; 3 << 20];
    let write = async |tx: forebay_client::Transaction| tx.set("k", &value);
    client.transaction(write).await.expect("it commits");
    let other = trusting.clone().password("a secret of ann").connect().await.expect("it serves");
    let read = other.transaction(async |tx: forebay_client::Transaction| tx.get("k").await).await.expect("it reads");
    assert!(read.is_some_and(|read| *read == *value), "more than many records, both ways");
    for (options, expected) in [
        (trusting.password("wrong"), "WRONGPASS"),
        (options.clone().tls(client_config_of_another_root(folder)).password("a secret of ann"), "UnknownIssuer"),
        (options.password("a secret of ann"), "can't connect"),
    ] {
        let error = options.connect().await.err().expect("it is refused").to_string();
        assert!(error.contains(expected), "{error}");
    }
}

fn client_config_of_another_root(folder: &Path) -> Arc<ClientConfig> {
    root(folder, "other");
    client_config(folder, "other", None)
}

fn redis_cli(folder: &Path, tls: SocketAddr) {
    let port = tls.port().to_string();
    let mut command = Command::new("redis-cli");
    command.current_dir(folder).args(["--tls", "--cacert", "root.pem", "-h", "127.0.0.1", "-p", &port, "GET", "k"]);
    match command.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => eprintln!("SKIPPED, NOT TESTED: there is no redis-cli"),
        Ok(output) if String::from_utf8_lossy(&output.stderr).contains("Unrecognized option") => {
            eprintln!("SKIPPED, NOT TESTED: this redis-cli knows no TLS");
        }
        output => {
            let output = output.expect("it runs");
            assert_eq!(String::from_utf8_lossy(&output.stdout), "v\n", "{output:?}");
        }
    }
}

#[test]
fn clients_have_certificates_if_they_must() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let (root, clients) = (root(folder, "root"), root(folder, "clients"));
    certificate(folder, "server", &root, VALID);
    certificate(folder, "client", &clients, VALID);
    certificate(folder, "stranger", &root, VALID);
    let line = [&FILES[..], &["--listen", "off", "--tls-client-ca", "clients.pem"]].concat();
    let serving = Serving::start(folder, &line);
    assert_eq!(serving.tls, Some(serving.address), "no other address");
    let with = |identity| pong(serving.address, &client_config(folder, "root", identity));
    assert_eq!(with(Some("client")), Ok(()));
    assert!(with(None).is_err_and(|why| why.contains("CertificateRequired")));
    assert!(with(Some("stranger")).is_err());
}

#[test]
fn a_new_certificate_is_served_without_a_restart() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    certificate(folder, "server", &root(folder, "first"), VALID);
    let serving = Serving::start(folder, &FILES);
    let tls = serving.tls.expect("an address for TLS");
    let first = client_config(folder, "first", None);
    let mut stays = connect(tls, &first);
    ask(&mut stays, "PING", "+PONG\r\n").expect("TLS");
    // Half of a pair is not served.
    let second_root = root(folder, "second");
    let old_key = fs::read(folder.join("server.key")).expect("readable");
    certificate(folder, "server", &second_root, VALID);
    let new_key = fs::read(folder.join("server.key")).expect("readable");
    fs::write(folder.join("server.key"), old_key).expect("written");
    serving.signal("HUP");
    serving.logs("serving on with the certificate that was read before");
    assert_eq!(pong(tls, &first), Ok(()));
    // The whole is, at a signal.
    fs::write(folder.join("server.key"), new_key).expect("written");
    serving.signal("HUP");
    serving.logs("read certificate and key");
    let second = client_config(folder, "second", None);
    assert_eq!(pong(tls, &second), Ok(()));
    assert!(pong(tls, &first).is_err());
    ask(&mut stays, "PING", "+PONG\r\n").expect("what was agreed on stays");
    // And without one.
    certificate(folder, "server", &root(folder, "third"), VALID);
    let third = client_config(folder, "third", None);
    let began = std::time::Instant::now();
    while pong(tls, &third).is_err() {
        assert!(began.elapsed().as_secs() < 20, "the new files are not looked at");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn files_that_are_of_no_use_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let root = root(folder, "root");
    let refused = |line: &[&str]| refusal(folder, line);
    assert!(refused(&FILES).starts_with("can't read the certificate server.pem: No such file"));
    certificate(folder, "other", &root, VALID);
    certificate(folder, "server", &root, VALID);
    fs::remove_file(folder.join("server.key")).expect("removed");
    assert!(refused(&FILES).starts_with("can't read the key server.key: No such file"));
    fs::copy(folder.join("other.key"), folder.join("server.key")).expect("copied");
    let text = refused(&FILES);
    assert!(text.contains("server.pem and the key server.key can't be used together"), "{text}");
    fs::write(folder.join("server.key"), "no key").expect("written");
    assert!(refused(&FILES).contains("server.key: nothing of the kind is in it"));
    certificate(folder, "server", &root, (2001, 2002));
    let text = refused(&FILES);
    assert!(text.starts_with("the certificate server.pem has expired "), "{text}");
    certificate(folder, "server", &root, (2080, 2090));
    assert!(refused(&FILES).contains("is not valid for another "));
    certificate(folder, "server", &root, VALID);
    let text = refused(&[&FILES[..], &["--tls-client-ca", "server.key"]].concat());
    assert!(text.starts_with("can't read the clients' roots server.key: nothing of the kind"), "{text}");
    assert!(refused(&FILES[..4]).contains("--tls-key"));
    assert!(refused(&FILES[2..]).contains("--tls-listen"));
}
