//! The seams of forward erasure correction: what joins a symbol, how repair is written, what comes out of a
//! symbol. Which packet is for repair is in `slots`.

use bytes::Bytes;
use quickset_base::number::within_u32;
use quickset_wire::frame::{Frame, FrameError, LoneSymbol, SymbolAck, SymbolFrames, kind};
use quickset_wire::{Space, TransportErrorCode as Code};

use super::Connection;
use crate::error::TransportError;
use crate::protect::receive::{Dispatch, ProtectReceiving};
use crate::protect::send::RecoveredTokens;
use crate::protect::{MAX_WINDOW, Protect};
use crate::streams::Stretch;

/// What the application says.
impl Connection {
    /// From now on so many symbols of each session of the peer are kept for decoding (FEC_WINDOW). Fewer take
    /// less memory, but losses farther back cannot be repaired; 0 asks for no more repair. More than 2^20 is
    /// taken for that.
    pub fn set_fec_window(&mut self, window: u64) {
        if let Some(receive) = &mut self.protect.receive {
            receive.set_window(window.min(MAX_WINDOW));
        }
    }

    /// Whether forward erasure correction was agreed on.
    pub fn has_fec(&self) -> bool {
        self.protect.receive.is_some() && self.common.peer.as_ref().is_some_and(|p| p.has_fec)
    }
}

/// The way in.
impl Connection {
    /// A SOURCE_SYMBOL: its frames act unless they did already.
    pub(crate) fn on_source_symbol(
        &mut self,
        session: u64,
        sid: u64,
        data: &[u8],
        payload: &Bytes,
    ) -> Result<(), TransportError> {
        let receive = self.protect.receive.as_mut().ok_or_else(not_agreed)?;
        let mut frames = SymbolFrames::new(data);
        // Before the decoder copies the symbol: a frame that is read back while it is still on its way to the
        // cache waits for whatever was stored before it.
        let first = frames.next();
        match receive.on_source(session, sid, data, payload)? {
            Dispatch::No => Ok(()),
            Dispatch::All => self.symbol_frames(first, frames, payload, true),
            Dispatch::WithoutDatagrams => self.symbol_frames(first, frames, payload, false),
        }
    }

    /// The same for the usual packet, which holds one with one STREAM frame.
    pub(crate) fn on_lone_symbol(
        &mut self,
        lone: &LoneSymbol<'_>,
        payload: &Bytes,
    ) -> Result<(), TransportError> {
        let LoneSymbol { session, sid, symbol, id, offset, fin, data } = *lone;
        let receive = self.protect.receive.as_mut().ok_or_else(not_agreed)?;
        let dispatch = receive.on_source(session, sid, symbol, payload);
        if dispatch.map_err(|error| error.in_frame(LoneSymbol::KIND))? == Dispatch::No {
            return Ok(());
        }
        let stretch = Stretch { id, offset, fin, data, payload };
        self.traffic
            .streams
            .on_stream(stretch, self.common.now)
            .map_err(|error| error.in_frame(symbol[0].into()))
    }

    /// A REPAIR.
    pub(crate) fn on_repair(&mut self, frame: &Frame<'_>) -> Result<(), TransportError> {
        self.protect.receive.as_mut().ok_or_else(not_agreed)?.on_repair(frame)
    }

    /// UNMARKED: data that came before was symbols.
    pub(crate) fn on_unmarked(&mut self, session: u64, packets: u64) -> Result<(), TransportError> {
        self.protect.receive.as_mut().ok_or_else(not_agreed)?.on_unmarked(session, packets)
    }

    /// FEC_WINDOW: the peer keeps more symbols, or fewer.
    pub(crate) fn on_fec_window(&mut self, epoch: u64, window: u64) -> Result<(), TransportError> {
        if self.protect.receive.is_none() {
            return Err(not_agreed());
        }
        self.protect.send.set_window(epoch, window);
        self.protect.drain(&mut self.traffic, self.common.now);
        Ok(())
    }

    /// SYMBOL_ACK: what the peer recovered is settled with the streams, and lost all the same for congestion
    /// control and loss detection. FEC-43: it acts as it is read, while the ACKs of all packets received
    /// together act last.
    pub(crate) fn on_symbol_ack(&mut self, ack: &SymbolAck<'_>) -> Result<(), TransportError> {
        let never = || TransportError::new(Code::FEC_ERROR, "a SYMBOL_ACK of a symbol never sent");
        if self.protect.receive.is_none() {
            return Err(not_agreed());
        }
        let live = self.protect.send.live(ack.session).ok_or_else(never)?;
        if ack.largest >= live.end {
            return Err(never());
        }
        let mut tokens = std::mem::take(&mut self.scratch.recovered);
        for range in ack.ranges() {
            // What lies below First is known, or dead.
            let sids = (*range.start()).max(live.start)..=*range.end();
            for sid in sids.take(self.protect.heeded) {
                self.protect.heeded -= 1;
                match self.protect.send.recovered(ack.session, sid) {
                    RecoveredTokens::Known => {}
                    RecoveredTokens::Held(held) => tokens.extend(held),
                    RecoveredTokens::InFlight(number) => {
                        let session = within_u32(ack.session);
                        self.link.path.recovery.take_symbol(number, (session, sid), &mut tokens);
                    }
                }
            }
        }
        self.protect.send.tidy(ack.session);
        for token in tokens.drain(..) {
            self.traffic.recovered(token, self.common.now);
        }
        self.scratch.recovered = tokens;
        Ok(())
    }

    /// After each packet: repair does its work, and what comes of it acts.
    pub(crate) fn recover(&mut self) -> Result<(), TransportError> {
        self.protect.heeded = Protect::HEEDED;
        let Some(receive) = &mut self.protect.receive else { return Ok(()) };
        receive.end_packet();
        if !receive.has_work() {
            return Ok(());
        }
        receive.work();
        let mut any = false;
        while let Some((session, sid, symbol)) =
            self.protect.receive.as_mut().and_then(ProtectReceiving::next_recovered)
        {
            any = true;
            self.common.qlog.recovered(self.common.now, session, sid);
            // FEC-22: nothing of a packet comes with it: no number to acknowledge, no time, no ECN mark.
            let mut frames = SymbolFrames::new(&symbol);
            let acted = self.symbol_frames(frames.next(), frames, &symbol, true);
            // Its bytes are what REPAIRs made of them.
            acted.map_err(|e| if e.code == Code::FEC_ERROR { e.in_frame(kind::REPAIR) } else { e })?;
        }
        if any {
            // FEC-40: the sender's window and its resends wait for this.
            self.link.acks.data.soon(self.common.now);
        }
        Ok(())
    }

    /// FEC-19, FEC-37: like the frames of the packet, with their errors; what does not parse is one. FEC-21:
    /// `datagrams` that may have been dispatched before are left out.
    fn symbol_frames<'a>(
        &mut self,
        mut first: Option<Result<Frame<'a>, FrameError>>,
        mut frames: SymbolFrames<'a>,
        payload: &Bytes,
        datagrams: bool,
    ) -> Result<(), TransportError> {
        // By reference: a frame that is moved is read back before it has been written.
        while let Some(frame) = &first {
            match frame {
                Ok(Frame::Datagram { .. }) if !datagrams => {}
                Ok(frame) => {
                    self.dispatch(Space::Data, frame, payload).map_err(|e| e.in_frame(frame.kind()))?;
                }
                Err(e) => return Err(TransportError::new(e.code, e.why).in_frame(e.kind)),
            }
            if !self.life.lifecycle.is_open() {
                break;
            }
            first = frames.next();
        }
        Ok(())
    }
}

/// FEC-8: without the extension the frame is unknown.
fn not_agreed() -> TransportError {
    TransportError::new(Code::FRAME_ENCODING_ERROR, "forward erasure correction was not agreed on")
}
