import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isSilent, keepWishes, keptWishes, NO_WISHES, readPicture, readRate, said, writeRate } from '../src/wishes.ts';

class Drawer {
  readonly kept = new Map<string, string>();
  getItem(name: string): string | null { return this.kept.get(name) ?? null; }
  setItem(name: string, text: string): void { this.kept.set(name, text); }
}

test('a rate is in Mbit/s, and nonsense is no limit', () => {
  assert.deepEqual(['2', ' 0.5 ', '1,5', '.25', '100'].map(readRate), [2e6, 5e5, 1.5e6, 2.5e5, 1e8]);
  for (const nonsense of ['', ' ', '0', '-1', '1e9', 'NaN', 'Infinity', '2 mbit', '0x10', '1.2.3', '1'.repeat(400)]) {
    assert.equal(readRate(nonsense), 0, nonsense);
  }
  // DT-78: a server may take less for 100 kbit/s, and what is more than any path takes is said as that.
  assert.deepEqual(['0.001', '999999999999'].map(readRate), [100_000, 100_000_000_000]);
  for (const text of ['2', '0.5', '']) assert.equal(writeRate(readRate(text)), text);
});

test('each picture is a pair of qualities that a server takes, or none', () => {
  // DT-84: 1 <= least <= most <= 100, or two zeros.
  for (const picture of ['sharp', 'fast'] as const) {
    const { least, most } = said({ picture, rate: 0 });
    assert.ok(1 <= least && least <= most && most <= 100, picture);
  }
  assert.ok(said({ picture: 'sharp', rate: 0 }).least > said({ picture: 'fast', rate: 0 }).most);
  assert.deepEqual(said(NO_WISHES), { rate: 0, least: 0, most: 0 });
  assert.ok(isSilent(said(NO_WISHES)) && !isSilent(said({ picture: 'fast', rate: 0 })));
  assert.ok(!isSilent(said({ picture: 'balanced', rate: 1e6 })));
  assert.equal(readPicture('<b>'), 'balanced');
});

test('wishes are kept for each server and desktop, without its token', () => {
  const drawer = new Drawer();
  keepWishes(() => drawer, 'desk:4433', 'work', { picture: 'fast', rate: 2e6 });
  assert.deepEqual(keptWishes(() => drawer, 'desk:4433', 'work'), { picture: 'fast', rate: 2e6 });
  for (const [server, desktop] of [['desk:4433', ''], ['other:4433', 'work']] as const) {
    assert.deepEqual(keptWishes(() => drawer, server, desktop), NO_WISHES);
  }
  assert.deepEqual([...drawer.kept.keys()], ['wishes desk:4433 work']);
});

test('what was altered where it is kept, or cannot be kept, is no wish', () => {
  const none = (): Storage => { throw new Error('this window keeps nothing'); };
  assert.deepEqual(keptWishes(none, 'h', ''), NO_WISHES);
  keepWishes(none, 'h', '', { picture: 'fast', rate: 0 });
  const texts = ['', '{', 'null', '[]', '7', '{"picture":7,"rate":"2"}', '{"rate":-5}', '{"rate":1e999}', '{"picture":"__proto__"}'];
  for (const text of texts) {
    assert.deepEqual(keptWishes(() => ({ getItem: () => text }), 'h', ''), NO_WISHES, text);
  }
  assert.equal(keptWishes(() => ({ getItem: () => '{"rate":1}' }), 'h', '').rate, 100_000);
});
