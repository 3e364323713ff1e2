import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ofEnding, readLink } from '../src/link.ts';

const hash = Buffer.from(Uint8Array.from({ length: 32 }, (_, n) => n)).toString('base64url');

test('a link has a server, hashes and a token', () => {
  const link = readLink(`#server=[2001:db8::1]:4433&hash=${hash},${hash}&token=abcde-12345`, 'localhost:4480');
  assert.ok(typeof link !== 'string');
  assert.equal(link.server, '[2001:db8::1]:4433');
  assert.equal(link.token, 'abcde-12345');
  assert.deepEqual(link.hashes.map((bytes) => [bytes.length, bytes[31]]), [[32, 31], [32, 31]]);
  // With a certificate of an authority the page comes from the server itself.
  assert.deepEqual(readLink('#token=t', 'desk.example:4433'), { server: 'desk.example:4433', hashes: [], token: 't', desktop: '' });
  assert.equal((readLink('#token=t&desktop=work', 'h') as { desktop: string }).desktop, 'work');
});

test('a link that was cut or altered is a sentence', () => {
  for (const fragment of ['', '#', '#token=', `#hash=${hash}`]) {
    assert.match(String(readLink(fragment, 'h')), /has no token/);
  }
  for (const altered of [hash.slice(1), `${hash}AAAA`, '!!', `${hash},x`]) {
    assert.match(String(readLink(`#token=t&hash=${altered}`, 'h')), /was cut, or altered/);
  }
  for (const server of ['a/b', 'a?b', 'u@h', 'h:port', 'h:123456']) {
    assert.match(String(readLink(`#token=t&server=${encodeURIComponent(server)}`, 'h')), /names no server/);
  }
});

test('what ends for good is not tried again', () => {
  assert.deepEqual([2, 3, 4, 6].map((code) => ofEnding(code, '').again), [false, false, false, false]);
  assert.deepEqual([0, 1, 5, 7, 9].map((code) => ofEnding(code, '').again), [true, true, true, true, true]);
  assert.equal(ofEnding(3, 'ask for a new one').text, 'ask for a new one');
});
