//! The program of docs/from/quiche.md with quiche: the left side of `crates/quickset/examples/shout.rs`. A
//! server for one client, whose sockets and timers are the program's.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use quiche::{Config, ConnectionId, RecvInfo};

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Fallible<()> {
    let folder = tempfile::tempdir()?;
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    std::fs::write(&cert, made.cert.pem())?;
    std::fs::write(&key, made.key_pair.serialize_pem())?;
    let (cert, key) = (cert.display().to_string(), key.display().to_string());

    let mut server_config = config()?;
    server_config.load_cert_chain_from_pem_file(&cert)?;
    server_config.load_priv_key_from_pem_file(&key)?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let address = socket.local_addr()?;
    let serving = std::thread::spawn(move || serve(&socket, &mut server_config));

    let mut client_config = config()?;
    client_config.load_verify_locations_from_file(&cert)?;
    client_config.verify_peer(true);
    client(&UdpSocket::bind("127.0.0.1:0")?, address, &mut client_config)?;
    serving.join().map_err(|_| "the server panicked")?
}

fn config() -> Fallible<Config> {
    let mut config = Config::new(quiche::PROTOCOL_VERSION)?;
    config.set_application_protos(&[b"shout/1"])?;
    config.set_max_idle_timeout(5_000);
    // Without these nobody may send anything.
    config.set_initial_max_data(1 << 20);
    config.set_initial_max_stream_data_bidi_local(64 << 10);
    config.set_initial_max_stream_data_bidi_remote(64 << 10);
    config.set_initial_max_streams_bidi(100);
    config.enable_dgram(true, 100, 100);
    Ok(config)
}

fn client(socket: &UdpSocket, server: SocketAddr, config: &mut Config) -> Fallible<()> {
    let id = ConnectionId::from_ref(&[1; 16]);
    let mut conn = quiche::connect(Some("localhost"), &id, socket.local_addr()?, server, config)?;
    let (mut asked, mut answers, mut tick) = (false, BTreeMap::<u64, Vec<u8>>::new(), None);
    let (mut buffer, mut ended) = (vec![0; 65535], 0);
    while !conn.is_closed() {
        if conn.is_established() && !asked {
            asked = true;
            for (stream, question) in [(0, "live fence"), (4, "of cuttings")] {
                // It says how much it took: all, as long as there is room.
                assert_eq!(conn.stream_send(stream, question.as_bytes(), true)?, question.len());
            }
            for n in 1..=3 {
                conn.dgram_send(format!("tick {n}").as_bytes())?;
            }
        }
        for stream in conn.readable() {
            while let Ok((n, fin)) = conn.stream_recv(stream, &mut buffer) {
                answers.entry(stream).or_default().extend_from_slice(&buffer[..n]);
                ended += usize::from(fin);
            }
        }
        while let Ok(n) = conn.dgram_recv(&mut buffer) {
            tick = Some(String::from_utf8(buffer[..n].to_vec())?);
        }
        // Each may be lost; here one that comes back is enough.
        if let (Some(text), 2) = (&tick, ended) {
            assert_eq!(
                answers.values().map(Vec::as_slice).collect::<Vec<_>>(),
                [b"LIVE FENCE" as &[u8], b"OF CUTTINGS"]
            );
            println!("client: {text}");
            (tick, ended) = (None, 0);
            conn.close(true, 0, b"done")?;
        }
        step(socket, &mut conn)?;
    }
    if answers.len() == 2 { Ok(()) } else { Err(format!("{:?}", conn.peer_error()).into()) }
}

fn serve(socket: &UdpSocket, config: &mut Config) -> Fallible<()> {
    let (mut buffer, local) = (vec![0; 65535], socket.local_addr()?);
    let (n, from) = socket.recv_from(&mut buffer)?;
    let mut conn = quiche::accept(&ConnectionId::from_ref(&[2; 16]), None, local, from, config)?;
    conn.recv(&mut buffer[..n], RecvInfo { from, to: local })?;
    let mut questions = BTreeMap::<u64, Vec<u8>>::new();
    while !conn.is_closed() {
        for stream in conn.readable() {
            while let Ok((n, fin)) = conn.stream_recv(stream, &mut buffer) {
                questions.entry(stream).or_default().extend_from_slice(&buffer[..n]);
                if fin {
                    let answer = questions.remove(&stream).unwrap_or_default().to_ascii_uppercase();
                    assert_eq!(conn.stream_send(stream, &answer, true)?, answer.len());
                }
            }
        }
        while let Ok(n) = conn.dgram_recv(&mut buffer) {
            // An error if the queue is full: it is lost then.
            let _ = conn.dgram_send(&buffer[..n].to_ascii_uppercase());
        }
        step(socket, &mut conn)?;
    }
    println!("server: the connection ended: {:?}", conn.peer_error());
    Ok(())
}

/// Sends what there is to send, and waits for a packet or the time.
fn step(socket: &UdpSocket, conn: &mut quiche::Connection) -> Fallible<()> {
    let mut buffer = vec![0; 65535];
    while let Ok((n, info)) = conn.send(&mut buffer) {
        socket.send_to(&buffer[..n], info.to)?;
    }
    let wait = conn.timeout().unwrap_or(Duration::from_secs(1)).max(Duration::from_millis(1));
    socket.set_read_timeout(Some(wait))?;
    match socket.recv_from(&mut buffer) {
        Ok((n, from)) => {
            let to = socket.local_addr()?;
            // What is none of ours, or comes too late, does no harm.
            let _ = conn.recv(&mut buffer[..n], RecvInfo { from, to });
        }
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            conn.on_timeout();
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
