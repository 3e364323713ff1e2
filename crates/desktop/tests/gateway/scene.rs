use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use quickset_desktop::LinkConfig;
use quickset_desktop::message::{Permissions, ScreenOrder};
use quickset_desktop::record::ScreenRecorder;
use quickset_desktop::sender::JpegQuality;
use quickset_desktop::serve::{
    DesktopConfig, PageConfig, ServeConfig, ServeError, ServeGateway, ServeStats, VncTrust,
};
use quickset_desktop::sound::SoundCommand;
use quickset_desktop::trust::{
    Authorized, ClientGate, DesktopLabel, DeviceRights, GatewayFolder, KnownServers, OneTimeToken,
};
use quickset_desktop::view::{
    Credential, ServerTrust, ViewConfig, ViewError, ViewGateway, ViewNews, ViewStats,
};
use quickset_lab::relay::Relay;
use quickset_sim::LinkSpec;
use tokio::task::JoinHandle;

/// How long a condition may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A folder that is gone after the test.
pub(crate) struct Home(pub(crate) PathBuf);

impl Home {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("quickset-gateway-{}-{n}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn server(&self) -> GatewayFolder {
        GatewayFolder::at(self.0.join("server"))
    }

    /// Another person's.
    pub(crate) fn client(&self, name: &str) -> GatewayFolder {
        GatewayFolder::at(self.0.join(name))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// How a server's gateway is to be.
pub(crate) struct Setting {
    pub(crate) order: ScreenOrder,
    pub(crate) permissions: Permissions,
    pub(crate) password: Option<&'static str>,
    pub(crate) listen: SocketAddr,
    pub(crate) name: Option<DesktopLabel>,
    pub(crate) vnc_password: Option<quickset_rfb::VncPassword>,
    pub(crate) vnc_login: Option<quickset_rfb::PlainLogin>,
    pub(crate) vnc_trust: VncTrust,
    /// Desktops besides the first.
    pub(crate) others: Vec<DesktopConfig>,
    pub(crate) max_viewers: usize,
    pub(crate) pages: Option<PageConfig>,
    pub(crate) sound: Option<SoundCommand>,
    pub(crate) max_rate_bps: Option<u64>,
    pub(crate) recorder: Option<ScreenRecorder>,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            order: ScreenOrder::Fenced,
            permissions: Permissions::ALL,
            password: None,
            listen: "127.0.0.1:0".parse().unwrap(),
            name: None,
            vnc_password: None,
            vnc_login: None,
            vnc_trust: VncTrust::Unencrypted,
            others: Vec::new(),
            max_viewers: 16,
            pages: None,
            sound: None,
            max_rate_bps: None,
            recorder: None,
        }
    }
}

/// A server's gateway in a task.
pub(crate) struct Far {
    pub(crate) address: SocketAddr,
    pub(crate) token: Option<OneTimeToken>,
    pub(crate) authorized: Authorized,
    pub(crate) stats: ServeStats,
    task: JoinHandle<ServeError>,
}

impl Far {
    pub(crate) fn start(home: &Home, vnc: SocketAddr, setting: Setting) -> Self {
        assert_eq!(setting.listen.port(), 0, "a port that was used may not be free yet: `again`");
        Self::begin(home, vnc, setting)
    }

    /// On the port of one that was killed, as soon as its connections have let go of it.
    pub(crate) async fn again(home: &Home, vnc: SocketAddr, setting: Setting) -> Self {
        let free = async {
            while std::net::UdpSocket::bind(setting.listen).is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(LIMIT, free).await.expect("the port is free again");
        Self::begin(home, vnc, setting)
    }

    fn begin(home: &Home, vnc: SocketAddr, setting: Setting) -> Self {
        let folder = home.server();
        let identity = folder.server_identity().unwrap();
        let authorized = folder.authorized().unwrap();
        let (gate, token) =
            ClientGate::for_server(identity.fingerprint(), authorized.clone(), setting.password).unwrap();
        let gate = gate.with_invitations(folder.invitations().unwrap());
        let desktop = DesktopConfig {
            name: setting.name,
            vnc_password: setting.vnc_password,
            vnc_login: setting.vnc_login,
            vnc_trust: setting.vnc_trust,
            ..DesktopConfig::at(vnc.to_string())
        };
        let serve = ServeGateway::start(ServeConfig {
            desktops: [desktop].into_iter().chain(setting.others).collect(),
            listen: setting.listen,
            sockets: 2,
            identity,
            gate,
            order: setting.order,
            quality: JpegQuality::default(),
            permissions: setting.permissions,
            max_viewers: setting.max_viewers,
            memory: None,
            pages: setting.pages,
            sound: setting.sound,
            link: LinkConfig { max_rate_bps: setting.max_rate_bps, ..LinkConfig::default() },
        })
        .unwrap();
        let serve = match setting.recorder {
            Some(recorder) => serve.with_recorder(recorder),
            None => serve,
        };
        let (address, stats) = (serve.local_addr(), serve.stats());
        Self { address, token, authorized, stats, task: tokio::spawn(serve.run()) }
    }

    /// Why it ended.
    pub(crate) async fn end(&mut self) -> ServeError {
        let ended = tokio::time::timeout(LIMIT, &mut self.task).await.expect("it ends");
        ended.unwrap()
    }

    /// Ends at once.
    pub(crate) async fn kill(self) -> SocketAddr {
        self.task.abort();
        let _ = self.task.await;
        self.address
    }
}

/// How a viewer's gateway is to come in, and to what.
pub(crate) struct ViewWish {
    pub(crate) credential: Credential,
    pub(crate) trust: ServerTrust,
    pub(crate) desktop: Option<DesktopLabel>,
    pub(crate) sound: Option<SoundCommand>,
}

/// A viewer's gateway in a task.
pub(crate) struct Near {
    pub(crate) address: SocketAddr,
    pub(crate) stats: ViewStats,
    pub(crate) news: tokio::sync::mpsc::Receiver<ViewNews>,
    task: JoinHandle<ViewError>,
}

impl Near {
    /// With the key of `folder`, which knows servers too.
    pub(crate) async fn start(folder: &GatewayFolder, server: SocketAddr, credential: Credential) -> Self {
        let trust = ServerTrust::Known(folder.known_servers().unwrap());
        Self::trusting(folder, server, credential, trust).await
    }

    pub(crate) async fn trusting(
        folder: &GatewayFolder,
        server: SocketAddr,
        credential: Credential,
        trust: ServerTrust,
    ) -> Self {
        Self::looking(folder, server, ViewWish { credential, trust, desktop: None, sound: None }).await
    }

    pub(crate) async fn looking(folder: &GatewayFolder, server: SocketAddr, wish: ViewWish) -> Self {
        Self::linked(folder, server, wish, LinkConfig::default()).await
    }

    /// With the key of `folder`, which the server knows, and wishes for a rate and a quality.
    pub(crate) async fn wishing(
        folder: &GatewayFolder,
        server: SocketAddr,
        wished_rate_bps: Option<u64>,
        wished_quality: Option<JpegQuality>,
    ) -> Self {
        let trust = ServerTrust::Known(folder.known_servers().unwrap());
        let wish = ViewWish { credential: Credential::None, trust, desktop: None, sound: None };
        let link = LinkConfig { wished_rate_bps, wished_quality, ..LinkConfig::default() };
        Self::linked(folder, server, wish, link).await
    }

    async fn linked(folder: &GatewayFolder, server: SocketAddr, wish: ViewWish, link: LinkConfig) -> Self {
        let ViewWish { credential, trust, desktop, sound } = wish;
        let mut view = ViewGateway::start(ViewConfig {
            server: server.to_string(),
            listen: "127.0.0.1:0".parse().unwrap(),
            trust,
            credential,
            desktop,
            identity: folder.client_identity().unwrap(),
            viewer_password: None,
            sound,
            link,
        })
        .await
        .unwrap();
        let (address, stats) = (view.local_addr(), view.stats());
        let news = view.news().unwrap();
        Self { address, stats, news, task: tokio::spawn(view.run()) }
    }

    /// Waits until it was let in.
    pub(crate) async fn met(&mut self, far: &Far) {
        let there = async {
            while !(self.stats.totals().connected && far.stats.totals().clients > 0) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            error = &mut self.task => panic!("it has ended: {}", error.unwrap()),
            met = tokio::time::timeout(LIMIT, there) => met.expect("it comes in"),
        }
    }

    /// Why it ended.
    pub(crate) async fn end(&mut self) -> ViewError {
        let ended = tokio::time::timeout(LIMIT, &mut self.task).await.expect("it ends");
        ended.unwrap()
    }

    /// Ends at once.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// Both gateways, the client's key authorised.
pub(crate) async fn join(home: &Home, vnc: SocketAddr, setting: Setting) -> (Far, Near) {
    let folder = home.client("client");
    let key = folder.client_identity().unwrap().fingerprint();
    home.server().authorized().unwrap().add(key, &DeviceRights::default(), "test").unwrap();
    let far = Far::start(home, vnc, setting);
    let near = Near::start(&folder, far.address, Credential::None).await;
    (far, near)
}

/// The same, with a link in between.
pub(crate) async fn join_over(
    home: &Home,
    vnc: SocketAddr,
    link: &str,
    setting: Setting,
) -> (Far, Near, Relay) {
    let folder = home.client("client");
    let key = folder.client_identity().unwrap().fingerprint();
    home.server().authorized().unwrap().add(key, &DeviceRights::default(), "test").unwrap();
    let far = Far::start(home, vnc, setting);
    let link: LinkSpec = link.parse().unwrap();
    let relay = Relay::start(far.address, link.clone(), link, 1).unwrap();
    let near = Near::start(&folder, relay.address(), Credential::None).await;
    (far, near, relay)
}

/// The servers that a folder knows.
pub(crate) fn known(folder: &GatewayFolder) -> KnownServers {
    folder.known_servers().unwrap()
}
