mod fetch;
mod link;
mod meter;
mod table;
mod viewer;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use quickset::{AckPolicy, ClientConfig, TransportConfig, h3};
use quickset_abr::RuleName;
use quickset_lab::perf::processor_time;
use quickset_play::{Elsewhere, Player, PlayerConfig, Presentation, Resource, Url};
use quickset_sim::units;
use serde::Serialize;
use tokio::task::JoinSet;

use crate::descriptors;
use crate::http::url;
use crate::interrupts::Interrupts;
use crate::say::{self, note, say};
use crate::trust::TrustArgs;
use crate::values;
use fetch::{ContentKeep, Fetcher};
use link::{HttpVersion, Via};
use quickset_base::number::Unsigned as _;
use table::{Board, PlayerRow, TableSum};
use viewer::PlayViewer;

/// Play a DASH presentation as many players at a time would, and tell what their viewers see.
///
/// Each player has a connection, a buffer and a rule of its own, and fetches its segments when
/// it needs them; no picture is decoded. AB is the mean bitrate of what was played, RT how long
/// the players stood still. The manifest is fetched once. Of each period the first track with
/// pictures is played, or else the first with sound.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, verbatim_doc_comment)]
pub(crate) struct PlayArgs {
    /// The manifest (MPD), as https://HOST[:PORT]/PATH
    url: url::H3Url,
    /// Players at a time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    players: u16,
    /// By which rule they choose bitrates: throughput, bola, dynamic, l2a or lol+
    #[arg(long, value_name = "RULE", default_value_t = RuleName::Dynamic)]
    abr: RuleName,
    /// The version of HTTP
    #[arg(long, value_name = "VERSION", default_value = "3")]
    http: HttpVersion,
    /// With so much in its buffer a player fetches nothing [default: 18, and 30 in the highest bitrate, as
    /// dash.js]
    #[arg(long, value_name = "SECONDS", value_parser = values::seconds)]
    buffer: Option<Duration>,
    /// Play so much of the presentation, to the end of a segment [default: all]
    #[arg(long, value_name = "SECONDS", value_parser = values::seconds)]
    seconds: Option<Duration>,
    /// The players start one after the other within this time
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = stagger)]
    stagger: Duration,
    /// Seed of what the rules leave to chance; each player has one of its own
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Follow segments and redirections to other servers than that of the manifest
    #[arg(long)]
    elsewhere: bool,
    /// Acknowledgements of HTTP/3, as `quickset perf` has them: whether a batch that came is answered as one,
    /// or datagram by datagram (merged or single), and what is asked of the server in turn
    #[arg(long, value_name = "WORDS", default_value_t, value_parser = values::acks)]
    ack: AckPolicy,
    #[command(flatten)]
    trust: TrustArgs,
    /// How long a segment may take, all in all; then it is asked for again, three times
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = values::duration)]
    timeout: Duration,
    /// Print the results as one JSON document
    #[arg(long)]
    json: bool,
}

/// What is printed as JSON.
#[derive(Debug, Serialize)]
struct PlayOutput<'a> {
    url: &'a str,
    http: &'static str,
    abr: &'static str,
    seed: u64,
    players: &'a [PlayerRow],
    sum: &'a TableSum,
}

pub(crate) fn run(args: &PlayArgs) -> anyhow::Result<()> {
    crate::block_on(play(args))
}

async fn play(args: &PlayArgs) -> anyhow::Result<()> {
    enough_descriptors(args.players, descriptors::take_all())?;
    let config = ClientConfig::new(args.trust.trust()?, &[h3::ALPN])?.with_transport(args.transport());
    let config = Arc::new(config.with_key_log());
    let presentation = presentation(args, &config).await?;
    let players = (0..args.players).map(|n| {
        Player::new(&presentation, args.player(n))
            .with_context(|| format!("{} cannot be played", args.url.text))
    });
    let players = players.collect::<anyhow::Result<Vec<_>>>()?;
    let fetchers = players.iter().map(|_| args.fetcher(&config)).collect::<anyhow::Result<Vec<_>>>()?;

    let board = Arc::new(Board::new(players.len()));
    let (cpu, began) = (processor_time(), Instant::now());
    let mut viewers = JoinSet::new();
    for (place, (player, fetcher)) in players.into_iter().zip(fetchers).enumerate() {
        let start = args.stagger.mul_f64(place.approx() / f64::from(args.players));
        let (board, failure) = (board.clone(), None);
        let viewer = PlayViewer { place, player, fetcher, began, board, failure, failures: 0 };
        viewers.spawn(viewer.play(start));
    }
    let spent = || processor_time().zip(cpu).map(|(now, then)| now.saturating_sub(then));
    let sum = |rows: &[PlayerRow]| TableSum::of(rows, began.elapsed(), spent());
    let mut interrupts = Interrupts::new()?;
    let (closing, is_stopped) = watch(&mut viewers, &board, &sum, &mut interrupts).await?;

    let rows = board.rows();
    let sum = sum(&rows);
    closing.join_all().await;
    interrupts.end_the_program(is_stopped);
    if args.json {
        let (url, http, abr) = (&*args.url.text, args.http.name(), args.abr.name());
        let results = PlayOutput { url, http, abr, seed: args.seed, players: &rows, sum: &sum };
        say!("{}", serde_json::to_string_pretty(&results)?)?;
    } else {
        say::text(format_args!("{}", table::table(&rows, &sum, usize::MAX)))?;
    }
    for reason in table::reasons(&rows) {
        note!("{reason}");
    }
    let failed = rows.iter().filter(|row| row.error.is_some()).count();
    anyhow::ensure!(failed == 0, "{failed} of {} players could not play to the end", rows.len());
    Ok(())
}

/// Found out before the first player starts, and not by those that cannot connect while others play.
fn enough_descriptors(players: u16, there_are: usize) -> anyhow::Result<()> {
    // A socket each, and while it connects anew, or an address does not answer, another.
    let needed = 2 * usize::from(players) + OTHER_DESCRIPTORS;
    anyhow::ensure!(
        there_are >= needed,
        "so many players need {needed} descriptors of the system, which gives {there_are}; let it give more (ulimit -n {needed}), \
         or take fewer players"
    );
    Ok(())
}

/// What there is to play.
async fn presentation(args: &PlayArgs, config: &Arc<ClientConfig>) -> anyhow::Result<Presentation> {
    let given = &args.url;
    let url = Url::parse(&given.text)?;
    let mut fetcher = args.fetcher(config)?;
    let resource = Resource { url, range: None };
    let unread = || format!("the manifest {} cannot be had", given.text);
    let fetched = fetcher.fetch(&resource, ContentKeep::UpTo(MAX_MANIFEST)).await.with_context(unread)?;
    fetcher.close().await;
    let text = String::from_utf8(fetched.content)
        .ok()
        .with_context(|| format!("{} is no manifest: it is no text; name an MPD", given.text))?;
    let elsewhere = if args.elsewhere { Elsewhere::Allowed } else { Elsewhere::Refused };
    Presentation::parse(&text, &fetched.url, elsewhere).map_err(|error| match error {
        quickset_play::ManifestError::Elsewhere(_) => {
            anyhow::anyhow!("{error}; follow it there with --elsewhere")
        }
        _ => anyhow::anyhow!("{} cannot be played: {error}", given.text),
    })
}

/// Waits until all have played, or somebody wants it to end; meanwhile a table is drawn, where stderr is a
/// terminal. Returns connections that are being closed, and whether somebody wanted it.
async fn watch(
    viewers: &mut JoinSet<Fetcher>,
    board: &Board,
    sum: &impl Fn(&[PlayerRow]) -> TableSum,
    interrupts: &mut Interrupts,
) -> anyhow::Result<(JoinSet<()>, bool)> {
    let mut closing = JoinSet::new();
    let bar = ProgressBar::new_spinner();
    bar.set_style(ProgressStyle::with_template("{msg}").expect("the template is constant"));
    let mut ticks = tokio::time::interval(Duration::from_millis(250));
    let mut is_stopped = false;
    loop {
        tokio::select! {
            ended = viewers.join_next() => match ended {
                Some(fetcher) => drop(closing.spawn(fetcher?.close())),
                None => break,
            },
            () = interrupts.next() => {
                viewers.shutdown().await;
                is_stopped = true;
                break;
            }
            _ = ticks.tick(), if !bar.is_hidden() => {
                let rows = board.rows();
                bar.set_message(table::table(&rows, &sum(&rows), SHOWN));
            }
        }
    }
    bar.finish_and_clear();
    Ok((closing, is_stopped))
}

impl PlayArgs {
    fn transport(&self) -> TransportConfig {
        TransportConfig::default().with_acks(self.ack)
    }

    fn fetcher(&self, config: &Arc<ClientConfig>) -> anyhow::Result<Fetcher> {
        Ok(Fetcher::new(Via::new(self.http, config)?, self.timeout, self.elsewhere))
    }

    /// How one of the players plays.
    fn player(&self, n: u16) -> PlayerConfig {
        let usual = PlayerConfig::default();
        PlayerConfig {
            algorithm: self.abr,
            seed: self.seed.wrapping_add(n.into()),
            buffer: self.buffer.unwrap_or(usual.buffer),
            buffer_at_top: self.buffer.unwrap_or(usual.buffer_at_top),
            length: self.seconds.unwrap_or(usual.length),
            ..usual
        }
    }
}

/// A time up to an hour, or none.
fn stagger(text: &str) -> Result<Duration, String> {
    match units::duration(text) {
        Ok(time) if time > Duration::from_secs(3600) => Err("write at most 3600s".to_owned()),
        other => other.map_err(|error| error.to_string()),
    }
}

/// Of the runtime, of the terminal, and of whatever else is open.
const OTHER_DESCRIPTORS: usize = 56;

/// As much of a manifest as is read.
const MAX_MANIFEST: usize = 8 << 20;

/// Rows of the table that is drawn again and again, which has to fit on a terminal.
const SHOWN: usize = 16;

const EXAMPLE: &str = "\
Examples: eight players of a presentation that `quickset http serve` has, and the same by HTTP/1.1
  quickset play https://127.0.0.1:4433/video.mpd --pin sha256:… --players 8
  quickset play https://127.0.0.1:4433/video.mpd --pin sha256:… --players 8 --http 1 --abr bola --json";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_descriptors_are_told_before_anything_is_played() {
        assert!(enough_descriptors(100, 1024).is_ok());
        let told = enough_descriptors(1000, 1024).unwrap_err().to_string();
        assert!(told.contains("2056") && told.contains("1024") && told.contains("ulimit -n"), "{told}");
    }
}
