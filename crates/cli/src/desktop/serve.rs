//! `quickset desktop serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::ensure;
use quickset_desktop::message::{Permissions, ScreenOrder};
use quickset_desktop::sender::JpegQuality;
use quickset_desktop::serve::{ServeConfig, ServeGateway, ServeStats};
use quickset_desktop::sound::SoundCommand;
use quickset_desktop::trust::{Authorized, ClientGate, GatewayFolder, NoticeBoard, read_secret};
use quickset_desktop::{ItemKind, LinkConfig};

use super::devices::Notice;
use super::pages::{self, PageArgs};
use super::vnc::VncArgs;
use super::{LinkArgs, RecordArgs, every_second, finish, unrecorded};
use crate::interrupts::Interrupts;
use crate::memory::{self, MemoryArgs};
use crate::metrics::{MetricKind, MetricsArgs, MetricsPage};
use crate::say::{note, say};
use crate::values;

/// Take clients, and show them what a VNC server on this machine shows.
///
/// Prints `listening on ADDRESS sha256:FINGERPRINT` as its first line once it accepts. Clients come
/// in by a key of the authorised ones, or by the password. When there is neither, the second line is
/// `token TOKEN`: whoever comes in by it first has its key authorised, and the token is dead.
#[derive(Debug, clap::Args)]
#[command(after_help = SERVE_EXAMPLE, verbatim_doc_comment)]
pub(super) struct ServeArgs {
    /// File in TOML with a line `OPTION = VALUE` for each of the options here, without their hyphens; what is
    /// repeated is a list. What the command line says goes before it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    pub(super) vnc: VncArgs,
    /// Address to listen on; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "[::]:4433", value_parser = values::listening)]
    listen: SocketAddr,
    #[command(flatten)]
    cores: values::CoresArgs,
    /// How screen updates may overtake each other: ordered, fenced or latest
    #[arg(long, default_value = "fenced")]
    order: ScreenOrder,
    /// Between which qualities of JPEG, 1 to 100, photographs and films may be, as each viewer's link is.
    /// Text is always exact, and so is what rests; one number is that quality on every link
    #[arg(long, value_name = "MIN-MAX", default_value_t)]
    quality: JpegQuality,
    /// Drop keys, pointer and wishes about the size
    #[arg(long)]
    view_only: bool,
    /// Pass no clipboard, neither way
    #[arg(long)]
    no_clipboard: bool,
    /// Let viewers hear what this machine plays, by PulseAudio or PipeWire, if they want to (`desktop view
    /// --sound`, and the button Sound of the page)
    #[arg(long)]
    sound: bool,
    /// A program, and its arguments with blanks between them, that writes the sound to record to its standard
    /// output: 16 bits, little-endian, 48000 Hz, two channels [default: parec, of the default sink's monitor]
    #[arg(long, value_name = "COMMAND", requires = "sound")]
    sound_source: Option<SoundCommand>,
    /// File with a password for clients, readable by you alone
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// File with the clients' keys, `sha256:… comment` a line [default: authorized_clients in
    /// ~/.local/share/quickset]
    #[arg(long, value_name = "FILE")]
    authorized: Option<PathBuf>,
    /// Viewers at a time: so many with an authorised key, and beside them so many by password or token
    #[arg(long, value_name = "NUMBER", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    max_viewers: u32,
    /// Send each viewer no more than this, like 5mbit, measured over any second: screen, sound, repair and
    /// all. Keys do not wait for it. A viewer may ask for less (`desktop view --max-rate`) [default: as much
    /// as the path takes]
    #[arg(long, value_name = "RATE", value_parser = values::most_rate)]
    max_rate: Option<u64>,
    #[command(flatten)]
    record: RecordArgs,
    /// Print a line of statistics for each client to stderr every second
    #[arg(long)]
    stats: bool,
    #[command(flatten)]
    pages: PageArgs,
    #[command(flatten)]
    memory: MemoryArgs,
    #[command(flatten)]
    metrics: MetricsArgs,
    #[command(flatten)]
    link: LinkArgs,
}

impl ServeArgs {
    /// What clients may do.
    fn permissions(&self) -> Permissions {
        Permissions { input: !self.view_only, clipboard: !self.no_clipboard, wish: !self.view_only }
    }

    /// Some things are there for one desktop alone.
    fn check_one(&self, desktops: usize) -> anyhow::Result<()> {
        let one = desktops == 1;
        ensure!(!self.sound || one, "--sound is for one desktop: it is the sound of the whole machine");
        ensure!(
            self.record.file().is_none() || one,
            "--record is for one desktop: start a server for each that is to be recorded"
        );
        Ok(())
    }
}

/// Where other commands of this user read about the server.
fn board(folder: &GatewayFolder) -> anyhow::Result<Option<NoticeBoard>> {
    let board = folder.notice()?.hold()?;
    if board.is_none() {
        note!(
            "another server of this user runs: it is the one that `quickset desktop invite` tells links of"
        );
    }
    Ok(board)
}

pub(super) async fn serve(args: &ServeArgs) -> anyhow::Result<()> {
    let folder = GatewayFolder::standard()?;
    let identity = folder.server_identity()?;
    let desktops = args.vnc.desktops(&folder)?;
    let names: Vec<_> = desktops.iter().filter_map(|desktop| desktop.name.clone()).collect();
    let pages = args.pages.prepare(&folder, args.listen, &identity).await?;
    let authorized = match &args.authorized {
        Some(path) => Authorized::at(path),
        None => folder.authorized()?,
    };
    let password = args.password_file.as_deref().map(read_secret).transpose()?;
    let (gate, token) = ClientGate::for_server(identity.fingerprint(), authorized, password.as_deref())?;
    let gate = gate.with_invitations(folder.invitations()?);
    let metrics = args.metrics.bind().await?;
    let budget = args.memory.budget();
    args.check_one(desktops.len())?;
    let sound = super::sound(args.sound, args.sound_source.as_ref(), SoundCommand::recorder)?;
    let mut serve = ServeGateway::start(ServeConfig {
        desktops,
        listen: args.listen,
        sockets: args.cores.sockets(),
        identity,
        gate,
        order: args.order,
        quality: args.quality,
        permissions: args.permissions(),
        max_viewers: args.max_viewers as usize,
        link: LinkConfig { max_rate_bps: args.max_rate, ..args.link.config()? },
        memory: Some(budget.clone()),
        pages: pages.as_ref().map(|pages| pages.config.clone()),
        sound,
    })?;
    let recorder = args.record.recorder()?;
    if let Some(recorder) = &recorder {
        serve = serve.with_recorder(recorder.clone());
    }
    let mut interrupts = Interrupts::new()?;
    say!("listening on {} {}", serve.local_addr(), serve.fingerprint())?;
    if let Some(token) = token {
        // Here and nowhere else: logs are kept.
        say!("token {}", token.reveal())?;
        note!(
            "no client is authorised yet; the first one that shows this token is, and `quickset desktop view` asks for it"
        );
    }
    let board = board(&folder)?;
    let notice = Notice::of(&serve, args.listen, &names);
    notice.put_up(board.as_ref());
    let (watched, viewers) = (serve.endpoint().clone(), serve.stats());
    metrics.serve(move |page| {
        page.endpoint(&watched.stats());
        tell_viewers(&viewers, page);
        memory::tell(&budget, page);
    })?;
    let stats = serve.stats();
    let lines = async {
        if args.stats {
            every_second(|| print_clients(&stats)).await;
        }
        std::future::pending::<()>().await;
    };
    let (bound, server) = (serve.local_addr(), serve.config().clone());
    let browsers = pages.as_ref().and_then(|_| serve.browsers());
    let entrance = pages::PageEntrance { bound, server, browsers, desktops: names, notice, board };
    let browsers = async {
        match pages {
            Some(pages) => pages.serve(entrance).await,
            None => std::future::pending().await,
        }
    };
    let ended = tokio::select! {
        ended = serve.run_until(interrupts.next()) => Ok(ended?),
        () = lines => Ok(()),
        () = unrecorded(recorder.as_ref()) => Ok(()),
        never = browsers => match never? {},
    };
    finish(recorder, ended)
}

/// Adds who looks, and by what: connections of TCP are not among those of the endpoint.
fn tell_viewers(stats: &ServeStats, page: &mut MetricsPage) {
    let totals = stats.totals();
    let both = |all: u64, by_tcp: u64| {
        let label = |transport: &str| vec![("transport", transport.to_owned())];
        [(label("quic"), all - by_tcp), (label("tcp"), by_tcp)]
    };
    let help = "Viewers that look at a desktop.";
    let now = both(totals.clients as u64, totals.by_tcp as u64);
    page.values(("quickset_desktop_viewers", MetricKind::Gauge, help), now);
    let help = "Viewers that have begun to look at a desktop.";
    let ever = both(totals.ever, totals.ever_by_tcp);
    page.values(("quickset_desktop_viewers_begun_total", MetricKind::Counter, help), ever);
}

fn print_clients(stats: &ServeStats) {
    for (client, (connection, screen)) in stats.totals().now {
        let kinds: Vec<String> =
            ItemKind::ALL.iter().map(|&kind| format!("{}={}", kind.name(), screen.of(kind).items)).collect();
        note!(
            "client={client} rtt={:.1}ms packets={} lost={} spurious={} repairs={} repair-bytes={} recovered={} messages={} bytes={} fences={} quality={} film-quality={} {}",
            connection.rtt.as_secs_f64() * 1000.0,
            connection.sent_packets,
            connection.lost_packets,
            connection.spurious_losses,
            connection.fec.repairs_sent,
            connection.fec.repair_bytes,
            connection.fec.recovered,
            screen.messages,
            screen.bytes,
            screen.fences,
            screen.still_quality,
            screen.moving_quality,
            kinds.join(" "),
        );
    }
}

const SERVE_EXAMPLE: &str = "\
Examples:
  show the display :0 to clients that may only look
    quickset desktop serve --vnc 127.0.0.1:5900 --view-only
  the desktop of another machine, encrypted on the way there, too, and 5 Mbit/s for each viewer
    quickset desktop serve --vnc desk.example:5900 --vnc-password-file vnc.password --max-rate 5mbit
  two desktops, as a file says it
    quickset desktop serve --config desktop.toml
  with these lines in desktop.toml
    vnc = [\"work=127.0.0.1:5901\", \"play=127.0.0.1:5902\"]
    listen = \"[::]:4433\"
    web = true";
