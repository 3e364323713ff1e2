//! What the server tells Prometheus, and what repair does for urgent answers.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::relay::{Relay, Weather};
use super::served::{Served, text};

/// A server with figures, and the address of these.
pub(crate) fn with_figures(name: &str, words: &[&str]) -> (Served, String) {
    let words = [words, &["--metrics", "127.0.0.1:0"]].concat();
    let mut served = Served::new(name, &words);
    let mut log = BufReader::new(served.server.stderr.take().unwrap());
    let mut line = String::new();
    log.read_line(&mut line).unwrap();
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    served.server.stderr = Some(log.into_inner());
    (served, address)
}

/// The samples of the moment: those that count.
pub(crate) fn figures(address: &str) -> BTreeMap<String, u64> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, page) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    let samples = lines.map(|line| line.rsplit_once(' ').unwrap());
    samples.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
}

#[test]
fn figures_tell_what_was_served() {
    let (served, address) = with_figures("figures", &[]);
    assert_eq!(figures(&address)["quickset_http_requests_total{version=\"HTTP/3\",status=\"2xx\"}"], 0);
    let output = served.get(&["/large.bin", "/small.txt", "/nothing"], &["--json"]);
    assert_eq!(output.status.code(), Some(1));
    // The client is gone; the server hears of it, and counts its connection all the same.
    let began = Instant::now();
    let all = loop {
        let all = figures(&address);
        if all["quickset_connections"] == 0 && all["quickset_http_requests_active"] == 0 {
            break all;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{all:?}");
        std::thread::sleep(Duration::from_millis(20));
    };
    for (name, value) in [
        ("quickset_http_requests_total{version=\"HTTP/3\",status=\"2xx\"}", 2),
        ("quickset_http_requests_total{version=\"HTTP/3\",status=\"4xx\"}", 1),
        ("quickset_http_requests_total{version=\"HTTP/1\",status=\"2xx\"}", 0),
        ("quickset_connections_accepted_total", 1),
        ("quickset_fec_source_symbols_total", 0),
    ] {
        assert_eq!(all[name], value, "{name}");
    }
    let content = all["quickset_http_content_bytes_total{version=\"HTTP/3\"}"];
    assert!((3_000_005..3_000_200).contains(&content), "{content}");
    assert!(all["quickset_sent_bytes_total"] > content);
    assert!(all["quickset_sent_datagrams_total"] * 65_507 > content);
}

/// Each answer is some packets, of which every ninth is lost. How many of them are recovered is a matter of
/// time, since what is seen to be lost before the repair leaves is sent again; on a machine that does nothing
/// else it is a fifth of them and more, and on one that does, none of a few: then all are fetched again.
#[test]
fn answers_are_repaired_where_the_server_or_the_request_says_so() {
    let table = [
        ("tum:3", "u=3", "u=2"),
        ("tum:3:1ms", "u=3", "u=2"),
        ("fixed:4", "u=2, exp_b=0", "u=2"),
        // The requests' word is enough.
        ("none", "u=0", "u=5, exp_b=3"),
        ("none", "u=0, exp_b=x, exp_d=20", "u=7, i, exp_b=2"),
        // And so is that of the server's rules.
        ("rules", "u=0, exp_b=0", "u=7"),
    ];
    let rules = std::env::temp_dir().join(format!("quickset-rules-{}.toml", std::process::id()));
    let rule = "[[rule]]\npath = \"/*.bin\"\ntype = \"application/*\"\nexp_b = 3\nunless_asked = true";
    std::fs::write(&rules, rule).unwrap();
    for (fec, usual, urgent) in table {
        let how = if fec == "rules" { ["--priorities", rules.to_str().unwrap()] } else { ["--fec", fec] };
        let (served, address) = with_figures("repair", &how);
        let relay =
            Relay::new(served.address.parse().unwrap(), Weather { lose_each: 9, ..Weather::default() });
        let names: Vec<String> = (0..40).map(|i| format!("{i}.bin")).collect();
        let content =
            |i: usize| -> Vec<u8> { (0..14_000).map(|at| (at * 7 + i * 31).to_le_bytes()[0]).collect() };
        for (i, name) in names.iter().enumerate() {
            std::fs::write(served.folder.join("site").join(name), content(i)).unwrap();
        }
        let fetch = |urgency: &str| {
            let urls: Vec<String> = names.iter().map(|n| format!("https://{}/{n}", relay.address)).collect();
            let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
            let got = served.folder.join("got");
            let more = ["--priority", urgency, "-o", got.to_str().unwrap()];
            let output = served.get_urls(&urls, &more);
            assert!(output.status.success(), "{fec}: {}", text(&output.stderr));
            for (i, name) in names.iter().enumerate() {
                assert!(std::fs::read(served.got(name)).unwrap() == content(i), "{fec}: {name}");
            }
        };
        fetch(usual);
        let all = figures(&address);
        let symbols = (all["quickset_fec_source_symbols_total"], all["quickset_fec_repair_symbols_total"]);
        assert_eq!(symbols, (0, 0), "{fec}, {usual}: of what is not to be repaired");
        let lost = relay.lost();
        assert!(lost > 20, "{lost}");

        let is_repaired = (0..10).any(|_| {
            fetch(urgent);
            figures(&address)["quickset_fec_recovered_symbols_total"] > 0
        });
        assert!(
            is_repaired,
            "{fec}, {urgent}: of {} lost none recovered: {:?}",
            relay.lost() - lost,
            figures(&address)
        );
    }
}
