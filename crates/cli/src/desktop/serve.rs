//! `quickset desktop serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::ensure;
use quickset_desktop::ItemKind;
use quickset_desktop::message::{Permissions, ScreenOrder};
use quickset_desktop::serve::{DesktopConfig, ServeConfig, ServeGateway, ServeStats};
use quickset_desktop::sound::SoundCommand;
use quickset_desktop::trust::{
    Authorized, ClientGate, DesktopLabel, GatewayFolder, NoticeBoard, ParseLabelError, read_secret,
};

use super::devices::Notice;
use super::pages::{self, PageArgs};
use super::{LinkArgs, RecordArgs, every_second, finish, unrecorded, vnc_password};
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
    /// The VNC server; no other can be reached through this gateway. Display :1 has the port 5901, and so on.
    /// May be repeated for several desktops, each with a name, which links and `desktop view --desktop`
    /// choose
    #[arg(long, value_name = "[NAME=]HOST:PORT", required_unless_present = "config", value_parser = desktop_place)]
    vnc: Vec<DesktopPlace>,
    /// File with the VNC server's password, readable by you alone; of several desktops, for the one of this
    /// name, or for all that have none of their own
    #[arg(long, value_name = "[NAME=]FILE")]
    vnc_password_file: Vec<String>,
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
    /// Let viewers hear what this machine plays, by PulseAudio or PipeWire, if they want to (`desktop view
    /// --sound`)
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

/// Where a desktop is, and how clients call it.
#[derive(Clone, Debug)]
struct DesktopPlace {
    name: Option<DesktopLabel>,
    vnc: String,
}

fn desktop_place(text: &str) -> Result<DesktopPlace, String> {
    let (name, place) = match text.split_once('=') {
        Some((name, place)) => (Some(name.parse().map_err(|e: ParseLabelError| e.to_string())?), place),
        None => (None, text),
    };
    Ok(DesktopPlace { name, vnc: values::place(place, Some(5900))? })
}

impl ServeArgs {
    fn desktops(&self) -> anyhow::Result<Vec<DesktopConfig>> {
        for (i, place) in self.vnc.iter().enumerate() {
            let name = place.name.as_ref();
            ensure!(
                name.is_some() || self.vnc.len() == 1,
                "of several desktops each needs a name: write --vnc NAME={}",
                place.vnc
            );
            let twice = self.vnc[..i].iter().any(|other| other.name.as_ref() == name);
            ensure!(!twice, "two desktops are called {}", name.map_or("", DesktopLabel::as_str));
        }
        // Each is that of the desktop whose name stands before it.
        let of = |text: &str| {
            let (name, file) = text.split_once('=')?;
            let is_one = self.vnc.iter().any(|place| place.name.as_ref().is_some_and(|n| n.as_str() == name));
            is_one.then(|| (name.to_owned(), PathBuf::from(file)))
        };
        let own = |name: &DesktopLabel| {
            self.vnc_password_file.iter().filter_map(|text| of(text)).find(|(n, _)| n == name.as_str())
        };
        let common: Vec<_> = self.vnc_password_file.iter().filter(|text| of(text).is_none()).collect();
        ensure!(
            common.len() <= 1,
            "write --vnc-password-file NAME=FILE for desktops with passwords of their own"
        );
        let common = common.first().map(PathBuf::from);
        let desktop = |place: &DesktopPlace| {
            let file = place.name.as_ref().and_then(own).map(|(_, file)| file).or_else(|| common.clone());
            let vnc_password = vnc_password(file.as_ref())?;
            Ok(DesktopConfig { name: place.name.clone(), vnc: place.vnc.clone(), vnc_password })
        };
        self.vnc.iter().map(desktop).collect()
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
    let desktops = args.desktops()?;
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
        permissions: Permissions {
            input: !args.view_only,
            clipboard: !args.no_clipboard,
            wish: !args.view_only,
        },
        max_viewers: args.max_viewers as usize,
        link: args.link.config()?,
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

const SERVE_EXAMPLE: &str = "\
Examples:
  show the display :0 to clients that may only look
    quickset desktop serve --vnc 127.0.0.1:5900 --view-only
  two desktops, as a file says it
    quickset desktop serve --config desktop.toml
  with these lines in desktop.toml
    vnc = [\"work=127.0.0.1:5901\", \"play=127.0.0.1:5902\"]
    listen = \"[::]:4433\"
    web = true";

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: ServeArgs,
    }

    fn desktops(words: &[&str]) -> Result<Vec<String>, String> {
        let line = Line::try_parse_from([&["serve"], words].concat()).map_err(|error| error.to_string())?;
        let told = |d: DesktopConfig| format!("{:?} {} {}", d.name, d.vnc, d.vnc_password.is_some());
        Ok(line.args.desktops().map_err(|error| error.to_string())?.into_iter().map(told).collect())
    }

    #[test]
    fn several_desktops_have_names() {
        assert_eq!(desktops(&["--vnc", "h"]).unwrap(), ["None h:5900 false"]);
        let two = ["--vnc", "work=[::1]:5901", "--vnc", "play=h"];
        let (work, play) = ("Some(DesktopLabel(\"work\")) [::1]:5901", "Some(DesktopLabel(\"play\")) h:5900");
        assert_eq!(desktops(&two).unwrap(), [format!("{work} false"), format!("{play} false")]);
        for (words, told) in [
            (&["--vnc", "a=h", "--vnc", "h"][..], "write --vnc NAME=h:5900"),
            (&["--vnc", "a=h", "--vnc", "a=g"], "called a"),
            (&["--vnc", "a b=h"], "letters, digits"),
            (&["--vnc", "=h"], "letters, digits"),
            (&[], "--vnc"),
        ] {
            let said = desktops(words).unwrap_err();
            assert!(said.contains(told), "{words:?}: {said}");
        }
        // Passwords: that of all, and that of one.
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a=b").display().to_string();
        std::fs::write(&file, "secret").unwrap();
        #[cfg(unix)]
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let (play_file, option) = (format!("play={file}"), "--vnc-password-file");
        let with = |files: &[&str]| desktops(&[&two[..], files].concat());
        assert_eq!(with(&[option, &play_file]).unwrap(), [format!("{work} false"), format!("{play} true")]);
        assert_eq!(with(&[option, &file]).unwrap(), [format!("{work} true"), format!("{play} true")]);
        assert!(with(&[option, &file, option, &file]).unwrap_err().contains("NAME=FILE"));
    }
}
