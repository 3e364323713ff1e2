//! `quickset desktop invite` and `quickset desktop devices`: who may come in to a server that runs, or will.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail, ensure};
use clap::Subcommand;
use quickset::Fingerprint;
use quickset_desktop::serve::ServeGateway;
use quickset_desktop::trust::{
    Authorized, DesktopLabel, DeviceRights, GatewayFolder, NoticeBoard, time_text,
};

use super::pages::{authority, own_address};
use crate::say::{note, plain, say};

/// Invite one more device to the desktop, while the server runs.
///
/// Prints `token TOKEN`, which `quickset desktop view` asks for, and after `desktop serve --web` a link that
/// opens the desktop in a browser. Either is for one device: the first that comes in by it has it, and it
/// has to come within a day.
#[derive(Debug, clap::Args)]
#[command(after_help = INVITE_EXAMPLE, verbatim_doc_comment)]
pub(super) struct InviteArgs {
    /// The device may look, and nothing else
    #[arg(long)]
    view_only: bool,
    /// When all that the device may do ends, like 10min, 2h or 30days [default: when somebody removes it]
    #[arg(long = "for", value_name = "TIME", value_parser = length)]
    length: Option<Duration>,
    /// The desktop that it may see, of several [default: each]
    #[arg(long, value_name = "NAME")]
    desktop: Option<DesktopLabel>,
    /// What `desktop devices` is to say of it
    #[arg(long, value_name = "WORDS", default_value = "")]
    note: String,
    #[command(flatten)]
    folder: FolderArgs,
}

/// List the devices that may come in to the desktop, and remove some.
///
/// A line is a device with an authorised key, a browser that has taken an invitation, or an invitation that
/// waits. What is removed while it looks is sent away within moments.
#[derive(Debug, clap::Args)]
#[command(after_help = DEVICES_EXAMPLE, args_conflicts_with_subcommands = true)]
pub(super) struct DevicesArgs {
    #[command(subcommand)]
    what: Option<DevicesCommand>,
    #[command(flatten)]
    list: DeviceListArgs,
}

#[derive(Debug, Subcommand)]
enum DevicesCommand {
    Remove(RemoveArgs),
}

#[derive(Debug, clap::Args)]
struct DeviceListArgs {
    #[command(flatten)]
    folder: FolderArgs,
    /// The file that the server was given as --authorized
    #[arg(long, value_name = "FILE")]
    authorized: Option<PathBuf>,
}

/// Take back what devices may do.
#[derive(Debug, clap::Args)]
#[command(after_help = REMOVE_EXAMPLE)]
struct RemoveArgs {
    /// What `desktop devices` calls them: a fingerprint, or as much of it as no other begins with; the name
    /// of an invitation
    #[arg(required = true, value_name = "DEVICE")]
    devices: Vec<String>,
    #[command(flatten)]
    list: DeviceListArgs,
}

/// Whose server is meant.
#[derive(Debug, clap::Args)]
struct FolderArgs {
    /// That of the system's service quickset@NAME, instead of your own
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
}

/// A time of at least a second, and at most ten years.
fn length(text: &str) -> Result<Duration, String> {
    let length = humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write a time like 10min, 2h or 30days"))?;
    let fits = (Duration::from_secs(1)..=TEN_YEARS).contains(&length);
    if fits { Ok(length) } else { Err("write 1s to 3650days".into()) }
}

impl FolderArgs {
    fn open(&self) -> anyhow::Result<GatewayFolder> {
        let Some(name) = &self.service else { return Ok(GatewayFolder::standard()?) };
        let is_name = !name.is_empty() && !name.starts_with('.') && !name.contains('/');
        ensure!(is_name, "a service is called like `desktop` of quickset@desktop");
        let state = Path::new(STATE).join(name);
        let there = state.try_exists();
        let there =
            there.with_context(|| format!("{} cannot be looked at; try it with sudo", state.display()))?;
        ensure!(there, "there is no {}: start the service quickset@{name} first", state.display());
        // Nobody else goes through the folder above it, once we are somebody else.
        std::env::set_current_dir(&state)
            .with_context(|| format!("{} cannot be entered", state.display()))?;
        become_owner()
            .with_context(|| format!("nobody but root speaks for quickset@{name}; try it with sudo"))?;
        Ok(GatewayFolder::at("quickset"))
    }
}

/// Root becomes the user of the service whose files are here. What it writes is the service's, and what the
/// service has put there, as links to files of others, leads no further than the service itself gets.
#[cfg(unix)]
fn become_owner() -> anyhow::Result<()> {
    use std::os::unix::fs::MetadataExt as _;

    use nix::unistd::{Gid, Uid, geteuid, setgid, setgroups, setuid};
    let meta = std::fs::metadata(".")?;
    let (user, group) = (Uid::from_raw(meta.uid()), Gid::from_raw(meta.gid()));
    if geteuid() != user {
        setgroups(&[])?;
        setgid(group)?;
        setuid(user)?;
    }
    Ok(())
}

/// Elsewhere there are no such services.
#[cfg(not(unix))]
fn become_owner() -> anyhow::Result<()> {
    bail!("there are services of systemd on Linux alone")
}

impl InviteArgs {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let (folder, now) = (self.folder.open()?, SystemTime::now());
        let server = folder.server_identity()?.fingerprint();
        let notice = folder.notice()?.read()?.map(|text| Notice::read(&text)).unwrap_or_default();
        if let Some(desktop) = self.desktop.as_ref().filter(|_| notice.gateway.is_some()) {
            let known = notice.desktops.iter().map(DesktopLabel::as_str).collect::<Vec<_>>().join(", ");
            ensure!(
                notice.desktops.contains(desktop),
                "the server has no desktop {desktop}: {}",
                if known.is_empty() { "it has a single one, without a name" } else { &known }
            );
        }
        let until = self.length.map(|length| now + length);
        let rights = DeviceRights { view_only: self.view_only, desktop: self.desktop.clone(), until };
        let (invitation, token) = folder.invitations()?.add(now, server, rights, &self.note)?;
        say!("token {}", token.reveal())?;
        if let Some(link) = &notice.link {
            let desktop = self.desktop.as_ref().map(|name| format!("desktop={name}&")).unwrap_or_default();
            say!("open {link}{desktop}token={}", token.reveal())?;
        }
        let end = time_text(invitation.open_until);
        match (&notice.gateway, &notice.link) {
            (Some(gateway), Some(_)) => note!(
                "for one device, which has to come by {end}: `quickset desktop view {gateway}` asks for the token, the link \
                 opens in a browser"
            ),
            (Some(gateway), None) => note!(
                "for one device, which has to come by {end}: `quickset desktop view {gateway}` asks for the token; there are \
                 links for browsers once the server runs with --web"
            ),
            (None, _) => note!(
                "for one device, which has to come by {end}; no server runs now, so start `quickset desktop serve` before, and \
                 with --web for links"
            ),
        }
        Ok(())
    }
}

/// A line of `desktop devices`.
struct ListedDevice {
    /// What it is called by.
    name: DeviceName,
    state: String,
    rights: DeviceRights,
    comment: String,
}

enum DeviceName {
    Key(Fingerprint),
    Invitation(String),
}

impl DeviceListArgs {
    fn files(&self) -> anyhow::Result<(GatewayFolder, Authorized)> {
        let folder = self.folder.open()?;
        let authorized = match &self.authorized {
            Some(path) => Authorized::at(path),
            None => folder.authorized()?,
        };
        Ok((folder, authorized))
    }

    fn devices(&self, now: SystemTime) -> anyhow::Result<Vec<ListedDevice>> {
        let (folder, authorized) = self.files()?;
        let keys = authorized.list(now)?.into_iter().map(|client| ListedDevice {
            name: DeviceName::Key(client.key),
            state: "key".into(),
            rights: client.rights,
            comment: client.comment,
        });
        let invitations = folder.invitations()?.list(now)?.into_iter().map(|invitation| ListedDevice {
            state: match invitation.taken_by {
                Some(_) => "browser".into(),
                None => format!("invited, open until {}", time_text(invitation.open_until)),
            },
            name: DeviceName::Invitation(invitation.id),
            rights: invitation.rights,
            comment: invitation.comment,
        });
        Ok(keys.chain(invitations).collect())
    }
}

impl std::fmt::Display for DeviceName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Key(key) => key.fmt(f),
            Self::Invitation(id) => f.write_str(id),
        }
    }
}

impl DevicesArgs {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        if let Some(DevicesCommand::Remove(remove)) = &self.what {
            return remove.run();
        }
        let devices = self.list.devices(SystemTime::now())?;
        for ListedDevice { name, state, rights, comment } in &devices {
            let rights = rights.to_string();
            let rights = if rights.is_empty() { "all" } else { rights.trim_end() };
            let comment = if comment.is_empty() { String::new() } else { format!("; {}", plain(comment)) };
            say!("{name} {state}; {rights}{comment}")?;
        }
        if devices.is_empty() {
            note!(
                "no device may come in yet, but by a password or the first token; `quickset desktop invite` invites one"
            );
        }
        Ok(())
    }
}

impl RemoveArgs {
    fn run(&self) -> anyhow::Result<()> {
        let now = SystemTime::now();
        let known = self.list.devices(now)?;
        let (folder, authorized) = self.list.files()?;
        let mut named = Vec::new();
        // All of them are found before any of them goes.
        for text in &self.devices {
            let mut found: Vec<&DeviceName> =
                known.iter().map(|device| &device.name).filter(|name| name.is(text)).collect();
            // A key may have several lines.
            found.dedup_by_key(|name| name.to_string());
            match found[..] {
                [name] => named.push(name),
                [] => bail!("no device is called {}; `quickset desktop devices` lists them", plain(text)),
                _ => bail!("{} devices begin with {}; write more of it", found.len(), plain(text)),
            }
        }
        for name in named {
            match name {
                DeviceName::Key(key) => authorized.remove(*key)?,
                DeviceName::Invitation(id) => folder.invitations()?.remove(now, id)?,
            };
            say!("removed {name}")?;
        }
        Ok(())
    }
}

impl DeviceName {
    fn is(&self, text: &str) -> bool {
        match self {
            Self::Key(key) => {
                let (whole, digits) = (key.to_string(), text.strip_prefix("sha256:").unwrap_or(text));
                digits.len() >= LEAST_DIGITS && whole.trim_start_matches("sha256:").starts_with(digits)
            }
            Self::Invitation(id) => id == text,
        }
    }
}

/// What a server says of itself to other commands of its user.
#[derive(Clone, Debug, Default)]
pub(super) struct Notice {
    /// Where gateways reach it.
    gateway: Option<String>,
    /// Its links up to where they differ.
    link: Option<String>,
    desktops: Vec<DesktopLabel>,
}

impl Notice {
    pub(super) fn of(serve: &ServeGateway, listen: SocketAddr, desktops: &[DesktopLabel]) -> Self {
        let gateway = authority(&own_address(listen).to_string(), serve.local_addr().port());
        Self { gateway: Some(gateway), link: None, desktops: desktops.to_vec() }
    }

    /// The same with links, which begin so.
    pub(super) fn with_link(&self, link: &str) -> Self {
        Self { link: Some(link.to_owned()), ..self.clone() }
    }

    /// Says it where other commands look. That none can read it ends no server.
    pub(super) fn put_up(&self, board: Option<&NoticeBoard>) {
        let Some(board) = board else { return };
        let line = |what: &str, words: &str| format!("{what} {words}\n");
        let gateway = self.gateway.iter().map(|gateway| line("gateway", gateway));
        let link = self.link.iter().map(|link| line("link", link));
        let desktops = self.desktops.iter().map(|name| line("desktop", name.as_str()));
        if let Err(error) = board.write(&gateway.chain(link).chain(desktops).collect::<String>()) {
            note!("`quickset desktop invite` does not learn of this server: {error}");
        }
    }

    /// What cannot be read was not said.
    fn read(text: &str) -> Self {
        let mut notice = Self::default();
        for (what, words) in text.lines().filter_map(|line| line.split_once(' ')) {
            match what {
                "gateway" => notice.gateway = Some(plain(words)),
                "link" => notice.link = Some(plain(words)),
                "desktop" => notice.desktops.extend(words.parse::<DesktopLabel>().ok()),
                _ => {}
            }
        }
        notice
    }
}

/// Where systemd keeps the files of services.
const STATE: &str = "/var/lib/quickset";
const TEN_YEARS: Duration = Duration::from_secs(3650 * 24 * 3600);
/// Of a fingerprint, so that nobody removes one by a slip.
const LEAST_DIGITS: usize = 4;

const INVITE_EXAMPLE: &str = "\
Examples:
  a phone of yours
    quickset desktop invite --note phone
  somebody who is to look for an hour
    quickset desktop invite --view-only --for 1h";

const DEVICES_EXAMPLE: &str = "\
Example: send a guest away
  quickset desktop devices
  quickset desktop devices remove sha256:41f0";

const REMOVE_EXAMPLE: &str = "\
Example: send a guest away, and take an invitation back
  quickset desktop devices remove sha256:41f0 7h2kd";
