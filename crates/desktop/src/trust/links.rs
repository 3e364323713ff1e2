use std::fmt;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::{constant_time, digest};

use super::{Denial, OneTimeToken, Tries};
use crate::message::ShownToken;

/// The links that open the desktop in a browser: each has a token, which is good as often as it is shown
/// until it ends or is taken back (`spec/web.md` WB-15).
#[derive(Default)]
pub struct PageLinks(Mutex<LinkTable>);

#[derive(Default)]
struct LinkTable {
    links: Vec<PageLink>,
    /// Of the next link.
    next: u64,
    tries: Tries,
}

struct PageLink {
    id: u64,
    /// Of the token only its hash is kept.
    hash: [u8; 32],
    view_only: bool,
    until: Option<Instant>,
}

/// What a page may do that has shown the token of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageEntry {
    /// Names the link among all of this server.
    pub link: u64,
    /// It may look, and nothing else.
    pub view_only: bool,
}

impl PageLinks {
    /// No links, so that nobody comes in by one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a link and returns its token; from `now` on it is good for so long, or until it is removed.
    pub fn add(&self, now: Instant, view_only: bool, valid_for: Option<Duration>) -> (u64, OneTimeToken) {
        let token = OneTimeToken::random();
        let mut table = self.lock();
        let id = table.next;
        table.next += 1;
        let until = valid_for.map(|time| now + time);
        table.links.push(PageLink { id, hash: hash(token.reveal()), view_only, until });
        (id, token)
    }

    /// Takes a link back. False when there is none. Pages that came in by it stay.
    pub fn remove(&self, link: u64) -> bool {
        let mut table = self.lock();
        let before = table.links.len();
        table.links.retain(|other| other.id != link);
        table.links.len() < before
    }

    /// Judges a page that comes from `address` and shows a token.
    ///
    /// # Errors
    /// [`Denial::WrongSecret`], or [`Denial::Wait`] after too many of those.
    pub fn judge(&self, now: Instant, address: IpAddr, token: &ShownToken) -> Result<PageEntry, Denial> {
        let mut table = self.lock();
        table.tries.begin(now, address).map_err(Denial::Wait)?;
        table.links.retain(|link| link.until.is_none_or(|until| now < until));
        // As people type it.
        let token: OneTimeToken = token.reveal().parse().map_err(|_| Denial::WrongSecret)?;
        let shown = hash(token.reveal());
        let same = |link: &&PageLink| constant_time::verify_slices_are_equal(&link.hash, &shown).is_ok();
        let link = table.links.iter().find(same).ok_or(Denial::WrongSecret)?;
        let entry = PageEntry { link: link.id, view_only: link.view_only };
        table.tries.right(address);
        Ok(entry)
    }

    fn lock(&self) -> MutexGuard<'_, LinkTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for PageLinks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageLinks").field("links", &self.lock().links.len()).finish_non_exhaustive()
    }
}

fn hash(token: &str) -> [u8; 32] {
    digest::digest(&digest::SHA256, token.as_bytes()).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn shown(token: &OneTimeToken) -> ShownToken {
        ShownToken::new(token.reveal())
    }

    #[test]
    fn a_link_is_good_until_it_ends_or_is_taken_back() {
        // WB-15.
        let (links, now) = (PageLinks::new(), Instant::now());
        let (first, token) = links.add(now, false, Some(Duration::from_secs(600)));
        let (second, looks) = links.add(now, true, None);
        let entry = |link, view_only| Ok(PageEntry { link, view_only });
        let judge =
            |at, token: &ShownToken| links.judge(at, HERE, token).map_err(|denial| denial.to_string());
        for _ in 0..10 {
            assert_eq!(judge(now, &shown(&token)), entry(first, false));
        }
        assert_eq!(judge(now, &ShownToken::new(looks.reveal().to_uppercase())), entry(second, true));
        let later = now + Duration::from_secs(600);
        assert!(judge(later, &shown(&token)).is_err(), "it has ended");
        assert!(links.remove(second) && !links.remove(second));
        assert!(judge(later, &shown(&looks)).is_err(), "it was taken back");
    }

    #[test]
    fn guesses_are_counted() {
        // WB-15, DT-50.
        let (links, now) = (PageLinks::new(), Instant::now());
        let (_, token) = links.add(now, false, None);
        let wrong = [ShownToken::new(""), ShownToken::new("x".repeat(200)), shown(&OneTimeToken::random())];
        for guess in &wrong {
            assert!(matches!(links.judge(now, HERE, guess), Err(Denial::WrongSecret)));
        }
        assert!(matches!(links.judge(now, HERE, &shown(&token)), Err(Denial::Wait(_))), "the right one, too");
        let elsewhere = "10.0.0.1".parse().unwrap();
        assert!(links.judge(now, elsewhere, &shown(&token)).is_ok());
        assert_eq!(format!("{links:?}"), "PageLinks { links: 1, .. }");
    }
}
