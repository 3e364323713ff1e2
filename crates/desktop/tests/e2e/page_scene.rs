//! The page of `desktop serve --web` in a browser, and whoever sits before it.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use quickset_rfb::{Framebuffer, Rect, Screen};
use serde_json::{Value, json};

use super::canvas::CANVAS_SUM;
use super::person::Person;
use super::photo::picture;
use super::programs::{Display, Program};
use super::texts::copier;
use super::{Folder, LIMIT, difference, quickset, typed};

/// A browser with the page in its only window.
pub(crate) trait Seat {
    /// The value of an expression of JavaScript in the page, once it is there.
    fn evaluate(&mut self, expression: &str) -> Value;
    /// Moves the pointer to a place of the window, in its pixels.
    fn point(&mut self, x: f64, y: f64);
    /// Clicks at a place of the window, as a person does.
    fn click(&mut self, x: f64, y: f64);
    /// Presses a letter and lets it go.
    fn press(&mut self, key: char);
    /// Gives the window another size; what of that is the page's is for the browser to say.
    fn resize(&mut self, width: u16, height: u16);
    /// What the window shows, as PNG.
    fn picture(&mut self) -> Vec<u8>;
    /// Has the browser end by itself.
    fn close(self);

    /// Clicks on what the page calls so.
    fn press_button(&mut self, id: &str) {
        let middle = self.evaluate(&format!(
            "(() => {{ const b = document.getElementById('{id}').getBoundingClientRect();
                return [b.left + b.width / 2, b.top + b.height / 2]; }})()"
        ));
        self.click(middle[0].as_f64().unwrap(), middle[1].as_f64().unwrap());
    }
}

/// How a browser is started.
pub(crate) struct Opening<'a> {
    /// Where it keeps what it knows.
    pub(crate) profile: &'a Path,
    /// Of the server's key.
    pub(crate) fingerprint: &'a str,
    /// The link, through what is between.
    pub(crate) url: &'a str,
}

/// What somebody sees who has opened the link; `B` is between the browser and the server.
pub(crate) struct PageScene<S, B> {
    pub(crate) desktop: Display,
    pub(crate) between: B,
    pub(crate) seat: S,
    serve: Program,
    /// A viewer of the desktop itself.
    pub(crate) far: Person,
    xev: Program,
    _terminal: Program,
    folder: Folder,
    /// All that were pressed so far.
    keys: Vec<char>,
    /// From the opened tab to the desktop's size.
    pub(crate) opened: Duration,
}

/// Where the gateway listens, and where the page is served.
pub(crate) const ANYWHERE: [&str; 2] = ["127.0.0.1:0"; 2];

impl<S: Seat, B> PageScene<S, B> {
    /// `between` puts something before the server, and says where that is; `open` starts the browser there.
    pub(crate) async fn set(
        name: &str,
        places: [&str; 2],
        between: impl AsyncFnOnce(SocketAddr) -> (SocketAddr, B),
        open: impl FnOnce(&Opening<'_>) -> S,
    ) -> Self {
        Self::set_with(name, places, &[], between, open).await
    }

    /// The same with more words for the gateway.
    pub(crate) async fn set_with(
        name: &str,
        [listen, page]: [&str; 2],
        more: &[String],
        between: impl AsyncFnOnce(SocketAddr) -> (SocketAddr, B),
        open: impl FnOnce(&Opening<'_>) -> S,
    ) -> Self {
        let folder = Folder::new(name);
        let desktop = Display::start(800, 600).await;
        let mut serve = Program::start(
            quickset()
                .args(["serve", "--vnc", &desktop.vnc.to_string(), "--listen", listen, "--stats"])
                .args(["--web", "--web-page", page])
                .args(more)
                // Who came and why they went is part of what a failure tells.
                .env("RUST_LOG", "warn,quickset_desktop=info")
                .env("XDG_DATA_HOME", folder.0.join("server")),
        );
        let listening = |line: &str| line.strip_prefix("listening on ").map(str::to_owned);
        let words = serve.prints("where it listens", listening).await;
        let (address, fingerprint) = words.split_once(' ').unwrap();
        let (place, between) = between(address.parse().unwrap()).await;
        let link = serve.prints("a link", |line| line.strip_prefix("open ").map(str::to_owned)).await;
        // The same link, through what is between.
        let through = format!("server={place}&");
        let url = link.replace(&format!("server={address}&"), &through);
        assert!(url.contains(&through), "the link names the server: {link}");
        let terminal =
            desktop.run("xterm", &["-geometry", "80x20+10+300", "-xrm", "XTerm*cursorBlink: false"]);
        let xev = desktop.run(
            "stdbuf",
            &["-oL", "xev", "-geometry", "200x200+550+10", "-event", "keyboard", "-event", "button"],
        );
        desktop.window("xterm").await;
        desktop.window("Event Tester").await;
        let far = Person::sit(desktop.vnc).await;
        let began = Instant::now();
        let opening = Opening { profile: &folder.0.join("browser"), fingerprint, url: &url };
        let seat = open(&opening);
        let (keys, opened) = (Vec::new(), Duration::ZERO);
        let mut scene =
            Self { desktop, between, seat, serve, far, xev, _terminal: terminal, folder, keys, opened };
        scene.opened = scene.shows_a_desktop(began).await;
        scene.seat.evaluate(KEEPS_NOTICES);
        scene
    }

    /// Loads the page anew, as a reload does, which finds its link. How long until there is a desktop.
    pub(crate) async fn reload(&mut self) -> Duration {
        let began = Instant::now();
        self.seat.evaluate("location.reload()");
        self.until("document.readyState !== 'loading' && !document.getElementById('screen').dataset.width")
            .await;
        self.shows_a_desktop(began).await
    }

    /// How long after `began` the page has a desktop of some size.
    async fn shows_a_desktop(&mut self, began: Instant) -> Duration {
        loop {
            let width = self.seat.evaluate("document.getElementById('screen')?.dataset.width ?? ''");
            if width == "800" {
                return began.elapsed();
            }
            let notice = self.notice();
            assert!(began.elapsed() < LIMIT, "the page shows no desktop; it says {notice}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// What the page tells whoever sits before it.
    pub(crate) fn notice(&mut self) -> String {
        let text = self.seat.evaluate("document.getElementById('notice')?.textContent ?? ''");
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an expression is true in the page, while the desktop is looked at.
    pub(crate) async fn until(&mut self, expression: &str) {
        let end = Instant::now() + LIMIT;
        while self.seat.evaluate(expression) != true {
            let notice = self.notice();
            assert!(Instant::now() < end, "never true: {expression}; the page says {notice:?}");
            self.far.look(Duration::from_millis(20)).await;
        }
    }

    /// The sum of the canvas, as [`quickset_rfb::Framebuffer::crc32`] defines it.
    pub(crate) fn canvas(&mut self) -> u32 {
        u32::try_from(self.seat.evaluate(CANVAS_SUM).as_u64().unwrap()).unwrap()
    }

    /// Where the page shows something else than the desktop does, for who has to find out why.
    fn difference(&mut self) -> String {
        let pixels = self.seat.evaluate(CANVAS_PIXELS);
        let numbers = pixels.as_array().unwrap().iter().map(|n| u32::try_from(n.as_u64().unwrap()).unwrap());
        let numbers: Vec<u32> = numbers.collect();
        let (size, pixels) = numbers.split_at(2);
        let [width, height] = [size[0], size[1]].map(|side| u16::try_from(side).unwrap());
        let mut page = Framebuffer::new(width, height, 1 << 28).unwrap();
        page.put(page.bounds(), pixels).unwrap();
        let there = &self.far.screen;
        if page.bounds() != there.bounds() {
            return format!("it has {} and the desktop {}", page.bounds(), there.bounds());
        }
        difference(there, &page, 0, 0).unwrap_or_else(|| "now they are the same".to_owned())
    }

    /// Waits until the page shows what the desktop does. The pointer is in the same place for both: the
    /// server draws it for viewers who think that it is elsewhere, be it by a pixel, from the next second of
    /// its clock on.
    pub(crate) async fn settle(&mut self) {
        let end = Instant::now() + LIMIT;
        let (x, y) = (self.far.screen.width() - 10, self.far.screen.height() - 10);
        loop {
            for near in [5, 0] {
                self.point(x - near, y - near);
                self.far.look(Duration::from_millis(300)).await;
            }
            let (x, y) = self.pointer();
            self.far.rfb.pointer(0, x, y).unwrap();
            for _ in 0..10 {
                self.far.look(Duration::from_millis(200)).await;
                if self.canvas() == self.far.screen.crc32() {
                    return;
                }
            }
            if Instant::now() > end {
                let picture = self.seat.picture();
                let file = std::env::temp_dir().join("quickset-e2e-browser.png");
                std::fs::write(&file, picture).unwrap();
                let difference = self.difference();
                panic!("the page never shows what the desktop does: see {}; {difference}", file.display());
            }
        }
    }

    /// What the window on the desktop has told of keys and buttons so far.
    pub(crate) fn far_events(&self) -> Vec<String> {
        self.xev.lines()
    }

    /// Moves the page's pointer to a place of the desktop, by whole pixels of the window.
    pub(crate) fn point(&mut self, x: u16, y: u16) {
        let place = format!(
            "(() => {{ const c = document.getElementById('screen'), b = c.getBoundingClientRect();
                return [Math.ceil(b.left + {x} / c.dataset.width * b.width),
                        Math.ceil(b.top + {y} / c.dataset.height * b.height)]; }})()"
        );
        let place = self.seat.evaluate(&place);
        self.seat.point(place[0].as_f64().unwrap(), place[1].as_f64().unwrap());
    }

    /// Where the desktop's pointer is.
    fn pointer(&self) -> (u16, u16) {
        let place = self.desktop.ask("xdotool", &["getmouselocation"]);
        let side = |at: usize| place.split([' ', ':']).nth(at).and_then(|n| n.parse().ok()).unwrap();
        (side(1), side(3))
    }

    /// Moves the page's pointer, and waits until that of the desktop is there; where the window shows the
    /// desktop smaller than it is, there are places between its pixels.
    pub(crate) async fn lead_the_pointer(&mut self, x: u16, y: u16) {
        let end = Instant::now() + LIMIT;
        for n in 0.. {
            // Again, as people do: the page may have moved below it.
            if n % 20 == 0 {
                self.point(x, y);
            }
            let place = self.pointer();
            if place.0.abs_diff(x) <= 1 && place.1.abs_diff(y) <= 1 {
                return;
            }
            assert!(Instant::now() < end, "the pointer is at {place:?}, and not at {x}, {y}");
            self.far.look(Duration::from_millis(20)).await;
        }
    }

    /// So many keys, without a click before, all of which have to arrive in order.
    pub(crate) async fn type_keys(&mut self, count: usize) {
        // Without a window manager keys go where the pointer is.
        self.lead_the_pointer(600, 100).await;
        for _ in 0..count {
            self.press_the_next();
            self.far.look(Duration::from_millis(2)).await;
        }
        self.all_keys_came().await;
    }

    fn press_the_next(&mut self) {
        let key = char::from(b'a' + u8::try_from(self.keys.len() * 7 % 26).unwrap());
        self.keys.push(key);
        self.seat.press(key);
    }

    async fn all_keys_came(&mut self) {
        let end = Instant::now() + LIMIT;
        while typed(&self.xev.lines()).len() < self.keys.len() {
            if Instant::now() > end {
                self.complain_of_keys();
            }
            self.far.look(Duration::from_millis(50)).await;
        }
        let came: Vec<char> = typed(&self.xev.lines()).into_iter().filter_map(char::from_u32).collect();
        assert_eq!(came, self.keys, "no key is lost, none comes twice, none overtakes another");
    }

    /// With what both ends have said.
    fn complain_of_keys(&mut self) -> ! {
        let came: Vec<char> = typed(&self.xev.lines()).into_iter().filter_map(char::from_u32).collect();
        let other = came.iter().zip(&self.keys).position(|(came, key)| came != key).unwrap_or(came.len());
        let notices = self.seat.evaluate("window.notices ?? []");
        let lines = self.serve.lines();
        let lines: Vec<_> = lines.iter().filter(|line| !line.starts_with("client=")).collect();
        panic!(
            "{} of {} keys came, the first that did not is number {other}; the page has said {notices:#}, and \
             the server {lines:#?}",
            came.len(),
            self.keys.len()
        );
    }

    /// A terminal that scrolls, and a photograph that is dragged about, while somebody types and the page's
    /// thread stands still now and then.
    pub(crate) async fn work(&mut self, time: Duration) {
        let photo = self.folder.0.join("photo.xwd");
        std::fs::write(&photo, picture(240, 200)).unwrap();
        let end = Instant::now() + time;
        let scroll = "i=0; while :; do i=$((i+1)); echo line $i of what a shell prints, and some more of it; \
                      [ $((i % 40)) -eq 0 ] && sleep .2; done";
        let scrolls = self.desktop.run("xterm", &["-geometry", "60x12+400+350", "-e", "sh", "-c", scroll]);
        self.lead_the_pointer(600, 100).await;
        while Instant::now() < end {
            let file = photo.to_str().unwrap();
            let _window = self.desktop.run("xwud", &["-in", file, "-geometry", "240x200+20+20", "-noclick"]);
            let id = self.desktop.window("xwud").await.id;
            for step in 0..20 {
                let (x, y) = ((20 + step * 9).to_string(), (20 + step * 5).to_string());
                self.desktop.ask("xdotool", &["windowmove", &id, &x, &y]);
                self.press_the_next();
                self.far.look(Duration::from_millis(10)).await;
            }
            self.seat.evaluate(
                "(() => { for (const end = performance.now() + 100; performance.now() < end; ); })()",
            );
            self.far.look(Duration::from_millis(500)).await;
        }
        self.all_keys_came().await;
        drop(scrolls);
    }

    /// Somebody else gives the desktop another size, and the page takes it over.
    pub(crate) async fn resize_there(&mut self, width: u16, height: u16) {
        self.seat.evaluate("document.getElementById('fit').checked = false");
        let screen = Screen { id: 0, rect: Rect::new(0, 0, width, height).unwrap(), flags: 0 };
        self.far.rfb.set_desktop_size(width, height, &[screen]).unwrap();
        let end = Instant::now() + LIMIT;
        let size = json!([width.to_string(), height.to_string()]);
        let here = "['width', 'height'].map((side) => document.getElementById('screen').dataset[side])";
        while self.seat.evaluate(here) != size {
            assert!(Instant::now() < end, "the page is not {size}, the desktop is {:?}", self.far.screen);
            self.far.look(Duration::from_millis(50)).await;
        }
        self.is_all_seen();
    }

    /// The desktop takes the size of the window, when that is asked for.
    pub(crate) async fn resize(&mut self, width: u16, height: u16) {
        self.seat.evaluate("document.getElementById('fit').checked = true");
        self.seat.resize(width, height);
        let end = Instant::now() + LIMIT;
        let sizes = "(() => {
            const c = document.getElementById('screen').dataset, s = document.getElementById('stage');
            return [s.clientWidth, s.clientHeight, Number(c.width), Number(c.height)]; })()";
        loop {
            let here = self.seat.evaluate(sizes);
            let far = json!([self.far.screen.width(), self.far.screen.height()]);
            // The window has its size as soon as it is asked for its own.
            if json!([here[0], here[1]]) == far && json!([here[2], here[3]]) == far {
                break;
            }
            assert!(Instant::now() < end, "window and page are {here}, the desktop is {far}");
            self.far.look(Duration::from_millis(50)).await;
        }
        self.is_all_seen();
    }

    /// Nothing of the picture is outside of the window, or below the bar.
    fn is_all_seen(&mut self) {
        let sides = "(() => {
            const [c, b] = ['screen', 'bar'].map((id) => document.getElementById(id).getBoundingClientRect());
            return [c.left, c.top, innerWidth - c.right, b.top - c.bottom, innerHeight - b.bottom]; })()";
        let sides = self.seat.evaluate(sides);
        let is_within = |side: &Value| side.as_f64().is_some_and(|side| side > -0.01);
        assert!(sides.as_array().unwrap().iter().all(is_within), "beyond the window: {sides}");
    }

    /// Copies a text there, and waits until an expression in the page is it.
    pub(crate) async fn carry_here(&mut self, text: &str, expression: &str) {
        let copied = copier(&self.desktop, text);
        let end = Instant::now() + LIMIT;
        while self.seat.evaluate(expression) != text {
            let notice = self.notice();
            assert!(Instant::now() < end, "{text:?} does not come; the page says {notice:?}");
            self.far.look(Duration::from_millis(100)).await;
        }
        drop(copied);
    }

    /// A terminal there pastes what was copied here.
    pub(crate) async fn carry_there(&mut self, text: &str) {
        let copies = format!("navigator.clipboard.writeText({})", json!(text));
        self.seat.evaluate(&copies);
        let file = self.folder.0.join("pasted");
        let _ = std::fs::remove_file(&file);
        let words = ["-geometry", "20x3+20+20", "-T", "paster", "-xrm", "XTerm*selectToClipboard: true"];
        let run = ["-e", "sh", "-c", "stty -icanon; cat > \"$1\"", "sh", file.to_str().unwrap()];
        let _paster = self.desktop.run("xterm", &[&words[..], &run].concat());
        let paster = self.desktop.window("paster").await.id;
        let end = Instant::now() + LIMIT;
        loop {
            // It is offered as the page gets the focus, and leaves it only when somebody pastes.
            let focus =
                "(() => { document.activeElement.blur(); document.getElementById('screen').focus(); })()";
            self.seat.evaluate(focus);
            self.far.look(Duration::from_millis(500)).await;
            self.desktop.ask("xdotool", &["windowfocus", &paster]);
            self.desktop.ask("xdotool", &["key", "shift+Insert"]);
            self.far.look(Duration::from_millis(700)).await;
            let pasted = std::fs::read_to_string(&file).unwrap_or_default();
            if pasted.contains(text) {
                return;
            }
            assert!(Instant::now() < end, "{text:?} is not what was pasted: {pasted:?}");
        }
    }

    /// What it took.
    pub(crate) fn tell(&mut self, name: &str) {
        let opened = self.opened;
        self.seat.evaluate("document.getElementById('figures').hidden = false");
        let figures = self.seat.evaluate("document.getElementById('figures').innerText");
        println!("{name}: the desktop {opened:?} after the tab was opened; {} keys", self.keys.len());
        println!("  page:  {}", figures.as_str().unwrap_or_default().replace('\n', " "));
        println!("  serve: {}", self.served());
    }

    /// The newest line of the server's statistics.
    pub(crate) fn served(&self) -> String {
        let lines = self.serve.lines();
        lines.iter().rev().find(|line| line.starts_with("client=")).cloned().unwrap_or_default()
    }

    /// A count of the page's figures, by its name.
    pub(crate) async fn figure(&mut self, name: &str) -> String {
        let value = format!(
            "(() => {{ for (const term of document.querySelectorAll('#figures dt'))
                if (term.textContent === {}) return term.nextElementSibling.textContent;
                return ''; }})()",
            json!(name)
        );
        let end = Instant::now() + LIMIT;
        loop {
            if let Some(value) = self.seat.evaluate(&value).as_str().filter(|value| !value.is_empty()) {
                return value.to_owned();
            }
            assert!(Instant::now() < end, "the page tells no figures");
            self.far.look(Duration::from_millis(100)).await;
        }
    }

    /// By which way the page says that it looks.
    pub(crate) async fn way(&mut self) -> String {
        let way = self.figure("way").await;
        way.split(':').next().unwrap_or_default().to_owned()
    }

    pub(crate) async fn goes_by(&mut self, way: &str) {
        let end = Instant::now() + LIMIT;
        while self.way().await != way {
            assert!(Instant::now() < end, "it does not go by {way}");
            self.far.look(Duration::from_millis(100)).await;
        }
    }

    pub(crate) fn end(self) {
        self.seat.close();
    }
}

/// From now on the page's notices are kept, each with its time in milliseconds.
const KEEPS_NOTICES: &str = "(() => {
    window.notices = [];
    const notice = document.getElementById('notice');
    const keep = () => window.notices.push(`${Math.round(performance.now())} ${notice.textContent}`);
    new MutationObserver(keep).observe(notice, { childList: true });
})()";

/// The pixels of [`CANVAS_SUM`], as width, height and a number for each.
const CANVAS_PIXELS: &str = "(() => {
    const canvas = document.getElementById('screen');
    const [width, height] = ['width', 'height'].map((name) => Number(canvas.dataset[name]));
    const context = new OffscreenCanvas(width, height).getContext('2d', { alpha: false, willReadFrequently: true });
    context.drawImage(canvas, 0, 0, width, height);
    const pixels = context.getImageData(0, 0, width, height).data;
    const colours = [width, height];
    for (let at = 0; at < pixels.length; at += 4) colours.push(pixels[at] << 16 | pixels[at + 1] << 8 | pixels[at + 2]);
    return colours;
})()";
