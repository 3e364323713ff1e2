//! From the first byte to ServerInit; RFC 6143 §7.1 to §7.3.

use bytes::{BufMut, BytesMut};

use super::{Security, ServerConfig, ServerEvent, ServerStep};
use crate::inlet::InletSource;
use crate::protocol::put_string;
use crate::{Error, PixelFormat, RfbVersion, SecurityType};

#[derive(Debug)]
pub(super) struct ServerHandshake {
    stage: ServerStage,
    version: RfbVersion,
    challenge: [u8; 16],
}

#[derive(Clone, Copy, Debug)]
enum ServerStage {
    Version,
    /// Which of the types offered.
    Choice,
    /// The encrypted challenge.
    Answer,
    Init,
}

impl ServerHandshake {
    pub(super) fn new(challenge: [u8; 16]) -> Self {
        Self { stage: ServerStage::Version, version: RfbVersion::V38, challenge }
    }

    pub(super) fn step(
        &mut self,
        config: &ServerConfig,
        source: &mut InletSource<'_, '_>,
        out: &mut BytesMut,
    ) -> Result<ServerStep, Error> {
        let length = match self.stage {
            ServerStage::Version => 12,
            ServerStage::Answer => 16,
            ServerStage::Choice | ServerStage::Init => 1,
        };
        let Some(mut fields) = source.fields(length) else { return Ok(ServerStep::Starved) };
        match self.stage {
            ServerStage::Version => {
                let line = fields.array();
                self.version(&line, config, out)?;
            }
            ServerStage::Choice => {
                let choice = fields.u8();
                self.choice(choice, config, out)?;
            }
            ServerStage::Answer => {
                let answer = fields.array();
                self.answer(&answer, config, out)?;
            }
            ServerStage::Init => {
                let shared = fields.u8() != 0;
                source.advance(length);
                out.put_u16(config.width);
                out.put_u16(config.height);
                out.put_slice(&PixelFormat::XRGB.encode());
                put_string(out, &config.name);
                return Ok(ServerStep::Event(ServerEvent::Ready { shared, version: self.version }));
            }
        }
        source.advance(length);
        Ok(ServerStep::Again)
    }

    fn version(&mut self, line: &[u8; 12], config: &ServerConfig, out: &mut BytesMut) -> Result<(), Error> {
        self.version = RfbVersion::decode(line)?;
        if let Security::Refuse(reason) = &config.security {
            // RFC 6143 §7.1.2, and appendix A for 3.3: no type, and the reason.
            if self.version == RfbVersion::V33 {
                out.put_u32(0);
            } else {
                out.put_u8(0);
            }
            put_string(out, reason);
            return Err(Error::TurnedAway(reason.clone()));
        }
        let security = u8::from(offered(&config.security));
        if self.version == RfbVersion::V33 {
            out.put_u32(security.into());
            self.go(config, out);
        } else {
            out.put_slice(&[1, security]);
            self.stage = ServerStage::Choice;
        }
        Ok(())
    }

    fn choice(&mut self, choice: u8, config: &ServerConfig, out: &mut BytesMut) -> Result<(), Error> {
        if SecurityType::from(choice) != offered(&config.security) {
            self.fail("this security type was not offered", out);
            return Err(Error::SecurityChoice(choice));
        }
        self.go(config, out);
        Ok(())
    }

    fn go(&mut self, config: &ServerConfig, out: &mut BytesMut) {
        self.stage = match config.security {
            Security::VncAuth(_) => {
                out.put_slice(&self.challenge);
                ServerStage::Answer
            }
            Security::None | Security::Refuse(_) => {
                // RFC 6143 §7.2.1 and appendix A: before 3.8 there is no result after None.
                if self.version == RfbVersion::V38 {
                    out.put_u32(0);
                }
                ServerStage::Init
            }
        };
    }

    fn answer(&mut self, answer: &[u8; 16], config: &ServerConfig, out: &mut BytesMut) -> Result<(), Error> {
        let right = match &config.security {
            Security::VncAuth(password) => password.verify(&self.challenge, answer),
            Security::None => true,
            Security::Refuse(_) => false,
        };
        if !right {
            self.fail("wrong password", out);
            return Err(Error::Authentication("wrong password".to_owned()));
        }
        out.put_u32(0);
        self.stage = ServerStage::Init;
        Ok(())
    }

    /// A failed SecurityResult; only 3.8 says why.
    fn fail(&self, reason: &str, out: &mut BytesMut) {
        out.put_u32(1);
        if self.version == RfbVersion::V38 {
            put_string(out, reason);
        }
    }
}

fn offered(security: &Security) -> SecurityType {
    match security {
        Security::None | Security::Refuse(_) => SecurityType::None,
        Security::VncAuth(_) => SecurityType::VncAuth,
    }
}
