//! One request, and what comes of it.

use std::fmt::Write as _;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use indicatif::ProgressBar;
use quickset::h3::{Client, Content, HttpError, Request, Response};
use quickset_play::without_credentials;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::super::pulse::{Pulse, PulseLimits};
use super::H3Url;
use super::ask::{ContentSource, UrlAsk};
use super::keep::KeepFile;
use super::print::Printer;
use super::row::{FetchRow, ms};
use crate::say::named;

/// How a request ended.
pub(super) enum FetchEnd {
    /// As the row says.
    Known(FetchRow),
    /// The same, and the server did nothing with it.
    Unprocessed(FetchRow),
}

/// One request.
pub(super) struct UrlFetch {
    pub(super) client: Client,
    pub(super) ask: UrlAsk,
    pub(super) url: H3Url,
    pub(super) priority: Option<String>,
    pub(super) keep: Option<KeepFile>,
    /// Where the content goes to stdout.
    pub(super) printer: Option<Printer>,
    /// The head is kept, and goes before the content.
    pub(super) include: bool,
    pub(super) row: FetchRow,
    pub(super) bar: ProgressBar,
    /// Of all requests on the connection: one may well wait for the others.
    pub(super) pulse: Arc<Pulse>,
    /// Is told that content comes.
    pub(super) comes: Arc<Notify>,
    pub(super) patience: Duration,
    pub(super) stop: watch::Receiver<bool>,
}

impl UrlFetch {
    pub(super) async fn run(mut self) -> FetchEnd {
        let began = Instant::now();
        let fetched = self.fetch(began).await;
        // What came before something went wrong is somebody's, too.
        let printed = self.print().await;
        self.row.total_ms = ms(began);
        // A reader who wants no more, like `head`, is no error.
        if let Err(error) = fetched.and(printed).or_else(unless_unwanted) {
            // RFC 9114 §4.1.1, §5.2: whatever it asked for, it may be asked for again.
            let is_unprocessed = error.downcast_ref().is_some_and(HttpError::is_unprocessed);
            let mut told = format!("{error:#}");
            if let Some(part) = self.keep.take().map(KeepFile::leave) {
                if let Some(part) = part.await {
                    let _ = write!(told, "; go on with --resume, what came is in {}", named(&part));
                }
            }
            self.row.error = Some(told);
            if is_unprocessed {
                return FetchEnd::Unprocessed(self.row);
            }
        }
        FetchEnd::Known(self.row)
    }

    async fn fetch(&mut self, began: Instant) -> anyhow::Result<()> {
        self.pulse.moved();
        let (mut request, source) = self.ask.request(&self.url, self.priority.as_deref()).await?;
        // RFC 9110 §13.1.5: the rest if it is the same still, else the whole.
        if let Some((from, etag)) = self.keep.as_ref().and_then(KeepFile::rest) {
            request = request.with("range", format!("bytes={from}-")).with("if-range", etag.to_owned());
        }
        let mut upload = Upload(JoinSet::new());
        let (mut response, mut content) = self.answer(&request, source, &mut upload).await?;
        if self.keep.as_mut().is_some_and(|keep| keep.is_at_odds(&response)) {
            request.fields.retain(|field| field.name != "range" && field.name != "if-range");
            (response, content) = self.heard(self.client.fetch(&request)).await?;
        }
        self.row.answered(self.client.connection(), &response, self.include);
        if let Some((printer, head)) = self.printer.as_mut().zip(self.row.head()) {
            printer.write(head.as_bytes()).await?;
        }
        // What a server says instead of the content is for nobody here, and may have no end.
        anyhow::ensure!(response.is_success(), "{}", refusal(&response));
        if let Some(len) = number(&response, "content-length").filter(|_| !self.ask.is_head()) {
            self.bar.inc_length(len);
        }
        if let Some(keep) = &mut self.keep {
            keep.begin(&response).await?;
        }
        self.take(began, &mut content).await?;
        // It has answered, and may want no more of what it was sent; but what went wrong here is to be said.
        upload.failed()?;
        if let Some(keep) = &mut self.keep {
            self.row.file = Some(keep.finish().await?);
        }
        Ok(())
    }

    /// The head of the answer, for which the content of the request is sent meanwhile.
    async fn answer(
        &self,
        request: &Request,
        source: Option<ContentSource>,
        upload: &mut Upload,
    ) -> anyhow::Result<(Response, Content)> {
        let Some(source) = source else { return self.heard(self.client.fetch(request)).await };
        let (out, answer) = self.heard(self.client.request(request)).await?;
        let pulse = self.pulse.clone();
        upload.0.spawn(async move { source.send(out, &pulse).await });
        let mut answer = pin!(self.heard(answer.response()));
        tokio::select! {
            biased;
            // What cannot be read ends the request, which the server has to do with then.
            Some(Ok(Err(error))) = upload.0.join_next() => Err(error),
            answer = &mut answer => answer,
        }
    }

    async fn take(&mut self, began: Instant, content: &mut Content) -> anyhow::Result<()> {
        while let Some(data) = self.next(content).await? {
            self.comes.notify_one();
            self.row.first_byte_ms.get_or_insert_with(|| ms(began));
            self.row.bytes += data.len() as u64;
            self.bar.inc(data.len() as u64);
            match (&mut self.keep, &mut self.printer) {
                (Some(keep), _) => keep.write(&data).await?,
                (None, Some(printer)) => printer.write(&data).await?,
                (None, None) => {}
            }
            // Nor was it the server's doing when that took long.
            self.pulse.moved();
        }
        Ok(())
    }

    /// More of the content. Where none is there yet, what came is printed first: somebody may wait for it.
    async fn next(&mut self, content: &mut Content) -> anyhow::Result<Option<Bytes>> {
        if self.printer.as_ref().is_some_and(Printer::waits) {
            tokio::select! {
                biased;
                data = self.heard(content.next()) => return data,
                () = std::future::ready(()) => {}
            }
            self.print().await?;
            // Nor was it the server's doing when that took long.
            self.pulse.moved();
        }
        self.heard(content.next()).await
    }

    /// Prints what waits for that.
    async fn print(&mut self) -> anyhow::Result<()> {
        match &mut self.printer {
            Some(printer) => printer.flush().await,
            None => Ok(()),
        }
    }

    /// What comes of the server. That it lives, as QUIC can tell, is not enough.
    async fn heard<T>(&self, comes: impl Future<Output = Result<T, HttpError>>) -> anyhow::Result<T> {
        let limits = PulseLimits { idle: self.patience, stall: self.patience };
        let mut stopped = self.stop.clone();
        tokio::select! {
            biased;
            // With nobody left who could say so, it goes on.
            Ok(_) = stopped.wait_for(|stop| *stop) => anyhow::bail!(INTERRUPTED),
            come = comes => {
                self.pulse.moved();
                Ok(come?)
            }
            _ = self.pulse.still(limits) => {
                anyhow::bail!("the server lives and sends nothing; ask later, or give it longer with --timeout")
            }
        }
    }
}

/// The error, but not that nobody reads what is printed any more.
fn unless_unwanted(error: anyhow::Error) -> anyhow::Result<()> {
    match error.downcast_ref::<std::io::Error>() {
        Some(cause) if cause.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(error),
    }
}

/// What a server says instead of the content.
fn refusal(response: &Response) -> String {
    let told = format!("the server answered with status {}", response.status);
    match response.field("location") {
        Some(to) if (300..400).contains(&response.status) => {
            let to = without_credentials(&String::from_utf8_lossy(to));
            format!("{told}; it is at {to} now, ask for that")
        }
        _ => told,
    }
}

/// Content of a request on its way, which ends with this.
struct Upload(JoinSet<anyhow::Result<()>>);

impl Upload {
    /// What went wrong with it so far.
    fn failed(&mut self) -> anyhow::Result<()> {
        match self.0.try_join_next() {
            Some(Ok(sent)) => sent,
            _ => Ok(()),
        }
    }
}

/// A number in a field.
fn number(response: &Response, name: &str) -> Option<u64> {
    std::str::from_utf8(response.field(name)?).ok()?.parse().ok()
}

/// What is said of a file whose fetching somebody ended.
pub(super) const INTERRUPTED: &str = "interrupted";
