mod pages;
mod socket;

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Subcommand;
use quickset::{Algorithm, Fingerprint, Protection};
use quickset_desktop::message::{Permissions, ScreenOrder};
use quickset_desktop::serve::{ServeConfig, ServeGateway, ServeStats};
use quickset_desktop::trust::{
    Authorized, ClientGate, GatewayFolder, OneTimeToken, load_identity, read_secret,
};
use quickset_desktop::view::{
    Credential, GatewayPassword, MeetError, ServerTrust, ViewConfig, ViewError, ViewGateway, ViewNews,
    ViewStats,
};
use quickset_desktop::{ItemKind, LinkConfig, VncPassword};

use self::pages::{PageArgs, PageCommand};
use crate::interrupts::Interrupts;
use crate::memory::{self, MemoryArgs};
use crate::metrics::MetricsArgs;
use crate::qlog::QlogArgs;
use crate::say::{self, note, plain, say};
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
    Page(PageCommand),
}

/// Take clients, and show them what a VNC server on this machine shows.
///
/// Prints `listening on ADDRESS sha256:FINGERPRINT` as its first line once it accepts. Clients come
/// in by a key of the authorised ones, or by the password. When there is neither, the second line is
/// `token TOKEN`: whoever comes in by it first has its key authorised, and the token is dead.
#[derive(Debug, clap::Args)]
#[command(after_help = SERVE_EXAMPLE, verbatim_doc_comment)]
struct ServeArgs {
    /// The VNC server; no other can be reached through this gateway. Display :1 has the port 5901, and so on
    #[arg(long, value_name = "HOST:PORT", value_parser = |text: &str| values::place(text, Some(5900)))]
    vnc: String,
    /// File with the VNC server's password, readable by you alone
    #[arg(long, value_name = "FILE")]
    vnc_password_file: Option<PathBuf>,
    /// Address to listen on; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "[::]:4433", value_parser = values::listening)]
    listen: SocketAddr,
    #[command(flatten)]
    cores: values::CoresArgs,
    /// How screen updates may overtake each other: ordered, fenced or latest
    #[arg(long, default_value = "fenced")]
    order: ScreenOrder,
    /// Drop keys, pointer and wishes about the size
    #[arg(long)]
    view_only: bool,
    /// Pass no clipboard, neither way
    #[arg(long)]
    no_clipboard: bool,
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

/// Be a VNC server on this machine that shows a far desktop.
///
/// Prints `listening on ADDRESS` as its first line; point any VNC viewer there. A server is trusted
/// on first use and refused when its key changes, unless --pin says which key it has.
#[derive(Debug, clap::Args)]
#[command(after_help = VIEW_EXAMPLE, verbatim_doc_comment)]
struct ViewArgs {
    /// The far gateway
    #[arg(value_name = "HOST:PORT", value_parser = |text: &str| values::place(text, Some(4433)))]
    server: String,
    /// Address for viewers. Of those on this machine only yours and root's are let in, unless there is a
    /// password; beyond the loopback whoever reaches it sees the desktop
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:5901", value_parser = values::listening)]
    listen: SocketAddr,
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
    /// Print a line of statistics to stderr every second
    #[arg(long)]
    stats: bool,
    #[command(flatten)]
    link: LinkArgs,
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
        })
    }
}

pub(crate) fn run(args: &DesktopArgs) -> anyhow::Result<()> {
    match &args.side {
        DesktopSide::Serve(args) => crate::block_on(serve(args)),
        DesktopSide::View(args) => crate::block_on(view(args)),
        DesktopSide::Page(command) => crate::block_on(command.run()),
    }
}

async fn serve(args: &ServeArgs) -> anyhow::Result<()> {
    let folder = GatewayFolder::standard()?;
    let identity = folder.server_identity()?;
    let pages = args.pages.prepare(&folder, args.listen, &identity).await?;
    let authorized = match &args.authorized {
        Some(path) => Authorized::at(path),
        None => folder.authorized()?,
    };
    let password = args.password_file.as_deref().map(read_secret).transpose()?;
    let (gate, token) = ClientGate::for_server(identity.fingerprint(), authorized, password.as_deref())?;
    let metrics = args.metrics.bind().await?;
    let budget = args.memory.budget();
    let mut serve = ServeGateway::start(ServeConfig {
        vnc: args.vnc.clone(),
        vnc_password: vnc_password(args.vnc_password_file.as_ref())?,
        listen: args.listen,
        sockets: args.cores.sockets(),
        identity,
        gate,
        order: args.order,
        permissions: Permissions {
            input: !args.view_only,
            clipboard: !args.no_clipboard,
            wish: !args.view_only,
        },
        max_viewers: args.max_viewers as usize,
        link: args.link.config()?,
        memory: Some(budget.clone()),
        pages: pages.as_ref().map(|pages| pages.config.clone()),
    })?;
    let mut interrupts = Interrupts::new()?;
    say!("listening on {} {}", serve.local_addr(), serve.fingerprint())?;
    if let Some(token) = token {
        // Here and nowhere else: logs are kept.
        say!("token {}", token.reveal())?;
        note!(
            "no client is authorised yet; the first one that shows this token is, and `quickset desktop view` asks for it"
        );
    }
    let watched = serve.endpoint().clone();
    metrics.serve(move |page| {
        page.endpoint(&watched.stats());
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
    let entrance =
        pages::PageEntrance { bound, server, browsers: pages.as_ref().and_then(|_| serve.browsers()) };
    let browsers = async {
        match pages {
            Some(pages) => pages.serve(entrance).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        ended = serve.run_until(interrupts.next()) => Ok(ended?),
        () = lines => Ok(()),
        never = browsers => match never? {},
    }
}

async fn view(args: &ViewArgs) -> anyhow::Result<()> {
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
        identity,
        viewer_password: vnc_password(args.viewer_password_file.as_ref())?,
        link: args.link.config()?,
    };
    let mut view = ViewGateway::start(config.clone()).await?;
    let mut interrupts = Interrupts::new()?;
    say!("listening on {}", view.local_addr())?;
    loop {
        let address = view.local_addr();
        let denied = match Box::pin(watch(view, args, config.identity.fingerprint(), &mut interrupts)).await {
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
            started = ViewGateway::start(config.clone()) => started?,
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
        _ => {}
    }
}

async fn every_second(mut each: impl FnMut()) {
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    loop {
        ticks.tick().await;
        each();
    }
}

fn print_clients(stats: &ServeStats) {
    for (client, (connection, screen)) in stats.totals().now {
        let kinds: Vec<String> =
            ItemKind::ALL.iter().map(|&kind| format!("{}={}", kind.name(), screen.of(kind).items)).collect();
        note!(
            "client={client} rtt={:.1}ms packets={} lost={} spurious={} repairs={} recovered={} messages={} bytes={} fences={} {}",
            connection.rtt.as_secs_f64() * 1000.0,
            connection.sent_packets,
            connection.lost_packets,
            connection.spurious_losses,
            connection.fec.repairs_sent,
            connection.fec.recovered,
            screen.messages,
            screen.bytes,
            screen.fences,
            kinds.join(" "),
        );
    }
}

fn print_view(stats: &ViewStats) {
    let totals = stats.totals();
    let connection = totals.connection.unwrap_or_default();
    note!(
        "connected={} sessions={} rtt={:.1}ms recovered={} messages={} bytes={} held={} updates={} unable={} refreshes={} by_tcp={}",
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
    );
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

const SERVE_EXAMPLE: &str = "\
Example: show the display :0 to clients that may only look
  quickset desktop serve --vnc 127.0.0.1:5900 --view-only";

const VIEW_EXAMPLE: &str = "\
Example: the first time it asks for the token that the server printed, from then on not
  quickset desktop view far:4433
  vncviewer 127.0.0.1:5901";
