use quickset_wire::frame::Frame;

use crate::packet::{FrameToken, PacketWriter, Want};

/// What a server says when the handshake is confirmed: HANDSHAKE_DONE and NEW_TOKEN.
#[derive(Debug, Default)]
pub(crate) struct Confirmation {
    done: ConfirmationTold,
    tokens: Vec<(ConfirmationTold, Vec<u8>)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ConfirmationTold {
    /// Not to be said, or not yet.
    #[default]
    No,
    Due,
    Again,
    InFlight,
    Yes,
}

impl Confirmation {
    /// The handshake is confirmed: this is what the client is told.
    pub(crate) fn announce(&mut self, tokens: Vec<Vec<u8>>) {
        self.done = ConfirmationTold::Due;
        self.tokens = tokens.into_iter().map(|t| (ConfirmationTold::Due, t)).collect();
    }

    /// What has arrived is never said again.
    pub(crate) fn rest(&mut self) {
        if self.tokens.iter().all(|(told, _)| *told == ConfirmationTold::Yes) {
            self.tokens = Vec::new();
        }
    }

    pub(crate) fn want(&self) -> Want {
        self.tokens
            .iter()
            .map(|(told, _)| *told)
            .chain([self.done])
            .map(ConfirmationTold::want)
            .max()
            .unwrap_or_default()
    }

    pub(crate) fn write(&mut self, w: &mut PacketWriter<'_>) {
        if self.done.want() > Want::None && w.put(&Frame::HandshakeDone, FrameToken::HandshakeDone) {
            self.done = ConfirmationTold::InFlight;
        }
        for (number, (told, token)) in (0..).zip(&mut self.tokens) {
            if told.want() > Want::None && w.put(&Frame::NewToken { token }, FrameToken::NewToken { number })
            {
                *told = ConfirmationTold::InFlight;
            }
        }
    }

    pub(crate) fn done_acked(&mut self) {
        self.done = ConfirmationTold::Yes;
    }

    pub(crate) fn done_lost(&mut self) {
        if self.done == ConfirmationTold::InFlight {
            self.done = ConfirmationTold::Again;
        }
    }

    pub(crate) fn token_acked(&mut self, number: u32) {
        self.set(number, ConfirmationTold::Yes);
    }

    pub(crate) fn token_lost(&mut self, number: u32) {
        self.set(number, ConfirmationTold::Again);
    }

    fn set(&mut self, number: u32, to: ConfirmationTold) {
        if let Some((told, _)) = self.tokens.get_mut(number as usize) {
            if *told != ConfirmationTold::Yes {
                *told = to;
            }
        }
    }
}

impl ConfirmationTold {
    fn want(self) -> Want {
        match self {
            Self::Due => Want::Data,
            Self::Again => Want::Lost,
            Self::No | Self::InFlight | Self::Yes => Want::None,
        }
    }
}
