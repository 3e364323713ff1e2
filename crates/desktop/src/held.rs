use std::collections::BTreeMap;

/// The keys and buttons that somebody holds down, so that they can be let go when that somebody is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// By keysym, with the code that came along.
    keys: BTreeMap<u32, Option<u32>>,
    pointer: Option<Pointer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pointer {
    buttons: u8,
    x: u16,
    y: u16,
}

/// What lets go: keys first, in order, then the buttons where the pointer was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Release {
    /// Keysym and code.
    pub(crate) keys: Vec<(u32, Option<u32>)>,
    /// Where no button is down any more.
    pub(crate) pointer: Option<(u16, u16)>,
}

impl Held {
    /// A key goes down or up. False when that is not to be passed on: nobody holds so many.
    pub(crate) fn key(&mut self, down: bool, keysym: u32, keycode: Option<u32>) -> bool {
        if !down {
            self.keys.remove(&keysym);
        } else if self.keys.len() < MOST || self.keys.contains_key(&keysym) {
            self.keys.insert(keysym, keycode);
        } else {
            return false;
        }
        true
    }

    /// The pointer is somewhere.
    pub(crate) fn pointer(&mut self, buttons: u8, x: u16, y: u16) {
        self.pointer = Some(Pointer { buttons, x, y });
    }

    /// Lets everything go.
    pub(crate) fn release(&mut self) -> Release {
        let keys = std::mem::take(&mut self.keys).into_iter().collect();
        let pointer = self.pointer.take().filter(|p| p.buttons != 0).map(|p| (p.x, p.y));
        Release { keys, pointer }
    }
}

/// More than a keyboard has.
const MOST: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_down_is_let_go_once() {
        let mut held = Held::default();
        assert!(held.key(true, 0x61, Some(0x1e)) && held.key(true, 0xffe1, None));
        assert!(held.key(true, 0x62, None) && held.key(false, 0x62, None));
        held.pointer(1, 5, 6);
        held.pointer(5, 7, 8);
        let all = Release { keys: vec![(0x61, Some(0x1e)), (0xffe1, None)], pointer: Some((7, 8)) };
        assert_eq!(held.release(), all);
        assert_eq!(held.release(), Release::default());
        held.pointer(4, 1, 1);
        held.pointer(0, 1, 1);
        assert_eq!(held.release(), Release::default(), "the button was up");
    }

    #[test]
    fn nobody_holds_more_keys_than_there_are() {
        let mut held = Held::default();
        for n in 0..MOST as u32 {
            assert!(held.key(true, n, None));
        }
        assert!(!held.key(true, 9999, None) && held.key(true, 5, None), "a repeat is no new key");
        assert!(held.key(false, 5, None) && held.key(true, 9999, None));
    }
}
