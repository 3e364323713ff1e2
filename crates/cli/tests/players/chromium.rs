//! Chromium, headless, driven through the pipe of its DevTools: messages of JSON, a zero byte behind each.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A browser that goes when it is no longer needed.
pub(crate) struct Chromium {
    program: Child,
    orders: ChildStdin,
    answers: Receiver<Value>,
    /// The number of the last order.
    last: u64,
    /// What it has told of workers, the newest last.
    workers: Vec<Value>,
}

/// A window with a page.
#[derive(Clone)]
pub(crate) struct Tab {
    target: Value,
    session: Value,
}

/// How a shell starts it: with its standard streams in the places of the pipe, and with the arguments behind
/// the name. The far side of the link is all hosts of `.test` (RFC 6761).
pub(crate) const START: &str = "exec chromium --headless --no-sandbox --disable-gpu --no-first-run --hide-scrollbars \
    --disable-component-update --disable-background-networking --remote-debugging-pipe \
    \"--host-resolver-rules=MAP *.test $QUICKSET_LINK_HOST\" \"$@\" 3<&0 4>&1 </dev/null >&2";

impl Chromium {
    /// Starts a command that becomes [`START`].
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut program = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (orders, pipe) = (program.stdin.take().unwrap(), program.stdout.take().unwrap());
        let (tell, answers) = channel();
        // It ends with the browser.
        std::thread::spawn(move || {
            let messages = BufReader::new(pipe).split(0).map_while(Result::ok);
            messages
                .map_while(|bytes| serde_json::from_slice(&bytes).ok())
                .try_for_each(|value| tell.send(value))
        });
        Self { program, orders, answers, last: 0, workers: Vec::new() }
    }

    /// Opens a page in a window of its own: what is in none that is seen does not play.
    pub(crate) fn open(&mut self, url: &str) -> Tab {
        let target =
            self.ask(None, "Target.createTarget", &json!({ "url": url, "newWindow": true }))["targetId"]
                .take();
        let whom = json!({ "targetId": target, "flatten": true });
        let session = self.ask(None, "Target.attachToTarget", &whom)["sessionId"].take();
        Tab { target, session }
    }

    /// The worker of a page, in which expressions have a value as in a page.
    pub(crate) fn worker(&mut self, tab: &Tab) -> Tab {
        let how = json!({ "autoAttach": true, "waitForDebuggerOnStart": false, "flatten": true });
        self.ask(Some(tab), "Target.setAutoAttach", &how);
        // Those that there are come before the answer.
        let mut worker = self.workers.pop().expect("the page has a worker");
        Tab { target: worker["targetInfo"]["targetId"].take(), session: worker["sessionId"].take() }
    }

    /// Closes it.
    pub(crate) fn shut(&mut self, tab: &Tab) {
        self.ask(None, "Target.closeTarget", &json!({ "targetId": tab.target }));
    }

    /// The value of an expression of JavaScript in a page, once it is there.
    pub(crate) fn evaluate(&mut self, tab: &Tab, expression: &str) -> Value {
        let what = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let end = Instant::now() + LIMIT;
        let mut answer = loop {
            match self.try_ask(Some(tab), "Runtime.evaluate", &what) {
                Ok(answer) => break answer,
                // Between two pages there is none, or it goes while the expression waits.
                Err(error) if BETWEEN_PAGES.iter().any(|one| error.contains(one)) && Instant::now() < end => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(error) => panic!("{expression}: {error}"),
            }
        };
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].take()
    }

    /// What a window shows, as PNG.
    pub(crate) fn picture(&mut self, tab: &Tab) -> Vec<u8> {
        let answer = self.ask(Some(tab), "Page.captureScreenshot", &json!({ "format": "png" }));
        let picture = from_base64(answer["data"].as_str().unwrap()).unwrap();
        assert!(picture.starts_with(b"\x89PNG\r\n\x1a\n"));
        picture
    }

    /// Has it end by itself.
    pub(crate) fn close(mut self) {
        self.ask(None, "Browser.close", &json!({}));
        let end = Instant::now() + LIMIT;
        while self.program.try_wait().unwrap().is_none() {
            assert!(Instant::now() < end, "the browser does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What the browser, or a tab, answers to an order.
    pub(crate) fn ask(&mut self, tab: Option<&Tab>, method: &str, params: &Value) -> Value {
        self.try_ask(tab, method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    fn try_ask(&mut self, tab: Option<&Tab>, method: &str, params: &Value) -> Result<Value, String> {
        self.last += 1;
        let mut order = json!({ "id": self.last, "method": method, "params": params });
        if let Some(tab) = tab {
            order["sessionId"] = tab.session.clone();
        }
        self.orders.write_all(format!("{order}\0").as_bytes()).unwrap();
        let end = Instant::now() + LIMIT;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let mut answer = self.answers.recv_timeout(left).unwrap_or_else(|e| panic!("{method}: {e}"));
            // What else it tells unasked is passed over.
            if answer["params"]["targetInfo"]["type"] == "worker" && answer["method"] == ATTACHED {
                self.workers.push(answer["params"].take());
            } else if answer["id"] == self.last {
                return match &answer["error"] {
                    Value::Null => Ok(answer["result"].take()),
                    error => Err(error.to_string()),
                };
            }
        }
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// The bytes of a text in base64 (RFC 4648 §4); nothing where it has another letter.
pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => Some(letter - b'A'),
        b'a'..=b'z' => Some(letter - b'a' + 26),
        b'0'..=b'9' => Some(letter - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let mut out = Vec::new();
    for four in text.trim_end_matches('=').as_bytes().chunks(4) {
        let bits = four.iter().try_fold(0, |bits, &letter| Some(bits << 6 | u32::from(value(letter)?)))?;
        let bytes = (bits << (6 * (4 - four.len()))).to_be_bytes();
        out.extend_from_slice(&bytes[1..four.len()]);
    }
    Some(out)
}

/// What Chromium says of expressions while it goes from one page to another.
const BETWEEN_PAGES: [&str; 2] = ["execution context", "Inspected target navigated"];
const ATTACHED: &str = "Target.attachedToTarget";
/// How long an answer of the browser may take.
const LIMIT: Duration = Duration::from_secs(60);
