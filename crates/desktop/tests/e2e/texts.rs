//! Texts that are copied in a program on one display and pasted in one on the other, through TigerVNC on both
//! sides.

use std::time::{Duration, Instant};

use super::programs::{Display, Program};
use super::{LIMIT, Scene};

#[tokio::test]
#[ignore = "needs X programs: cargo xtask e2e"]
async fn texts_go_both_ways() {
    let mut scene = Scene::set("fenced").await;
    scene.settle().await;
    // Long ones are squeezed, and of more than one block.
    let long = "lange Zeile \u{2192} ".repeat(250);
    for (n, text) in
        ["plain", "Grüße \u{263a} \u{65e5}\u{672c} \u{20ac}\u{1f332}", long.trim_end()].iter().enumerate()
    {
        scene.carry(n, text, true).await;
        scene.carry(n, &text.chars().rev().collect::<String>(), false).await;
    }
    assert!(!scene.programs.iter_mut().any(Program::ended), "the viewer is there to the end");
    let totals = scene.view.prints("statistics", |l| l.starts_with("connected=").then(|| l.to_owned())).await;
    assert!(totals.starts_with("connected=true sessions=1 "), "one session did it all: {totals}");
}

impl Scene {
    /// Copies a text on one display and pastes it on the other.
    async fn carry(&mut self, n: usize, text: &str, here: bool) {
        let way = if here { "here" } else { "there" };
        let (from, to) = if here { (&self.inner, &self.outer) } else { (&self.outer, &self.inner) };
        let _copier = copier(from, text);
        let file = self.folder.0.join(format!("pasted-{way}-{n}"));
        let title = format!("paste-{way}-{n}");
        let words = ["-geometry", "20x3+820+20", "-T", &title, "-xrm", "XTerm*selectToClipboard: true"];
        // A terminal's line holds 4095 bytes.
        let run = ["-e", "sh", "-c", "stty -icanon; cat > \"$1\"", "sh", file.to_str().unwrap()];
        let paster = to.run("xterm", &[&words[..], &run].concat());
        let paste = to.window(&title).await.id;
        let end = Instant::now() + LIMIT;
        loop {
            // TigerVNC's viewer minds the clipboard while it has the focus.
            self.outer.ask("xdotool", &["windowfocus", &self.place.id]);
            self.look(Duration::from_millis(700)).await;
            let to = if here { &self.outer } else { &self.inner };
            to.ask("xdotool", &["windowfocus", &paste]);
            to.ask("xdotool", &["key", "shift+Insert"]);
            self.look(Duration::from_millis(700)).await;
            let pasted = std::fs::read_to_string(&file).unwrap_or_default();
            if pasted.contains(text) {
                break;
            }
            assert!(Instant::now() < end, "{way}: {text:?} is not what was pasted: {pasted:?}");
        }
        drop(paster);
    }
}

/// A terminal that has copied `text`, as long as it is there.
pub(crate) fn copier(display: &Display, text: &str) -> Program {
    // xterm's way for programs to set the clipboard.
    let osc = "printf '\\033]52;c;%s\\a' \"$(printf %s \"$1\" | base64 -w0)\"; sleep 600";
    let may = ["-xrm", "XTerm*allowWindowOps: true", "-xrm", "XTerm*disallowedWindowOps: 20"];
    let run = ["-geometry", "20x3+10+500", "-T", "copier", "-e", "sh", "-c", osc, "sh", text];
    display.run("xterm", &[&may[..], &run].concat())
}
