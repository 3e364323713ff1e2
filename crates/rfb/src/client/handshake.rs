//! From the first byte to ServerInit; RFC 6143 §7.1 to §7.3, and VeNCrypt 0.2 of rfbproto.

use bytes::{BufMut, BytesMut};

use super::session::DesktopName;
use super::{ClientConfig, ClientEvent, ClientStep, ServerInit};
use crate::inlet::InletSource;
use crate::protocol::MAX_STRING;
use crate::{Error, PixelFormat, RfbRefusal, RfbVersion, SecurityType, VencryptType, VencryptWish};

#[derive(Debug)]
pub(super) struct ClientHandshake {
    stage: ClientStage,
    version: RfbVersion,
    /// Something that we can do and may, without encryption, was on offer.
    unencrypted: bool,
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
    /// VeNCrypt: the server's version, whether it takes ours, its sub-types, whether it begins with TLS.
    VencryptVersion,
    VencryptTaken,
    VencryptTypes,
    VencryptStart(VencryptType),
    /// TLS, which whoever drives us does. What is inside comes next.
    Tls(VencryptType),
    Challenge,
    Result,
    /// Why it goes no further.
    Reason(fn(String) -> Error),
    Init,
}

impl Default for ClientHandshake {
    fn default() -> Self {
        Self { stage: ClientStage::Version, version: RfbVersion::V38, unencrypted: false, left: 0 }
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
            ClientStage::VencryptVersion => self.vencrypt_version(source, out)?,
            ClientStage::VencryptTaken => {
                Self::acknowledged(source, 0)?.map(|()| self.stage = ClientStage::VencryptTypes)
            }
            ClientStage::VencryptTypes => self.vencrypt_types(config, source, out)?,
            ClientStage::VencryptStart(chosen) => {
                let Some(()) = Self::acknowledged(source, 1)? else { return Ok(ClientStep::Starved) };
                self.stage = ClientStage::Tls(chosen);
                return Ok(ClientStep::Event(ClientEvent::StartTls));
            }
            // The server waits for the first word of TLS: what comes before would pass for encrypted.
            ClientStage::Tls(_) if source.peek(1).is_some() => return Err(Error::BeforeTls),
            ClientStage::Tls(_) => None,
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
        let chosen = self.choose(config, &offered)?;
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
        let chosen = self.choose(config, &offered)?;
        out.put_u8(chosen.into());
        self.go(chosen, config, out);
        Ok(Some(()))
    }

    fn choose(&mut self, config: &ClientConfig, offered: &[SecurityType]) -> Result<SecurityType, Error> {
        let password = config.password.is_some();
        // A server that offers both is asked to check: who configured a password expects that it counts.
        let wanted = [(SecurityType::VncAuth, password), (SecurityType::None, true)];
        let open = wanted.into_iter().find(|(t, able)| *able && offered.contains(t)).map(|(t, _)| t);
        self.unencrypted = open.is_some() && config.vencrypt != VencryptWish::Only;
        let encrypts = offered.contains(&SecurityType::Vencrypt);
        match (config.vencrypt, open) {
            (VencryptWish::First | VencryptWish::Only, _) | (VencryptWish::Last, None) if encrypts => {
                Ok(SecurityType::Vencrypt)
            }
            (VencryptWish::Only, _) => Err(Error::NoVencrypt { offered: offered.to_vec() }),
            (_, Some(open)) => Ok(open),
            (_, None) => Err(Error::NoSecurity { offered: offered.to_vec(), password }),
        }
    }

    fn go(&mut self, chosen: SecurityType, config: &ClientConfig, out: &mut BytesMut) {
        self.stage = match (chosen, self.version) {
            (SecurityType::VncAuth, _) => ClientStage::Challenge,
            (SecurityType::Vencrypt, _) => ClientStage::VencryptVersion,
            // RFC 6143 §7.2.1 and appendix A: before 3.8 there is no result after None.
            (_, RfbVersion::V38) => ClientStage::Result,
            _ => client_init(config, out),
        };
    }

    fn vencrypt_version(
        &mut self,
        source: &mut InletSource<'_, '_>,
        out: &mut BytesMut,
    ) -> Result<Option<()>, Error> {
        let Some(mut fields) = source.fields(2) else { return Ok(None) };
        let (major, minor) = (fields.u8(), fields.u8());
        source.advance(2);
        if (major, minor) < VENCRYPT {
            return Err(Error::VencryptVersion(major, minor));
        }
        out.put_slice(&[VENCRYPT.0, VENCRYPT.1]);
        self.stage = ClientStage::VencryptTaken;
        Ok(Some(()))
    }

    /// A byte that says whether the server goes on.
    fn acknowledged(source: &mut InletSource<'_, '_>, good: u8) -> Result<Option<()>, Error> {
        let Some(n) = source.fields(1).map(|mut f| f.u8()) else { return Ok(None) };
        source.advance(1);
        if n == good { Ok(Some(())) } else { Err(Error::VencryptRefused) }
    }

    fn vencrypt_types(
        &mut self,
        config: &ClientConfig,
        source: &mut InletSource<'_, '_>,
        out: &mut BytesMut,
    ) -> Result<Option<()>, Error> {
        let Some(n) = source.fields(1).map(|mut f| f.u8() as usize) else { return Ok(None) };
        let length = 1 + 4 * n;
        let Some(mut fields) = source.fields(length) else { return Ok(None) };
        fields.skip(1);
        let offered: Vec<VencryptType> = (0..n).map(|_| VencryptType(fields.u32())).collect();
        source.advance(length);
        let wanted = [
            (VencryptType::X509_PLAIN, config.login.is_some()),
            (VencryptType::X509_VNC, config.password.is_some()),
            (VencryptType::X509_NONE, true),
        ];
        let chosen = wanted.into_iter().find(|(t, able)| *able && offered.contains(t));
        let Some((chosen, _)) = chosen else {
            return Err(Error::NoVencryptType { offered, unencrypted: self.unencrypted });
        };
        out.put_u32(chosen.0);
        self.stage = ClientStage::VencryptStart(chosen);
        Ok(Some(()))
    }

    /// TLS has begun: what comes and goes from now on is inside.
    pub(super) fn tls_started(
        &mut self,
        config: &ClientConfig,
        out: &mut BytesMut,
    ) -> Result<(), RfbRefusal> {
        let ClientStage::Tls(chosen) = self.stage else { return Err(RfbRefusal::NotReady) };
        self.stage = match (chosen, &config.login) {
            (VencryptType::X509_VNC, _) => ClientStage::Challenge,
            (VencryptType::X509_PLAIN, Some(login)) => {
                login.encode(out);
                ClientStage::Result
            }
            // Unlike None without TLS it has a result in each version.
            _ => ClientStage::Result,
        };
        Ok(())
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

/// The version of VeNCrypt that we speak.
const VENCRYPT: (u8, u8) = (0, 2);
