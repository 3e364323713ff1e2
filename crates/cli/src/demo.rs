mod web;

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use quickset::{Algorithm, Protection};
use quickset_base::number::Unsigned as _;
use quickset_lab::demo::{self, DemoConfig, DemoMode, DemoProgress, Findings};
use quickset_lab::report;
use quickset_sim::{LinkQueue, LossModel, Rate};

use crate::qlog::QlogArgs;
use crate::say::{self, say};
use crate::values;

/// Show what fences do: a moving desktop through a lossy link, all delivery modes at once.
///
/// A moving test desktop is sent over real QUIC connections through an emulated lossy
/// link on this machine, once for each delivery mode and all of them at the same time.
/// A table shows how long messages that had arrived waited for others; a report with the
/// distributions is written at the end. With --web the receivers' screens are shown live, side
/// by side, in a browser. No network, screen or privileges are needed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, verbatim_doc_comment)]
pub(crate) struct DemoArgs {
    /// Seconds measured at each pace [default: 16]; with --web how long it goes on [default: until Ctrl-C]
    #[arg(long, value_name = "SECONDS", value_parser = values::seconds)]
    seconds: Option<Duration>,
    /// Updates a second; each pace is a run of its own [default: 10,30; with --web one, 30]
    #[arg(long, value_name = "N,…", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pace: Vec<u32>,
    /// Show the modes side by side, live, on a page for browsers on this machine, in place of a report
    #[arg(long, conflicts_with_all = ["output", "json"])]
    web: bool,
    /// Where that page is served; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0", requires = "web",
          value_parser = values::listening)]
    web_page: SocketAddr,
    /// The link's rate, each way
    #[arg(long, default_value = "100mbit")]
    rate: Rate,
    /// The round-trip time of the link
    #[arg(long, default_value = "100ms", value_parser = values::duration)]
    rtt: Duration,
    /// What the link loses, each way: a share, or ge:P,R for bursts (Gilbert-Elliott)
    #[arg(long, default_value = "0.5%")]
    loss: LossModel,
    /// The link's queue, each way
    #[arg(long, default_value = "9MB", value_parser = values::queue)]
    queue: LinkQueue,
    #[arg(long, help = values::controllers(), default_value = "bbr", value_parser = values::congestion)]
    cc: Algorithm,
    #[arg(
        long,
        help = values::protections("How losses are repaired in the mode partial+fec", "; none leaves the mode out"),
        value_name = "NAME",
        default_value = "adaptive:screen",
        value_parser = values::protection
    )]
    fec: Protection,
    /// Seed of the losses and of the desktop
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the report goes [default: report.html; with --json none]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Open the report, or the page of --web, in a browser
    #[arg(long)]
    open: bool,
    /// Print the results as one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    qlog: QlogArgs,
}

impl DemoArgs {
    fn plan(&self) -> DemoConfig {
        let usual = DemoConfig::default();
        DemoConfig {
            paces: if self.pace.is_empty() { usual.paces.clone() } else { self.pace.clone() },
            duration: self.seconds.unwrap_or(usual.duration),
            rate: self.rate.clone(),
            rtt: self.rtt,
            loss: self.loss.clone(),
            queue: self.queue,
            seed: self.seed,
            congestion: self.cc.clone(),
            protection: self.fec.clone(),
            qlog: self.qlog.qlog.clone(),
            ..usual
        }
    }

    fn report(&self) -> Option<&Path> {
        match &self.output {
            Some(file) => Some(file),
            None if self.json && !self.open => None,
            None => Some(Path::new("report.html")),
        }
    }
}

pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<()> {
    let plan = args.plan();
    if args.web {
        let pace = match args.pace[..] {
            [] => LIVE_PACE,
            [pace] => pace,
            _ => anyhow::bail!("--web shows one pace; name one with --pace"),
        };
        let show = web::WebShow { plan, pace, length: args.seconds, page: args.web_page, opens: args.open };
        return crate::block_on(show.run());
    }
    let bar = bar(&plan);
    let findings = crate::block_on(async {
        demo::run(&plan, |progress| show(&bar, progress)).await.map_err(anyhow::Error::from)
    });
    bar.finish_and_clear();
    let findings = findings?;

    if let Some(file) = args.report() {
        std::fs::write(file, report::demo::html(&findings, &words(args, &plan))).with_context(|| {
            format!("the report cannot be written to {}; choose another place with --output", file.display())
        })?;
    }
    if args.json {
        say!("{}", serde_json::to_string_pretty(&findings)?)?;
    } else {
        say::text(format_args!("{}", table(&findings)))?;
        if let Some(file) = args.report() {
            say!("\nThe distributions are in {}.", file.display())?;
        }
    }
    if let Some(file) = args.report().filter(|_| args.open) {
        open(file)?;
    }
    anyhow::ensure!(
        findings.modes.iter().all(|row| row.picture_equal),
        "a receiver's picture differs from the sender's, which is a fault of quickset; please report it with the seed {}",
        args.seed
    );
    Ok(())
}

/// A table that is drawn again in place, above the time that is left. Nothing where stderr is no terminal.
fn bar(plan: &DemoConfig) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg}\n{wide_bar:.green/dim} {left}")
        .expect("the template is constant");
    let length = plan.length();
    // How long it takes is known; what indicatif would guess from the beginning is not better.
    let style = style.with_key("left", |state: &ProgressState, w: &mut dyn Write| {
        let left = state.len().unwrap_or(0).saturating_sub(state.pos()).div_ceil(1000);
        let _ = if left > 0 { write!(w, "about {left} s left") } else { write!(w, "finishing") };
    });
    ProgressBar::new(length.as_millis().saturated::<u64>()).with_style(style)
}

fn show(bar: &ProgressBar, progress: &DemoProgress) {
    let mut text = format!("{} updates a second, so far:\n", progress.pace);
    let _ =
        writeln!(text, "                                   message blocking time, ms       whole update, ms");
    let _ =
        writeln!(text, "  mode         messages   blocked       p80       p99       max       p50       p99");
    for mode in &progress.modes {
        let blocking = &mode.blocking_ms;
        let _ = writeln!(
            text,
            "  {:<11} {:>9} {:>8.1}% {:>9.1} {:>9.1} {:>9.1} {:>9.0} {:>9.0}",
            mode.mode,
            mode.messages,
            mode.blocked_share * 100.0,
            blocking.p80,
            blocking.p99,
            blocking.max,
            mode.whole_update_ms.p50,
            mode.whole_update_ms.p99
        );
    }
    bar.set_message(text);
    bar.set_position(progress.elapsed.as_millis().saturated::<u64>());
}

fn table(findings: &Findings) -> String {
    let link = &findings.link;
    let mut text = format!(
        "{} of loss each way, {} ms round trip, {}, queue {}, {}, seed {}; {} s at each pace\n\n",
        link.loss, link.rtt_ms, link.rate, link.queue, link.congestion, link.seed, link.seconds
    );
    text.push_str(
        "                             message blocking time, ms           gaps in   delivery ms  whole update, ms   packets   repaired\n",
    );
    text.push_str(
        "updates/s  mode        blocked     p80     p90     p99     max   an update    p50    p99       p50    p99      lost             picture\n",
    );
    for row in &findings.modes {
        let (blocking, delivery) = (&row.blocking_ms, &row.delivery_ms);
        let _ = writeln!(
            text,
            "{:>9}  {:<11} {:>6.1}% {:>7.1} {:>7.1} {:>7.1} {:>7.1} {:>11} {:>6.0} {:>6.0} {:>9.0} {:>6.0} {:>9} {:>10}   {}",
            row.updates_per_s,
            row.mode,
            row.blocked_share * 100.0,
            blocking.p80,
            blocking.p90,
            blocking.p99,
            blocking.max,
            row.over_rtt,
            delivery.p50,
            delivery.p99,
            row.whole_update_ms.p50,
            row.whole_update_ms.p99,
            row.lost,
            row.recovered,
            if row.picture_equal { "equal" } else { "DIFFERS" }
        );
    }
    text.push_str("\nblocked: let go more than 1 ms after arriving; gaps: pauses within an update above the round-trip time.\n");
    text.push_str(
        "whole update: from its first message being written until nothing older is left on the screen where it changed something.\n",
    );
    let repaired = findings.modes.iter().filter(|row| row.mode == DemoMode::Repaired);
    let (repair, sent) = repaired.fold((0, 0), |sum, row| (sum.0 + row.repair_bytes, sum.1 + row.sent_bytes));
    if sent > 0 {
        let share = repair.approx() / sent.approx() * 100.0;
        let _ = writeln!(
            text,
            "partial+fec repairs by {}: {share:.1}% of the bytes it sent were repair.",
            link.fec
        );
    }
    text
}

/// The command that gives these findings again.
fn words(args: &DemoArgs, plan: &DemoConfig) -> String {
    let paces: Vec<String> = plan.paces.iter().map(u32::to_string).collect();
    format!(
        "quickset demo --seconds {} --pace {} --rate {} --rtt {} --loss {} --queue {} --cc {} --fec {} --seed {}",
        plan.duration.as_secs_f64(),
        paces.join(","),
        args.rate,
        quickset_sim::units::duration_text(args.rtt),
        args.loss,
        args.queue,
        args.cc,
        args.fec,
        args.seed
    )
}

/// Opens a file, or a page, in a browser.
pub(crate) fn open(what: impl AsRef<Path>) -> anyhow::Result<()> {
    let what = what.as_ref();
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    Command::new(program)
        .arg(what)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| {
            format!("{program} cannot be started; open {} in a browser yourself", what.display())
        })?;
    Ok(())
}

/// Updates a second on a page: the greater of the two paces of a report.
const LIVE_PACE: u32 = 30;

const EXAMPLES: &str = "\
Examples:
  quickset demo --open
  quickset demo --web --loss 2%
  quickset demo --loss 1% --rtt 50ms --pace 20 --seconds 30
  quickset demo --loss ge:0.2%,20% --fec rs:110/100
  quickset demo --json --seed 7 > findings.json";
