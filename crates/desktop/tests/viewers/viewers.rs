//! Viewers of others in front of the gateways, with TigerVNC's server behind them.

use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::time::Duration;

use quickset_rfb::{ClientConfig, Encoding};

use super::far::{
    self, Clip, HEIGHT, TERMINAL, WIDTH, Windows, XEV, differ_in_shape, place, settled, shape, shape_at,
};
use super::gateways::{Folder, Gateways};
use super::person::Person;
use super::programs::{Display, Program, Window};
use super::{Cell, Found};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Viewer {
    NoVncOfDebian,
    NoVncOfNpm,
    TigerVnc,
    GtkVnc,
    /// Of our own, and it lists no Cursor pseudo-encoding.
    WithoutCursor,
}

/// a, Z, udiaeresis, 7, Return.
const KEYS: [u32; 5] = [0x61, 0x5a, 0xfc, 0x37, 0xff0d];
/// Of two, three and four bytes in UTF-8.
const TEXT: &str = "Grüße \u{263a} \u{65e5}\u{672c} \u{20ac}\u{1f332}";

pub(crate) async fn play(viewer: Viewer) -> Found {
    let folder = Folder::new(&format!("{viewer:?}"));
    let inner = Display::start(WIDTH, HEIGHT).await;
    let windows = Windows::open(&inner, &folder).await;
    let gateways = Gateways::start(inner.vnc, &folder).await;
    if viewer == Viewer::WithoutCursor {
        return without_cursor(&inner, &windows, &gateways, &folder).await;
    }
    let outer = Display::start(1024, 768).await;
    // It has a key that KEYS need and that the one of the United States lacks.
    outer.ask("setxkbmap", &["de"]);
    let (window, programs) = viewer.start(gateways.address, &outer, &folder).await;
    let (far, here) = (Person::sit(inner.vnc).await, Person::sit(outer.vnc).await);
    let mut scene =
        Scene { viewer, inner, outer, windows, far, here, folder, window, at: (0, 0), _programs: programs };
    let picture = scene.picture().await;
    if picture.is_err() {
        let unseen = || Err("the picture was not found".to_owned());
        let rest = Cell::ALL.into_iter().filter(|cell| *cell != Cell::Picture);
        return [(Cell::Picture, picture)].into_iter().chain(rest.map(|cell| (cell, unseen()))).collect();
    }
    vec![
        (Cell::Picture, picture),
        (Cell::Pointer, scene.pointer().await),
        (Cell::Keys, scene.keys().await),
        (Cell::ClipboardIn, scene.clipboard_in().await),
        (Cell::ClipboardOut, scene.clipboard_out().await),
    ]
}

impl Viewer {
    async fn start(self, gateway: SocketAddr, outer: &Display, folder: &Folder) -> (Window, Vec<Program>) {
        match self {
            Self::TigerVnc => {
                let target = format!("127.0.0.1::{}", gateway.port());
                let viewer = outer.run("xtigervncviewer", &["-SecurityTypes", "None", &target]);
                (outer.window("TigerVNC Viewer").await, vec![viewer])
            }
            // Its displays are ports from 5900 on.
            Self::GtkVnc => {
                let target = format!("127.0.0.1:{}", gateway.port() - 5900);
                let viewer = outer.run("gvncviewer", &[&target]);
                (outer.window("GVncViewer\"").await, vec![viewer])
            }
            Self::NoVncOfDebian => browse("/usr/share/novnc".into(), gateway, outer, folder).await,
            Self::NoVncOfNpm => {
                let newer = std::env::var_os("QUICKSET_NOVNC").expect("QUICKSET_NOVNC is noVNC's folder");
                browse(newer.into(), gateway, outer, folder).await
            }
            Self::WithoutCursor => unreachable!("it has no window"),
        }
    }

    /// It has the clipboard of its display, and not one that only its page knows.
    fn is_of_x(self) -> bool {
        !matches!(self, Self::NoVncOfDebian | Self::NoVncOfNpm)
    }
}

/// A browser with noVNC, which speaks to the gateway by way of websockify.
async fn browse(
    novnc: std::path::PathBuf,
    gateway: SocketAddr,
    outer: &Display,
    folder: &Folder,
) -> (Window, Vec<Program>) {
    let site = folder.0.join("site");
    std::fs::create_dir_all(&site).unwrap();
    std::fs::write(site.join("page.html"), include_str!("page.html")).unwrap();
    std::os::unix::fs::symlink(&novnc, site.join("novnc")).unwrap();
    // Somebody else may take the port in between: then the page does not come up, and the row says so.
    let web = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = Command::new("websockify");
    command.arg("--web").arg(&site).args([web.to_string(), gateway.to_string()]);
    let proxy = Program::start(&mut command);
    let end = std::time::Instant::now() + super::LIMIT;
    while std::net::TcpStream::connect(web).is_err() && std::time::Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let profile = format!("--user-data-dir={}", folder.0.join("profile").display());
    let page = format!("--app=http://{web}/page.html");
    let plain = ["--no-sandbox", "--no-first-run", "--disable-gpu", "--disable-background-networking"];
    let exact = ["--force-color-profile=srgb", "--force-device-scale-factor=1", "--window-size=900,700"];
    let arguments = [&plain[..], &exact, &["--window-position=0,0", &profile, &page]].concat();
    let browser = outer.run("chromium", &arguments);
    (outer.window("\"connected\"").await, vec![browser, proxy])
}

/// A desktop far away, and a viewer on one here.
struct Scene {
    /// Stopped before their folder goes.
    _programs: Vec<Program>,
    viewer: Viewer,
    inner: Display,
    outer: Display,
    windows: Windows,
    /// Viewers of our own of both desktops, past the gateways.
    far: Person,
    here: Person,
    folder: Folder,
    /// The viewer's.
    window: Window,
    /// Where it shows the far desktop.
    at: (u16, u16),
}

impl Scene {
    /// Finds the far desktop in the one here.
    async fn picture(&mut self) -> Result<(), String> {
        let Window { x, y, width, height, .. } = self.window;
        self.point(x + width / 2, y + height / 2).await;
        settled(&mut [&mut self.far, &mut self.here], |people| {
            match place(&people[0].screen, &people[1].screen) {
                Some(at) => {
                    self.at = at;
                    None
                }
                None => Some("nowhere in the window is what the server shows".to_owned()),
            }
        })
        .await
    }

    /// The pointer of the desktop here goes to a place, and the viewer has the focus. TigerVNC's servers
    /// paint it into the picture of whoever did not put it where it is: so each of our own viewers says the
    /// same.
    async fn point(&mut self, x: u16, y: u16) {
        for near in [3, 0] {
            self.here.rfb.pointer(0, x - near, y - near).unwrap();
            self.here.look(Duration::from_millis(300)).await;
        }
        self.outer.ask("xdotool", &["windowfocus", &self.window.id]);
        self.here.look(Duration::from_millis(200)).await;
        if let Some((x, y)) = pointed(&self.inner) {
            self.far.rfb.pointer(0, x, y).unwrap();
        }
        self.far.look(Duration::from_millis(100)).await;
    }

    /// Over the terminal, where the far pointer has another shape than elsewhere.
    async fn pointer(&mut self) -> Result<(), String> {
        let there = shape_at(&mut self.far, TERMINAL).await?;
        self.point(self.at.0 + TERMINAL.0, self.at.1 + TERMINAL.1).await;
        let inner = &self.inner;
        settled(&mut [&mut self.far, &mut self.here], |people| {
            let at = pointed(inner);
            if at != Some(TERMINAL) {
                return Some(format!("the far pointer is at {at:?} and not at {TERMINAL:?}"));
            }
            differ_in_shape(&there, &shape(&people[1].cursor))
        })
        .await
    }

    async fn keys(&mut self) -> Result<(), String> {
        self.point(self.at.0 + XEV.0, self.at.1 + XEV.1).await;
        for key in KEYS {
            self.here.press(key);
            self.here.look(Duration::from_millis(100)).await;
        }
        typed(&self.windows, &mut [&mut self.far, &mut self.here], &KEYS).await
    }

    async fn clipboard_in(&mut self) -> Result<(), String> {
        let _owner = Clip::Clipboard(&self.inner).copy(&self.folder, TEXT);
        let (outer, viewer) = (&self.outer, self.viewer);
        settled(&mut [&mut self.far, &mut self.here], |_| {
            if viewer.is_of_x() {
                return differ(&Clip::Clipboard(outer).paste(), TEXT);
            }
            let titles = outer.ask("xwininfo", &["-root", "-tree"]);
            let points: Vec<String> = TEXT.chars().map(|c| u32::from(c).to_string()).collect();
            let heard = format!("\"heard {}\"", points.join(" "));
            let title = titles.lines().find(|line| line.contains("heard")).unwrap_or("nothing was heard");
            (!titles.contains(&heard)).then(|| title.trim().to_owned())
        })
        .await
    }

    async fn clipboard_out(&mut self) -> Result<(), String> {
        let text: String = TEXT.chars().rev().collect();
        // noVNC's page has given back what it heard.
        let _owner = self.viewer.is_of_x().then(|| Clip::Clipboard(&self.outer).copy(&self.folder, &text));
        let inner = &self.inner;
        settled(&mut [&mut self.far, &mut self.here], |_| differ(&Clip::Clipboard(inner).paste(), &text))
            .await
    }
}

/// Where the pointer of a display is.
fn pointed(display: &Display) -> Option<(u16, u16)> {
    let words = display.ask("xdotool", &["getmouselocation", "--shell"]);
    let number = |name: &str| words.lines().find_map(|line| line.strip_prefix(name))?.parse().ok();
    Some((number("X=")?, number("Y=")?))
}

pub(crate) fn differ(pasted: &str, text: &str) -> Option<String> {
    (pasted != text).then(|| format!("{pasted:?} was pasted and not {text:?}"))
}

/// Waits for keys.
pub(crate) async fn typed(windows: &Windows, people: &mut [&mut Person], keys: &[u32]) -> Result<(), String> {
    let shift = |key: &u32| matches!(key, 0xffe1 | 0xffe2);
    settled(people, |_| {
        let got: Vec<u32> = windows.typed().into_iter().filter(|key| !shift(key)).collect();
        (got != keys).then(|| format!("{got:x?} came and not {keys:x?}"))
    })
    .await
}

/// One of our own that has no pointer of its own: the gateway paints it, as TigerVNC's server does for such a
/// viewer.
async fn without_cursor(inner: &Display, windows: &Windows, gateways: &Gateways, folder: &Folder) -> Found {
    let config = || {
        let mut config = ClientConfig::default();
        config.encodings.retain(|encoding| *encoding != Encoding::Cursor);
        config
    };
    let mut bare = Person::with(inner.vnc, config()).await;
    let mut near = Person::with(gateways.address, config()).await;
    let mut far = Person::sit(inner.vnc).await;
    let mut found = Vec::new();
    for (cell, (x, y)) in [(Cell::Picture, XEV), (Cell::Pointer, TERMINAL)] {
        near.rfb.pointer(0, x - 1, y).unwrap();
        near.rfb.pointer(0, x, y).unwrap();
        near.look(Duration::from_millis(300)).await;
        far.rfb.pointer(0, x, y).unwrap();
        let same = settled(&mut [&mut bare, &mut near, &mut far], |people| {
            let [bare, near, far] = people else { return None };
            if bare.screen.pixels() == far.screen.pixels() {
                return Some("TigerVNC's server paints no pointer".to_owned());
            }
            let pairs = bare.screen.pixels().iter().zip(near.screen.pixels());
            let wrong = pairs.filter(|(a, b)| a != b).count();
            (wrong > 0).then(|| format!("{wrong} pixels differ from TigerVNC's"))
        })
        .await;
        found.push((cell, same));
    }
    near.rfb.pointer(0, XEV.0, XEV.1).unwrap();
    for key in KEYS {
        near.press(key);
    }
    found.push((Cell::Keys, typed(windows, &mut [&mut near], &KEYS).await));
    found.extend(latin_clipboard(Clip::Clipboard(inner), &mut near, folder).await);
    found
}

/// The clipboard of RFC 6143, which has Latin-1 alone, both ways.
pub(crate) async fn latin_clipboard(clip: Clip<'_>, near: &mut Person, folder: &Folder) -> Found {
    let (inward, outward) = ("Grüße ¿½", "½¿ Æther");
    let mut near = [near];
    // First the viewer's: x11vnc takes none for a while after it has told of one.
    near[0].rfb.text(outward).unwrap();
    let sent = settled(&mut near, |_| differ(&clip.paste(), outward)).await;
    let _owner = clip.copy(folder, inward);
    let heard = settled(&mut near, |people| {
        far::answer(people[0]);
        let texts = far::heard(people[0]);
        (!texts.iter().any(|text| text == inward)).then(|| format!("{texts:?} was heard"))
    })
    .await;
    vec![(Cell::ClipboardIn, heard), (Cell::ClipboardOut, sent)]
}
