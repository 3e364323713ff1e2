//! Firefox, headless, driven by its Marionette: over TCP, messages of JSON with their length and a colon
//! before each.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::chromium::from_base64;

/// A browser that goes when it is no longer needed.
pub(crate) struct Marionette {
    program: Child,
    socket: BufReader<TcpStream>,
    /// The number of the last order.
    last: u64,
}

impl Marionette {
    /// Starts it with a new profile. `credulous`: it takes any certificate, as if its user had accepted it.
    pub(crate) fn start(profile: &Path, credulous: bool) -> Self {
        fs::create_dir_all(profile).unwrap();
        let settings = [
            // It chooses a port itself, and writes it down.
            ("marionette.port", json!(0)),
            ("browser.shell.checkDefaultBrowser", json!(false)),
            ("datareporting.policy.dataSubmissionEnabled", json!(false)),
        ];
        let settings = settings.map(|(name, value)| format!("user_pref({name:?}, {value});\n")).concat();
        fs::write(profile.join("user.js"), settings).unwrap();
        let mut program = Command::new("firefox-esr")
            .args(["--headless", "--no-remote", "--marionette", "--profile"])
            .arg(profile)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("cargo xtask test needs installs Firefox");
        let end = Instant::now() + LIMIT;
        let socket = loop {
            let port = fs::read_to_string(profile.join("MarionetteActivePort")).ok();
            let port = port.and_then(|port| port.trim().parse::<u16>().ok());
            if let Some(socket) = port.and_then(|port| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()) {
                break socket;
            }
            let ended = program.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < end, "Firefox does not listen: {ended:?}");
            std::thread::sleep(Duration::from_millis(20));
        };
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        let mut browser = Self { program, socket: BufReader::new(socket), last: 0 };
        let hello = browser.message();
        assert_eq!(hello["marionetteProtocol"], 3, "{hello}");
        browser.ask("WebDriver:NewSession", &json!({ "acceptInsecureCerts": credulous }));
        browser
    }

    /// Opens a page in its only window.
    pub(crate) fn open(&mut self, url: &str) {
        self.ask("WebDriver:Navigate", &json!({ "url": url }));
    }

    /// The value of an expression of JavaScript in the page, once it is there.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let script = format!("return {expression}");
        self.ask("WebDriver:ExecuteScript", &json!({ "script": script, "args": [] }))["value"].take()
    }

    /// What its window shows, as PNG.
    pub(crate) fn picture(&mut self) -> Vec<u8> {
        let answer = self.ask("WebDriver:TakeScreenshot", &json!({ "full": false }));
        from_base64(answer["value"].as_str().unwrap()).unwrap()
    }

    /// Moves the pointer to a place of the page, and presses and releases its left button as often as told.
    pub(crate) fn point(&mut self, x: f64, y: f64, clicks: usize) {
        let mut deeds =
            vec![json!({ "type": "pointerMove", "duration": 0, "origin": "viewport", "x": x, "y": y })];
        for _ in 0..clicks {
            deeds.extend(["pointerDown", "pointerUp"].map(|deed| json!({ "type": deed, "button": 0 })));
        }
        let mouse = json!({ "pointerType": "mouse" });
        self.act(&json!({ "type": "pointer", "id": "mouse", "parameters": mouse, "actions": deeds }));
    }

    /// Presses a key and lets it go.
    pub(crate) fn press(&mut self, key: char) {
        let deeds = ["keyDown", "keyUp"].map(|deed| json!({ "type": deed, "value": key }));
        self.act(&json!({ "type": "key", "id": "keyboard", "actions": deeds }));
    }

    /// Gives its window another size.
    pub(crate) fn resize(&mut self, width: u16, height: u16) {
        self.ask("WebDriver:SetWindowRect", &json!({ "width": width, "height": height }));
    }

    /// Has it end by itself.
    pub(crate) fn close(mut self) {
        self.ask("Marionette:Quit", &json!({ "flags": ["eAttemptQuit"] }));
        let end = Instant::now() + LIMIT;
        while self.program.try_wait().unwrap().is_none() {
            assert!(Instant::now() < end, "Firefox does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn act(&mut self, device: &Value) {
        self.ask("WebDriver:PerformActions", &json!({ "actions": [device] }));
    }

    /// What the browser answers to an order.
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.last += 1;
        let order = json!([0, self.last, method, params]).to_string();
        write!(self.socket.get_mut(), "{}:{order}", order.len()).unwrap();
        let mut answer = self.message();
        assert_eq!((&answer[0], &answer[1]), (&json!(1), &json!(self.last)), "{method}: {answer}");
        assert!(answer[2].is_null(), "{method} {params}: {}", answer[2]);
        answer[3].take()
    }

    fn message(&mut self) -> Value {
        let mut length = Vec::new();
        self.socket.read_until(b':', &mut length).unwrap();
        let digits = length.strip_suffix(b":").and_then(|digits| std::str::from_utf8(digits).ok());
        let length = digits.and_then(|digits| digits.parse().ok()).expect("Firefox has said its last");
        let mut bytes = vec![0; length];
        self.socket.read_exact(&mut bytes).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }
}

impl Drop for Marionette {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// How long an answer of the browser may take.
const LIMIT: Duration = Duration::from_secs(60);
