//! `quickset desktop play`.

use std::fs::File;
use std::io::BufReader;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use quickset_base::number::Unsigned as _;
use quickset_desktop::recording::RecordingPlayer;
use quickset_desktop::view::{ReplayConfig, ReplayGateway};

use super::vnc_password;
use crate::interrupts::Interrupts;
use crate::say::{note, plain, say};
use crate::values;

/// Show a recording of `desktop view --record` to VNC viewers.
///
/// Prints `listening on ADDRESS` as its first line; point any VNC viewer there. It begins when the
/// first viewer comes, and stands while nobody watches. Keys: space stops it and goes on, Left and
/// Right go 5 s, Page Up and Page Down a minute, Home, End and 1 to 9 to a part of it, Up and Down
/// make it faster and slower.
#[derive(Debug, clap::Args)]
#[command(after_help = PLAY_EXAMPLE, verbatim_doc_comment)]
pub(super) struct ReplayArgs {
    /// The recording
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Address for viewers. Of those on this machine only yours and root's are let in, unless there is a
    /// password; beyond the loopback whoever reaches it sees the recording
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:5901", value_parser = values::listening)]
    listen: SocketAddr,
    /// How many times as fast as it was
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = speed)]
    speed: f64,
    /// Where to begin: seconds, minutes and seconds, or hours too
    #[arg(long, value_name = "[[H:]M:]S", default_value = "0", value_parser = moment)]
    from: Duration,
    /// Print what is known of it, and play nothing
    #[arg(long)]
    info: bool,
    /// File with a VNC password that viewers must know, readable by you alone; needed where it cannot be
    /// found out which user a viewer belongs to (other systems than Linux)
    #[arg(long, value_name = "FILE")]
    viewer_password_file: Option<PathBuf>,
}

pub(super) async fn play(args: &ReplayArgs) -> anyhow::Result<()> {
    if args.info {
        return tell(&args.file);
    }
    if !args.listen.ip().is_loopback() {
        note!(
            "warning: whoever reaches {} sees the recording, unencrypted{}",
            args.listen,
            if args.viewer_password_file.is_some() { "" } else { " and without a password" }
        );
    }
    let gateway = ReplayGateway::start(ReplayConfig {
        file: args.file.clone(),
        listen: args.listen,
        viewer_password: vnc_password(args.viewer_password_file.as_ref())?,
        speed: args.speed,
        from: args.from,
    })
    .await?;
    let mut interrupts = Interrupts::new()?;
    say!("listening on {}", gateway.local_addr())?;
    Ok(gateway.run_until(interrupts.next()).await?)
}

/// Prints what is known of a recording.
fn tell(file: &Path) -> anyhow::Result<()> {
    let cannot = || format!("cannot read {}", file.display());
    let opened = BufReader::new(File::open(file).with_context(cannot)?);
    let player = RecordingPlayer::open(opened, MOST_BYTES).with_context(cannot)?;
    let facts = player.facts();
    let screen = player.screen();
    say!("name        {}", plain(player.name()))?;
    say!("size        {}x{}", screen.width(), screen.height())?;
    // What a file says may be any number, and dates have four digits for the year.
    let began = facts.began.filter(|&seconds| seconds < YEAR_10000);
    let began = began.map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
    if let Some(began) = began {
        say!("recorded    {}", humantime::format_rfc3339_seconds(began))?;
    }
    let millis = u64::try_from(facts.length.as_millis()).unwrap_or(u64::MAX);
    let seconds = facts.length.as_secs_f64().max(1.0);
    say!("length      {}", humantime::format_duration(Duration::from_millis(millis)))?;
    say!("updates     {}, {:.1} a second", facts.updates, facts.updates.approx() / seconds)?;
    say!("pictures    {}, from which it can be played", facts.pictures)?;
    say!("bytes       {}, {:.1} kbit/s", facts.bytes, facts.bytes.approx() * 0.008 / seconds)?;
    match (facts.is_whole, facts.unplayable) {
        (true, _) => say!("end         whole"),
        (false, 0) => say!("end         broken off: it was not ended, and can be played up to there"),
        (false, n) => say!("end         broken off: the last {n} bytes cannot be played"),
    }
}

/// How many times as fast as it was.
fn speed(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(speed) if (1.0 / 16.0..=64.0).contains(&speed) => Ok(speed),
        _ => Err("write a number from 0.0625 to 64, like 2".to_owned()),
    }
}

/// A time in a recording, like `90`, `1:30` or `1:02:03`.
fn moment(text: &str) -> Result<Duration, String> {
    let wrong = || "write seconds, or minutes and seconds, like 90 or 1:30, or hours too".to_owned();
    let parts: Vec<&str> = text.split(':').collect();
    let (last, before) = parts.split_last().ok_or_else(wrong)?;
    let digits = |part: &str| part.chars().all(|c| c.is_ascii_digit() || c == '.') && !part.is_empty();
    let seconds: f64 =
        Some(last).filter(|last| digits(last)).and_then(|last| last.parse().ok()).ok_or_else(wrong)?;
    let is_alone = before.is_empty();
    if before.len() > 2 || !is_alone && seconds >= 60.0 {
        return Err(wrong());
    }
    let mut minutes: u64 = 0;
    for (n, part) in before.iter().enumerate() {
        let number = part.parse::<u32>().ok().filter(|&m| n == 0 || m < 60).ok_or_else(wrong)?;
        minutes = minutes * 60 + u64::from(number);
    }
    let rest = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
    Duration::from_secs(minutes * 60).checked_add(rest).ok_or_else(wrong)
}

/// The largest screen, four bytes a pixel: 8K.
const MOST_BYTES: usize = 256 << 20;

/// When the year 9999 is over, in seconds since the beginning of 1970.
const YEAR_10000: u64 = 253_402_300_800;

const PLAY_EXAMPLE: &str = "\
Example: record a desktop, and see the second minute of it again
  quickset desktop view far:4433 --record far.qsr
  quickset desktop play far.qsr --from 1:00
  vncviewer 127.0.0.1:5901";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_people_write_them() {
        let read = |text| moment(text).ok().map(|time| time.as_millis());
        assert_eq!(read("90"), Some(90_000));
        assert_eq!(read("1:30"), Some(90_000));
        assert_eq!(read("1:02:03.5"), Some(3_723_500));
        assert_eq!(read("0:00"), Some(0));
        for wrong in ["", ":", "1:", "1:60", "1:60:00", "1:2:3:4", "-1", "1e9", "1:-1", "x", "nan", "inf"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert!(speed("0").is_err() && speed("nan").is_err() && speed("65").is_err());
        assert_eq!(speed("0.5"), Ok(0.5));
    }
}
