//! `quickset desktop view`.

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use quickset::Fingerprint;
use quickset_desktop::LinkConfig;
use quickset_desktop::record::ScreenRecorder;
use quickset_desktop::sender::JpegQuality;
use quickset_desktop::sound::{SoundCommand, SoundStats};
use quickset_desktop::trust::{DesktopLabel, GatewayFolder, OneTimeToken, load_identity, read_secret};
use quickset_desktop::view::{
    Credential, GatewayPassword, MeetError, NOT_SENT, ServerTrust, ViewConfig, ViewError, ViewGateway,
    ViewNews, ViewStats,
};

use super::{LinkArgs, RecordArgs, every_second, finish, unrecorded, vnc_password};
use crate::interrupts::Interrupts;
use crate::say::{self, note, plain, say};
use crate::values;

/// Be a VNC server on this machine that shows a far desktop.
///
/// Prints `listening on ADDRESS` as its first line; point any VNC viewer there. A server is trusted
/// on first use and refused when its key changes, unless --pin says which key it has.
#[derive(Debug, clap::Args)]
#[command(after_help = VIEW_EXAMPLE, verbatim_doc_comment)]
pub(super) struct ViewArgs {
    /// The far gateway
    #[arg(value_name = "HOST:PORT", value_parser = |text: &str| values::place(text, Some(4433)))]
    server: String,
    /// Address for viewers. Of those on this machine only yours and root's are let in, unless there is a
    /// password; beyond the loopback whoever reaches it sees the desktop
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:5901", value_parser = values::listening)]
    listen: SocketAddr,
    /// The one to see, where the server has several desktops [default: the first]
    #[arg(long, value_name = "NAME")]
    desktop: Option<DesktopLabel>,
    /// The fingerprint that the server printed
    #[arg(long, value_name = "sha256:…")]
    pin: Option<Fingerprint>,
    /// Do not check who the server is
    #[arg(long, conflicts_with = "pin")]
    insecure: bool,
    /// File with the token that the server printed, good for one use, readable by you alone. Where a token is
    /// needed and not given, it is asked for on a terminal
    #[arg(long, value_name = "FILE", group = "credential")]
    token_file: Option<PathBuf>,
    /// The token itself; other users of this machine can read it in the list of processes until it is used
    #[arg(long, group = "credential")]
    token: Option<OneTimeToken>,
    /// File with the server's password, readable by you alone
    #[arg(long, value_name = "FILE", group = "credential")]
    password_file: Option<PathBuf>,
    /// Certificate and private key as PEM to show, instead of your own; with a token it is the one that is
    /// registered
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// File with a VNC password that viewers must know, readable by you alone; needed where it cannot be
    /// found out which user a viewer belongs to (other systems than Linux)
    #[arg(long, value_name = "FILE")]
    viewer_password_file: Option<PathBuf>,
    /// Play what the far desktop plays, by PulseAudio or PipeWire, where the server offers it (`desktop serve
    /// --sound`)
    #[arg(long)]
    sound: bool,
    /// A program, and its arguments with blanks between them, that plays what it reads from its standard
    /// input: 16 bits, little-endian, 48000 Hz, two channels [default: pacat]
    #[arg(long, value_name = "COMMAND", requires = "sound")]
    sound_sink: Option<SoundCommand>,
    /// Ask the server to send no more than this, for a thin link: several viewers may see the same desktop,
    /// each as well as its own rate allows [default: as much as the server sends]
    #[arg(long, value_name = "RATE", value_parser = values::most_rate)]
    max_rate: Option<u64>,
    /// Qualities of JPEG, 1 to 100, that photographs and films are to have here, like 70-90, as far as the
    /// server allows (`desktop serve --quality`): a high one waits on a thin link, a low one is soon there.
    /// What rests is exact either way [default: as the link is]
    #[arg(long, value_name = "MIN-MAX")]
    quality: Option<JpegQuality>,
    /// Show in a corner of the picture how the connection is: round trip, rate, losses, repair. Control, Alt,
    /// Shift and O together hide it and show it again
    #[arg(long)]
    overlay: bool,
    #[command(flatten)]
    record: RecordArgs,
    /// Print a line of statistics to stderr every second
    #[arg(long)]
    stats: bool,
    #[command(flatten)]
    link: LinkArgs,
}

pub(super) async fn view(args: &ViewArgs) -> anyhow::Result<()> {
    let mut recorder = None;
    let ended = see(args, &mut recorder).await;
    finish(recorder, ended)
}

/// Sees the desktop until there is no sense in it, or somebody wants to stop.
async fn see(args: &ViewArgs, recorder: &mut Option<ScreenRecorder>) -> anyhow::Result<()> {
    let folder = GatewayFolder::standard()?;
    let identity = match &args.key {
        Some(path) => load_identity(path)?,
        None => folder.client_identity()?,
    };
    let trust = match args.pin {
        Some(pin) => ServerTrust::Pinned(pin),
        None if args.insecure => {
            note!("warning: the server's identity is not checked; somebody in between sees everything");
            ServerTrust::Anybody
        }
        None => ServerTrust::Known(folder.known_servers()?),
    };
    let credential = credential(args)?;
    if !args.listen.ip().is_loopback() {
        note!(
            "warning: whoever reaches {} sees the desktop, unencrypted{}",
            args.listen,
            if args.viewer_password_file.is_some() { "" } else { " and without a password" }
        );
    }
    let mut config = ViewConfig {
        server: args.server.clone(),
        listen: args.listen,
        trust,
        credential,
        desktop: args.desktop.clone(),
        identity,
        viewer_password: vnc_password(args.viewer_password_file.as_ref())?,
        sound: super::sound(args.sound, args.sound_sink.as_ref(), SoundCommand::player)?,
        link: LinkConfig {
            wished_rate_bps: args.max_rate,
            wished_quality: args.quality,
            ..args.link.config()?
        },
    };
    let view = ViewGateway::start(config.clone()).await?;
    // Not before: where nothing is to be seen no file is to be left.
    *recorder = args.record.recorder()?;
    let recorder = recorder.as_ref();
    let equipped = |view: ViewGateway| {
        let view = if args.overlay { view.with_overlay() } else { view };
        match recorder {
            Some(recorder) => view.with_recorder(recorder.clone()),
            None => view,
        }
    };
    let mut view = equipped(view);
    let mut interrupts = Interrupts::new()?;
    say!("listening on {}", view.local_addr())?;
    loop {
        let address = view.local_addr();
        let key = config.identity.fingerprint();
        let denied = match Box::pin(watch(view, args, key, recorder, &mut interrupts)).await {
            Err(error) => error,
            done => return done,
        };
        // Whoever is not known yet is asked who they are, where somebody is there to answer.
        let is_denied = matches!(denied.downcast_ref(), Some(ViewError::Meet(MeetError::Denied(_))));
        if !is_denied || !matches!(config.credential, Credential::None) || !std::io::stdin().is_terminal() {
            return Err(denied);
        }
        note!("{}", plain(&denied.root_cause().to_string()));
        let Some(token) = ask_for_token(&mut interrupts).await else { return Err(denied) };
        (config.credential, config.listen) = (Credential::Token(token), address);
        view = tokio::select! {
            started = ViewGateway::start(config.clone()) => equipped(started?),
            () = interrupts.next() => return Err(denied),
        };
    }
}

/// What is shown to the server besides the key.
fn credential(args: &ViewArgs) -> anyhow::Result<Credential> {
    if let Some(token) = &args.token {
        note!(
            "warning: other users of this machine can read the token of --token in the list of processes; leave it out to be \
             asked, or use --token-file"
        );
        return Ok(Credential::Token(token.clone()));
    }
    if let Some(path) = &args.token_file {
        let token = read_secret(path)?.parse();
        return Ok(Credential::Token(token.with_context(|| format!("{} holds no token", path.display()))?));
    }
    let password = args.password_file.as_deref().map(read_secret).transpose()?;
    Ok(password.map_or(Credential::None, |password| Credential::Password(GatewayPassword(password))))
}

/// The token that somebody types; `None` when nobody does, or wants us to stop. It is shown, since it is of
/// no use once it was used.
async fn ask_for_token(interrupts: &mut Interrupts) -> Option<OneTimeToken> {
    let (tell, told) = tokio::sync::oneshot::channel();
    // Nobody can interrupt a thread that reads; it ends with the program.
    std::thread::spawn(move || {
        let token = loop {
            say::aside(format_args!("token that the server has printed: "));
            let mut line = String::new();
            match std::io::stdin().read_line(&mut line) {
                Ok(0) | Err(_) => break None,
                Ok(_) => {}
            }
            match line.trim().parse() {
                Ok(token) => break Some(token),
                Err(error) => note!("{error}"),
            }
        };
        let _ = tell.send(token);
    });
    tokio::select! {
        token = told => token.ok().flatten(),
        () = interrupts.next() => None,
    }
}

/// Serves viewers until there is no sense in it, or somebody wants to stop.
async fn watch(
    mut view: ViewGateway,
    args: &ViewArgs,
    key: Fingerprint,
    recorder: Option<&ScreenRecorder>,
    interrupts: &mut Interrupts,
) -> anyhow::Result<()> {
    let stats = view.stats();
    let mut news = view.news().expect("nobody else has taken it");
    let told = async {
        while let Some(news) = news.recv().await {
            tell(&news);
        }
        std::future::pending::<()>().await;
    };
    let lines = async {
        if args.stats {
            every_second(|| print_view(&stats)).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        ended = view.run_until(interrupts.next()) => {
            ended.with_context(|| format!("no session with {}; this client's key is {key}", args.server))
        }
        () = lines => Ok(()),
        () = told => Ok(()),
        () = unrecorded(recorder) => Ok(()),
    }
}

/// Says what has become of the session with the server.
fn tell(news: &ViewNews) {
    match news {
        ViewNews::Connected { server, name, size: Some((width, height)), .. } => {
            note!("connected to {server}: \"{}\", {width}x{height}", plain(name));
        }
        ViewNews::Connected { server, name, .. } => {
            note!("connected to {server}: \"{}\", which shows no picture yet", plain(name));
        }
        ViewNews::Away { server, error, wait } => {
            note!("no session with {server}: {}; trying again in {:.1} s", plain(error), wait.as_secs_f64());
        }
        ViewNews::NotSent => note!("{NOT_SENT}"),
        _ => {}
    }
}

fn print_view(stats: &ViewStats) {
    let totals = stats.totals();
    let connection = totals.connection.unwrap_or_default();
    note!(
        "connected={} sessions={} rtt={:.1}ms recovered={} messages={} bytes={} held={} updates={} unable={} refreshes={} by_tcp={} sound={}/{}{}",
        totals.connected,
        totals.sessions,
        connection.rtt.as_secs_f64() * 1000.0,
        connection.fec.recovered_here,
        totals.screen.messages,
        totals.screen.bytes,
        totals.held,
        totals.batches,
        totals.screen.unable,
        totals.screen.refreshes,
        totals.by_tcp,
        totals.sound.played,
        totals.sound.played + totals.sound.concealed,
        counts(&totals.sound, totals.sound_delay),
    );
}

/// At which delay sound is heard, and what was counted of its frames. `behind` says of how many frames how
/// much later than the fastest they came, in steps of 10 ms: `0ms:2990,30ms:7`.
fn counts(sound: &SoundStats, delay: Duration) -> String {
    if sound.numbered == 0 {
        return String::new();
    }
    let steps = sound.behind.iter().enumerate().filter(|(_, count)| **count > 0);
    let behind: Vec<String> = steps.map(|(step, count)| format!("{}ms:{count}", 10 * step)).collect();
    format!(
        " delay={}ms frames={} came={} late={} frame-bytes={} behind={}",
        delay.as_millis(),
        sound.numbered,
        sound.received,
        sound.late,
        sound.bytes,
        behind.join(",")
    )
}

const VIEW_EXAMPLE: &str = "\
Example: the first time it asks for the token that the server printed, from then on not
  quickset desktop view far:4433
  vncviewer 127.0.0.1:5901";
