use crate::message::HeldKey;

/// The keys and buttons that somebody holds down, so that they can be let go when that somebody is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldInput {
    /// In the order in which they went down.
    keys: Vec<HeldKey>,
    pointer: Option<Pointer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pointer {
    buttons: u8,
    x: u16,
    y: u16,
}

/// What lets go: keys first, in the order in which they went down, then the buttons where the pointer was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Release {
    /// To go up.
    pub(crate) keys: Vec<HeldKey>,
    /// Where no button is down any more.
    pub(crate) pointer: Option<(u16, u16)>,
}

impl HeldInput {
    /// A key goes down or up. False when that is not to be passed on: nobody holds so many.
    pub(crate) fn key(&mut self, down: bool, keysym: u32, keycode: Option<u32>) -> bool {
        let key = HeldKey { keysym, keycode };
        let known = self.keys.iter().position(|&held| held.is(key));
        match (known, down) {
            (Some(at), true) => self.keys[at] = key,
            (Some(at), false) => drop(self.keys.remove(at)),
            (None, true) if self.keys.len() < MOST => self.keys.push(key),
            (None, true) => return false,
            (None, false) => {}
        }
        true
    }

    /// A key is down.
    pub(crate) fn holds(&self, keysym: u32, keycode: Option<u32>) -> bool {
        self.keys.iter().any(|&held| held.is(HeldKey { keysym, keycode }))
    }

    /// Nothing is down.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.pointer.is_none_or(|p| p.buttons == 0)
    }

    /// The pointer is somewhere.
    pub(crate) fn pointer(&mut self, buttons: u8, x: u16, y: u16) {
        self.pointer = Some(Pointer { buttons, x, y });
    }

    /// Lets everything go.
    pub(crate) fn release(&mut self) -> Release {
        let keys = std::mem::take(&mut self.keys);
        let pointer = self.pointer.take().filter(|p| p.buttons != 0).map(|p| (p.x, p.y));
        Release { keys, pointer }
    }
}

/// More than a keyboard has.
const MOST: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(keysym: u32, keycode: Option<u32>) -> HeldKey {
        HeldKey { keysym, keycode }
    }

    #[test]
    fn what_is_down_is_let_go_once() {
        let mut held = HeldInput::default();
        assert!(held.key(true, 0x61, Some(0x1e)) && held.key(true, 0xffe1, None));
        assert!(held.key(true, 0x62, None) && held.key(false, 0x62, None));
        held.pointer(1, 5, 6);
        held.pointer(5, 7, 8);
        let all = Release { keys: vec![key(0x61, Some(0x1e)), key(0xffe1, None)], pointer: Some((7, 8)) };
        assert_eq!(held.release(), all);
        assert_eq!(held.release(), Release::default());
        held.pointer(4, 1, 1);
        held.pointer(0, 1, 1);
        assert_eq!(held.release(), Release::default(), "the button was up");
    }

    #[test]
    fn keys_are_told_apart_by_their_codes() {
        // DT-9: two that have no keysym, and one whose keysym changes with Shift.
        let mut held = HeldInput::default();
        assert!(held.key(true, 0, Some(0x70)) && held.key(true, 0, Some(0x79)));
        assert!(held.key(true, 0x61, Some(0x1e)) && held.key(true, 0xffe1, Some(0x2a)));
        assert!(held.key(false, 0x41, Some(0x1e)), "a became A");
        let keys = vec![key(0, Some(0x70)), key(0, Some(0x79)), key(0xffe1, Some(0x2a))];
        assert_eq!(held.release(), Release { keys, pointer: None });
        // A viewer that learns of codes while a key is down.
        assert!(held.key(true, 0x61, None) && held.key(false, 0x61, Some(0x1e)));
        assert_eq!(held.release(), Release::default());
    }

    #[test]
    fn nobody_holds_more_keys_than_there_are() {
        let mut held = HeldInput::default();
        for n in 0..MOST as u32 {
            assert!(held.key(true, n, None));
        }
        assert!(!held.key(true, 9999, None) && held.key(true, 5, None), "a repeat is no new key");
        assert!(held.key(false, 5, None) && held.key(true, 9999, None));
    }
}
