//! An X server with a window that turns pages, and shows in a corner how many keys were pressed.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::SystemTime;

use x11rb::connection::{Connection as _, RequestConnection as _};
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    ChangeGCAux, ConnectionExt as _, CreateGCAux, CreateWindowAux, EventMask, Gcontext, ImageFormat,
    InputFocus, Rectangle, Time, Window, WindowClass,
};
use x11rb::rust_connection::RustConnection;

use quickset_rfb::Rect;

use super::pages::{Book, PAGE};
use super::programs::Display;

/// A desktop, far away from whoever looks at it.
pub(crate) struct Desktop {
    pub(crate) display: Display,
    x: Arc<RustConnection>,
    window: Window,
    gc: Gcontext,
    _keys: JoinHandle<()>,
}

impl Desktop {
    pub(crate) async fn start() -> Self {
        Self::on(Display::start(PAGE.width(), PAGE.height()).await)
    }

    /// On this display.
    pub(crate) fn on(display: Display) -> Self {
        let (x, number) = RustConnection::connect(Some(&display.name)).unwrap();
        let x = Arc::new(x);
        x.prefetch_maximum_request_bytes();
        let screen = &x.setup().roots[number];
        let [window, gc, keys] = std::array::from_fn(|_| x.generate_id().unwrap());
        let look = CreateWindowAux::new().override_redirect(1).event_mask(EventMask::KEY_PRESS);
        let (width, height, class) = (PAGE.width(), PAGE.height(), WindowClass::INPUT_OUTPUT);
        x.create_window(screen.root_depth, window, screen.root, 0, 0, width, height, 0, class, 0, &look)
            .unwrap();
        for gc in [gc, keys] {
            x.create_gc(gc, window, &CreateGCAux::new()).unwrap();
        }
        x.map_window(window).unwrap();
        x.set_input_focus(InputFocus::PARENT, window, Time::CURRENT_TIME).unwrap().check().unwrap();
        let listens = x.clone();
        // It ends with the X server.
        let keys = std::thread::spawn(move || {
            let mut pressed = 0;
            while let Ok(event) = listens.wait_for_event() {
                if matches!(event, Event::KeyPress(_)) {
                    pressed += 1;
                    let colour = ChangeGCAux::new().foreground(pixel(colour(pressed)));
                    let corner = Rectangle { x: 0, y: 0, width: 12, height: 12 };
                    let drawn = listens
                        .change_gc(keys, &colour)
                        .and_then(|_| listens.poly_fill_rectangle(window, keys, &[corner]));
                    if drawn.and_then(|_| listens.flush()).is_err() {
                        return;
                    }
                }
            }
        });
        Self { display, x, window, gc, _keys: keys }
    }

    /// Turns to a page, which says at many places which it is. When that began.
    pub(crate) fn turn(&self, book: &Book, number: u64) -> SystemTime {
        let mut pixels = book.page(number);
        let (width, mark) = (usize::from(PAGE.width()), pixel(colour(number)));
        for y in (28..usize::from(PAGE.height())).step_by(32).flat_map(|y| y..y + 4) {
            for x in (28..width).step_by(32) {
                pixels[y * width + x..][..4].fill(mark);
            }
        }
        self.put(PAGE, &pixels)
    }

    /// Draws these pixels, row by row. When that began.
    pub(crate) fn put(&self, rect: Rect, pixels: &[u32]) -> SystemTime {
        let bytes: Vec<u8> = pixels.iter().flat_map(|pixel| pixel.to_le_bytes()).collect();
        let begun = SystemTime::now();
        let (left, top) = (place(rect.left()), place(rect.top()));
        let (width, height, format) = (rect.width(), rect.height(), ImageFormat::Z_PIXMAP);
        self.x.put_image(format, self.window, self.gc, width, height, left, top, 0, 24, &bytes).unwrap();
        self.x.flush().unwrap();
        begun
    }

    /// Moves everything up by so many rows. It is drawn with what comes next.
    pub(crate) fn scroll(&self, rows: u16) {
        let (width, height) = (PAGE.width(), PAGE.height() - rows);
        self.x.copy_area(self.window, self.window, self.gc, 0, place(rows), 0, 0, width, height).unwrap();
    }
}

/// X has signs for places.
fn place(at: u16) -> i16 {
    i16::try_from(at).unwrap()
}

/// Three bits: red, green, blue. Never black, and never the one before.
pub(crate) fn colour(number: u64) -> u32 {
    u32::try_from(number % 7 + 1).unwrap()
}

fn pixel(colour: u32) -> u32 {
    [(4, 0xff_0000), (2, 0xff00), (1, 0xff)]
        .iter()
        .filter(|(bit, _)| colour & bit != 0)
        .map(|(_, part)| part)
        .sum()
}
