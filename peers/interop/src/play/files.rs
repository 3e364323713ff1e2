//! Files, asked for and answered by any stack.

use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use quickset_stacks::{
    AnswerHead, ClientPart, PeerConnection, ServerPart, StackAnswer, StackClient, StackDownload, StackServer,
};
use tokio::task::{JoinSet, spawn_local};

use super::{PlayJob, dismissed, listening, note};

pub(super) struct FilePlay(pub(super) Rc<PlayJob>);

impl ServerPart for FilePlay {
    async fn serve(self, mut server: impl StackServer) -> Result<()> {
        listening(server.address());
        let mut visits = JoinSet::new();
        let accepting = async {
            while let Some(connection) = server.accept().await {
                visits.spawn_local(answer_all(self.0.clone(), connection));
            }
        };
        tokio::select! {
            () = accepting => {}
            () = dismissed() => {}
        }
        server.leave().await;
        // What they have to say.
        let over = async { while visits.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(Duration::from_millis(100), over).await;
        Ok(())
    }
}

async fn answer_all(job: Rc<PlayJob>, mut connection: impl PeerConnection) {
    let over = loop {
        match connection.requested().await {
            Ok(request) => {
                let job = job.clone();
                spawn_local(async move {
                    if let Err(error) = answer(&job, request).await {
                        eprintln!("a request: {error:#}");
                    }
                });
            }
            Err(over) => break over,
        }
    };
    eprintln!("over: {over:#}");
    tell(&connection);
}

async fn answer(job: &PlayJob, mut answer: impl StackAnswer) -> Result<()> {
    let question = String::from_utf8(answer.question().await?)?;
    answer.drain().await?;
    let (path, file) = if job.h3 {
        (question.as_str(), job.file(&question))
    } else {
        let path = question.trim_end().strip_prefix("GET ");
        let path = path.with_context(|| format!("not a request: {question:?}"))?;
        (path, Some(job.file(path).with_context(|| format!("there is no {path}"))?))
    };
    let status = if file.is_some() { 200 } else { 404 };
    let file = file.unwrap_or_default();
    answer.begin(&AnswerHead { status, length: file.len() as u64, kind: kind(path) }).await?;
    if !file.is_empty() {
        answer.send(file).await?;
    }
    answer.end().await
}

impl ClientPart for FilePlay {
    async fn call(self, client: impl StackClient) -> Result<()> {
        let Self(job) = self;
        for (n, paths) in job.connections().into_iter().enumerate() {
            let early = job.is("zerortt") && n > 0;
            let mut connection = client.connect(early).await.context("connecting")?;
            let mut files = JoinSet::new();
            for path in paths {
                let question = if job.h3 { path.clone() } else { format!("GET {path}\r\n") };
                let download = connection.request(question.as_bytes()).await;
                let download = download.with_context(|| format!("asking for {path}"))?;
                files.spawn_local(keep(job.clone(), path, download));
            }
            let fetching = async {
                while let Some(file) = files.join_next().await {
                    file??;
                }
                anyhow::Ok(())
            };
            tokio::select! {
                fetched = fetching => fetched?,
                error = meddle(&job, &client, &connection) => return Err(error),
            }
            tell(&connection);
            connection.close();
        }
        client.leave().await;
        Ok(())
    }
}

async fn keep(job: Rc<PlayJob>, path: String, mut download: impl StackDownload) -> Result<()> {
    let mut content = Vec::new();
    while download
        .receive(&mut |part| content.extend_from_slice(part))
        .await
        .with_context(|| format!("fetching {path}"))?
    {}
    job.store(&path, &content)
}

/// What a client does besides, once; it ends with an error only.
async fn meddle<C: StackClient>(job: &PlayJob, client: &C, connection: &C::Connection) -> anyhow::Error {
    let done = match job.case.as_str() {
        "keyupdate" => connection.update_keys().await,
        "connectionmigration" => client.migrate(connection).await,
        _ => Ok(()),
    };
    match done {
        Ok(()) => std::future::pending().await,
        Err(error) => error,
    }
}

fn tell(connection: &impl PeerConnection) {
    if let Some(updates) = connection.key_updates() {
        note("key_updates", updates);
    }
}

/// What browsers want to be told of.
fn kind(path: &str) -> Option<&'static str> {
    let (_, ending) = path.split('?').next()?.rsplit_once('.')?;
    Some(match ending {
        "html" => "text/html",
        "css" => "text/css",
        "js" => "text/javascript",
        "svg" => "image/svg+xml",
        "woff2" => "font/woff2",
        "bin" => "application/octet-stream",
        _ => return None,
    })
}
