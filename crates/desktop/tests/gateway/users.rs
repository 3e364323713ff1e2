//! Who of the users of a machine may look.

use std::process::{Command, Stdio};

use super::person::Person;
use super::scene::{Home, Setting, join};
use super::vnc::Vnc;

/// What the gateway says to a viewer of the user `nobody` that sends these bytes in bash's `printf` and
/// stays, or leaves.
fn nobody_hears(port: u16, says: &str, leaves: bool) -> Option<Vec<u8>> {
    let rest = if leaves { "exec 3>&-" } else { "timeout 20 cat <&3" };
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; printf '{says}' >&3; {rest}");
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "bash", "-c", &script]);
    let heard = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    heard.status.success().then_some(heard.stdout)
}

#[tokio::test]
async fn other_users_of_the_machine_do_not_come_in() {
    let root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    if !root {
        eprintln!("SKIPPED: only root can be somebody else, and then the gateway is root's");
        return;
    }
    let home = Home::new();
    let vnc = Vnc::start(64, 48).await;
    let (_far, near) = join(&home, vnc.address, Setting::default()).await;
    let mut person = Person::sit(near.address).await;
    person.sees(&vnc).await;
    let port = near.address.port();
    // It speaks as it would to be let in without a password, and holds Shift.
    let says = r"RFB 003.008\n\x01\x01\x04\x01\x00\x00\x00\x00\xff\xe1";
    let heard = tokio::task::spawn_blocking(move || nobody_hears(port, says, false)).await.unwrap();
    let heard = heard.expect("setpriv and bash are there");
    // RFC 6143 §7.1.2: the version, no security type, and a reason.
    let reason = heard.strip_prefix(b"RFB 003.008\n\0").expect("it is refused");
    let (length, reason) = reason.split_first_chunk::<4>().unwrap();
    assert_eq!(u32::from_be_bytes(*length) as usize, reason.len());
    let reason = String::from_utf8(reason.to_vec()).unwrap();
    assert!(reason.contains("--viewer-password-file"), "{reason}");
    // Nor does what it says count when it leaves at once, when the system takes what it was for root's.
    for _ in 0..20 {
        tokio::task::spawn_blocking(move || nobody_hears(port, says, true)).await.unwrap();
    }
    person.press(0x61);
    person.until("sent", |_| true).await;
    vnc.until("our own key", |v| v.keys().len() >= 2).await;
    assert_eq!(vnc.keys(), [(true, 0x61), (false, 0x61)]);
    person.sees(&vnc).await;
}
