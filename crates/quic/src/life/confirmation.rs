use quickset_wire::frame::Frame;

use crate::packet::{Token, Want, Writer};

/// What a server says when the handshake is confirmed: HANDSHAKE_DONE and NEW_TOKEN.
#[derive(Debug, Default)]
pub(crate) struct Confirmation {
    done: Told,
    tokens: Vec<(Told, Vec<u8>)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Told {
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
        self.done = Told::Due;
        self.tokens = tokens.into_iter().map(|t| (Told::Due, t)).collect();
    }

    pub(crate) fn want(&self) -> Want {
        self.tokens.iter().map(|(told, _)| *told).chain([self.done]).map(Told::want).max().unwrap_or_default()
    }

    pub(crate) fn write(&mut self, w: &mut Writer<'_>) {
        if self.done.want() > Want::None && w.put(&Frame::HandshakeDone, Token::HandshakeDone) {
            self.done = Told::InFlight;
        }
        for (number, (told, token)) in (0..).zip(&mut self.tokens) {
            if told.want() > Want::None && w.put(&Frame::NewToken { token }, Token::NewToken { number }) {
                *told = Told::InFlight;
            }
        }
    }

    pub(crate) fn done_acked(&mut self) {
        self.done = Told::Yes;
    }

    pub(crate) fn done_lost(&mut self) {
        if self.done == Told::InFlight {
            self.done = Told::Again;
        }
    }

    pub(crate) fn token_acked(&mut self, number: u32) {
        self.set(number, Told::Yes);
    }

    pub(crate) fn token_lost(&mut self, number: u32) {
        self.set(number, Told::Again);
    }

    fn set(&mut self, number: u32, to: Told) {
        if let Some((told, _)) = self.tokens.get_mut(number as usize) {
            if *told != Told::Yes {
                *told = to;
            }
        }
    }
}

impl Told {
    fn want(self) -> Want {
        match self {
            Self::Due => Want::Data,
            Self::Again => Want::Lost,
            Self::No | Self::InFlight | Self::Yes => Want::None,
        }
    }
}
