//! All URLs of a run: which are asked for together, and again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use quickset::{ClientConfig, Endpoint};
use tokio::sync::{Notify, watch};

use super::super::pulse::Pulse;
use super::H3Url;
use super::ask::{RequestData, UrlAsk};
use super::fetch::{FetchEnd, INTERRUPTED, UrlFetch};
use super::keep::KeepFile;
use super::name::FileNames;
use super::print::Printer;
use super::reach::connect;
use super::row::{FetchRow, ms};
use super::{GetArgs, stroll};

/// What all connections of a run have in common.
pub(super) struct Trip<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) config: &'a ClientConfig,
    pub(super) args: &'a GetArgs,
    pub(super) ask: &'a UrlAsk,
    /// Of the files, if they are kept.
    pub(super) names: &'a [FileNames],
    pub(super) bar: &'a ProgressBar,
    /// True once somebody wants it to end.
    pub(super) stop: watch::Receiver<bool>,
}

impl Trip<'_> {
    /// What became of all URLs, in their order. What a server did nothing with is asked for again, on another
    /// connection: it may just have been stopped for a newer one.
    pub(super) async fn fetch_all(&self) -> Vec<FetchRow> {
        let urls = &self.args.urls;
        let mut rows: Vec<Option<FetchRow>> = urls.iter().map(|_| None).collect();
        let mut tries = vec![1; urls.len()];
        // In the order of the URLs, so that stdout has them so, too.
        while let Some(first) = rows.iter().position(Option::is_none) {
            let is_same =
                |n: &usize| (&urls[*n].host, urls[*n].port) == (&urls[first].host, urls[first].port);
            let open: Vec<usize> =
                (first..urls.len()).filter(|n| rows[*n].is_none()).take_while(is_same).collect();
            if let Some(again @ 1..) = open.iter().map(|n| tries[*n] - 1).max() {
                tokio::time::sleep(PAUSE * (again - 1)).await;
            }
            for (n, end) in open.iter().zip(self.fetch(&open).await) {
                match end {
                    // RFC 9114 §4.1.1: whatever it is, nobody did anything with it. What came on standard
                    // input comes once.
                    FetchEnd::Unprocessed(_)
                        if tries[*n] < TRIES && self.ask.data != Some(RequestData::Input) =>
                    {
                        tries[*n] += 1;
                    }
                    FetchEnd::Known(row) => rows[*n] = Some(row),
                    FetchEnd::Unprocessed(row) => {
                        rows[*n] = Some(FetchRow { error: Some(BUSY.to_owned()), ..row });
                    }
                }
            }
        }
        rows.into_iter().flatten().collect()
    }

    /// What one connection fetches: the URLs of these numbers, all of one server. To stdout it is as many of
    /// them as come one behind the other.
    async fn fetch(&self, numbers: &[usize]) -> Vec<FetchEnd> {
        let Self { endpoint, config, args, ask, names, bar, stop } = self;
        let urls: Vec<&H3Url> = numbers.iter().map(|n| &args.urls[*n]).collect();
        let began = Instant::now();
        let mut stopped = stop.clone();
        let reached = tokio::select! {
            reached = connect(endpoint, config, urls[0]) => reached,
            _ = stopped.wait_for(|stop| *stop) => Err(anyhow::anyhow!(INTERRUPTED)),
        };
        let handshake_ms = ms(began);
        let row = |url: &H3Url| FetchRow::new(url, handshake_ms);
        let client = match reached {
            Ok(client) => client,
            Err(error) => {
                let error = Some(format!("{error:#}"));
                return urls
                    .iter()
                    .map(|url| FetchEnd::Known(FetchRow { error: error.clone(), ..row(url) }))
                    .collect();
            }
        };
        let (pulse, comes) = (Arc::new(Pulse::new()), Arc::new(Notify::new()));
        let stroll = args.migrate.map(|to| {
            tokio::spawn(stroll::stroll((*endpoint).clone(), client.connection().clone(), to, comes.clone()))
        });
        let fetches = numbers.iter().zip(&urls).map(|(n, url)| {
            let keep = args.output.as_deref().zip(names.get(*n));
            let keep = keep.map(|(folder, names)| KeepFile::new(folder, names, args.resume));
            UrlFetch {
                client: client.clone(),
                ask: (*ask).clone(),
                url: (*url).clone(),
                priority: priority_of(&args.priority, *n).map(str::to_owned),
                keep,
                printer: args.prints().then(Printer::new),
                include: args.includes() || ask.is_head(),
                row: row(url),
                comes: comes.clone(),
                bar: (*bar).clone(),
                pulse: pulse.clone(),
                // Who is gone is found out by QUIC before, and told as that.
                patience: args.timeout * 4,
                stop: stop.clone(),
            }
        });
        let mut ends = Vec::new();
        if args.output.is_some() || args.json {
            let tasks: Vec<_> = fetches.map(|fetch| tokio::spawn(fetch.run())).collect();
            for task in tasks {
                ends.extend(task.await);
            }
        } else {
            for fetch in fetches {
                ends.push(fetch.run().await);
                if let Some(FetchEnd::Unprocessed(_)) = ends.last() {
                    break;
                }
            }
        }
        if let Some(stroll) = stroll {
            stroll::end(stroll).await;
        }
        let _ = tokio::time::timeout(Duration::from_secs(1), client.shutdown()).await;
        ends
    }
}

/// That of one URL.
fn priority_of(priorities: &[String], url: usize) -> Option<&str> {
    priorities.get(if priorities.len() == 1 { 0 } else { url }).map(String::as_str)
}

/// How often something is asked for at most, where a server did nothing with it, and how much longer it is
/// waited before each time behind the second.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(250);

/// What is said then.
const BUSY: &str =
    "the server took no request, however often it was asked; it may be stopping, so ask again later";
