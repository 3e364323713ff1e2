//! What a player asks for, fetched and checked.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use quickset_play::{Resource, Url};

use super::link::{AnswerHead, PlayBody, ServerLink, Via};

/// Fetches for one player, over one connection with each server.
pub(super) struct Fetcher {
    via: Via,
    /// How long something may take, all in all.
    patience: Duration,
    /// Whether redirections may lead to other servers.
    elsewhere: bool,
    /// With whom; the one used last is at the end.
    links: Vec<(String, ServerLink)>,
}

/// What came.
#[derive(Debug)]
pub(super) struct Fetched {
    /// From where, behind all redirections.
    pub(super) url: Url,
    /// How much content.
    pub(super) bytes: u64,
    /// When the first of it came.
    pub(super) first_byte: Instant,
    /// All of it, where it is kept.
    pub(super) content: Vec<u8>,
}

/// What becomes of content.
#[derive(Clone, Copy, Debug)]
pub(super) enum ContentKeep {
    /// It is counted.
    Nothing,
    /// It is kept, and more of it than this is an error.
    UpTo(usize),
}

impl Fetcher {
    pub(super) fn new(via: Via, patience: Duration, elsewhere: bool) -> Self {
        Self { via, patience, elsewhere, links: Vec::new() }
    }

    /// All of a resource. What went wrong takes the connection with it, unless it is the server's answer that
    /// is no success.
    pub(super) async fn fetch(&mut self, resource: &Resource, keep: ContentKeep) -> anyhow::Result<Fetched> {
        let patience = self.patience;
        // A link in use belongs to the future, and goes with it.
        match tokio::time::timeout(patience, self.follow(resource.clone(), keep)).await {
            Ok(fetched) => fetched,
            Err(_) => anyhow::bail!(
                "it was not complete within {} s; give it longer with --timeout",
                patience.as_secs_f64()
            ),
        }
    }

    /// Tells the servers that no more will be asked for.
    pub(super) async fn close(self) {
        drop(self.links);
        if let Via::Quic(endpoint, _) = self.via {
            let _ = tokio::time::timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
        }
    }

    async fn follow(&mut self, mut resource: Resource, keep: ContentKeep) -> anyhow::Result<Fetched> {
        for _ in 0..=REDIRECTIONS {
            let (link, head, body) = self.ask(&resource).await?;
            let Some(location) = moved(&head) else {
                if let Err(refusal) = check(&resource, &head) {
                    self.keep_link(&resource.url, link);
                    return Err(refusal);
                }
                let url = resource.url.clone();
                let (bytes, first_byte, content) = take(body, &head, keep).await?;
                self.keep_link(&url, link);
                return Ok(Fetched { url, bytes, first_byte, content });
            };
            let to = resource.url.join(location)?;
            anyhow::ensure!(to.is_secure(), "it is at {to} now, and what is not https:// is not fetched");
            anyhow::ensure!(
                self.elsewhere || to.same_origin(&resource.url),
                "it is at {to} now, which is another server; follow it there with --elsewhere"
            );
            drop(body);
            self.keep_link(&resource.url, link);
            resource.url = to;
        }
        anyhow::bail!("it is redirected more than {REDIRECTIONS} times")
    }

    /// The head of the answer, on the connection there is, or else on a new one.
    async fn ask(&mut self, resource: &Resource) -> anyhow::Result<(ServerLink, AnswerHead, PlayBody)> {
        let at = self.links.iter().position(|(authority, _)| authority == resource.url.authority());
        if let Some(at) = at {
            let (_, mut link) = self.links.remove(at);
            // A server may close a connection that rests, and what is only read may be asked for again
            // (RFC 9110 §9.2.2).
            if let Ok((head, body)) = link.ask(resource).await {
                return Ok((link, head, body));
            }
        }
        let mut link = self.via.connect(&resource.url).await?;
        let (head, body) = link.ask(resource).await?;
        Ok((link, head, body))
    }

    fn keep_link(&mut self, url: &Url, link: ServerLink) {
        if self.links.len() >= MAX_LINKS {
            self.links.remove(0);
        }
        self.links.push((url.authority().to_owned(), link));
    }
}

/// Where it is instead.
fn moved(head: &AnswerHead) -> Option<&str> {
    // RFC 9110 §15.4: those with which a client goes on by itself.
    head.location.as_deref().filter(|_| matches!(head.status, 301 | 302 | 303 | 307 | 308))
}

/// Whether this is the answer to that.
fn check(resource: &Resource, head: &AnswerHead) -> anyhow::Result<()> {
    match (&resource.range, head.status) {
        (None, 200) => Ok(()),
        (Some(_), 200) => {
            anyhow::bail!(
                "the server sends the whole of it where a part was asked for; it has to take ranges"
            )
        }
        (Some(range), 206) => {
            let (first, last) = (*range.start(), *range.end());
            anyhow::ensure!(
                head.range == Some((first, last)),
                "the server sends other bytes than {first} to {last}, which were asked for"
            );
            let length = (last - first).saturating_add(1);
            anyhow::ensure!(
                head.length.is_none_or(|told| told == length),
                "the server says that it sends other than the {length} bytes that were asked for"
            );
            Ok(())
        }
        (_, status) => anyhow::bail!("the server answered with status {status}"),
    }
}

/// How much content there is, when it began, and the content where it is kept.
async fn take(
    mut body: PlayBody,
    head: &AnswerHead,
    keep: ContentKeep,
) -> anyhow::Result<(u64, Instant, Vec<u8>)> {
    let told = head.length.or(head.range.map(|(first, last)| (last - first).saturating_add(1)));
    let (mut bytes, mut first_byte, mut content) = (0_u64, None, Vec::new());
    while let Some(data) = body.next().await.context("it broke off")? {
        first_byte.get_or_insert_with(Instant::now);
        bytes += data.len() as u64;
        anyhow::ensure!(told.is_none_or(|told| bytes <= told), "more comes than the server said");
        if let ContentKeep::UpTo(most) = keep {
            anyhow::ensure!(
                bytes <= most as u64,
                "it is longer than {most} bytes, which is all that is read"
            );
            content.extend_from_slice(&data);
        }
    }
    let told = told.unwrap_or(bytes);
    anyhow::ensure!(bytes == told, "it ended after {bytes} of {told} bytes");
    // Where nothing came it is empty, and that is no media.
    let first_byte = first_byte.ok_or_else(|| anyhow::anyhow!("it is empty"))?;
    Ok((bytes, first_byte, content))
}

/// How many are followed behind each other.
const REDIRECTIONS: usize = 5;

/// Servers that a player has a connection with at a time.
const MAX_LINKS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(range: Option<std::ops::RangeInclusive<u64>>) -> Resource {
        Resource { url: Url::parse("https://a/b").unwrap(), range }
    }

    fn head(status: u16, length: Option<u64>, range: Option<(u64, u64)>) -> AnswerHead {
        AnswerHead { status, length, range, location: None }
    }

    #[test]
    fn an_answer_is_what_was_asked_for() {
        assert!(check(&resource(None), &head(200, None, None)).is_ok());
        let part = resource(Some(10..=19));
        assert!(check(&part, &head(206, Some(10), Some((10, 19)))).is_ok());
        assert!(check(&part, &head(206, None, Some((10, 19)))).is_ok());
        for (asked, answer, said) in [
            (resource(None), head(204, None, None), "status 204"),
            (resource(None), head(206, None, Some((0, 9))), "status 206"),
            (resource(None), head(503, None, None), "status 503"),
            (part.clone(), head(200, Some(100), None), "take ranges"),
            (part.clone(), head(206, Some(10), None), "other bytes than 10 to 19"),
            (part.clone(), head(206, Some(9), Some((10, 18))), "other bytes"),
            (part.clone(), head(206, Some(11), Some((10, 19))), "10 bytes"),
            (part.clone(), head(416, None, None), "status 416"),
            (resource(Some(0..=u64::MAX)), head(206, Some(1), Some((0, u64::MAX))), "bytes that were asked"),
        ] {
            let error = check(&asked, &answer).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn only_answers_that_lead_on_are_followed() {
        let to = |status| AnswerHead { location: Some("/x".to_owned()), ..head(status, None, None) };
        for status in [301, 302, 303, 307, 308] {
            assert_eq!(moved(&to(status)), Some("/x"));
            assert_eq!(moved(&head(status, None, None)), None);
        }
        for status in [200, 201, 300, 304, 404] {
            assert_eq!(moved(&to(status)), None);
        }
    }
}
