//! `quickset desktop`: gateways on both sides, the page, and who may come in.

mod devices;
mod pages;
mod play;
mod serve;
mod socket;
mod view;
mod vnc;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{bail, ensure};
use clap::Subcommand;
use quickset::{Algorithm, Protection};
use quickset_desktop::record::{RecordError, ScreenRecorder};
use quickset_desktop::sound::{HAS_SOUND, SoundCommand};
use quickset_desktop::trust::read_secret;
use quickset_desktop::{LinkConfig, VncPassword};

use self::devices::{DevicesArgs, InviteArgs};
use self::pages::PageCommand;
use self::play::ReplayArgs;
use self::serve::ServeArgs;
use self::view::ViewArgs;
use crate::qlog::QlogArgs;
use crate::say::note;
use crate::values;

/// Carry a VNC desktop across a lossy path: any VNC server, any viewer.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, arg_required_else_help = true)]
pub(crate) struct DesktopArgs {
    #[command(subcommand)]
    side: DesktopSide,
}

#[derive(Debug, Subcommand)]
enum DesktopSide {
    Serve(Box<ServeArgs>),
    View(Box<ViewArgs>),
    Play(ReplayArgs),
    Page(PageCommand),
    Invite(InviteArgs),
    Devices(DevicesArgs),
}

#[derive(Debug, clap::Args)]
struct LinkArgs {
    /// The UDP payload of all datagrams, in bytes; larger than the path takes loses packets [default: as much
    /// as the path takes, which is found out]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(1200..=65507))]
    mtu: Option<u16>,
    #[arg(long, help = values::controllers(), default_value = "bbr", value_parser = values::congestion)]
    cc: Algorithm,
    #[arg(
        long,
        help = values::protections(
            "Repair losses of what this side sends",
            ". Adaptive repairs screens at fences and input one by one, as much as the path loses; any other is for the screen"
        ),
        value_name = "NAME",
        default_value = "adaptive",
        value_parser = values::protection
    )]
    fec: Protection,
    #[command(flatten)]
    qlog: QlogArgs,
}

impl LinkArgs {
    fn config(&self) -> anyhow::Result<LinkConfig> {
        let key_log = std::env::var_os("SSLKEYLOGFILE").is_some();
        Ok(LinkConfig {
            congestion: self.cc.clone(),
            mtu: self.mtu,
            protection: self.fec.clone(),
            key_log,
            qlog: self.qlog.sinks()?,
            ..LinkConfig::default()
        })
    }
}

#[derive(Debug, clap::Args)]
struct RecordArgs {
    /// Record what the desktop shows to a new file that only you can read, for `desktop play`: the picture,
    /// the name and the pointer, and neither keys nor texts that are copied
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Replace the file of --record if it is there
    #[arg(long, requires = "record")]
    force: bool,
}

impl RecordArgs {
    fn file(&self) -> Option<&PathBuf> {
        self.record.as_ref()
    }

    /// What writes the recording, if one is wanted.
    fn recorder(&self) -> anyhow::Result<Option<ScreenRecorder>> {
        let Some(path) = &self.record else { return Ok(None) };
        match ScreenRecorder::create(path, self.force) {
            Ok(recorder) => Ok(Some(recorder)),
            Err(error @ RecordError::Exists(_)) => {
                bail!("{error}; choose another file, or replace it with --force")
            }
            Err(error) => bail!("{error}; choose another file with --record"),
        }
    }
}

/// Ends a recording, however what was recorded has ended.
fn finish(recorder: Option<ScreenRecorder>, ended: anyhow::Result<()>) -> anyhow::Result<()> {
    match (recorder.map_or(Ok(()), |recorder| recorder.finish()), ended) {
        (Ok(()), ended) => ended,
        (Err(error), Ok(())) => Err(error.into()),
        (Err(error), ended) => {
            note!("{error}");
            ended
        }
    }
}

/// Says it when no more can be recorded; what there is to do goes on.
async fn unrecorded(recorder: Option<&ScreenRecorder>) {
    if let Some(recorder) = recorder {
        note!("{}", recorder.failed().await);
    }
    std::future::pending::<()>().await;
}

pub(crate) fn run(args: &DesktopArgs) -> anyhow::Result<()> {
    match &args.side {
        DesktopSide::Serve(args) => crate::block_on(serve::serve(args)),
        DesktopSide::View(args) => crate::block_on(view::view(args)),
        DesktopSide::Play(args) => crate::block_on(play::play(args)),
        DesktopSide::Page(command) => crate::block_on(command.run()),
        DesktopSide::Invite(args) => args.run(),
        DesktopSide::Devices(args) => args.run(),
    }
}

async fn every_second(mut each: impl FnMut()) {
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    loop {
        ticks.tick().await;
        each();
    }
}

/// What records or plays sound, if it is wanted.
fn sound(
    wanted: bool,
    command: Option<&SoundCommand>,
    usual: fn() -> SoundCommand,
) -> anyhow::Result<Option<SoundCommand>> {
    ensure!(
        !wanted || HAS_SOUND,
        "this build has no sound: build it with the feature `sound`, which takes cmake"
    );
    Ok(wanted.then(|| command.cloned().unwrap_or_else(usual)))
}

fn vnc_password(path: Option<&PathBuf>) -> anyhow::Result<Option<VncPassword>> {
    let text = path.map(|path| read_secret(path)).transpose()?;
    Ok(text.map(|text| VncPassword::new(text.as_bytes())))
}

const EXAMPLE: &str = "\
Example: see the desktop of `far` in a viewer here
  far$  quickset desktop serve --vnc 127.0.0.1:5900
  here$ quickset desktop view far:4433
  token that the server has printed: TOKEN
  here$ vncviewer 127.0.0.1:5901";
