//! From the first byte to ServerInit; RFC 6143 §7.1 to §7.3.

use bytes::{BufMut, BytesMut};

use super::session::DesktopName;
use super::{ClientConfig, ClientEvent, ClientStep, ServerInit};
use crate::inlet::InletSource;
use crate::protocol::MAX_STRING;
use crate::{Error, PixelFormat, RfbVersion, SecurityType};

#[derive(Debug)]
pub(super) struct ClientHandshake {
    stage: ClientStage,
    version: RfbVersion,
    /// Bytes of the desktop's name that are of no use, behind all the rest.
    pub(super) left: u64,
}

#[derive(Clone, Copy, Debug)]
enum ClientStage {
    Version,
    /// 3.3: one type, decided by the server.
    Decided,
    /// 3.7 and 3.8: a list of types.
    Offered,
    Challenge,
    Result,
    /// Why it goes no further.
    Reason(fn(String) -> Error),
    Init,
}

impl Default for ClientHandshake {
    fn default() -> Self {
        Self { stage: ClientStage::Version, version: RfbVersion::V38, left: 0 }
    }
}

impl ClientHandshake {
    pub(super) fn step(
        &mut self,
        config: &ClientConfig,
        source: &mut InletSource<'_, '_>,
        out: &mut BytesMut,
    ) -> Result<ClientStep, Error> {
        let done = match self.stage {
            ClientStage::Version => self.version(source, out)?,
            ClientStage::Decided => self.decided(config, source, out)?,
            ClientStage::Offered => self.offered(config, source, out)?,
            ClientStage::Challenge => self.challenge(config, source, out),
            ClientStage::Result => self.result(config, source, out)?,
            ClientStage::Reason(error) => {
                return reason(source).map_or(Ok(ClientStep::Starved), |text| Err(error(text)));
            }
            ClientStage::Init => return self.init(config, source),
        };
        Ok(if done.is_some() { ClientStep::Again } else { ClientStep::Starved })
    }

    fn version(&mut self, source: &mut InletSource<'_, '_>, out: &mut BytesMut) -> Result<Option<()>, Error> {
        let Some(mut line) = source.fields(12) else { return Ok(None) };
        self.version = RfbVersion::decode(&line.array())?;
        source.advance(12);
        out.put_slice(self.version.line());
        self.stage =
            if self.version == RfbVersion::V33 { ClientStage::Decided } else { ClientStage::Offered };
        Ok(Some(()))
    }

    fn decided(
        &mut self,
        config: &ClientConfig,
        source: &mut InletSource<'_, '_>,
        out: &mut BytesMut,
    ) -> Result<Option<()>, Error> {
        let Some(mut fields) = source.fields(4) else { return Ok(None) };
        let n = fields.u32();
        source.advance(4);
        if n == 0 {
            self.stage = ClientStage::Reason(Error::Refused);
            return Ok(Some(()));
        }
        let offered = [SecurityType::from(u8::try_from(n).unwrap_or(u8::MAX))];
        let chosen = choose(config, &offered)?;
        self.go(chosen, config, out);
        Ok(Some(()))
    }

    fn offered(
        &mut self,
        config: &ClientConfig,
        source: &mut InletSource<'_, '_>,
        out: &mut BytesMut,
    ) -> Result<Option<()>, Error> {
        let Some(n) = source.fields(1).map(|mut f| f.u8() as usize) else { return Ok(None) };
        let Some(list) = source.peek(1 + n) else { return Ok(None) };
        let offered: Vec<SecurityType> = list[1..].iter().map(|&t| t.into()).collect();
        source.advance(1 + n);
        if n == 0 {
            self.stage = ClientStage::Reason(Error::Refused);
            return Ok(Some(()));
        }
        let chosen = choose(config, &offered)?;
        out.put_u8(chosen.into());
        self.go(chosen, config, out);
        Ok(Some(()))
    }

    fn go(&mut self, chosen: SecurityType, config: &ClientConfig, out: &mut BytesMut) {
        self.stage = match (chosen, self.version) {
            (SecurityType::VncAuth, _) => ClientStage::Challenge,
            // RFC 6143 §7.2.1 and appendix A: before 3.8 there is no result after None.
            (_, RfbVersion::V38) => ClientStage::Result,
            _ => client_init(config, out),
        };
    }

    fn challenge(
        &mut self,
        config: &ClientConfig,
        source: &mut InletSource<'_, '_>,
        out: &mut BytesMut,
    ) -> Option<()> {
        let challenge = source.fields(16)?.array();
        source.advance(16);
        if let Some(password) = &config.password {
            out.put_slice(&password.answer(&challenge));
        }
        self.stage = ClientStage::Result;
        Some(())
    }

    fn result(
        &mut self,
        config: &ClientConfig,
        source: &mut InletSource<'_, '_>,
        out: &mut BytesMut,
    ) -> Result<Option<()>, Error> {
        let Some(mut fields) = source.fields(4) else { return Ok(None) };
        let n = fields.u32();
        source.advance(4);
        self.stage = match (n, self.version) {
            (0, _) => client_init(config, out),
            (1 | 2, RfbVersion::V38) => ClientStage::Reason(Error::Authentication),
            (1, _) => return Err(Error::Authentication("the server gives no reason".to_owned())),
            (2, _) => return Err(Error::Authentication("too many attempts".to_owned())),
            _ => return Err(Error::SecurityResult(n)),
        };
        Ok(Some(()))
    }

    fn init(&mut self, config: &ClientConfig, source: &mut InletSource<'_, '_>) -> Result<ClientStep, Error> {
        let Some(mut fields) = source.fields(24) else { return Ok(ClientStep::Starved) };
        let (width, height) = (fields.u16(), fields.u16());
        let format = PixelFormat::decode(&fields.array());
        config.limits.check_size(width, height)?;
        let Some(name) = DesktopName::read(source, 20) else { return Ok(ClientStep::Starved) };
        source.advance(20 + name.length);
        self.left = name.left;
        let (name, version) = (name.text, self.version);
        Ok(ClientStep::Event(ClientEvent::Ready(ServerInit { width, height, format, name, version })))
    }
}

fn choose(config: &ClientConfig, offered: &[SecurityType]) -> Result<SecurityType, Error> {
    let password = config.password.is_some();
    // A server that offers both is asked to check: who configured a password expects that it counts.
    let wanted = [(SecurityType::VncAuth, password), (SecurityType::None, true)];
    let chosen = wanted.into_iter().find(|(t, able)| *able && offered.contains(t));
    chosen.map(|(t, _)| t).ok_or_else(|| Error::NoSecurity { offered: offered.to_vec(), password })
}

fn client_init(config: &ClientConfig, out: &mut BytesMut) -> ClientStage {
    out.put_u8(config.shared.into());
    ClientStage::Init
}

/// A reason, or as much of it as anybody reads.
fn reason(source: &mut InletSource<'_, '_>) -> Option<String> {
    let kept = (source.fields(4)?.u32() as usize).min(MAX_STRING);
    let whole = source.peek(4 + kept)?;
    Some(String::from_utf8_lossy(&whole[4..]).into_owned())
}
