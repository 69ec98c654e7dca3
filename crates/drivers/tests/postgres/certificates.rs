//! A server that asks its clients for a certificate.

use forebay_drivers::Options;
use forebay_drivers::postgres::{OpenError, Postgres};
use rcgen::{CertificateParams, DnType, KeyPair};

use crate::server::{Server, Stop};
use crate::{open, options, tokio_runtime};

#[test]
fn a_client_certificate_lets_in() {
    let server = Server::start();
    let database = server.database();
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    server.use_tls(&made.cert.pem(), &made.signing_key.serialize_pem());
    let mut ours = CertificateParams::new(Vec::new()).expect("parameters");
    ours.distinguished_name.push(DnType::CommonName, "courier");
    let key = KeyPair::generate().expect("a key");
    let certificate = ours.self_signed(&key).expect("a certificate").pem();
    server.sql(&database, "CREATE ROLE courier LOGIN SUPERUSER");
    server.ask_for_certificate("courier", &certificate);
    server.stop(Stop::Fast);
    server.start_again();
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("it can be written");
        path.display().to_string()
    };
    let roots = file("roots.pem", &made.cert.pem());
    let (ours, key) = (file("ours.pem", &certificate), file("key.pem", &key.serialize_pem()));
    let runtime = tokio_runtime();
    let url = server.url(&database).replace("//app@", "//courier@");
    let at = |query: &str| -> Result<Postgres, OpenError> {
        let address = format!("{url}?sslrootcert={roots}&sslmode=require{query}").parse().expect("a URL");
        open(&runtime, Options { address, ..options(&server, &database) })
    };
    let refused = at("").err().expect("it asks for a certificate").to_string();
    assert!(refused.contains("certificate"), "{refused}");
    let wrong = at(&format!("&sslcert={ours}&sslkey={ours}")).err().expect("that is no key");
    assert!(matches!(wrong, OpenError::ClientCertificate { .. }), "{wrong}");
    at(&format!("&sslcert={ours}&sslkey={key}")).expect("it is known by its certificate");
}
