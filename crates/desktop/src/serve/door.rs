use std::time::{Duration, Instant};

use quickset::{Connection, Peer};
use tokio::time::timeout;

use crate::link::{DesktopChannel, IncomingMessages, LinkError, MessageOutbox, exported};
use crate::message::{
    CLIPBOARD, ClientOffer, FromClient, FromServer, Hello, Permissions, ScreenOrder, Welcome, code,
};
use crate::trust::{ClientGate, Denial, ProvenKey, SecretProof, ServerShare};

/// A client that may look.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) control: IncomingMessages<FromClient>,
    pub(crate) control_out: MessageOutbox,
    /// It takes the clipboard on a stream of its own.
    pub(crate) takes_texts: bool,
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
pub(crate) struct ClientTerms {
    pub(crate) order: ScreenOrder,
    pub(crate) permissions: Permissions,
}

/// Hears the client's credential and lets it in, or closes the connection.
pub(crate) async fn admit(
    connection: &Connection,
    gate: &ClientGate,
    terms: ClientTerms,
    name: &str,
) -> Result<Admitted, Turned> {
    let result = hear(connection, gate, terms, name).await;
    match &result {
        // Its own words for each reason: they tell whoever knows the right password no more than the code
        // does, and save the others an evening.
        Err(Turned::Denied(denial)) => {
            // DT-50: what passes is told apart from what does not.
            let code = if denial.is_final() { code::DENIED } else { code::LATER };
            connection.close(code, words(denial).as_bytes());
        }
        Err(Turned::NoKey) => connection.close(code::DENIED, NO_KEY),
        Err(Turned::Link(error)) => error.close(connection),
        Ok(_) => {}
    }
    result
}

async fn hear(
    connection: &Connection,
    gate: &ClientGate,
    terms: ClientTerms,
    name: &str,
) -> Result<Admitted, Turned> {
    let greeting = async {
        // DT-1: the first bidirectional stream is control, and HELLO its first message.
        let (out, incoming) = connection.accept_messages_bi().await.map_err(LinkError::Closed)?;
        let mut control = IncomingMessages::new(incoming);
        let FromClient::Hello(hello) = control.next().await? else { return Err(LinkError::Ended) };
        Ok((MessageOutbox::new(out, DesktopChannel::Control.priority()), control, hello))
    };
    let greeting = timeout(PATIENCE, greeting).await.unwrap_or(Err(LinkError::Silent));
    let (mut control_out, mut control, hello): (_, _, Hello) = greeting?;
    let key = Peer::of(connection).fingerprint().ok_or(Turned::NoKey)?;
    let address = connection.remote_address().ip();
    let client = ProvenKey { address, key, exported: exported(connection)? };
    let judged = match hello.offer {
        // DT-53.
        Some(ClientOffer { of, share }) => match gate.challenge(Instant::now(), client, of, &share) {
            Ok(challenge) => {
                let proof = prove(&challenge.answer, &mut control_out, &mut control).await?;
                gate.settle(&challenge, proof.as_ref())
            }
            Err(denial) => Err(denial),
        },
        // DT-54.
        None => gate.judge(&client).map_err(|denial| match denial {
            Denial::UnknownKey if hello.is_older => Denial::Older,
            other => other,
        }),
    };
    let by = judged.inspect_err(|denial| {
        tracing::warn!(from = %client.address, %key, %denial, "turned away");
    })?;
    // DT-2.
    let welcome =
        Welcome { features: 0, order: terms.order, permissions: terms.permissions, name: name.to_owned() };
    control_out.send(&FromServer::Welcome(welcome)).await?;
    tracing::info!(from = %client.address, %key, ?by, "came in");
    let takes_texts = hello.features & CLIPBOARD != 0;
    Ok(Admitted { control, control_out, takes_texts })
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
        Denial::NoShare => denial.to_string(),
        Denial::Wait(wait) => {
            // Rounded up: it is taken at its word (DT-50).
            let seconds = wait.as_millis().div_ceil(1000).max(1);
            format!("too many wrong passwords or tokens; try again in {seconds} s")
        }
        // The server's files are not the client's business.
        Denial::File(_) => "the server cannot judge credentials now; its log says why".into(),
    }
}

/// For who has none.
pub(crate) const NO_KEY: &[u8] = b"show a key (a client certificate)";

/// How long a client may take to show its credential, on a machine that is busy otherwise, too: who waits is
/// in nobody's way.
const PATIENCE: Duration = Duration::from_secs(10);
