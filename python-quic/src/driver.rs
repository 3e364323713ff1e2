//! The thread that drives all endpoints of the process, without Python.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use std::{mem, thread};

use pyo3::prelude::*;
use quickset::Endpoint;
use tokio::runtime::{Builder, Handle};

/// Which process this is: forks from the first one that loaded the module.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Locked by threads that hold the interpreter's lock, and for a moment only: so no fork finds it locked.
static DRIVER: Mutex<Driver> = Mutex::new(Driver { generation: 0, handle: None, endpoints: Vec::new() });

struct Driver {
    generation: u32,
    handle: Option<Handle>,
    /// Those that may have to say goodbye.
    endpoints: Vec<Weak<Endpoint>>,
}

/// Returns how many forks this process is away from the first one.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Returns the runtime of the driver, which is started when it is needed first.
///
/// # Errors
/// When the system has no thread for it.
pub(crate) fn handle() -> PyResult<Handle> {
    with(|driver| {
        if let Some(handle) = &driver.handle {
            return Ok(handle.clone());
        }
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        thread::Builder::new()
            .name("quickset".to_owned())
            .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
        driver.handle = Some(handle.clone());
        Ok(handle)
    })
}

/// Keeps in mind that an endpoint closes when the interpreter ends.
pub(crate) fn remember(endpoint: &Arc<Endpoint>) {
    with(|driver| {
        if driver.endpoints.len() == driver.endpoints.capacity() {
            driver.endpoints.retain(|endpoint| endpoint.strong_count() > 0);
        }
        driver.endpoints.push(Arc::downgrade(endpoint));
    });
}

/// Keeps a client's endpoint until its connection has had its end, although Python forgets both sooner: a
/// program that closes its connection and returns is what ends most interpreters, and these are to wait for
/// the peer to hear of it.
pub(crate) fn keep(handle: &Handle, endpoint: &Arc<Endpoint>) {
    let endpoint = endpoint.clone();
    handle.spawn(async move { endpoint.wait_idle().await });
}

/// Says in a forked child that what its parent made is not its own.
#[pyfunction]
pub(crate) fn forked() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Closes all endpoints of this process, and gives the driver a moment to tell the peers.
#[pyfunction]
pub(crate) fn farewell(py: Python<'_>) {
    let (handle, endpoints) = with(|driver| (driver.handle.clone(), mem::take(&mut driver.endpoints)));
    let endpoints: Vec<_> = endpoints.iter().filter_map(Weak::upgrade).collect();
    let Some(handle) = handle.filter(|_| !endpoints.is_empty()) else { return };
    py.detach(|| {
        for endpoint in &endpoints {
            endpoint.close(0, b"");
        }
        let (tell, told) = std::sync::mpsc::channel();
        handle.spawn(async move {
            for endpoint in endpoints {
                endpoint.wait_idle().await;
            }
            // Nobody may listen any more.
            let _ = tell.send(());
        });
        let _ = told.recv_timeout(FAREWELL);
    });
}

fn with<T>(f: impl FnOnce(&mut Driver) -> T) -> T {
    let mut driver = DRIVER.lock().unwrap_or_else(PoisonError::into_inner);
    if driver.generation != generation() {
        let fresh = Driver { generation: generation(), handle: None, endpoints: Vec::new() };
        // What the parent had stays as it is: its locks may be held here for ever.
        mem::forget(mem::replace(&mut *driver, fresh));
    }
    f(&mut driver)
}

/// How long the end of the interpreter waits for the goodbyes at most: a closed connection is gone after
/// three probe timeouts, in which it says three times that it is over. That is a second where a round trip
/// takes a quarter of one.
const FAREWELL: Duration = Duration::from_secs(1);
