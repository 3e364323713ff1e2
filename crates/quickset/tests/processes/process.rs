//! A server in a process of its own, which is this test program, told to be one.
//!
//! It reads what it shall be, and then questions, from its standard input, and ends with that: none is left
//! behind when the test ends in whatever way. It answers on its standard output, where the test harness
//! writes, too; a word at the beginning of a line says what is meant.

use std::io::{BufRead, BufReader, Lines, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use quickset::{Connection, Endpoint, Identity, RoutableIds, ServerConfig, SocketConfig};

use crate::layout;

/// What a process shall be.
#[derive(Clone, Copy)]
pub(crate) struct ServerWish {
    pub(crate) address: SocketAddr,
    /// Its id, and what it signs answers with.
    pub(crate) number: u8,
    pub(crate) sockets: usize,
    /// Its connection ids name it.
    pub(crate) is_routable: bool,
    pub(crate) reset_key: Option<[u8; 32]>,
}

impl ServerWish {
    pub(crate) fn number(number: u8) -> Self {
        let address = ([127, 0, 0, 1], 0).into();
        Self { address, number, sockets: 1, is_routable: true, reset_key: None }
    }

    /// One line, without blanks in its words. The key is given by its first byte, of which all are.
    fn write(&self) -> String {
        let key = self.reset_key.map_or(0, |key| key[0]);
        format!("{} {} {} {} {key}", self.address, self.number, self.sockets, self.is_routable)
    }

    fn read(line: &str) -> Self {
        let words: Vec<&str> = line.split_whitespace().collect();
        let key: u8 = words[4].parse().unwrap();
        Self {
            address: words[0].parse().unwrap(),
            number: words[1].parse().unwrap(),
            sockets: words[2].parse().unwrap(),
            is_routable: words[3].parse().unwrap(),
            reset_key: (key > 0).then_some([key; 32]),
        }
    }
}

/// What a process did so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessStats {
    pub(crate) connections: u64,
    pub(crate) dropped: u64,
    pub(crate) resets: u64,
    pub(crate) handed_over: u64,
    pub(crate) handed_over_lost: u64,
}

/// A server that runs.
pub(crate) struct ServerProcess {
    pub(crate) address: SocketAddr,
    child: Child,
    asks: ChildStdin,
    told: Lines<BufReader<ChildStdout>>,
}

impl ServerProcess {
    pub(crate) fn start(wish: &ServerWish, identity: &Identity) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "process::serves_when_it_is_told_to", "--nocapture", "--test-threads=1"])
            .env(TOLD, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut asks = child.stdin.take().unwrap();
        let told = BufReader::new(child.stdout.take().unwrap()).lines();
        // The key of the identity is a secret: not among the arguments.
        writeln!(
            asks,
            "{}\n{}\n{}\n{END}",
            wish.write(),
            identity.certificate_pem(),
            identity.private_key_pem()
        )
        .unwrap();
        let mut process = Self { address: wish.address, child, asks, told };
        process.address = process.hear("listening").parse().unwrap();
        process
    }

    pub(crate) fn stats(&mut self) -> ProcessStats {
        writeln!(self.asks, "stats").unwrap();
        let line = self.hear("stats");
        let mut numbers = line.split_whitespace().map(|number| number.parse().unwrap());
        let mut next = || numbers.next().unwrap();
        ProcessStats {
            connections: next(),
            dropped: next(),
            resets: next(),
            handed_over: next(),
            handed_over_lost: next(),
        }
    }

    /// What it says next, behind this word.
    fn hear(&mut self, word: &str) -> String {
        loop {
            let line = self.told.next().expect("the process has ended").unwrap();
            if let Some(rest) = line.strip_prefix(word) {
                return rest.trim().to_owned();
            }
        }
    }

    /// Ends it without a word to anybody.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a process is that a test starts; by itself it is no test.
#[test]
fn serves_when_it_is_told_to() {
    if std::env::var_os(TOLD).is_some() {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build().unwrap();
        let _within = runtime.enter();
        serve();
    }
}

fn serve() {
    let mut lines = std::io::stdin().lines().map(Result::unwrap);
    let wish = ServerWish::read(&lines.next().unwrap());
    let pem = lines.by_ref().take_while(|line| line != END).collect::<Vec<_>>().join("\n");
    let identity = Identity::from_pem(&pem, &pem).unwrap();
    let mut config = ServerConfig::new(identity, &["echo/1"]).unwrap();
    if let Some(key) = wish.reset_key {
        config = config.with_reset_key(key);
    }
    let mut socket = SocketConfig { sockets: wish.sockets, ..SocketConfig::default() };
    if wish.is_routable {
        socket.connection_ids = Some(Arc::new(RoutableIds::new(layout(), &[wish.number]).unwrap()));
    }
    let server = Endpoint::bind(wish.address, &socket, Some(&config)).unwrap();
    let accepting = server.clone();
    tokio::spawn(async move {
        while let Some(connection) = accepting.accept().await {
            tokio::spawn(echo(connection, wish.number));
        }
    });
    // The harness has begun a line.
    println!("\nlistening {}", server.local_addr());
    for _ in lines {
        let (stats, connections) = (server.stats(), server.connections());
        let counters = stats.counters;
        println!(
            "stats {connections} {} {} {} {}",
            counters.dropped, counters.resets_sent, stats.handed_over, stats.handed_over_lost
        );
    }
    std::process::exit(0);
}

async fn echo(connection: Connection, number: u8) {
    while let Ok((mut send, mut recv)) = connection.accept_bi().await {
        let Ok(mut all) = recv.read_to_end(1 << 20).await else { return };
        all.push(number);
        if send.write_all(&all).await.is_err() || send.finish().is_err() {
            return;
        }
    }
}

/// The variable by which a process knows that it is one.
const TOLD: &str = "QUICKSET_TEST_PROCESS";

const END: &str = "end of the identity";
