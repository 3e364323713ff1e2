use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use quickset_lab::relay::Relay;
use quickset_sim::LinkSpec;

use super::pages::PAGE;
use super::person::Person;
use super::programs::Program;
use super::vnc::{Order as Draw, Vnc};

/// A desktop far away, and whoever looks at it.
pub(crate) struct Desktop {
    vnc: Vnc,
    serve: Program,
    _view: Program,
    pub(crate) relay: Relay,
    person: Person,
    _home: Home,
}

impl Desktop {
    /// With both gateways, as the command has them, and a link between.
    pub(crate) async fn start(binary: &Path, order: &str, link: &LinkSpec) -> Self {
        let home = Home::new(order);
        let vnc = Vnc::start(PAGE.width(), PAGE.height()).await;
        let quickset = |name: &str| {
            let mut command = Command::new(binary);
            command.arg("desktop").env("HOME", &home.0).env("XDG_DATA_HOME", home.0.join(name));
            command
        };
        let mut serve = Program::start(
            quickset("server")
                .args(["serve", "--vnc", &vnc.address.to_string(), "--listen", "127.0.0.1:0"])
                .args(["--order", order, "--stats"]),
        );
        let listening = |line: &str| line.strip_prefix("listening on ").map(str::to_owned);
        let words = serve.prints("where it listens", listening).await;
        let (address, fingerprint) = words.split_once(' ').unwrap();
        let token = serve.prints("a token", |line| line.strip_prefix("token ").map(str::to_owned)).await;
        let relay = Relay::start(address.parse().unwrap(), link.clone(), link.clone(), SEED).unwrap();
        let mut view = Program::start(
            quickset("client")
                .args(["view", &relay.address().to_string(), "--listen", "127.0.0.1:0"])
                .args(["--pin", fingerprint, "--token", &token]),
        );
        let address = view.prints("where it listens", listening).await.parse().unwrap();
        let mut person = Person::sit(address).await;
        person.sees(&vnc).await;
        Self { vnc, serve, _view: view, relay, person, _home: home }
    }

    /// Turns to a page: how long until all of it is there.
    pub(crate) async fn flip(&mut self, page: Vec<u32>) -> Duration {
        let begun = Instant::now();
        self.vnc.tell(Draw::Put(PAGE, page.clone()));
        // A picture is looked at when an update of it is over.
        let mut seen = self.person.updates;
        let whole = |person: &mut Person| {
            std::mem::replace(&mut seen, person.updates) != person.updates && person.screen.pixels() == page
        };
        self.person.until("the page", whole).await;
        begun.elapsed()
    }

    /// The server of the desktop, and who looks at it.
    pub(crate) fn both(&mut self) -> (&Vnc, &mut Person) {
        (&self.vnc, &mut self.person)
    }

    /// Looks at the page.
    pub(crate) async fn rest(&mut self, time: Duration) {
        self.person.look(time).await;
    }

    /// What the server's gateway has told so far, once a second: bytes of screen messages.
    pub(crate) fn told_bytes(&self) -> Vec<u64> {
        let bytes = |line: &String| {
            let mut words = line.strip_prefix("client=")?.split(' ');
            words.find_map(|word| word.strip_prefix("bytes="))?.parse().ok()
        };
        self.serve.lines().iter().filter_map(bytes).collect()
    }

    /// What the server's gateway has sent so far. It tells once a second.
    pub(crate) async fn counts(&mut self) -> BTreeMap<String, u64> {
        let before = self.serve.lines().len();
        let end = Instant::now() + crate::LIMIT;
        while self.serve.lines().len() == before {
            assert!(Instant::now() < end, "the server's gateway prints no statistics");
            self.rest(Duration::from_millis(50)).await;
        }
        let line = self.serve.prints("statistics", |l| l.starts_with("client=").then(|| l.to_owned())).await;
        let words = line.split(' ').filter_map(|word| word.split_once('='));
        words.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
    }
}

/// A folder that is gone after the test.
struct Home(PathBuf);

impl Home {
    fn new(order: &str) -> Self {
        let path = std::env::temp_dir().join(format!("quickset-flips-{}-{order}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Links of the same loss lose the same packets, by number.
const SEED: u64 = 1;
