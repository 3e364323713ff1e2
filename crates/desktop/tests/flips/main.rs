//! Page flips across a path with losses, between both gateways as `quickset` runs them: how long it takes
//! from when a VNC server is told to draw a page of text until a viewer has all of it. `cargo xtask flips`
//! runs it, and prints a row for each loss and order.
//!
//! The orders of a row's loss take turns, each with a desktop, gateways and a link of its own, so that what
//! else the machine does meets them alike. QUICKSET_FLIPS, …_LINK, …_LOSS, …_ORDER and …_BINARY say how many
//! flips, over which link, which losses (with blanks between them) and orders (with commas), and which
//! command; …_JSON names a file for the rows. With `--scroll` it is a terminal that scrolls, whose lines have
//! to come one after the other; with `--video` a film, and keys typed beside it.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "numbers in tests are small, or cut on purpose"
)]

mod far;
mod film;
#[path = "../e2e/look.rs"]
mod look;
mod pages;
#[expect(dead_code, reason = "as much of it as a viewer needs that only looks")]
#[path = "../gateway/person.rs"]
mod person;
#[expect(dead_code, reason = "a program that is started and ends is all of it that is needed")]
#[path = "../e2e/programs.rs"]
mod programs;
mod scroll;
mod video;
#[expect(dead_code, reason = "as much of it as pages need")]
#[path = "../gateway/vnc.rs"]
mod vnc;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use quickset_desktop::message::ScreenOrder;
use quickset_sim::{LinkSpec, LossModel};

use far::Desktop;
use pages::Book;

/// How long a page, or another condition, may take.
const LIMIT: Duration = Duration::from_secs(20);

/// What is to be measured, from the environment.
struct Plan {
    /// The command that serves and views.
    binary: PathBuf,
    /// The link, each way, but for what it loses.
    link: String,
    flips: usize,
    losses: Vec<LossModel>,
    orders: Vec<ScreenOrder>,
}

/// What was seen with one loss in one order.
struct Row {
    order: ScreenOrder,
    loss: LossModel,
    /// Sorted.
    times: Vec<Duration>,
    counts: Counts,
    /// By how much packets left the link later than it says, at the 99th percentile: then times are those of
    /// the machine.
    late: Duration,
}

/// What the server's gateway sent after the first pages.
struct Counts {
    packets: u64,
    lost: u64,
    repairs: u64,
    recovered: u64,
    messages: u64,
}

#[test]
#[ignore = "minutes in real time: cargo xtask flips"]
fn pages_are_there_soon() {
    let plan = Plan::read();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    println!("{HEAD}");
    let rows: Vec<Row> = runtime.block_on(async {
        let mut rows = Vec::new();
        for loss in &plan.losses {
            let measured = plan.measure(loss).await;
            for row in &measured {
                println!("{}", row.line());
            }
            rows.extend(measured);
        }
        rows
    });
    if let Some(file) = std::env::var_os("QUICKSET_FLIPS_JSON") {
        let rows: Vec<String> = rows.iter().map(Row::json).collect();
        std::fs::write(file, format!("[{}]\n", rows.join(","))).unwrap();
    }
}

#[test]
#[ignore = "minutes in real time: cargo xtask flips --scroll"]
fn lines_come_one_after_the_other() {
    let plan = Plan::read();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    println!("{}", scroll::HEAD);
    for loss in &plan.losses {
        let link: LinkSpec = format!("{} loss={loss}", plan.link).parse().unwrap();
        for order in &plan.orders {
            let order = order.to_string();
            let row = runtime.block_on(async {
                let mut desktop = Desktop::start(&plan.binary, &order, &link).await;
                let book = Book::new();
                // By these a connection learns of its path.
                desktop.scroll(&book, 50, LINES).await;
                desktop.scroll(&book, plan.flips as u32, LINES).await
            });
            println!("{}", row.line(&order, loss));
        }
    }
}

#[test]
#[ignore = "minutes in real time: cargo xtask flips --video"]
fn films_are_seen_soon() {
    let plan = Plan::read();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    println!("{}", video::HEAD);
    let reel = film::Reel::new(1);
    for loss in &plan.losses {
        let link: LinkSpec = format!("{} loss={loss}", plan.link).parse().unwrap();
        for order in &plan.orders {
            let order = order.to_string();
            let row = runtime.block_on(async {
                let mut desktop = Desktop::start(&plan.binary, &order, &link).await;
                desktop.play(&reel, plan.flips).await
            });
            println!("{}", row.line(&order, loss));
        }
    }
}

impl Plan {
    fn read() -> Self {
        let word = |name: &str, usual: &str| std::env::var(name).unwrap_or_else(|_| usual.into());
        let built = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/debug/quickset");
        Self {
            binary: std::env::var_os("QUICKSET_FLIPS_BINARY").map_or_else(built, PathBuf::from),
            link: word("QUICKSET_FLIPS_LINK", LINK),
            flips: word("QUICKSET_FLIPS", "20").parse().unwrap(),
            losses: word("QUICKSET_FLIPS_LOSS", "none 1%")
                .split(' ')
                .map(|one| one.parse().unwrap())
                .collect(),
            orders: word("QUICKSET_FLIPS_ORDER", "fenced,latest")
                .split(',')
                .map(|one| one.parse().unwrap())
                .collect(),
        }
    }

    /// All orders with one loss, at the same time and in turns.
    async fn measure(&self, loss: &LossModel) -> Vec<Row> {
        let book = Arc::new(Book::new());
        let link: LinkSpec = format!("{} loss={loss}", self.link).parse().unwrap();
        let mut running = Vec::new();
        for (n, &order) in self.orders.iter().enumerate() {
            let desktop = Desktop::start(&self.binary, &order.to_string(), &link).await;
            let (loss, book, flips) = (loss.clone(), book.clone(), self.flips);
            let turn = BETWEEN * n as u32 / self.orders.len() as u32;
            running.push(tokio::spawn(async move {
                tokio::time::sleep(turn).await;
                Row::measure(desktop, &book, flips, (order, loss)).await
            }));
        }
        let mut rows = Vec::new();
        for row in running {
            rows.push(row.await.unwrap());
        }
        rows
    }
}

impl Row {
    async fn measure(
        mut desktop: Desktop,
        book: &Book,
        flips: usize,
        (order, loss): (ScreenOrder, LossModel),
    ) -> Self {
        let mut times = Vec::with_capacity(flips);
        let mut before = None;
        let mut next = tokio::time::Instant::now();
        for number in 0..FIRST + flips {
            if number == FIRST {
                before = Some(desktop.counts().await);
                next = tokio::time::Instant::now();
            }
            let page = book.page(number as u64);
            let time = desktop.flip(page).await;
            if number >= FIRST {
                times.push(time);
            }
            next += BETWEEN;
            desktop.rest(next.duration_since(tokio::time::Instant::now())).await;
        }
        let (before, after) = (before.unwrap_or_default(), desktop.counts().await);
        let count = |name: &str| after[name] - before.get(name).copied().unwrap_or(0);
        let counts = Counts {
            packets: count("packets"),
            lost: count("lost").saturating_sub(count("spurious")),
            repairs: count("repairs"),
            recovered: count("recovered"),
            messages: count("messages"),
        };
        times.sort();
        Self { order, loss, times, counts, late: desktop.relay.lateness().percentile(0.99) }
    }

    /// The time that so many percent of the flips took at most.
    fn percentile(&self, percent: usize) -> f64 {
        let at = (self.times.len() * percent).div_ceil(100).clamp(1, self.times.len());
        ms(self.times[at - 1])
    }

    fn line(&self) -> String {
        let mut line =
            format!("{:<8} {:<7} {:>5}", self.order.to_string(), self.loss.to_string(), self.times.len());
        for percent in [50, 95, 99, 100] {
            let _ = write!(line, " {:>6.1}", self.percentile(percent));
        }
        let Counts { packets, lost, repairs, recovered, messages } = self.counts;
        let _ = write!(
            line,
            " {messages:>8} {packets:>8} {lost:>6} {repairs:>7} {recovered:>9} {:>6.2}",
            ms(self.late)
        );
        line
    }

    fn json(&self) -> String {
        let Counts { packets, lost, repairs, recovered, messages } = self.counts;
        let [p50, p95, p99, max] = [50, 95, 99, 100].map(|percent| self.percentile(percent));
        format!(
            r#"{{"order":"{}","loss":"{}","flips":{},"p50_ms":{p50:.3},"p95_ms":{p95:.3},"p99_ms":{p99:.3},"max_ms":{max:.3},"messages":{messages},"packets":{packets},"lost":{lost},"repairs":{repairs},"recovered":{recovered},"late_p99_ms":{:.3}}}"#,
            self.order,
            self.loss,
            self.times.len(),
            ms(self.late)
        )
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

const HEAD: &str = "\
                            ms until the page is there       sent                        of those lost  link late
order    loss    flips    p50    p95    p99    max messages  packets   lost repairs recovered p99 ms";
/// Packets are as large as most paths take.
const LINK: &str = "rate=100mbit delay=50ms queue=1MB mtu=1500";
/// From one page to the next of a desktop.
const BETWEEN: Duration = Duration::from_millis(700);
/// From one line of a terminal to the next: 25 a second.
const LINES: Duration = Duration::from_millis(40);
/// Pages by which a connection learns of its path, which are not counted.
const FIRST: usize = 5;
