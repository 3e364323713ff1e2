//! What a server remembers of a connection is good for connections of the same QUIC version only
//! (RFC 9369 §5).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quickset_quic::{EarlyLimits, Version};
use rustls::ServerConfig;
use rustls::server::{ProducesTickets, StoresServerSessions};

/// One configuration for each version that there are keys for.
#[derive(Clone, Debug)]
pub(crate) struct EachVersion<T>(pub(crate) [Arc<T>; 2]);

impl<T: Clone> EachVersion<T> {
    /// That of `version`, of version 1 for those that are not known.
    pub(crate) fn of(&self, version: Version) -> &Arc<T> {
        &self.0[usize::from(version == Version::V2)]
    }

    /// Changes both.
    pub(crate) fn change(&mut self, change: impl Fn(Version, &mut T)) {
        for (tls, version) in self.0.iter_mut().zip([Version::V1, Version::V2]) {
            change(version, Arc::make_mut(tls));
        }
    }
}

/// `tls` for each version, with the same store and the same keys, and none taking what the other gave. Where
/// early data is taken, nor what was given under limits that are not `announced`.
pub(crate) fn servers(tls: Arc<ServerConfig>, announced: &Announced) -> EachVersion<ServerConfig> {
    let mut each = EachVersion([tls.clone(), tls]);
    each.change(|version, tls| {
        let mark = if version == Version::V2 { 2 } else { 1 };
        let announced = (tls.max_early_data_size != 0).then(|| announced.clone());
        tls.session_storage =
            Arc::new(VersionedSessions { store: tls.session_storage.clone(), mark, announced });
        tls.ticketer = Arc::new(MarkedTickets(tls.ticketer.clone(), mark));
    });
    each
}

/// Of each limit that a server announced so far, the greatest: a ticket may be of a connection with any of
/// them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Announced(Arc<Mutex<EarlyLimits>>);

impl Announced {
    fn lock(&self) -> MutexGuard<'_, EarlyLimits> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These are announced now. True when they cover those of before.
    pub(crate) fn add(&self, limits: &EarlyLimits) -> bool {
        let mut announced = self.lock();
        let covered = limits.cover(&announced);
        *announced = announced.or(limits);
        covered
    }
}

/// A store whose keys end in the mark of a version. With early data, what is kept ends in the limits that it
/// may be written under (RFC 9000 §7.4.1): others that keep their sessions there may have announced more.
#[derive(Debug)]
struct VersionedSessions {
    store: Arc<dyn StoresServerSessions>,
    mark: u8,
    announced: Option<Announced>,
}

impl VersionedSessions {
    fn key(&self, key: &[u8]) -> Vec<u8> {
        [key, &[self.mark]].concat()
    }

    /// The session of what was kept. One that was given under other limits is not resumed, since TLS cannot
    /// be told at this point to refuse the early data alone.
    fn session(&self, mut kept: Vec<u8>) -> Option<Vec<u8>> {
        if let Some(announced) = &self.announced {
            let (session, limits) = kept.split_last_chunk()?;
            if !announced.lock().cover(&EarlyLimits::from_bytes(limits)) {
                return None;
            }
            kept.truncate(session.len());
        }
        Some(kept)
    }
}

impl StoresServerSessions for VersionedSessions {
    fn put(&self, key: Vec<u8>, mut value: Vec<u8>) -> bool {
        if let Some(announced) = &self.announced {
            value.extend(announced.lock().to_bytes());
        }
        self.store.put(self.key(&key), value)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.session(self.store.get(&self.key(key))?)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.session(self.store.take(&self.key(key))?)
    }

    fn can_cache(&self) -> bool {
        self.store.can_cache()
    }
}

/// Tickets whose contents end in the mark of a version.
#[derive(Debug)]
struct MarkedTickets(Arc<dyn ProducesTickets>, u8);

impl ProducesTickets for MarkedTickets {
    fn enabled(&self) -> bool {
        self.0.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.0.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.0.encrypt(&[plain, &[self.1]].concat())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let mut plain = self.0.decrypt(cipher)?;
        (plain.pop()? == self.1).then_some(plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Plain;

    impl ProducesTickets for Plain {
        fn enabled(&self) -> bool {
            true
        }
        fn lifetime(&self) -> u32 {
            60
        }
        fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
            Some(plain.to_vec())
        }
        fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
            Some(cipher.to_vec())
        }
    }

    #[test]
    fn neither_version_takes_what_the_other_gave() {
        let (one, two) = (MarkedTickets(Arc::new(Plain), 1), MarkedTickets(Arc::new(Plain), 2));
        let ticket = one.encrypt(b"session").unwrap();
        assert_eq!(one.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        assert_eq!(two.decrypt(&ticket), None);
        assert_eq!(two.decrypt(&[]), None);
        let store = rustls::server::ServerSessionMemoryCache::new(10);
        let [one, two] = [1, 2].map(|mark| VersionedSessions { store: store.clone(), mark, announced: None });
        assert!(two.put(vec![7], vec![8]));
        assert_eq!((one.take(&[7]), one.get(&[7])), (None, None));
        assert_eq!((two.get(&[7]), two.take(&[7]), two.take(&[7])), (Some(vec![8]), Some(vec![8]), None));
    }
}
