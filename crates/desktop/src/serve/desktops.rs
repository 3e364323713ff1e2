//! The desktops of a server: what each client may choose, and what becomes of those whose VNC server is gone
//! for good.

use std::sync::Arc;

use quickset_rfb::{PlainLogin, VncPassword};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::stage::ServerScreen;
use super::visits::VisitBook;
use super::vnc::{Vnc, VncCommand, VncServer};
use super::vnc_error::VncError;
use super::vnc_tls::VncTrust;
use crate::trust::{Denial, DesktopLabel, DeviceRights};

/// A desktop that a server shows.
#[derive(Debug)]
pub struct DesktopConfig {
    /// How clients call it; `None`: it is the only one.
    pub name: Option<DesktopLabel>,
    /// The VNC server, HOST:PORT.
    pub vnc: String,
    /// For VncAuth.
    pub vnc_password: Option<VncPassword>,
    /// A user of it, for VeNCrypt with X509Plain.
    pub vnc_login: Option<PlainLogin>,
    /// Whether to encrypt, and who the VNC server has to be then.
    pub vnc_trust: VncTrust,
}

impl DesktopConfig {
    /// The one desktop of a server, without a password or encryption.
    pub fn at(vnc: impl Into<String>) -> Self {
        Self {
            name: None,
            vnc: vnc.into(),
            vnc_password: None,
            vnc_login: None,
            vnc_trust: VncTrust::Unencrypted,
        }
    }
}

/// A desktop as sessions see it.
#[derive(Clone, Debug)]
pub(super) struct ServedDesktop {
    name: Option<DesktopLabel>,
    pub(super) stage: ServerScreen,
    pub(super) commands: mpsc::Sender<VncCommand>,
    pub(super) visits: VisitBook,
    /// Why it shows nothing any more.
    gone: watch::Receiver<Option<Arc<str>>>,
}

/// Keeps up the connection of one desktop.
#[derive(Debug)]
pub(super) struct DesktopKeeper {
    name: Option<DesktopLabel>,
    vnc: Vnc,
    gone: watch::Sender<Option<Arc<str>>>,
}

impl DesktopConfig {
    pub(super) fn open(self) -> (ServedDesktop, DesktopKeeper) {
        let stage = ServerScreen::new(quickset_rfb::Limits::default().framebuffer_bytes);
        let (commands, incoming) = mpsc::channel(COMMANDS);
        let (tell_gone, gone) = watch::channel(None);
        let server = VncServer {
            target: self.vnc,
            password: self.vnc_password,
            login: self.vnc_login,
            trust: self.vnc_trust,
        };
        let vnc = Vnc::new(server, incoming, stage.clone());
        let keeper = DesktopKeeper { name: self.name.clone(), vnc, gone: tell_gone };
        (ServedDesktop { name: self.name, stage, commands, visits: VisitBook::default(), gone }, keeper)
    }
}

impl ServedDesktop {
    /// Waits until it shows nothing any more, and says why.
    pub(super) async fn gone(&self) -> Arc<str> {
        let mut gone = self.gone.clone();
        let told = gone.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        match told {
            Some(why) => why,
            // The whole gateway has ended, and says so itself.
            None => std::future::pending().await,
        }
    }
}

/// DT-60: the one that a client sees that wants `wanted`, or whichever there is where that is empty.
///
/// # Errors
/// [`Denial::NoDesktop`].
pub(super) fn choose<'a>(
    desktops: &'a [ServedDesktop],
    rights: &DeviceRights,
    wanted: &str,
) -> Result<&'a ServedDesktop, Denial> {
    let may = |desktop: &&ServedDesktop| rights.desktop.is_none() || rights.desktop == desktop.name;
    let is_named =
        |desktop: &&ServedDesktop| desktop.name.as_ref().is_some_and(|name| name.as_str() == wanted);
    let found = desktops.iter().filter(may).find(|desktop| wanted.is_empty() || is_named(desktop));
    found.ok_or_else(|| {
        let own = rights.desktop.as_ref().map(DesktopLabel::as_str).unwrap_or_default();
        Denial::NoDesktop {
            wanted: if wanted.is_empty() { own } else { wanted }.to_owned(),
            known: desktops.iter().filter(may).filter_map(|d| Some(d.name.as_ref()?.to_string())).collect(),
        }
    })
}

/// Keeps up all of them until the last is gone for good, and says why that is.
pub(super) async fn keep(keepers: Vec<DesktopKeeper>) -> VncError {
    let mut running = JoinSet::new();
    for DesktopKeeper { name, vnc, gone } in keepers {
        running.spawn(async move { (name, gone, vnc.run().await) });
    }
    loop {
        match running.join_next().await {
            Some(Ok((_, _, error))) if running.is_empty() => return error,
            Some(Ok((name, gone, error))) => {
                let name = name.as_ref().map(DesktopLabel::as_str).unwrap_or_default();
                tracing::error!(desktop = name, %error, "a desktop is gone; the others go on");
                let _ = gone.send(Some(error.to_string().into()));
            }
            // A task that has failed says so itself; without any there is nothing to show.
            Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
            None => std::future::pending().await,
        }
    }
}

/// Commands under way to a VNC server, of all clients.
const COMMANDS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_sees_what_it_wants_and_may() {
        let named = |name: &str| DesktopConfig { name: name.parse().ok(), ..DesktopConfig::at("h:1") };
        let desktops = ["work", "play"].map(|name| named(name).open().0);
        let name = |rights: &DeviceRights, wanted: &str| match choose(&desktops, rights, wanted) {
            Ok(desktop) => desktop.name.as_ref().unwrap().to_string(),
            Err(denial) => denial.to_string(),
        };
        let (all, play) = (
            DeviceRights::default(),
            DeviceRights { desktop: "play".parse().ok(), ..DeviceRights::default() },
        );
        assert_eq!((name(&all, "").as_str(), name(&all, "play").as_str()), ("work", "play"));
        assert_eq!(name(&play, ""), "play");
        assert_eq!(name(&play, "work"), "no desktop work for this device, which may see play");
        assert_eq!(name(&all, "Work"), "no desktop Work for this device, which may see work, play");
        let gone = DeviceRights { desktop: "old".parse().ok(), ..DeviceRights::default() };
        assert_eq!(name(&gone, ""), "no desktop old for this device, which may see none");
        let single = [DesktopConfig::at("h:1").open().0];
        assert!(choose(&single, &all, "").is_ok() && choose(&single, &all, "work").is_err());
        assert!(choose(&single, &play, "").is_err(), "it might be another one");
    }
}
