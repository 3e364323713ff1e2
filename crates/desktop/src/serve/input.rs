use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::stage::ClientSeat;
use super::visits::VisitTurn;
use super::vnc::VncCommand;
use crate::error::LinkError;
use crate::link::{IncomingMessages, PeerLink};
use crate::message::{ClipboardMessage, FromServer, InputCopy, Permissions, PersonInput};

/// What the client does, in order, as far as it may. A page says it a second time in datagrams, `copies`.
pub(super) async fn take_input(
    link: &PeerLink,
    seat: &ClientSeat,
    permissions: Permissions,
    turn: &mut VisitTurn,
    mut copies: mpsc::Receiver<InputCopy>,
) -> LinkError {
    let mut incoming: IncomingMessages<PersonInput> = match link.accept_input().await {
        Ok(input) => input,
        Err(error) => return error,
    };
    // The number of the next message that is counted and comes by the stream.
    let mut next = turn.taken();
    loop {
        let came = tokio::select! {
            input = incoming.next() => match input {
                Ok(input) => InputArrival::Streamed(input),
                Err(error) => return error,
            },
            Some(copy) = copies.recv() => InputArrival::Copied(copy),
        };
        let (first, inputs) = match came {
            InputArrival::Streamed(input) => {
                // DT-62: what is not read is counted, too, and what is held is not.
                next += incoming.take_unread();
                turn.count_to(next);
                if let PersonInput::Held { .. } = input {
                    let Some(room) = turn.room().await else { return LinkError::Ended };
                    if let Some(command) = command(input, seat, permissions, turn) {
                        room.send(command);
                    }
                    continue;
                }
                next += 1;
                (next - 1, vec![input])
            }
            InputArrival::Copied(InputCopy { first, inputs }) => (first, inputs),
        };
        // WB-27: each once, in order, by whichever way it comes first.
        for (number, input) in (first..).zip(inputs) {
            if number != turn.taken() {
                continue;
            }
            // Before anything is noted: behind this nothing is waited for, so that a session that ends has
            // passed on and counted a message, or neither.
            let Some(room) = turn.room().await else { return LinkError::Ended };
            if let Some(command) = command(input, seat, permissions, turn) {
                room.send(command);
            }
            turn.count_to(number + 1);
        }
    }
}

/// How input has come.
enum InputArrival {
    Streamed(PersonInput),
    Copied(InputCopy),
}

/// What the VNC server is told of what a client does; `None` where that is nothing.
fn command(
    input: PersonInput,
    seat: &ClientSeat,
    permissions: Permissions,
    turn: &mut VisitTurn,
) -> Option<VncCommand> {
    // DT-8: whatever the client claims.
    match input {
        PersonInput::Key { .. } | PersonInput::Held { .. } | PersonInput::Pointer { .. }
            if !permissions.input =>
        {
            None
        }
        PersonInput::Clipboard(_) if !permissions.clipboard => None,
        PersonInput::Key { down, keysym, keycode } if !turn.held().key(down, keysym, keycode) => None,
        PersonInput::Pointer { buttons, x, y } => {
            turn.held().pointer(buttons, x, y);
            // DT-48: whoever points there looks there.
            seat.sender().point(x, y);
            Some(VncCommand::Input(input))
        }
        PersonInput::Key { .. } => Some(VncCommand::Input(input)),
        // DT-66: what went over from the former session is down yet.
        PersonInput::Held { keysym, keycode } => {
            let goes_down = !turn.held().holds(keysym, keycode) && turn.held().key(true, keysym, keycode);
            goes_down.then_some(VncCommand::Input(PersonInput::Key { down: true, keysym, keycode }))
        }
        PersonInput::Clipboard(ClipboardMessage::Offer) => {
            seat.copied();
            Some(VncCommand::Offer)
        }
        PersonInput::Clipboard(ClipboardMessage::Ask) => {
            seat.wants_text();
            Some(VncCommand::Ask)
        }
        PersonInput::Clipboard(ClipboardMessage::Paste(text)) => {
            seat.copied();
            Some(VncCommand::Paste(text))
        }
    }
}

/// DT-64: how much of what the client does was passed on.
pub(super) async fn tell_counts(
    told: Option<watch::Receiver<u64>>,
    to: mpsc::Sender<FromServer>,
) -> LinkError {
    let Some(mut told) = told else { return std::future::pending().await };
    while told.changed().await.is_ok() {
        let count = *told.borrow_and_update();
        if to.send(FromServer::Taken(count)).await.is_err() {
            break;
        }
        sleep(TELL_EVERY).await;
    }
    LinkError::Ended
}

/// From one count to the next, in a session in which much is done: what a client keeps until then is little,
/// and each costs a small packet.
const TELL_EVERY: Duration = Duration::from_millis(500);
