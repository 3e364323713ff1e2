//! Who may come in, and to whom one goes.

use quickset::{ClientAuth, Endpoint, Identity, ServerConfig};
use quickset_desktop::message::{ALPN, code};
use quickset_desktop::trust::{DeviceRights, OneTimeToken};
use quickset_desktop::view::{Credential, GatewayPassword, MeetError, ServerTrust, ViewError};

use super::person::Person;
use super::scene::{Far, Home, Near, Setting, known};
use super::vnc::Vnc;

async fn refused(near: &mut Near) -> MeetError {
    match near.end().await {
        ViewError::Meet(error) => error,
        other => panic!("{other}"),
    }
}

fn password(text: &str) -> Credential {
    Credential::Password(GatewayPassword(text.into()))
}

#[tokio::test]
async fn a_token_is_dead_after_its_first_use_and_the_key_stays() {
    let home = Home::new();
    let vnc = Vnc::start(16, 16).await;
    let far = Far::start(&home, vnc.address, Setting::default());
    let token = far.token.clone().expect("nobody could come in without");
    let (first, second) = (home.client("first"), home.client("second"));
    let mut stranger = Near::start(&home.client("stranger"), far.address, Credential::None).await;
    let error = refused(&mut stranger).await.to_string();
    assert!(error.contains("does not know this key"), "{error}");
    let wrong = Credential::Token(OneTimeToken::random());
    let mut guesser = Near::start(&home.client("guesser"), far.address, wrong).await;
    assert!(refused(&mut guesser).await.to_string().contains("wrong"));
    let near = Near::start(&first, far.address, Credential::Token(token.clone())).await;
    Person::sit(near.address).await.sees(&vnc).await;
    let mut late = Near::start(&second, far.address, Credential::Token(token)).await;
    assert!(matches!(refused(&mut late).await, MeetError::Denied(_)));
    near.kill().await;
    let near = Near::start(&first, far.address, Credential::None).await;
    Person::sit(near.address).await.sees(&vnc).await;
}

#[tokio::test]
async fn passwords_let_in_and_wrong_ones_have_to_wait() {
    let home = Home::new();
    let vnc = Vnc::start(16, 16).await;
    let far =
        Far::start(&home, vnc.address, Setting { password: Some("correct horse"), ..Setting::default() });
    assert!(far.token.is_none());
    let near = Near::start(&home.client("a"), far.address, password("correct horse")).await;
    Person::sit(near.address).await.sees(&vnc).await;
    // The third wrong one makes the address wait, and what is wrong after the wait is so for good.
    for n in 0..4 {
        let mut near = Near::start(&home.client(&format!("wrong{n}")), far.address, password("guess")).await;
        let error = refused(&mut near).await;
        assert!(matches!(&error, MeetError::Denied(words) if words.contains("wrong")), "{error}");
    }
    let near = Near::start(&home.client("b"), far.address, password("correct horse")).await;
    Person::sit(near.address).await.sees(&vnc).await;
}

#[tokio::test]
async fn a_server_with_another_key_is_refused_loudly() {
    let home = Home::new();
    let vnc = Vnc::start(16, 16).await;
    let folder = home.client("client");
    let key = folder.client_identity().unwrap().fingerprint();
    home.server().authorized().unwrap().add(key, &DeviceRights::default(), "test").unwrap();
    let far = Far::start(&home, vnc.address, Setting::default());
    let near = Near::start(&folder, far.address, Credential::None).await;
    Person::sit(near.address).await.sees(&vnc).await;
    let before = known(&folder).look_up(&far.address.to_string()).unwrap().expect("it was written down");
    near.kill().await;
    let listen = far.kill().await;
    // Somebody else takes its place, and would even let the client in.
    let impostor = Home::new();
    impostor.server().authorized().unwrap().add(key, &DeviceRights::default(), "welcome").unwrap();
    let far = Far::again(&impostor, vnc.address, Setting { listen, ..Setting::default() }).await;
    let mut near = Near::start(&folder, far.address, Credential::None).await;
    let error = refused(&mut near).await;
    assert!(matches!(error, MeetError::Changed(_)), "{error}");
    let now = impostor.server().server_identity().unwrap().fingerprint();
    for part in ["HAS CHANGED", &before.fingerprint.to_string(), &now.to_string(), "line 1", "known_servers"]
    {
        assert!(error.to_string().contains(part), "{part} is not in {error}");
    }
    assert_eq!(far.stats.totals().ever, 0, "the client was not let in, for it did not ask");
    let pin = ServerTrust::Pinned(before.fingerprint);
    let mut near = Near::trusting(&folder, far.address, Credential::None, pin).await;
    let error = refused(&mut near).await;
    assert!(matches!(error, MeetError::NotPinned { now: found, .. } if found == now), "{error}");
    let near = Near::trusting(&folder, far.address, Credential::None, ServerTrust::Pinned(now)).await;
    Person::sit(near.address).await.sees(&vnc).await;
}

#[tokio::test]
async fn a_server_that_does_not_know_the_secret_is_not_trusted_on_first_use() {
    let home = Home::new();
    let vnc = Vnc::start(16, 16).await;
    let folder = home.client("client");
    // It lets anybody's key in, but it is not the one the password is for.
    home.server()
        .authorized()
        .unwrap()
        .add(folder.client_identity().unwrap().fingerprint(), &DeviceRights::default(), "x")
        .unwrap();
    let far = Far::start(&home, vnc.address, Setting::default());
    let mut near = Near::start(&folder, far.address, password("of another server")).await;
    let error = refused(&mut near).await;
    // DT-45, DT-53
    assert!(matches!(error, MeetError::NotProved), "{error}");
    assert_eq!(known(&folder).look_up(&far.address.to_string()).unwrap(), None);
}

/// A server of before takes no notice of an offer, and sees a key that it does not know.
#[tokio::test]
async fn a_server_that_is_too_old_for_a_password_is_told_from_one_that_refuses_it() {
    let home = Home::new();
    let config = ServerConfig::new(Identity::self_signed(["localhost"]).unwrap(), &[ALPN]).unwrap();
    let config = config.with_client_auth(ClientAuth::Mandatory).unwrap();
    let older = Endpoint::server(([127, 0, 0, 1], 0).into(), &config).unwrap();
    let mut near = Near::start(&home.client("client"), older.local_addr(), password("correct horse")).await;
    let connection = older.accept().await.unwrap();
    let (_, mut control) = connection.accept_messages_bi().await.unwrap();
    let hello = control.next().await.unwrap().unwrap().payload;
    // DT-54: version 1, the features, and no proof where such a server looks for one.
    let features = 1 << (hello[2] >> 6);
    assert_eq!((&hello[..2], hello[2 + features]), (&[2, 1][..], 0));
    connection.close(code::DENIED, b"the server does not know this key");
    let error = refused(&mut near).await;
    assert!(matches!(error, MeetError::Older), "{error}");
}
