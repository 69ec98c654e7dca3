//! Transaction types in TOML and SQL: `graph`, `sim`, and a server that reads them at its start and while it runs.

use std::fs;
use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::lab::{Lab, small, testdata};
use crate::common::process::Forebay;

const PATIENCE: Duration = Duration::from_secs(20);

/// What a step to a vertex that is not there is told.
fn known(connection: &mut Connection) -> String {
    connection.call(&["TXN", "BEGIN", "TYPE", "Order"]);
    let told = connection.call(&["TXN", "STEP", "none"]);
    connection.call(&["TXN", "ROLLBACK"]);
    let Reply::Error(told) = told else { panic!("an error, not {told:?}") };
    String::from_utf8_lossy(&told).into_owned()
}

#[test]
fn a_server_reads_types_in_sql_and_reads_them_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("shop.sql");
    let order = "-- @transaction Order(:id)\nSELECT o.total, u.name FROM orders o JOIN users u ON u.id = o.user_id \
        WHERE o.id = :id;\n";
    fs::write(&file, order).expect("written");
    let name = file.to_str().expect("UTF-8");
    let forebay = Forebay::start("memory", &["--policy", "detox", "--graphs", name]);
    let mut connection = Connection::new(forebay.address);
    assert_eq!(known(&mut connection), "ERR type 'Order' has no vertex 'none'; it has orders, users");
    fs::write(&file, format!("{order}SELECT 1 FROM coupons WHERE user = $1;\n")).expect("written");
    forebay.signal("HUP");
    let began = Instant::now();
    while known(&mut connection) != "ERR type 'Order' has no vertex 'none'; it has orders, users, coupons" {
        assert!(began.elapsed() < PATIENCE, "{}", known(&mut connection));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn graphs_are_read_from_both_forms() {
    let lab = Lab::new();
    let sql = testdata("sql/smallbank.sql");
    let sql = sql.to_str().expect("UTF-8");
    let line = ["workload", "smallbank", "--transactions", "2000", "--scale", "300", "--out", "bank.fbt"];
    lab.ok(&[&line[..], &["--graphs", "bank.toml"]].concat());
    let told = lab.ok(&["graph", sql, "--svg", "bank.svg"]);
    for part in ["Balance: 3 accesses, critical length 2\n", "saves 1 of 2: {A}\n", "saves 1 of 2: {C, S}\n"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let picture = lab.read("bank.svg");
    assert!(picture.starts_with("<svg ") && picture.matches("class=\"title\"").count() == 6, "{picture}");
    let lines =
        |text: String| text.lines().filter(|line| line.contains("critical")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(lines(told), lines(lab.ok(&["graph", "bank.toml"])));
    let thr = |graphs: &str| {
        let line =
            ["sim", "bank.fbt", "--graphs", graphs, "--policy", "lru,detox", "--size", "30%", "--writes", "update"];
        lab.csv(&line).into_iter().map(|row| row["thr"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(thr("bank.toml"), thr(sql));
    lab.ok(&["graph", sql, "--out", "again.toml"]);
    assert_eq!(lines(lab.ok(&["graph", "again.toml"])), lines(lab.ok(&["graph", sql])));
    assert_eq!(thr("again.toml"), thr(sql));
    // What a program sends, in a folder beside types in TOML.
    fs::create_dir(lab.path().join("types")).expect("made");
    fs::rename(lab.path().join("again.toml"), lab.path().join("types/bank.toml")).expect("moved");
    let sent = "BEGIN; SELECT id FROM users WHERE name = 'ann'; SELECT * FROM posts WHERE user_id = 7; COMMIT;";
    lab.file("types/sent.sql", sent);
    let told = lab.ok(&["graph", "types"]);
    assert!(told.contains("t1: 2 accesses, critical length 2\n") && told.contains("Balance: 3 accesses"), "{told}");
    assert!(thr(sql).iter().all(|thr| thr.parse::<f64>().is_ok_and(|thr| thr > 0.0)));
}

#[test]
fn graphs_that_are_not_understood_are_refused_with_their_line() {
    let lab = Lab::new();
    let head = "-- @transaction T(:id)\n";
    for (name, text, why) in [
        ("a.sql", "SELECT a FROM t WHERE id = 1;", "a.sql: line 1: no transaction with several accesses; put BEGIN;"),
        (
            "b.sql",
            &format!("{head}SELECT a FROM t\n  JOIN u USING (id) WHERE id = :id;"),
            "b.sql: line 2: 'id' may be a column of each",
        ),
        ("c.sql", &format!("{head}\nSELECT a FROM t WHERE id = :b;"), "c.sql: line 3: ':b' is neither a parameter nor"),
        ("d.sql", &format!("{head}SELECT a\nFRM t WHERE id = 1;"), "d.sql: line 3: Expected: "),
        ("e.toml", "[[type]]\nname = 'T'\nvertex = 'x'\n[[typ]]\n", "e.toml: 'typ' is not known"),
        ("f.toml", "[[type]\n", "f.toml: "),
        (
            "h.toml",
            "[[type]]\nname = 'T'\n[[type.vertex]]\nname = 'a'\nafter = ['b']\n",
            "h.toml: type 'T': after of 'a' names 'b': no such vertex; there are a",
        ),
    ] {
        lab.file(name, text);
        let said = lab.refused(2, &["graph", name]);
        assert!(said.starts_with(why), "{said}");
        assert_eq!(said, lab.refused(2, &["sim", "--graphs", name, &lab.file("small.csv", &small())]));
    }
    assert!(lab.refused(2, &["graph", "none.sql"]).starts_with("none.sql: No such file"));
    for name in ["odd.sql", "odd.toml"] {
        fs::write(lab.path().join(name), b"\xff\xfe[[type]]").expect("written");
        assert!(lab.refused(2, &["graph", name]).starts_with(&format!("{name}: it is not text in UTF-8; is it")));
    }
    let sound = lab.file("g.sql", &format!("{head}SELECT a FROM t WHERE id = :id;"));
    assert!(lab.refused(2, &["graph", &sound, "--svg", "no/such.svg"]).starts_with("can't write no/such.svg"));
}
