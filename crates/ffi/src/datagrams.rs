//! Unreliable datagrams (RFC 9221).

use std::ffi::{c_char, c_void};
use std::task::Poll;
use std::time::{Duration, Instant};

use quickset::bytes::Bytes;
use quickset::{DatagramOptions, Deadline, WhenFull};

use crate::border::{Buffer, OutPlace, bytes, text};
use crate::config::read_protection;
use crate::connection::{ConnectionObject, QsConnection};
use crate::patience::Patience;
use crate::status::{CallFailure, QS_TOO_LONG, QsStatus, call};
use crate::table::get;
use crate::wait::attempt;

/// When the queue is full, the oldest datagrams in it make room: new is better than old.
pub const QS_DROP_OLDEST: u32 = 1;

/// Sends a datagram: whole, in one packet, once or not at all. With a `deadline_ms` that is not negative it
/// is not sent later than so many milliseconds from this call on. `flags` is 0 or `QS_DROP_OLDEST`; without
/// it, `QS_EVENT_DATAGRAM_ROOM` tells when there is room and the call should be tried again.
///
/// # Safety
/// `data` leads to `length` bytes, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_connection_send_datagram(
    connection: QsConnection,
    data: *const c_void,
    length: usize,
    deadline_ms: i64,
    flags: u32,
    timeout_ms: i32,
) -> QsStatus {
    call(|| {
        // SAFETY: the caller vouches for it.
        let data = unsafe { bytes(data, length) }?;
        let when_full = match flags {
            0 => WhenFull::Refuse,
            QS_DROP_OLDEST => WhenFull::DropOldest,
            _ => return Err(CallFailure::invalid("flags are 0 or QS_DROP_OLDEST")),
        };
        let within = u64::try_from(deadline_ms).ok().map(Duration::from_millis);
        let deadline =
            within.filter(|within| *within < LONGEST).map(|within| Deadline::at(Instant::now() + within));
        let how = DatagramOptions { deadline, when_full };
        let object = get::<ConnectionObject>(connection)?;
        let connection = object.connection()?;
        // Before it is copied: nobody takes one of more than a packet.
        if connection.max_datagram_len().is_some_and(|most| data.len() > most) && data.len() > PACKET {
            return Err(CallFailure::new(QS_TOO_LONG, "the datagram is longer than any packet"));
        }
        let data = Bytes::copy_from_slice(data);
        let waits = &object.datagrams;
        attempt(&waits.room, Patience::of_ms(timeout_ms), |cx| waits.poll_send(cx, &connection, &data, &how))
    })
}

/// No packet is longer.
const PACKET: usize = 65_535;

/// A year: beyond it a datagram may wait for ever.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Receives the next datagram and stores its length. Returns `QS_TOO_SMALL` if the buffer has no room for it:
/// the length is stored then, too, and the datagram comes again with the next call. `QS_EVENT_DATAGRAM` tells
/// when to try again. Datagrams that nobody receives are dropped for later ones.
///
/// # Safety
/// `buffer` leads to `capacity` bytes and `length` to memory for a number, or they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_connection_receive_datagram(
    connection: QsConnection,
    buffer: *mut c_void,
    capacity: usize,
    length: *mut usize,
    timeout_ms: i32,
) -> QsStatus {
    call(|| {
        let buffer = Buffer::new(buffer.cast(), capacity, length)?;
        let object = get::<ConnectionObject>(connection)?;
        let connection = object.connection()?;
        let waits = &object.datagrams;
        let datagram = attempt(&waits.arrives, Patience::of_ms(timeout_ms), |cx| {
            if let Some(kept) = waits.keep(None) {
                return Poll::Ready(Ok(kept));
            }
            let next = || {
                let connection = connection.clone();
                Box::pin(async move { connection.read_datagram().await }) as _
            };
            waits.next.poll(cx, next).map_err(CallFailure::from)
        })?;
        // SAFETY: the caller vouches for it.
        let filled = unsafe { buffer.fill(&datagram) };
        if filled.is_err() {
            waits.keep(Some(datagram));
        }
        filled
    })
}

/// Stores the length of the longest datagram that can be sent now, 0 if the peer takes none.
///
/// # Safety
/// `length` leads to memory for a number, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_connection_max_datagram(
    connection: QsConnection,
    length: *mut usize,
) -> QsStatus {
    call(|| {
        let place = OutPlace::needed(length, "the place for the length")?;
        let most = get::<ConnectionObject>(connection)?.connection()?.max_datagram_len();
        // SAFETY: the caller vouches for it.
        unsafe { place.put(most.unwrap_or(0)) };
        Ok(())
    })
}

/// Sets how datagrams are repaired from now on, by a text as for `qs_config_set_protection`. No datagram is
/// ever sent again.
///
/// # Safety
/// `protection` is a text, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_connection_set_datagram_protection(
    connection: QsConnection,
    protection: *const c_char,
) -> QsStatus {
    call(|| {
        // SAFETY: the caller vouches for it.
        let protection = read_protection(unsafe { text(protection, "the protection") }?)?;
        get::<ConnectionObject>(connection)?.connection()?.set_datagram_reliability(protection);
        Ok(())
    })
}

/// Says that the datagrams sent so far belong together, so that repair may go out right behind them.
#[unsafe(no_mangle)]
pub extern "C" fn qs_connection_flush_datagrams(connection: QsConnection) -> QsStatus {
    call(|| {
        get::<ConnectionObject>(connection)?.connection()?.flush_datagrams();
        Ok(())
    })
}
