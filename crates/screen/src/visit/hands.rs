use crate::message::{HeldKey, PersonInput};

/// The keys and buttons of a person, as far as the server was told of them and as they are.
#[derive(Clone, Debug, Default)]
pub(super) struct PersonHands {
    keys: Vec<HandKey>,
    pointer: HandPointer,
}

#[derive(Clone, Copy, Debug)]
struct HandKey {
    key: HeldKey,
    /// The server has it for down, unless it has let it go by itself.
    is_told: bool,
    is_down: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct HandPointer {
    /// What the server was told.
    told: u8,
    /// What of that has been down ever since.
    down: u8,
    at: (u16, u16),
}

impl PersonHands {
    /// The server was told of this.
    pub(super) fn pass(&mut self, input: &PersonInput) {
        match *input {
            PersonInput::Key { down: true, keysym, keycode } => self.press(HeldKey { keysym, keycode }, true),
            PersonInput::Key { down: false, keysym, keycode } => {
                self.keys.retain(|held| !held.key.is(HeldKey { keysym, keycode }));
            }
            PersonInput::Pointer { buttons, x, y } => {
                self.pointer = HandPointer { told: buttons, down: buttons, at: (x, y) };
            }
            PersonInput::Held { .. } | PersonInput::Clipboard(_) => {}
        }
    }

    /// The server may have been told of this, and will not be told again.
    pub(super) fn doubt(&mut self, input: &PersonInput) {
        match *input {
            PersonInput::Key { down: true, keysym, keycode } => self.press(HeldKey { keysym, keycode }, true),
            PersonInput::Pointer { buttons, .. } => {
                self.pointer.told |= buttons;
                self.miss(input);
            }
            PersonInput::Key { .. } | PersonInput::Held { .. } | PersonInput::Clipboard(_) => {
                self.miss(input);
            }
        }
    }

    /// This was done, and the server will not be told.
    pub(super) fn miss(&mut self, input: &PersonInput) {
        match *input {
            PersonInput::Key { down: true, keysym, keycode } => {
                let known = self.keys.iter().any(|held| held.key.is(HeldKey { keysym, keycode }));
                if known || is_modifier(keysym) {
                    self.press(HeldKey { keysym, keycode }, false);
                }
            }
            PersonInput::Key { down: false, keysym, keycode } => {
                self.keys.retain(|held| held.is_told || !held.key.is(HeldKey { keysym, keycode }));
                let same = self.keys.iter_mut().find(|held| held.key.is(HeldKey { keysym, keycode }));
                if let Some(held) = same {
                    held.is_down = false;
                }
            }
            PersonInput::Pointer { buttons, x, y } => {
                self.pointer = HandPointer { down: self.pointer.down & buttons, at: (x, y), ..self.pointer };
            }
            PersonInput::Held { .. } | PersonInput::Clipboard(_) => {}
        }
    }

    /// The server knows nothing of all this.
    pub(super) fn forget(&mut self) {
        self.keys.retain(|held| held.is_down);
        self.keys.iter_mut().for_each(|held| held.is_told = false);
        (self.pointer.told, self.pointer.down) = (0, 0);
    }

    /// What lets go of all that was let go while the server was not told: keys in the order in which they
    /// went down, then buttons. Nothing of it presses anything.
    pub(super) fn let_go(&self) -> Vec<PersonInput> {
        let keys = self.keys.iter().filter(|held| held.is_told && !held.is_down).map(|held| {
            let HeldKey { keysym, keycode } = held.key;
            PersonInput::Key { down: false, keysym, keycode }
        });
        let HandPointer { told, down, at: (x, y) } = self.pointer;
        let pointer = (told != down).then_some(PersonInput::Pointer { buttons: down, x, y });
        keys.chain(pointer).collect()
    }

    /// The buttons that the server has for down once that is said.
    pub(super) fn buttons(&self) -> u8 {
        self.pointer.down
    }

    /// DT-66: the modifiers that are down, of which the server is told again. Other keys would type
    /// something.
    pub(super) fn hold(&mut self) -> Vec<PersonInput> {
        let mut all = Vec::new();
        for held in self.keys.iter_mut().filter(|held| held.is_down && is_modifier(held.key.keysym)) {
            let HeldKey { keysym, keycode } = held.key;
            held.is_told = true;
            all.push(PersonInput::Held { keysym, keycode });
        }
        all
    }

    fn press(&mut self, key: HeldKey, is_told: bool) {
        let known = self.keys.iter_mut().find(|held| held.key.is(key));
        if let Some(held) = known {
            *held = HandKey { key, is_told: held.is_told || is_told, is_down: true };
        } else if self.keys.len() < MOST {
            // Nobody holds more.
            self.keys.push(HandKey { key, is_told, is_down: true });
        }
    }
}

/// Keys of X11 that change what others mean while they are down. Those that lock are none: pressed again they
/// would unlock.
fn is_modifier(keysym: u32) -> bool {
    const CAPS_LOCK: u32 = 0xffe5;
    const SHIFT_LOCK: u32 = 0xffe6;
    match keysym {
        CAPS_LOCK | SHIFT_LOCK => false,
        // Shift_L to Hyper_R; ISO_Level3_Shift, ISO_Level5_Shift, Mode_switch.
        0xffe1..=0xffee | 0xfe03 | 0xfe11 | 0xff7e => true,
        _ => false,
    }
}

/// More than a keyboard has.
const MOST: usize = 256;
