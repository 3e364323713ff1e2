import assert from 'node:assert/strict';
import test from 'node:test';
import { keycode, keysym, ofCharacter } from '../src/keys.ts';

test('characters are themselves in Latin-1, and Unicode beyond', () => {
  // X11, appendix A: keysyms of Latin-1 and Unicode.
  assert.equal(keysym('a'), 0x61);
  assert.equal(keysym('é'), 0xe9);
  assert.equal(keysym('€'), 0x0100_20ac);
  assert.equal(keysym('ж'), 0x0100_0436);
  assert.equal(keysym('😀'), 0x0101_f600);
  assert.equal(ofCharacter('\n'), 0xff0d);
  assert.equal(ofCharacter('\u0007'), undefined);
  assert.equal(ofCharacter(''), undefined);
});

test('named keys know their side, and dead keys wait for their character', () => {
  assert.equal(keysym('Shift', 1), 0xffe1);
  assert.equal(keysym('Shift', 2), 0xffe2);
  assert.equal(keysym('Enter', 3), 0xff8d);
  assert.equal(keysym('7', 3), 0xffb7);
  assert.equal(keysym('F12'), 0xffc9);
  for (const key of ['Dead', 'Process', 'Unidentified', 'toString', 'constructor']) assert.equal(keysym(key), undefined);
});

test('codes are those of the first set, with 0x80 behind 0xe0', () => {
  assert.equal(keycode('KeyA'), 0x1e);
  assert.equal(keycode('ControlRight'), 0x9d);
  assert.equal(keycode('toString'), undefined);
});
