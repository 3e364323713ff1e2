use std::time::Duration;

use quickset_screen::sound::{SENDS_SOUND, WANTS_SOUND};
use tokio::time::timeout;

use super::desktops::{ServedDesktop, choose};
use super::visits::VisitTurn;
use super::{HouseRooms, ViewerOwner};
use crate::error::LinkError;
use crate::link::{IncomingMessages, MessageOutbox, PeerLink};
use crate::message::{
    CLIPBOARD, ClientOffer, FromClient, FromServer, Hello, MessageFault, Permissions, SHOWN, ScreenOrder,
    VisitId, Welcome, code,
};
use crate::trust::{
    ClientGate, Denial, DesktopLabel, DeviceRights, GateEntry, Now, PageEntry, PageLinks, ProvenKey,
    SecretProof, ServerShare,
};

/// A client that may look.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) control: IncomingMessages<FromClient>,
    pub(crate) control_out: MessageOutbox,
    /// What it understands beyond version 1: asked by [`takes`](Self::takes).
    features: u64,
    /// Whether it hears, where there is something to be heard: from the beginning, or when it says so.
    pub(crate) hears: Option<HearsFrom>,
    /// What it may do.
    pub(crate) permissions: Permissions,
    /// What it sees.
    pub(crate) desktop: ServedDesktop,
    /// What it does there.
    pub(super) turn: VisitTurn,
}

impl Admitted {
    /// Whether the client understands this feature, as HELLO has it: [`CLIPBOARD`] and others.
    pub(super) fn takes(&self, feature: u64) -> bool {
        self.features & feature != 0
    }
}

/// From when on a client is sent sound (DT-76).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HearsFrom {
    Beginning,
    /// WB-26: from its HEAR on, of a page, whose browser plays nothing before a click.
    Asking,
}

/// The same, and by what it came in.
#[derive(Debug)]
pub(super) struct AdmittedBy<E> {
    pub(super) admitted: Admitted,
    pub(super) entry: E,
}

/// Why a client does not look.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Turned {
    #[error(transparent)]
    Denied(#[from] Denial),
    #[error("it has shown no key")]
    NoKey,
    #[error(transparent)]
    Link(#[from] LinkError),
}

/// What a client is told when it comes in.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientTerms {
    pub(crate) order: ScreenOrder,
    pub(crate) permissions: Permissions,
    /// It is sent sound.
    pub(crate) hears: bool,
}

/// Hears the credential of a gateway and lets it in, or closes the connection. By what it came in comes
/// along.
pub(super) async fn admit(
    link: &PeerLink,
    gate: &ClientGate,
    rooms: &HouseRooms,
) -> Result<AdmittedBy<GateEntry>, Turned> {
    let result = hear(link, gate, rooms).await;
    match &result {
        // Its own words for each reason: they tell whoever knows the right password no more than the code
        // does, and save the others an evening.
        Err(Turned::Denied(denial)) => {
            // DT-50: what passes is told apart from what does not.
            let code = if denial.is_final() { code::DENIED } else { code::LATER };
            link.close(code, words(denial).as_bytes());
        }
        Err(Turned::NoKey) => link.close(code::DENIED, NO_KEY),
        Err(Turned::Link(error)) => link.fail(error),
        Ok(_) => {}
    }
    result
}

async fn hear(
    link: &PeerLink,
    gate: &ClientGate,
    rooms: &HouseRooms,
) -> Result<AdmittedBy<GateEntry>, Turned> {
    let Greeting { mut control, mut control_out, hello } = greet(link).await?;
    let key = link.key().ok_or(Turned::NoKey)?;
    let address = link.remote_address().ip();
    let client = ProvenKey { address, key, exported: link.exported()? };
    // What cannot be a name is none of ours, and is told so below.
    let desktop: Option<DesktopLabel> = hello.choice.desktop.parse().ok();
    let judged = match hello.offer {
        // DT-53.
        Some(ClientOffer::Share { of, share }) => {
            let token = Some(hello.choice.token.as_str()).filter(|token| !token.is_empty());
            match gate.challenge(Now::read(), client, of, token, &share) {
                Ok(challenge) => {
                    let proof = prove(&challenge.answer, &mut control_out, &mut control).await?;
                    gate.settle(Now::read().date, &challenge, proof.as_ref(), desktop.as_ref())
                }
                Err(denial) => Err(denial),
            }
        }
        // DT-54: a token goes as it is on sessions of pages alone.
        Some(ClientOffer::Token(_)) => return Err(LinkError::from(MessageFault::Exchange(SHOWN)).into()),
        None => gate.judge(Now::read().date, &client, desktop.as_ref()).map_err(|denial| match denial {
            Denial::UnknownKey if hello.is_older => Denial::Older,
            other => other,
        }),
    };
    let chosen = judged.and_then(|entry| {
        let desktop = choose(&rooms.desktops, &entry.rights, &hello.choice.desktop)?.clone();
        Ok((entry, desktop))
    });
    let (entry, desktop) = chosen.inspect_err(|denial| {
        tracing::warn!(from = %client.address, %key, %denial, "turned away");
    })?;
    let permissions = rooms.shared.terms.permissions_of(&entry.rights);
    let claim = VisitClaim { owner: ViewerOwner::Key(key), id: hello.visit };
    let hears = hears(&hello, rooms);
    let terms = ClientTerms { permissions, hears, ..rooms.shared.terms };
    let turn = welcome(&mut control_out, terms, &desktop, claim).await?;
    tracing::info!(from = %client.address, %key, by = ?entry.by, "came in");
    let (features, hears) = (hello.features, hears.then_some(HearsFrom::Beginning));
    let admitted = Admitted { control, control_out, features, hears, permissions, desktop, turn };
    Ok(AdmittedBy { admitted, entry })
}

/// Hears the token of a page and lets it in, or closes its session. The link that it came in by comes along.
pub(super) async fn admit_page(
    link: &PeerLink,
    links: &PageLinks,
    rooms: &HouseRooms,
) -> Result<AdmittedBy<PageEntry>, Turned> {
    let result = hear_page(link, links, rooms).await;
    match &result {
        Err(Turned::Denied(denial)) => {
            // DT-50.
            let code = if denial.is_final() { code::DENIED } else { code::LATER };
            link.close(code, page_words(denial).as_bytes());
        }
        Err(Turned::NoKey) => link.close(code::DENIED, NO_TOKEN),
        Err(Turned::Link(error)) => link.fail(error),
        Ok(_) => {}
    }
    result
}

async fn hear_page(
    link: &PeerLink,
    links: &PageLinks,
    rooms: &HouseRooms,
) -> Result<AdmittedBy<PageEntry>, Turned> {
    let Greeting { control, mut control_out, hello } = greet(link).await?;
    let hears = hears(&hello, rooms);
    // WB-15.
    let Some(ClientOffer::Token(token)) = hello.offer else { return Err(Turned::NoKey) };
    let address = link.remote_address().ip();
    let judged = links.judge(Now::read(), address, &token, &hello.choice.device).and_then(|entry| {
        let desktop = choose(&rooms.desktops, &entry.rights, &hello.choice.desktop)?.clone();
        Ok((entry, desktop))
    });
    let (entry, desktop) = judged.inspect_err(|denial| {
        tracing::warn!(from = %address, %denial, "a page was turned away");
    })?;
    let permissions = rooms.shared.terms.permissions_of(&entry.rights);
    let claim = VisitClaim { owner: ViewerOwner::Link(entry.link.clone()), id: hello.visit };
    let terms = ClientTerms { permissions, hears, ..rooms.shared.terms };
    let turn = welcome(&mut control_out, terms, &desktop, claim).await?;
    tracing::info!(from = %address, link = ?entry.link, "a page came in");
    // Pages are not older than what they are served by, unless they were loaded before that was.
    let (features, hears) = (hello.features | CLIPBOARD, hears.then_some(HearsFrom::Asking));
    let admitted = Admitted { control, control_out, features, hears, permissions, desktop, turn };
    Ok(AdmittedBy { admitted, entry })
}

/// The first words of a client.
struct Greeting {
    control: IncomingMessages<FromClient>,
    control_out: MessageOutbox,
    hello: Hello,
}

async fn greet(link: &PeerLink) -> Result<Greeting, LinkError> {
    let greeting = async {
        // DT-1: the first bidirectional stream is control, and HELLO its first message.
        let (control_out, mut control) = link.accept_control().await?;
        let FromClient::Hello(hello) = control.next().await? else { return Err(LinkError::Ended) };
        Ok(Greeting { control, control_out, hello })
    };
    timeout(PATIENCE, greeting).await.unwrap_or(Err(LinkError::Silent))
}

/// DT-67. Its stream comes behind that of the clipboard (DT-68).
fn hears(hello: &Hello, rooms: &HouseRooms) -> bool {
    let wanted = CLIPBOARD | WANTS_SOUND;
    hello.features & wanted == wanted && rooms.shared.sound.is_some()
}

/// Of which visit a session is.
struct VisitClaim {
    /// Whoever has another credential has another visit.
    owner: ViewerOwner,
    id: Option<VisitId>,
}

impl ClientTerms {
    /// What a client may do.
    fn permissions_of(self, rights: &DeviceRights) -> Permissions {
        let looks = Permissions { input: false, clipboard: false, wish: false };
        if rights.view_only { looks } else { self.permissions }
    }
}

/// DT-2: says what it sees, what it may do, and what was passed on of what it did. From then on the turn is
/// its.
async fn welcome(
    out: &mut MessageOutbox,
    ClientTerms { order, permissions, hears }: ClientTerms,
    desktop: &ServedDesktop,
    claim: VisitClaim,
) -> Result<VisitTurn, LinkError> {
    let (turn, visit) = match claim.id {
        // DT-61: the former session is over before the count is told.
        Some(id) if permissions.input || permissions.clipboard => {
            desktop.visits.enter(claim.owner, id, &desktop.commands).await
        }
        _ => (VisitTurn::alone(&desktop.commands), None),
    };
    let features = if hears { SENDS_SOUND } else { 0 };
    let welcome = Welcome { features, order, permissions, name: desktop.stage.title(), visit };
    out.send(&FromServer::Welcome(welcome)).await?;
    Ok(turn)
}

/// Shows the client that its secret is known here, and hears what it says to that.
async fn prove(
    answer: &ServerShare,
    out: &mut MessageOutbox,
    control: &mut IncomingMessages<FromClient>,
) -> Result<Option<SecretProof>, LinkError> {
    out.send(&FromServer::Share { share: answer.share, proof: answer.proof.to_bytes() }).await?;
    match timeout(PATIENCE, control.next()).await.unwrap_or(Err(LinkError::Silent))? {
        FromClient::Proof(proof) => Ok(proof.map(SecretProof::from_bytes)),
        _ => Err(LinkError::Ended),
    }
}

/// For the client's user.
fn words(denial: &Denial) -> String {
    match denial {
        Denial::UnknownKey => {
            "the server does not know this key: give --token or --password-file, or have the key authorised"
                .into()
        }
        Denial::WrongSecret => "the password or token is wrong, or the token was used before".into(),
        Denial::Older => {
            "this server takes passwords and tokens by SPAKE2 only: update the viewer's quickset".into()
        }
        Denial::NoShare | Denial::OtherDevice | Denial::NoDesktop { .. } => denial.to_string(),
        Denial::Wait(wait) => {
            // Rounded up: it is taken at its word (DT-50).
            let seconds = wait.as_millis().div_ceil(1000).max(1);
            format!("too many wrong passwords or tokens; try again in {seconds} s")
        }
        // The server's files are not the client's business.
        Denial::File(_) => "the server cannot judge credentials now; its log says why".into(),
    }
}

/// For whoever looks at a page.
fn page_words(denial: &Denial) -> String {
    match denial {
        Denial::Wait(_) | Denial::NoDesktop { .. } | Denial::File(_) => words(denial),
        Denial::OtherDevice => "this link was opened on another device before: ask for a new one".into(),
        Denial::Older => {
            "this page is too old for the link: update quickset where the page comes from".into()
        }
        _ => "this link is not good any more, or was not copied whole: ask for a new one".into(),
    }
}

/// For a page that shows none.
const NO_TOKEN: &[u8] = b"the link has no token: ask for a new one";

/// For who has none.
pub(crate) const NO_KEY: &[u8] = b"show a key (a client certificate)";

/// How long a client may take to show its credential, on a machine that is busy otherwise, too: who waits is
/// in nobody's way.
const PATIENCE: Duration = Duration::from_secs(10);
