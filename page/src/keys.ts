// Keys as X11 names them (keysyms), and where they are (XT codes): of what a KeyboardEvent says.

/** The keysym of `KeyboardEvent.key`, or nothing where it has none. `side` is `KeyboardEvent.location`. */
export function keysym(key: string, side = 0): number | undefined {
  const named = side === 3 ? PAD.get(key) ?? NAMED.get(key) : side === 2 ? RIGHT.get(key) ?? NAMED.get(key) : NAMED.get(key);
  if (named !== undefined) return named;
  const points = [...key];
  return points.length === 1 ? ofCharacter(points[0]!) : undefined;
}

/** The keysym of a character: Latin-1 is itself, all else is Unicode's number and 0x01000000. */
export function ofCharacter(character: string): number | undefined {
  const point = character.codePointAt(0);
  if (point === undefined) return undefined;
  if (point === 0x0a || point === 0x0d) return NAMED.get('Enter');
  if (point === 0x09) return NAMED.get('Tab');
  if ((point >= 0x20 && point <= 0x7e) || (point >= 0xa0 && point <= 0xff)) return point;
  return point < 0xa0 ? undefined : 0x0100_0000 + point;
}

/** The XT code of `KeyboardEvent.code`; with 0x80 set where the keyboard sends 0xe0 before it (QEMU's extension). */
export function keycode(code: string): number | undefined {
  return XT.get(code);
}

/** Names are looked up here alone: an object has `toString`, too. */
function table(entries: Record<string, number>): ReadonlyMap<string, number> {
  return new Map(Object.entries(entries));
}

// X11's keysymdef.h.
const NAMED = table({
  Backspace: 0xff08, Tab: 0xff09, Enter: 0xff0d, Pause: 0xff13, ScrollLock: 0xff14, Escape: 0xff1b, Delete: 0xffff,
  Home: 0xff50, ArrowLeft: 0xff51, ArrowUp: 0xff52, ArrowRight: 0xff53, ArrowDown: 0xff54, PageUp: 0xff55, PageDown: 0xff56,
  End: 0xff57, PrintScreen: 0xff61, Insert: 0xff63, Undo: 0xff65, Find: 0xff68, Cancel: 0xff69, Help: 0xff6a,
  ContextMenu: 0xff67, NumLock: 0xff7f, Clear: 0xff0b,
  Shift: 0xffe1, Control: 0xffe3, CapsLock: 0xffe5, Alt: 0xffe9, Meta: 0xffeb, AltGraph: 0xfe03,
  F1: 0xffbe, F2: 0xffbf, F3: 0xffc0, F4: 0xffc1, F5: 0xffc2, F6: 0xffc3, F7: 0xffc4, F8: 0xffc5, F9: 0xffc6, F10: 0xffc7,
  F11: 0xffc8, F12: 0xffc9, F13: 0xffca, F14: 0xffcb, F15: 0xffcc, F16: 0xffcd, F17: 0xffce, F18: 0xffcf, F19: 0xffd0, F20: 0xffd1,
});

const RIGHT = table({ Shift: 0xffe2, Control: 0xffe4, Alt: 0xffea, Meta: 0xffec });

const PAD = table({
  Enter: 0xff8d, Home: 0xff95, ArrowLeft: 0xff96, ArrowUp: 0xff97, ArrowRight: 0xff98, ArrowDown: 0xff99, PageUp: 0xff9a,
  PageDown: 0xff9b, End: 0xff9c, Clear: 0xff9d, Insert: 0xff9e, Delete: 0xff9f, '*': 0xffaa, '+': 0xffab, ',': 0xffac,
  '-': 0xffad, '.': 0xffae, '/': 0xffaf, '=': 0xffbd,
  0: 0xffb0, 1: 0xffb1, 2: 0xffb2, 3: 0xffb3, 4: 0xffb4, 5: 0xffb5, 6: 0xffb6, 7: 0xffb7, 8: 0xffb8, 9: 0xffb9,
});

// Set 1 of scan codes.
const XT = table({
  Escape: 0x01, Digit1: 0x02, Digit2: 0x03, Digit3: 0x04, Digit4: 0x05, Digit5: 0x06, Digit6: 0x07, Digit7: 0x08,
  Digit8: 0x09, Digit9: 0x0a, Digit0: 0x0b, Minus: 0x0c, Equal: 0x0d, Backspace: 0x0e, Tab: 0x0f, KeyQ: 0x10, KeyW: 0x11,
  KeyE: 0x12, KeyR: 0x13, KeyT: 0x14, KeyY: 0x15, KeyU: 0x16, KeyI: 0x17, KeyO: 0x18, KeyP: 0x19, BracketLeft: 0x1a,
  BracketRight: 0x1b, Enter: 0x1c, ControlLeft: 0x1d, KeyA: 0x1e, KeyS: 0x1f, KeyD: 0x20, KeyF: 0x21, KeyG: 0x22, KeyH: 0x23,
  KeyJ: 0x24, KeyK: 0x25, KeyL: 0x26, Semicolon: 0x27, Quote: 0x28, Backquote: 0x29, ShiftLeft: 0x2a, Backslash: 0x2b,
  KeyZ: 0x2c, KeyX: 0x2d, KeyC: 0x2e, KeyV: 0x2f, KeyB: 0x30, KeyN: 0x31, KeyM: 0x32, Comma: 0x33, Period: 0x34, Slash: 0x35,
  ShiftRight: 0x36, NumpadMultiply: 0x37, AltLeft: 0x38, Space: 0x39, CapsLock: 0x3a, F1: 0x3b, F2: 0x3c, F3: 0x3d, F4: 0x3e,
  F5: 0x3f, F6: 0x40, F7: 0x41, F8: 0x42, F9: 0x43, F10: 0x44, NumLock: 0x45, ScrollLock: 0x46, Numpad7: 0x47, Numpad8: 0x48,
  Numpad9: 0x49, NumpadSubtract: 0x4a, Numpad4: 0x4b, Numpad5: 0x4c, Numpad6: 0x4d, NumpadAdd: 0x4e, Numpad1: 0x4f,
  Numpad2: 0x50, Numpad3: 0x51, Numpad0: 0x52, NumpadDecimal: 0x53, IntlBackslash: 0x56, F11: 0x57, F12: 0x58,
  IntlRo: 0x73, IntlYen: 0x7d, KanaMode: 0x70, Convert: 0x79, NonConvert: 0x7b,
  NumpadEnter: 0x9c, ControlRight: 0x9d, NumpadDivide: 0xb5, PrintScreen: 0xb7, AltRight: 0xb8, Home: 0xc7, ArrowUp: 0xc8,
  PageUp: 0xc9, ArrowLeft: 0xcb, ArrowRight: 0xcd, End: 0xcf, ArrowDown: 0xd0, PageDown: 0xd1, Insert: 0xd2, Delete: 0xd3,
  MetaLeft: 0xdb, MetaRight: 0xdc, ContextMenu: 0xdd, Pause: 0xc6,
});
