//! A viewer of the gateway on this side of the link, in a process of its own there.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use quickset_rfb::Framebuffer;

use super::desktop::colour;
use super::pages::PAGE;
use super::person::Person;
use super::{Times, now};

/// Answers orders of a socket: `page N` by when all of page N is there, `key N` by when a key was pressed and
/// when the corner shows that. Microseconds since 1970.
pub(crate) async fn answer(orders: UnixStream, gateway: std::net::SocketAddr) {
    let end = std::time::Instant::now() + super::LIMIT;
    while tokio::net::TcpStream::connect(gateway).await.is_err() && std::time::Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut person = Person::sit(gateway).await;
    person.until("the desktop", |person| person.screen.width() == PAGE.width()).await;
    let mut answers = orders.try_clone().unwrap();
    // Orders come one at a time, while the viewer goes on to look.
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in BufReader::new(orders).lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    loop {
        let order = loop {
            match told.try_recv() {
                Ok(order) => break order,
                Err(tokio::sync::mpsc::error::TryRecvError::Empty) => {
                    person.look(Duration::from_millis(1)).await;
                }
                Err(_) => return,
            }
        };
        let (what, number) = order.split_once(' ').unwrap();
        let number: u64 = number.parse().unwrap();
        let begun = now();
        if what == "key" {
            for down in [true, false] {
                person.rfb.key(down, 0x61).unwrap();
            }
        }
        let places: Vec<(u16, u16)> = if what == "key" { vec![(6, 6)] } else { grid() };
        let mut seen = person.updates;
        let whole = |person: &mut Person| {
            std::mem::replace(&mut seen, person.updates) != person.updates
                && places.iter().all(|&(x, y)| shown(&person.screen, x, y) == colour(number))
        };
        person.until("what was asked for", whole).await;
        writeln!(answers, "{begun} {}", now()).unwrap();
    }
}

fn grid() -> Vec<(u16, u16)> {
    let rows = (30..PAGE.height()).step_by(32);
    rows.flat_map(|y| (30..PAGE.width()).step_by(32).map(move |x| (x, y))).collect()
}

fn shown(screen: &Framebuffer, x: u16, y: u16) -> u32 {
    let pixel = screen.pixel(x, y).unwrap_or(0);
    [16, 8, 0].iter().fold(0, |bits, part| bits << 1 | u32::from(pixel >> part & 0xff > 127))
}

/// The other end of [`answer`].
pub(crate) struct Native {
    orders: UnixStream,
    answers: BufReader<UnixStream>,
}

impl Native {
    pub(crate) fn new(socket: UnixStream) -> Self {
        socket.set_read_timeout(Some(super::LIMIT)).unwrap();
        Self { orders: socket.try_clone().unwrap(), answers: BufReader::new(socket) }
    }

    pub(crate) fn order(&mut self, order: &str) {
        writeln!(self.orders, "{order}").unwrap();
    }

    pub(crate) fn answer(&mut self) -> Times {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        let (begun, seen) = line.trim().split_once(' ').expect("the viewer answers");
        Times { begun: begun.parse().unwrap(), seen: seen.parse().unwrap() }
    }
}
