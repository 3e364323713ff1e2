use std::fmt;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use aws_lc_rs::constant_time;

use super::invitations::{Hash, NotInvited, hash};
use super::{Denial, DeviceRights, Invitations, Now, OneTimeToken, Tries};
use crate::message::{DeviceTag, ShownToken};

/// The links that open the desktop in a browser: each has a token, which is good as often as it is shown
/// until it ends or is taken back (`spec/web.md` WB-15). That of an invitation is good on the device alone
/// that has shown it first (WB-20).
#[derive(Default)]
pub struct PageLinks {
    table: Mutex<LinkTable>,
    invitations: Option<Invitations>,
}

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
    hash: Hash,
    view_only: bool,
    until: Option<Instant>,
}

/// What a page may do that has shown the token of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageEntry {
    /// Which link it was.
    pub link: PageLinkId,
    /// What it may do.
    pub rights: DeviceRights,
}

/// Names a link among all of a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PageLinkId {
    /// One that was made while the server runs.
    Made(u64),
    /// That of the invitation of this name.
    Invitation(String),
}

impl PageLinks {
    /// No links, so that nobody comes in by one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Those of invitations besides the ones that are [made](Self::add).
    #[must_use]
    pub fn with_invitations(mut self, invitations: Invitations) -> Self {
        self.invitations = Some(invitations);
        self
    }

    /// Those of invitations.
    pub fn invitations(&self) -> Option<&Invitations> {
        self.invitations.as_ref()
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

    /// Judges a page that comes from `address` and shows a token, in a browser that calls itself `device`.
    ///
    /// # Errors
    /// [`Denial::WrongSecret`], or [`Denial::Wait`] after too many of those; [`Denial::OtherDevice`] and
    /// [`Denial::Older`] for the link of an invitation.
    pub fn judge(
        &self,
        now: Now,
        address: IpAddr,
        token: &ShownToken,
        device: &DeviceTag,
    ) -> Result<PageEntry, Denial> {
        let mut table = self.lock();
        table.tries.begin(now.instant, address).map_err(Denial::Wait)?;
        table.links.retain(|link| link.until.is_none_or(|until| now.instant < until));
        // As people type it.
        let token: OneTimeToken = token.reveal().parse().map_err(|_| Denial::WrongSecret)?;
        let shown = hash(token.reveal());
        let same = |link: &&PageLink| constant_time::verify_slices_are_equal(&link.hash, &shown).is_ok();
        if let Some(link) = table.links.iter().find(same) {
            let rights = DeviceRights { view_only: link.view_only, ..DeviceRights::default() };
            let entry = PageEntry { link: PageLinkId::Made(link.id), rights };
            table.tries.right(address);
            return Ok(entry);
        }
        drop(table);
        let invitations = self.invitations.as_ref().ok_or(Denial::WrongSecret)?;
        let judged = invitations.of_page(now.date, &token, &device.0)?;
        if !matches!(judged, Err(NotInvited::Unknown)) {
            self.lock().tries.right(address);
        }
        match judged {
            Ok(invitation) => {
                Ok(PageEntry { link: PageLinkId::Invitation(invitation.id), rights: invitation.rights })
            }
            Err(NotInvited::Unknown) => Err(Denial::WrongSecret),
            Err(NotInvited::Taken) => Err(Denial::OtherDevice),
            Err(NotInvited::Nameless) => Err(Denial::Older),
        }
    }

    /// Whether a page that has come in so may still do what it does.
    pub fn holds(&self, now: SystemTime, entry: &PageEntry) -> bool {
        match (&entry.link, &self.invitations) {
            (PageLinkId::Made(_), _) => true,
            // While the file cannot be read nobody new comes in, and nobody is sent away.
            (PageLinkId::Invitation(id), Some(invitations)) => {
                invitations.holds(now, id, &entry.rights).unwrap_or(true)
            }
            (PageLinkId::Invitation(_), None) => false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, LinkTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for PageLinks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageLinks").field("links", &self.lock().links.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn judge(links: &PageLinks, at: Instant, from: IpAddr, token: &ShownToken) -> Result<PageEntry, Denial> {
        let now = Now { instant: at, date: SystemTime::UNIX_EPOCH };
        links.judge(now, from, token, &DeviceTag::default())
    }

    fn shown(token: &OneTimeToken) -> ShownToken {
        ShownToken::new(token.reveal())
    }

    #[test]
    fn a_link_is_good_until_it_ends_or_is_taken_back() {
        // WB-15.
        let (links, now) = (PageLinks::new(), Instant::now());
        let (first, token) = links.add(now, false, Some(Duration::from_secs(600)));
        let (second, looks) = links.add(now, true, None);
        let entry = |link, view_only| {
            let rights = DeviceRights { view_only, ..DeviceRights::default() };
            Ok(PageEntry { link: PageLinkId::Made(link), rights })
        };
        let judge =
            |at, token: &ShownToken| judge(&links, at, HERE, token).map_err(|denial| denial.to_string());
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
            assert!(matches!(judge(&links, now, HERE, guess), Err(Denial::WrongSecret)));
        }
        assert!(
            matches!(judge(&links, now, HERE, &shown(&token)), Err(Denial::Wait(_))),
            "the right one, too"
        );
        let elsewhere = "10.0.0.1".parse().unwrap();
        assert!(judge(&links, now, elsewhere, &shown(&token)).is_ok());
        assert_eq!(format!("{links:?}"), "PageLinks { links: 1, .. }");
    }
}
