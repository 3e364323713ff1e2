//! Early data: the second connection to a server begins with it; another server of the same name takes none
//! of it, and gets the same behind the handshake.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use quickset_stacks::{StackIdentity, StackSetup, StackTickets};
use tokio::task::JoinSet;

use crate::stack::{Broken, StackConnection, StackEndpoint, StackSide};
use crate::world::{InteropPair, PROTOCOL};

pub(super) async fn run(pair: InteropPair) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let identity = StackIdentity::create(folder.path(), &[])?;
    let setup = StackSetup { tickets: StackTickets::Early, ..StackSetup::new(PROTOCOL) };
    let side = |stack| StackSide { stack, setup: setup.clone(), draft: false };
    let mut tasks = JoinSet::new();
    let mut server = || {
        // Each has its own keys of tickets.
        let endpoint = StackEndpoint::server(&side(pair.server), &identity)?;
        let address = endpoint.address()?;
        tasks.spawn(serve(endpoint));
        anyhow::Ok(address)
    };
    let servers = [server()?, server()?];
    let client = StackEndpoint::client(&side(pair.client), &identity)?;
    let question = vec![7; 3000];
    for taken in [true, false] {
        ask(&client, servers[0], b"hello", None).await.context("the first connection")?;
        let to = servers[usize::from(!taken)];
        let (answer, early) =
            ask(&client, to, &question, Some(taken)).await.context("the second connection")?;
        ensure!(answer == question, "{} bytes came back of {}", answer.len(), question.len());
        ensure!(early == taken, "the server says that it came early: {early}");
    }
    Ok(())
}

/// Sends back what comes, and whether it came early.
async fn serve(endpoint: StackEndpoint) {
    while let Some(accepted) = endpoint.accept().await {
        tokio::spawn(async move {
            let connection = accepted?;
            while let Ok((mut send, mut receive)) = connection.accept_bi().await {
                let mut all = receive.read_all(1 << 20).await?;
                all.push(u8::from(receive.is_early()));
                send.write(all.into()).await?;
                send.finish()?;
            }
            anyhow::Ok(())
        });
    }
}

/// A connection with one question: early, with what is then to be said of it, or behind the handshake. Returns
/// what came back, and whether the server found it early.
async fn ask(
    client: &StackEndpoint,
    to: SocketAddr,
    question: &[u8],
    early: Option<bool>,
) -> Result<(Vec<u8>, bool)> {
    let (connection, taken) = match early {
        None => (client.connect(to).await?, None),
        Some(_) => client.connect_early(to).map(|(connection, taken)| (connection, Some(taken)))?,
    };
    let mut answer = put(&connection, question).await;
    if let Some(taken) = taken {
        let taken = taken.await;
        ensure!(Some(taken) == early, "early data was taken: {taken}");
        if !taken && matches!(connection, StackConnection::Quinn(_)) {
            // Quinn leaves it to the application to ask again.
            answer = put(&connection, question).await;
        }
    }
    connection.close(0, b"");
    let mut answer = answer?;
    let early = answer.pop().context("an empty answer")? == 1;
    Ok((answer, early))
}

async fn put(connection: &StackConnection, question: &[u8]) -> Result<Vec<u8>, Broken> {
    let (mut send, mut receive) = connection.open_bi().await.map_err(Broken::Connection)?;
    send.write(question.to_vec().into()).await?;
    send.finish()?;
    receive.read_all(1 << 20).await
}
