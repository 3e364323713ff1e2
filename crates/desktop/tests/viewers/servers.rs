//! Servers of others behind the gateways, and viewers of our own: one in front of the gateways, one past
//! them.

use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::far::{Clip, HEIGHT, TERMINAL, WIDTH, Windows, XEV, differ_in_shape, settled, shape, shape_at};
use super::gateways::{Folder, Gateways};
use super::person::Person;
use super::programs::{Display, Program};
use super::viewers::{latin_clipboard, typed};
use super::{Cell, Found, LIMIT};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// On Xvfb.
    X11Vnc,
    TightVnc,
    /// A PC without a system: its BIOS has a menu.
    Qemu,
}

/// a, Z, 7, Return.
const KEYS: [u32; 4] = [0x61, 0x5a, 0x37, 0xff0d];
const ESCAPE: u32 = 0xff1b;
const MIDDLE: (u16, u16) = (320, 200);

pub(crate) async fn play(server: Server) -> Found {
    let folder = Folder::new(&format!("{server:?}"));
    let size = format!("{WIDTH}x{HEIGHT}");
    // Below x11vnc, and there for longer.
    let xvfb = Mutex::new(None);
    let display = match server {
        Server::Qemu => return qemu(&folder).await,
        Server::TightVnc => {
            Display::begin(|name, port| {
                let mut command = Command::new("Xtightvnc");
                command.args([name, "-geometry", &size, "-depth", "24", "-rfbport", &port.to_string()]);
                command.args(["-localhost", "-alwaysshared", "-fp", "/usr/share/fonts/X11/misc"]);
                command
            })
            .await
        }
        Server::X11Vnc => {
            Display::begin(|name, port| {
                let screen = format!("{size}x24");
                let mut command = Command::new("Xvfb");
                command.args([name, "-screen", "0", &screen, "-nolisten", "tcp"]);
                *xvfb.lock().unwrap() = Some(Program::start(&mut command));
                // It does not wait for the display.
                let run = "n=0; until [ -S /tmp/.X11-unix/X${0#:} ] || [ $n = 100 ]; do sleep 0.1; n=$((n + 1)); done; \
                           exec x11vnc -quiet -display $0 -rfbport $1 -localhost -forever -shared -nopw -noxdamage";
                let mut command = Command::new("sh");
                command.args(["-c", run, name, &port.to_string()]);
                command
            })
            .await
        }
    };
    let windows = Windows::open(&display, &folder).await;
    let gateways = Gateways::start(display.vnc, &folder).await;
    let mut far = Person::sit(display.vnc).await;
    let mut near = Person::sit(gateways.address).await;
    let picture = same(&mut far, &mut near, XEV).await;
    let pointer = pointer(&mut far, &mut near).await;
    near.rfb.pointer(0, XEV.0, XEV.1).unwrap();
    for key in KEYS {
        near.press(key);
    }
    let keys = typed(&windows, &mut [&mut near, &mut far], &KEYS).await;
    let mut found = vec![(Cell::Picture, picture), (Cell::Pointer, pointer), (Cell::Keys, keys)];
    // TightVNC's server knows no other place, and x11vnc minds this one without being asked.
    found.extend(latin_clipboard(Clip::CutBuffer(&display), &mut near, &folder).await);
    found
}

/// The same picture before the gateways and past them, with the pointer in the same place.
async fn same(far: &mut Person, near: &mut Person, (x, y): (u16, u16)) -> Result<(), String> {
    near.rfb.pointer(0, x - 1, y).unwrap();
    near.rfb.pointer(0, x, y).unwrap();
    near.look(Duration::from_millis(300)).await;
    far.rfb.pointer(0, x, y).unwrap();
    settled(&mut [far, near], |people| {
        let (far, near) = (&people[0].screen, &people[1].screen);
        let first = far.pixels().first();
        if far.pixels().iter().all(|pixel| Some(pixel) == first) {
            return Some("the server shows nothing".to_owned());
        }
        if far.bounds() != near.bounds() {
            return Some(format!("{near:?} and not {far:?}"));
        }
        let wrong = far.pixels().iter().zip(near.pixels()).filter(|(a, b)| a != b).count();
        (wrong > 0).then(|| format!("{wrong} pixels differ"))
    })
    .await
}

/// The shape of the pointer over the terminal.
async fn pointer(far: &mut Person, near: &mut Person) -> Result<(), String> {
    let there = shape_at(far, TERMINAL).await?;
    same(far, near, TERMINAL).await?;
    settled(&mut [near], |people| differ_in_shape(&there, &shape(&people[0].cursor))).await
}

async fn qemu(folder: &Folder) -> Found {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let vnc = SocketAddr::from(([127, 0, 0, 1], port));
    // Its displays are ports from 5900 on. The menu waits for a minute.
    let listen = format!("127.0.0.1:{},share=force-shared", port - 5900);
    let mut command = Command::new("qemu-system-x86_64");
    command.args(["-vnc", &listen, "-net", "none", "-m", "64"]);
    command.args(["-boot", "menu=on,splash-time=60000"]);
    let mut machine = Program::start(&mut command);
    let end = Instant::now() + LIMIT;
    while std::net::TcpStream::connect(vnc).is_err() {
        assert!(Instant::now() < end && !machine.ended(), "QEMU does not come up: {:?}", machine.lines());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let gateways = Gateways::start(vnc, folder).await;
    let mut far = Person::sit(vnc).await;
    let mut near = Person::sit(gateways.address).await;
    let picture = same(&mut far, &mut near, MIDDLE).await;
    let before = far.screen.crc32();
    near.press(ESCAPE);
    let keys = settled(&mut [&mut far, &mut near], |people| {
        (people[0].screen.crc32() == before).then(|| "nothing changes".to_owned())
    })
    .await;
    let menu = same(&mut far, &mut near, MIDDLE).await;
    vec![(Cell::Picture, picture.and(menu)), (Cell::Keys, keys)]
}
