//! A real browser, Chromium without a window, driven over its pipe: JSON between NULs, no library needed.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Only so that a test that waits for what never comes fails. A browser's first start may take long.
const PATIENCE: Duration = Duration::from_secs(60);

/// The browser with one page; killed when dropped.
pub struct Browser {
    child: Child,
    requests: File,
    answers: BufReader<File>,
    session: String,
    next: u64,
    /// Exceptions, and what the browser itself complains of.
    pub complaints: Vec<String>,
    _folder: tempfile::TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Browser {
    /// Starts it; `None` if there is no such program.
    pub fn start() -> Option<Browser> {
        if Command::new("chromium").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let pipes = ["requests", "answers"].map(|name| folder.path().join(name));
        assert!(Command::new("mkfifo").args(&pipes).status().expect("mkfifo runs").success());
        let arguments = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
                         --disable-background-networking --remote-debugging-pipe --user-data-dir=\"$2\"";
        let script = format!("exec chromium {arguments} 3<\"$0\" 4>\"$1\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).args(&pipes).arg(folder.path().join("profile")).stdin(Stdio::null());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("sh runs");
        // In the order in which the shell opens them: each waits for the other side.
        let requests = File::options().write(true).open(&pipes[0]).expect("a pipe");
        let answers = BufReader::new(File::open(&pipes[1]).expect("a pipe"));
        let complaints = Vec::new();
        let session = String::new();
        let mut browser = Browser { child, requests, answers, session, next: 1, complaints, _folder: folder };
        let target = browser.ask("Target.createTarget", json!({ "url": "about:blank" }));
        let attached = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.ask("Target.attachToTarget", attached);
        browser.session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.ask(domain, json!({}));
        }
        Some(browser)
    }

    /// What the browser answers to a request.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.next;
        self.next += 1;
        let mut request = json!({ "id": id, "method": method, "params": params });
        if !self.session.is_empty() {
            request["sessionId"] = self.session.as_str().into();
        }
        self.requests.write_all(format!("{request}\0").as_bytes()).expect("the browser reads");
        loop {
            let mut answer = Vec::new();
            assert!(self.answers.read_until(0, &mut answer).expect("the browser answers") > 0, "it has ended");
            answer.pop();
            let answer: Value = serde_json::from_slice(&answer).expect("JSON");
            if answer["id"] == id {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
            let entry = &answer["params"]["entry"];
            let complains = match answer["method"].as_str() {
                Some("Runtime.exceptionThrown") => true,
                // A refused stream is what some tests are about; it is shown as `network`.
                Some("Log.entryAdded") => entry["level"] == "error" && entry["source"] != "network",
                _ => false,
            };
            if complains {
                self.complaints.push(answer["params"].to_string());
            }
        }
    }

    /// Opens a page.
    pub fn go(&mut self, url: &str) {
        self.ask("Page.navigate", json!({ "url": url }));
    }

    /// The value of an expression; null where there is no page at the moment.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        self.ask("Runtime.evaluate", json!({ "expression": expression, "returnByValue": true }))["result"]["value"]
            .clone()
    }

    /// Waits until an expression is true.
    pub fn wait(&mut self, expression: &str) {
        let began = Instant::now();
        while self.evaluate(expression) != true {
            let text = |browser: &mut Browser| browser.evaluate("location.href + ' ' + document.body?.innerText");
            assert!(began.elapsed() < PATIENCE, "{expression}: {} {:?}", text(self), self.complaints);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Presses a key.
    pub fn key(&mut self, key: &str) {
        let text = if key.len() == 1 { key } else { "" };
        for kind in ["keyDown", "keyUp"] {
            self.ask("Input.dispatchKeyEvent", json!({ "type": kind, "key": key, "code": key, "text": text }));
        }
    }

    /// Gives the page another width.
    pub fn resize(&mut self, width: u32) {
        let metrics = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.ask("Emulation.setDeviceMetricsOverride", metrics);
    }
}
