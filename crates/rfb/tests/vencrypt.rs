//! VeNCrypt 0.2 against transcripts written by hand from the tables of rfbproto ("VeNCrypt" and "Plain
//! subtype"). `S:` comes from the server, `C:` is what must go out.

use quickset_rfb::{
    Client, ClientConfig, ClientEvent, Error, PlainLogin, RfbRefusal, SecurityType, VencryptType,
    VencryptWish, VncPassword,
};

/// TLS is to begin; or nothing happened.
fn hear(client: &mut Client, bytes: &[u8]) -> Result<bool, Error> {
    let (mut input, mut begins) = (bytes, false);
    while let Some(event) = client.receive(&mut input)? {
        assert_eq!(event, ClientEvent::StartTls);
        begins = true;
    }
    assert!(input.is_empty());
    Ok(begins)
}

fn sent(client: &mut Client) -> Vec<u8> {
    client.output().split().to_vec()
}

fn wishing(vencrypt: VencryptWish) -> ClientConfig {
    ClientConfig { vencrypt, ..ClientConfig::default() }
}

/// Up to the list of sub-types, of a server that offers VeNCrypt alone.
fn greeted(config: ClientConfig) -> Client {
    let mut client = Client::new(config);
    assert_eq!(hear(&mut client, b"RFB 003.008\n\x01\x13"), Ok(false)); // S: version, one type: 19
    assert_eq!(sent(&mut client), b"RFB 003.008\n\x13"); // C: version, 19
    assert_eq!(hear(&mut client, &[0, 2]), Ok(false)); // S: version 0.2
    assert_eq!(sent(&mut client), [0, 2]); // C: version 0.2
    assert_eq!(hear(&mut client, &[0]), Ok(false)); // S: that is OK
    assert_eq!(sent(&mut client), []);
    client
}

/// 257 TLSNone, 262 X509Plain, 261 X509Vnc, 260 X509None.
const FOUR: [u8; 17] = [4, 0, 0, 1, 1, 0, 0, 1, 6, 0, 0, 1, 5, 0, 0, 1, 4];

#[test]
fn a_certificate_and_no_more() {
    let mut client = greeted(wishing(VencryptWish::Last));
    assert_eq!(hear(&mut client, &FOUR), Ok(false));
    assert_eq!(sent(&mut client), [0, 0, 1, 4], "C: X509None");
    assert_eq!(client.tls_started(), Err(RfbRefusal::NotReady), "the server has not agreed");
    assert_eq!(hear(&mut client, &[1]), Ok(true), "S: that is OK");
    assert_eq!(client.tls_started(), Ok(()));
    assert_eq!(client.tls_started(), Err(RfbRefusal::NotReady), "once");
    assert_eq!(sent(&mut client), []);
    assert_eq!(hear(&mut client, &[0, 0, 0, 0]), Ok(false), "S: SecurityResult OK");
    assert_eq!(sent(&mut client), [1], "C: ClientInit, shared");
}

#[test]
fn a_password_inside() {
    // The answer was computed by openssl: see `VncPassword`.
    let challenge: Vec<u8> = (0..16).collect();
    let answer =
        [0xb8, 0x66, 0x92, 0x41, 0x25, 0xc8, 0xee, 0xbb, 0x9d, 0xeb, 0xc1, 0xdb, 0x61, 0xc5, 0x38, 0xe2];
    let password = Some(VncPassword::new(b"password"));
    let mut client = greeted(ClientConfig { password, ..wishing(VencryptWish::Only) });
    assert_eq!(hear(&mut client, &FOUR), Ok(false));
    assert_eq!(sent(&mut client), [0, 0, 1, 5], "C: X509Vnc");
    assert_eq!(hear(&mut client, &[1]), Ok(true));
    client.tls_started().expect("it was asked for");
    assert_eq!(hear(&mut client, &challenge), Ok(false));
    assert_eq!(sent(&mut client), answer);
    // S: SecurityResult, failed, with a reason.
    let failed = hear(&mut client, b"\0\0\0\x01\0\0\0\x04nope");
    assert_eq!(failed, Err(Error::Authentication("nope".into())));
}

#[test]
fn a_name_and_a_password_inside() {
    let login = Some(PlainLogin::new("joe", "pässword and more"));
    let password = Some(VncPassword::new(b"password"));
    let mut client = greeted(ClientConfig { password, login, ..wishing(VencryptWish::First) });
    assert_eq!(hear(&mut client, &FOUR), Ok(false));
    assert_eq!(sent(&mut client), [0, 0, 1, 6], "C: X509Plain");
    assert_eq!(sent(&mut client), [], "nothing before TLS");
    assert_eq!(hear(&mut client, &[1]), Ok(true));
    client.tls_started().expect("it was asked for");
    // C: the lengths in bytes, the name, the password.
    assert_eq!(sent(&mut client), b"\0\0\0\x03\0\0\0\x12joep\xc3\xa4ssword and more");
    assert_eq!(hear(&mut client, &[0, 0, 0, 0]), Ok(false));
    assert_eq!(sent(&mut client), [1]);
    assert_eq!(format!("{:?}", PlainLogin::new("joe", "secret")), "PlainLogin(..)");
}

#[test]
fn in_single_bytes_and_with_other_versions() {
    for greeting in [&b"RFB 003.003\n\0\0\0\x13"[..], b"RFB 003.007\n\x01\x13", b"RFB 003.008\n\x01\x13"] {
        let mut client = Client::new(wishing(VencryptWish::Last));
        let bytes = [greeting, &[0, 2, 0], &FOUR, &[1]].concat();
        let begins: Vec<_> = bytes.iter().map(|byte| hear(&mut client, &[*byte]).unwrap()).collect();
        assert_eq!(begins.iter().position(|begins| *begins), Some(bytes.len() - 1));
        client.tls_started().expect("it was asked for");
        sent(&mut client);
        // Unlike None alone it has a result in each version.
        assert_eq!(hear(&mut client, &[0, 0, 0]), Ok(false));
        assert_eq!(sent(&mut client), []);
        assert_eq!(hear(&mut client, &[0]), Ok(false));
        assert_eq!(sent(&mut client), [1]);
    }
    // A server of a later version takes ours.
    for version in [[0, 3], [1, 0]] {
        let mut client = Client::new(wishing(VencryptWish::Last));
        hear(&mut client, b"RFB 003.008\n\x01\x13").expect("as before");
        sent(&mut client);
        assert_eq!(hear(&mut client, &version), Ok(false));
        assert_eq!(sent(&mut client), [0, 2]);
    }
}

#[test]
fn what_is_chosen_beside_other_types() {
    let chosen = |vencrypt, password: Option<&[u8]>, types: &[u8]| {
        let password = password.map(VncPassword::new);
        let mut client = Client::new(ClientConfig { password, ..wishing(vencrypt) });
        let greeting = [b"RFB 003.008\n", &[u8::try_from(types.len()).unwrap()][..], types].concat();
        hear(&mut client, &greeting).map(|_| sent(&mut client)[12])
    };
    use VencryptWish::{First, Last, Never, Only};
    for (wish, types, expected) in [
        (Never, [19, 1], 1),
        (Last, [19, 1], 1),
        (First, [1, 19], 19),
        (Only, [1, 19], 19),
        // VncAuth is nothing without a password.
        (Last, [2, 19], 19),
    ] {
        assert_eq!(chosen(wish, None, &types), Ok(expected), "{wish:?} {types:?}");
    }
    assert_eq!(chosen(Last, Some(b"x"), &[19, 2]), Ok(2));
    assert_eq!(chosen(First, Some(b"x"), &[2]), Ok(2));
    assert!(matches!(chosen(Never, None, &[19]), Err(Error::NoSecurity { .. })));
    let offered = vec![SecurityType::None, SecurityType::VncAuth];
    let error = chosen(Only, None, &[1, 2]).unwrap_err();
    assert_eq!(error, Error::NoVencrypt { offered });
    assert_eq!(error.to_string(), "the server does not offer VeNCrypt, which is TLS, but None, VncAuth");
}

#[test]
fn what_is_wrong_is_told() {
    let error = |bytes: &[u8]| {
        let mut client = Client::new(wishing(VencryptWish::First));
        hear(&mut client, &[b"RFB 003.008\n\x02\x13\x01", bytes].concat()).unwrap_err()
    };
    assert_eq!(error(&[0, 1]), Error::VencryptVersion(0, 1));
    assert_eq!(error(&[0, 1]).to_string(), "the server speaks version 0.1 of VeNCrypt, and we 0.2");
    assert_eq!(error(&[0, 2, 255]), Error::VencryptRefused, "it does not take 0.2");
    assert_eq!(error(&[&[0, 2, 0], &FOUR[..], &[0]].concat()), Error::VencryptRefused, "no TLS after all");
    // Nothing of what is listed has a certificate, or is known: 256 Plain, 257, 2 VncAuth, 999.
    let error = error(&[0, 2, 0, 4, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 2, 0, 0, 3, 231]);
    let offered: Vec<_> = [256, 257, 2, 999].map(VencryptType).into();
    assert_eq!(offered.iter().map(|t| t.is_anonymous()).collect::<Vec<_>>(), [false, true, false, false]);
    assert_eq!(error, Error::NoVencryptType { offered, unencrypted: true });
    // Who has to encrypt is not told that it could do without.
    let mut client = Client::new(wishing(VencryptWish::Only));
    let error_of_only = hear(&mut client, b"RFB 003.008\n\x02\x13\x01\0\x02\0\0").unwrap_err();
    assert_eq!(error_of_only, Error::NoVencryptType { offered: vec![], unencrypted: false });
    let told = "the server offers Plain, TLSNone, VncAuth, sub-type 999";
    assert!(error.to_string().contains(told), "{error}");
    // X509Plain and X509Vnc are nothing without what they ask for; and none at all.
    for types in [&FOUR[..13], &[0]] {
        let mut client = greeted(wishing(VencryptWish::Only));
        let error = hear(&mut client, &[&[types[0].saturating_sub(1)], &types[1..]].concat()).unwrap_err();
        assert!(matches!(error, Error::NoVencryptType { unencrypted: false, .. }), "{error}");
        assert_eq!(client.output().len(), 0, "nothing is chosen");
    }
}

#[test]
fn what_comes_before_tls_does_not_pass_for_encrypted() {
    // SecurityResult OK, put there by somebody in between.
    let injected = [0, 0, 0, 0];
    let mut client = greeted(wishing(VencryptWish::Only));
    let error = hear(&mut client, &[&FOUR[..], &[1], &injected].concat());
    assert_eq!(error, Err(Error::BeforeTls));
    assert_eq!(client.tls_started(), Err(RfbRefusal::NotReady), "it is over");
    // The same a moment later, before TLS was begun.
    let mut client = greeted(wishing(VencryptWish::Only));
    assert_eq!(hear(&mut client, &[&FOUR[..], &[1]].concat()), Ok(true));
    assert_eq!(hear(&mut client, &injected), Err(Error::BeforeTls));
}
