//! Writes the test desktop as it looks after some updates: `screenshot [FILE.png [UPDATES]]`.

use quickset_lab::screen::{Desktop, Picture};

fn main() -> std::io::Result<()> {
    let mut words = std::env::args().skip(1);
    let file = words.next().unwrap_or_else(|| std::env::temp_dir().join("desktop.png").display().to_string());
    let updates = words.next().and_then(|n| n.parse().ok()).unwrap_or(60);
    let (mut desktop, mut picture) = (Desktop::new(1), Picture::new());
    for _ in 0..updates {
        let started = std::time::Instant::now();
        let update = desktop.update();
        let took = started.elapsed();
        let bytes: usize = update.messages.iter().map(|(_, message)| message.len()).sum();
        println!("update {}: {} messages, {bytes} bytes, {took:?}", update.number, update.messages.len());
        for (_, message) in &update.messages {
            picture.draw(message).map_err(std::io::Error::other)?;
        }
    }
    std::fs::write(&file, picture.png())?;
    println!("{file}");
    Ok(())
}
