//! The handles: numbers with a generation, so that a stale one is an error and never somebody else's.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::status::{CallFailure, QS_SYSTEM, QsStatus, bad_handle, call, claim_process};

/// What a handle stands for.
pub(crate) trait HandledObject: Any + Send + Sync {
    /// What it is called when a handle is none of it.
    fn name() -> &'static str
    where
        Self: Sized;

    /// The handle is freed: whoever waits for the object is told, and what it holds goes.
    fn end(&self) {}

    /// The number that C attached; `None` for what has no events.
    fn user(&self) -> Option<&AtomicU64> {
        None
    }

    /// Whether it takes along what was made from it.
    fn owns(&self) -> bool {
        false
    }

    /// The object as one of any type, to find out which.
    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// A handle that is not used yet, of an object that is being made. Dropped, it is free again.
pub(crate) struct ReservedHandle {
    handle: u64,
    placed: bool,
}

struct HandleTable {
    slots: Vec<HandleSlot>,
    free: Vec<u32>,
}

struct HandleSlot {
    generation: u32,
    /// The endpoint that takes it along when it is freed; 0 for none.
    owner: u64,
    /// `None` while it is reserved or free.
    object: Option<Arc<dyn HandledObject>>,
}

static TABLE: RwLock<HandleTable> = RwLock::new(HandleTable { slots: Vec::new(), free: Vec::new() });

/// Returns the object behind a handle.
pub(crate) fn get<T: HandledObject>(handle: u64) -> Result<Arc<T>, CallFailure> {
    let found = whichever(handle).and_then(|object| object.any().downcast().ok());
    found.ok_or_else(|| bad_handle(T::name()))
}

/// Returns whatever is behind a handle.
fn whichever(handle: u64) -> Option<Arc<dyn HandledObject>> {
    let table = read();
    table.slots.get(index(handle)?).filter(|slot| slot.generation == generation(handle))?.object.clone()
}

/// Takes an object out, and with an endpoint all that was made from it. The caller drops them without a lock.
fn take(handle: u64) -> Option<Vec<Arc<dyn HandledObject>>> {
    let mut table = write();
    let slot = table.slots.get(index(handle)?).filter(|slot| slot.generation == generation(handle))?;
    let owns = slot.object.as_ref()?.owns();
    // What was made from it goes first: it lives on the endpoint's thread. What is only reserved finds out
    // when it is placed.
    let is_owned = |i: &usize| table.slots[*i].owner == handle && table.slots[*i].object.is_some();
    let all = if owns { 0..table.slots.len() } else { 0..0 };
    let mut indices: Vec<usize> = all.filter(is_owned).collect();
    indices.push(index(handle)?);
    Some(indices.into_iter().filter_map(|i| table.free(i)).collect())
}

impl ReservedHandle {
    /// Reserves a handle. With an `owner`, an endpoint, it is freed with that.
    pub(crate) fn new(owner: u64) -> Result<Self, CallFailure> {
        claim_process();
        let mut table = write();
        let i = if let Some(i) = table.free.pop() {
            i
        } else {
            let full = |_| CallFailure::new(QS_SYSTEM, "there are 2^32 handles; free some");
            // The number of the slot is that of the handle less 1, which has to be a number, too.
            let i = u32::try_from(table.slots.len() + 1).map_err(full)? - 1;
            table.slots.push(HandleSlot { generation: 1, owner: 0, object: None });
            i
        };
        let slot = &mut table.slots[i as usize];
        slot.owner = owner;
        Ok(Self { handle: (u64::from(slot.generation) << 32) | (u64::from(i) + 1), placed: false })
    }

    pub(crate) fn handle(&self) -> u64 {
        self.handle
    }

    /// Has the handle stand for `object` from now on.
    ///
    /// # Errors
    /// When the owner was freed meanwhile.
    pub(crate) fn place(mut self, object: Arc<dyn HandledObject>) -> Result<u64, CallFailure> {
        let mut table = write();
        let i = index(self.handle).ok_or_else(|| bad_handle("anything"))?;
        let owner = table.slots[i].owner;
        let owner_is_there = owner == 0
            || index(owner)
                .and_then(|i| table.slots.get(i))
                .is_some_and(|slot| slot.generation == generation(owner) && slot.object.is_some());
        if !owner_is_there {
            drop(table);
            return Err(bad_handle("an endpoint"));
        }
        table.slots[i].object = Some(object);
        self.placed = true;
        Ok(self.handle)
    }
}

impl Drop for ReservedHandle {
    fn drop(&mut self) {
        if !self.placed {
            if let Some(i) = index(self.handle) {
                let none = write().free(i);
                debug_assert!(none.is_none(), "what is reserved holds nothing");
            }
        }
    }
}

impl HandleTable {
    /// Empties a slot, whose handle is of no more use.
    fn free(&mut self, i: usize) -> Option<Arc<dyn HandledObject>> {
        let slot = &mut self.slots[i];
        let object = slot.object.take();
        slot.owner = 0;
        // A slot whose generations are used up stays empty: a number never comes again.
        if let Some(next) = slot.generation.checked_add(1) {
            slot.generation = next;
            self.free.extend(u32::try_from(i));
        }
        object
    }
}

/// Attaches a number to an endpoint, a connection, a stream or a stream of messages: events about it have it
/// in their field `user`. An application may put a pointer into it.
#[unsafe(no_mangle)]
pub extern "C" fn qs_set_user(handle: u64, user: u64) -> QsStatus {
    call(|| {
        let object = whichever(handle);
        let place = object.as_ref().and_then(|object| object.user());
        place.ok_or_else(|| bad_handle("anything that has events"))?.store(user, Ordering::Relaxed);
        Ok(())
    })
}

/// Frees whatever `handle` stands for; 0 is allowed and does nothing. The handle is of no use from then on,
/// and a call with it returns `QS_BAD_HANDLE`.
///
/// * A stream is finished unless it was reset, and the peer is asked to send no more on it.
/// * A connection closes, with code 0, when its streams are freed, too. Close it to end them as well.
/// * An endpoint closes, and everything that was made from it is freed. That takes three probe timeouts of
///   the path, or a second if that is less, so that the peers hear of it even if a packet is lost; call
///   `qs_endpoint_wait_idle` before to wait longer, or not here.
#[unsafe(no_mangle)]
pub extern "C" fn qs_free(handle: u64) -> QsStatus {
    call(|| {
        if handle == 0 {
            return Ok(());
        }
        for object in take(handle).ok_or_else(|| bad_handle("anything"))? {
            object.end();
        }
        Ok(())
    })
}

fn index(handle: u64) -> Option<usize> {
    usize::try_from((handle & u64::from(u32::MAX)).checked_sub(1)?).ok()
}

fn generation(handle: u64) -> u32 {
    u32::try_from(handle >> 32).unwrap_or(0)
}

fn read() -> RwLockReadGuard<'static, HandleTable> {
    TABLE.read().unwrap_or_else(PoisonError::into_inner)
}

fn write() -> RwLockWriteGuard<'static, HandleTable> {
    TABLE.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::QS_BAD_HANDLE;

    #[derive(Debug, Default)]
    struct SomeObject;

    #[derive(Debug)]
    struct OtherObject;

    impl HandledObject for SomeObject {
        fn name() -> &'static str {
            "something"
        }

        fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
            self
        }
    }

    impl HandledObject for OtherObject {
        fn name() -> &'static str {
            "something else"
        }

        fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
            self
        }
    }

    fn made() -> u64 {
        ReservedHandle::new(0).unwrap().place(Arc::new(SomeObject)).unwrap()
    }

    #[test]
    fn a_handle_is_good_until_it_is_freed_and_never_again() {
        let handle = made();
        assert!(get::<SomeObject>(handle).is_ok());
        assert_eq!(get::<OtherObject>(handle).err().map(|e| e.status), Some(QS_BAD_HANDLE), "another kind");
        assert_eq!(take(handle).map(|gone| gone.len()), Some(1));
        assert!(take(handle).is_none() && get::<SomeObject>(handle).is_err());
        // Whoever gets the slot has another number.
        let others: Vec<u64> = (0..10).map(|_| made()).collect();
        assert!(!others.contains(&handle) && get::<SomeObject>(handle).is_err());
        assert!(others.into_iter().all(|other| take(other).is_some()));
    }

    #[test]
    fn numbers_that_were_never_given_are_none() {
        for handle in [0, 1, u64::MAX, u64::from(u32::MAX), 1 << 32, u64::MAX << 32] {
            assert!(whichever(handle).is_none() && take(handle).is_none(), "{handle:#x}");
        }
    }

    #[test]
    fn what_is_reserved_is_not_there_yet() {
        let reserved = ReservedHandle::new(0).unwrap();
        let handle = reserved.handle();
        assert!(whichever(handle).is_none() && take(handle).is_none());
        drop(reserved);
        assert!(whichever(handle).is_none());
    }

    #[test]
    fn what_an_endpoint_that_is_gone_owns_is_not_placed() {
        let gone = made();
        let reserved = ReservedHandle::new(gone).unwrap();
        drop(take(gone));
        assert!(reserved.place(Arc::new(SomeObject)).is_err());
    }
}
