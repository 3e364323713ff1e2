//! quiche, hq-interop and its own HTTP/3.

mod app;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use quiche::{Config, Connection, ConnectionId, RecvInfo};
use quickset_base::Ecn;

use self::app::App;
use super::quickset::any_port;
use super::{HQ, PlayJob, PlayRole, dismissed, listening};
use crate::port::{Arrival, Port};
use crate::tls;

pub(super) async fn play(job: PlayJob) -> Result<()> {
    match job.role {
        PlayRole::Server => {
            tokio::select! {
                ended = serve(&job) => ended?,
                () = dismissed() => {}
            }
        }
        PlayRole::Client => fetch(&job).await?,
    }
    Ok(())
}

fn config(job: &PlayJob) -> Result<Config> {
    let mut config = Config::new(quiche::PROTOCOL_VERSION)?;
    let path = |name: &str| job.identity.join(name).to_string_lossy().into_owned();
    if job.role == PlayRole::Server {
        config.load_cert_chain_from_pem_file(&path("cert.pem"))?;
        config.load_priv_key_from_pem_file(&path("key.pem"))?;
    } else {
        config.load_verify_locations_from_file(&path("cert.pem"))?;
        config.verify_peer(true);
    }
    config.set_application_protos(&[if job.h3 { b"h3" } else { HQ }])?;
    let is_last_resort = job.is("hello-again") && job.role == PlayRole::Server;
    config.set_curves_list(if is_last_resort { "P-384" } else { "X25519MLKEM768:X25519:P-256:P-384" })?;
    config.set_max_idle_timeout(30_000);
    config.set_max_recv_udp_payload_size(1472);
    config.set_max_send_udp_payload_size(1472);
    config.set_initial_max_data(10_000_000);
    config.set_initial_max_stream_data_bidi_local(1_000_000);
    config.set_initial_max_stream_data_bidi_remote(1_000_000);
    config.set_initial_max_stream_data_uni(1_000_000);
    config.set_initial_max_streams_bidi(100);
    config.set_initial_max_streams_uni(100);
    config.set_active_connection_id_limit(8);
    if job.is("zerortt") {
        config.enable_early_data();
    }
    Ok(config)
}

/// Sends what a connection has, by the port of the path.
async fn flush(connection: &mut Connection, ports: &[&Port]) -> Result<()> {
    let mut out = [0; 1500];
    loop {
        match connection.send(&mut out) {
            Ok((len, to)) => {
                let port = ports.iter().find(|port| port.address() == to.from).unwrap_or(&ports[0]);
                let wait = to.at.saturating_duration_since(Instant::now());
                if wait > Duration::from_millis(1) {
                    tokio::time::sleep(wait).await;
                }
                port.send(to.to, Ecn::NotEct, &out[..len]).await;
            }
            Err(quiche::Error::Done) => return Ok(()),
            Err(error) => {
                eprintln!("sending: {error}");
                let _ = connection.close(false, 1, b"");
                return Ok(());
            }
        }
    }
}

fn receive(connection: &mut Connection, arrivals: &mut Vec<Arrival>, to: SocketAddr) {
    for mut arrival in arrivals.drain(..) {
        let info = RecvInfo { from: arrival.from, to };
        if let Err(error) = connection.recv(&mut arrival.bytes, info) {
            eprintln!("a datagram: {error}");
        }
    }
}

/// Ids for other paths.
fn spare(connection: &mut Connection) {
    while connection.scids_left() > 0 {
        let (id, token) = (random(), u128::from_le_bytes(random()));
        if connection.new_scid(&ConnectionId::from_ref(&id), token, false).is_err() {
            return;
        }
    }
}

async fn fetch(job: &PlayJob) -> Result<()> {
    let mut config = config(job)?;
    let mut session: Option<Vec<u8>> = None;
    for paths in job.connections() {
        let (port, other) = (Port::bind(any_port(job.address))?, Port::bind(any_port(job.address))?);
        let ports = [&port, &other];
        let id = random();
        let id = ConnectionId::from_ref(&id);
        let mut connection = quiche::connect(Some(tls::NAME), &id, port.address(), job.address, &mut config)?;
        if let Some(session) = &session {
            connection.set_session(session)?;
        }
        let mut app = App::client(job, paths);
        let mut moving = job.is("connectionmigration");
        let (mut here, mut there) = (Vec::new(), Vec::new());
        while !app.is_done() {
            flush(&mut connection, &ports).await?;
            let patience = connection.timeout();
            tokio::select! {
                received = port.receive(&mut here) => received?,
                received = other.receive(&mut there) => received?,
                () = pause(patience) => connection.on_timeout(),
            }
            receive(&mut connection, &mut here, port.address());
            receive(&mut connection, &mut there, other.address());
            if connection.is_closed() {
                bail!(
                    "the connection is over: {:?}, {:?}",
                    connection.local_error(),
                    connection.peer_error()
                );
            }
            if connection.is_established() {
                spare(&mut connection);
            }
            if connection.is_established() || connection.is_in_early_data() {
                app.turn(&mut connection)?;
            }
            if moving && connection.available_dcids() > 0 && app.has_begun() {
                connection.migrate_source(other.address()).context("moving")?;
                moving = false;
            }
        }
        session = connection.session().map(<[u8]>::to_vec);
        let _ = connection.close(true, if job.h3 { 0x100 } else { 0 }, b"");
        flush(&mut connection, &ports).await?;
    }
    Ok(())
}

struct QuicheServed<'a> {
    connection: Connection,
    app: App<'a>,
}

async fn serve(job: &PlayJob) -> Result<()> {
    let mut config = config(job)?;
    let port = Port::bind(job.address)?;
    listening(port.address());
    let mut all: BTreeMap<u64, QuicheServed<'_>> = BTreeMap::new();
    let mut ids: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    let (mut arrivals, mut count) = (Vec::new(), 0);
    loop {
        let patience = all.values().filter_map(|one| one.connection.timeout()).min();
        tokio::select! {
            received = port.receive(&mut arrivals) => received?,
            () = pause(patience) => {}
        }
        for arrival in arrivals.drain(..) {
            let mut arrival = arrival;
            let Ok(header) = quiche::Header::from_slice(&mut arrival.bytes, 16) else { continue };
            let known = ids.get(header.dcid.as_ref()).copied();
            let key = match known {
                Some(key) => key,
                None => match admit(job, &port, &header, &arrival, &mut config).await? {
                    Some(connection) => {
                        count += 1;
                        ids.insert(header.dcid.to_vec(), count);
                        all.insert(count, QuicheServed { connection, app: App::server(job) });
                        count
                    }
                    None => continue,
                },
            };
            if let Some(one) = all.get_mut(&key) {
                receive(&mut one.connection, &mut vec![arrival], port.address());
            }
        }
        for (key, one) in &mut all {
            if one.connection.timeout().is_some_and(|left| left.is_zero()) {
                one.connection.on_timeout();
            }
            if one.connection.is_established() || one.connection.is_in_early_data() {
                spare(&mut one.connection);
                one.app.turn(&mut one.connection)?;
            }
            for id in one.connection.source_ids() {
                ids.insert(id.to_vec(), *key);
            }
            flush(&mut one.connection, &[&port]).await?;
        }
        all.retain(|_, one| !one.connection.is_closed());
        // quiche gives a connection up whose first datagram does not decrypt: when the client sends it again,
        // with the same id, it is to open another.
        ids.retain(|_, key| all.contains_key(key));
    }
}

/// A new connection, or an answer that it is not yet to be.
async fn admit(
    job: &PlayJob,
    port: &Port,
    header: &quiche::Header<'_>,
    arrival: &Arrival,
    config: &mut Config,
) -> Result<Option<Connection>> {
    if header.ty != quiche::Type::Initial {
        return Ok(None);
    }
    let mut out = [0; 1500];
    if !quiche::version_is_supported(header.version) {
        let len = quiche::negotiate_version(&header.scid, &header.dcid, &mut out)?;
        port.send(arrival.from, Ecn::NotEct, &out[..len]).await;
        return Ok(None);
    }
    let token = header.token.as_deref().unwrap_or_default();
    let mut original = None;
    if job.retries() {
        if token.is_empty() {
            // The token is the id that the client chose: nobody forges it here.
            let id = random();
            let id = ConnectionId::from_ref(&id);
            let len = quiche::retry(&header.scid, &header.dcid, &id, &header.dcid, header.version, &mut out)?;
            port.send(arrival.from, Ecn::NotEct, &out[..len]).await;
            return Ok(None);
        }
        original = Some(ConnectionId::from_ref(token));
    }
    // After a Retry the client uses the id that it was given; otherwise ours is new.
    let fresh = random();
    let id = if original.is_some() { header.dcid.clone() } else { ConnectionId::from_ref(&fresh) };
    Ok(Some(quiche::accept(&id, original.as_ref(), port.address(), arrival.from, config)?))
}

async fn pause(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

fn random() -> [u8; 16] {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system has entropy");
    bytes
}
