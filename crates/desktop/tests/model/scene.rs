//! What an RFB server may draw, kept as plainly as possible.

use quickset_base::Rng;
use quickset_rfb::{ClientEvent, Framebuffer, Rect, Resize, ResizeReason, ResizeStatus};

/// An event that owns its pixels.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Pixels(Rect, Vec<u32>),
    Copy(Rect, u16, u16),
    Resize(u16, u16),
    End,
}

impl Event {
    pub(crate) fn with<R>(&self, f: impl FnOnce(&ClientEvent<'_>) -> R) -> R {
        match self {
            Self::Pixels(rect, pixels) => f(&ClientEvent::Pixels { rect: *rect, pixels }),
            Self::Copy(rect, x, y) => f(&ClientEvent::Copy { rect: *rect, x: *x, y: *y }),
            Self::Resize(width, height) => f(&ClientEvent::Resize(Resize {
                width: *width,
                height: *height,
                reason: ResizeReason::Server,
                status: ResizeStatus::Done,
                screens: Vec::new(),
            })),
            Self::End => f(&ClientEvent::UpdateEnd),
        }
    }
}

/// A screen as a list of pixels, and what was drawn since it was asked last.
pub(crate) struct Scene {
    width: u16,
    height: u16,
    pixels: Vec<u32>,
    rng: Rng,
    events: Vec<Event>,
}

impl Scene {
    pub(crate) fn new(width: u16, height: u16, rng: Rng) -> Self {
        let pixels = vec![0; width as usize * height as usize];
        Self { width, height, pixels, rng, events: Vec::new() }
    }

    pub(crate) fn ready(&self) -> Event {
        Event::Resize(self.width, self.height)
    }

    pub(crate) fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// The whole screen, as a server sends it to a new client.
    pub(crate) fn whole(&self) -> Vec<Event> {
        vec![
            self.ready(),
            Event::Pixels(Rect::sized(self.width, self.height), self.pixels.clone()),
            Event::End,
        ]
    }

    /// Draws something that desktops draw.
    pub(crate) fn update(&mut self) {
        match self.rng.below(20) {
            0..4 => self.fills(),
            4..7 => self.text(),
            7..9 => self.film(),
            9..14 => self.scroll(),
            14..17 => self.drag(),
            17 => self.pixel(),
            18 => self.noise(),
            _ => self.resize(),
        }
        self.events.push(Event::End);
    }

    pub(crate) fn fill(&mut self, rect: Rect, colour: u32) {
        self.put(rect, vec![colour; rect.area()]);
        self.events.push(Event::End);
    }

    /// Where the screen is not as it should be.
    pub(crate) fn compare(&self, screen: &Framebuffer) -> Result<(), String> {
        if (screen.width(), screen.height()) != (self.width, self.height) {
            return Err(format!("{}x{} for {}x{}", screen.width(), screen.height(), self.width, self.height));
        }
        let wrong = screen.pixels().iter().zip(&self.pixels).position(|(a, b)| a != b);
        match wrong {
            None => Ok(()),
            Some(at) => Err(format!(
                "({}, {}): {:06x} for {:06x}",
                at % self.width as usize,
                at / self.width as usize,
                screen.pixels()[at],
                self.pixels[at]
            )),
        }
    }

    fn rect(&mut self) -> Rect {
        let x = self.rng.below(self.width.into()) as u16;
        let y = self.rng.below(self.height.into()) as u16;
        let width = 1 + self.rng.below(u64::from(self.width - x)) as u16;
        let height = 1 + self.rng.below(u64::from(self.height - y)) as u16;
        Rect::new(x, y, width, height).unwrap()
    }

    fn put(&mut self, rect: Rect, pixels: Vec<u32>) {
        for (i, &pixel) in pixels.iter().enumerate() {
            let x = rect.left() as usize + i % rect.width() as usize;
            let y = rect.top() as usize + i / rect.width() as usize;
            self.pixels[y * self.width as usize + x] = pixel;
        }
        self.events.push(Event::Pixels(rect, pixels));
    }

    fn copy(&mut self, to: Rect, x: u16, y: u16) {
        let old = self.pixels.clone();
        for dy in 0..to.height() {
            for dx in 0..to.width() {
                let at = |x: u16, y: u16| y as usize * self.width as usize + x as usize;
                self.pixels[at(to.left() + dx, to.top() + dy)] = old[at(x + dx, y + dy)];
            }
        }
        self.events.push(Event::Copy(to, x, y));
    }

    fn fills(&mut self) {
        for _ in 0..=self.rng.below(4) {
            let (rect, colour) = (self.rect(), self.rng.next() as u32 & 0xff_ffff);
            self.put(rect, vec![colour; rect.area()]);
        }
    }

    fn text(&mut self) {
        let rect = self.rect();
        let shades: Vec<u32> = (0..=self.rng.below(30)).map(|_| self.rng.next() as u32 & 0xff_ffff).collect();
        let pixels = (0..rect.area())
            .map(|i| {
                let ink = self.rng.chance(0.2);
                shades
                    [if ink { self.rng.below(shades.len() as u64) as usize } else { i / 4000 % shades.len() }]
            })
            .collect();
        self.put(rect, pixels);
    }

    /// Smooth and of many colours, with some noise.
    fn film(&mut self) {
        let rect = self.rect();
        let (a, b) = (self.rng.below(200) as u32, self.rng.below(3) as u32 + 1);
        let pixels = (0..rect.area() as u32)
            .map(|i| {
                let (x, y) = (i % u32::from(rect.width()), i / u32::from(rect.width()));
                let noise = self.rng.below(4) as u32;
                let rgb = [a + x * b + noise, y * b + noise, x + y + a].map(|v| v as u8);
                u32::from_be_bytes([0, rgb[0], rgb[1], rgb[2]])
            })
            .collect();
        self.put(rect, pixels);
    }

    /// A window moves up or down, then what has come into view is drawn: over the source of the copy.
    fn scroll(&mut self) {
        let window = self.rect();
        if window.height() < 3 {
            return;
        }
        let by = 1 + self.rng.below(u64::from(window.height() - 1)) as u16;
        let (l, t, r, b) = (window.left(), window.top(), window.right(), window.bottom());
        let colour = self.rng.below(3) as u32 * 0x40_4040;
        let strip = if self.rng.chance(0.5) {
            self.copy(Rect::between(l, t, r, b - by), l, t + by);
            Rect::between(l, b - by, r, b)
        } else {
            self.copy(Rect::between(l, t + by, r, b), l, t);
            Rect::between(l, t, r, t + by)
        };
        let pixels = (0..strip.area()).map(|i| if i % 7 == 0 { 0xff_ffff } else { colour }).collect();
        self.put(strip, pixels);
    }

    /// A rectangle moves anywhere; several times at once now and then.
    fn drag(&mut self) {
        for _ in 0..=self.rng.below(3) {
            let to = self.rect();
            let x = self.rng.below(u64::from(self.width - to.width()) + 1) as u16;
            let y = self.rng.below(u64::from(self.height - to.height()) + 1) as u16;
            self.copy(to, x, y);
            if self.rng.chance(0.6) {
                let cover = Rect::new(x, y, to.width(), 1 + to.height() / 3).unwrap();
                self.put(cover, vec![0x80_8080; cover.area()]);
            }
        }
    }

    fn pixel(&mut self) {
        let rect = self.rect();
        let colour = self.rng.next() as u32 & 0xff_ffff;
        self.put(Rect::new(rect.left(), rect.top(), 1, 1).unwrap(), vec![colour]);
    }

    fn noise(&mut self) {
        let rect = self.rect();
        let pixels = (0..rect.area()).map(|_| self.rng.next() as u32 & 0xff_ffff).collect();
        self.put(rect, pixels);
    }

    fn resize(&mut self) {
        let (width, height) = (40 + self.rng.below(180) as u16, 40 + self.rng.below(150) as u16);
        let mut pixels = vec![0; width as usize * height as usize];
        for y in 0..height.min(self.height) as usize {
            for x in 0..width.min(self.width) as usize {
                pixels[y * width as usize + x] = self.pixels[y * self.width as usize + x];
            }
        }
        (self.width, self.height, self.pixels) = (width, height, pixels);
        self.events.push(Event::Resize(width, height));
    }
}
