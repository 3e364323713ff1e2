//! How late the relay is at a rate: `lateness [RATE [SECONDS]]`, 100mbit and 3 s unless told.
//!
//! Datagrams of 1472 bytes are sent as fast as the rate, in bursts of a millisecond's worth.

use std::error::Error;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use quickset_base::number::Unsigned as _;
use quickset_lab::relay::Relay;
use quickset_sim::{LinkSpec, units};

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let rate = words.next().unwrap_or_else(|| "100mbit".to_owned());
    let seconds: u64 = words.next().map_or(Ok(3), |n| n.parse())?;
    let link: LinkSpec = format!("rate={rate} delay=50ms queue=9MB overhead=28").parse()?;
    let sink = UdpSocket::bind("127.0.0.1:0")?;
    sink.set_read_timeout(Some(Duration::from_millis(300)))?;
    let relay = Relay::start(sink.local_addr()?, link.clone(), link, 1)?;
    let reader = std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        while sink.recv(&mut buffer).is_ok() {}
    });

    let packets_per_second = units::rate(&rate)? / (1500 * 8);
    let (socket, started, mut sent) = (UdpSocket::bind("127.0.0.1:0")?, Instant::now(), 0);
    while started.elapsed() < Duration::from_secs(seconds) {
        let due = started.elapsed().as_micros().saturated::<u64>() * packets_per_second / 1_000_000;
        while sent < due {
            socket.send_to(&[0; 1472], relay.address())?;
            sent += 1;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(200));
    let late = relay.lateness();
    println!("{sent} packets sent, {} relayed, {:?} dropped by the system", late.packets(), relay.overruns());
    for p in [0.5, 0.9, 0.99, 0.999] {
        println!("p{}: {:?} late", p * 100.0, late.percentile(p));
    }
    println!("max: {:?}", late.max());
    reader.join().map_err(|_| "the reader failed")?;
    Ok(())
}
