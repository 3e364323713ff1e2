import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Ring, stretched, type Stereo } from '../src/ring.ts';

const LEAD = 720;
const PIECE = 960;
const CALL = 128;

/** A tone of 1 kHz of full amplitude, from its sample `from` on. */
const tone = (from: number, length = PIECE): Stereo => {
  const samples = Float32Array.from({ length }, (_, n) => Math.sin(((from + n) * 2 * Math.PI) / 48));
  return [samples, samples.slice()];
};

/** A device whose clock is faster by a share, and pieces that come late by up to so many samples, for a minute. */
function play(drift: number, late: (n: number) => number): { ring: Ring; heard: Float32Array } {
  const ring = new Ring(LEAD);
  const pieces = 3000;
  const heard = new Float32Array(Math.floor((pieces * PIECE * (1 + drift)) / CALL) * CALL);
  let next = 0;
  for (let at = 0; at < heard.length; at += CALL) {
    // In samples of the sender's clock.
    const now = at / (1 + drift);
    while (next < pieces && next * PIECE + late(next) <= now) ring.push(tone(next++ * PIECE));
    const right = new Float32Array(CALL);
    ring.pull([heard.subarray(at, at + CALL), right]);
    assert.deepEqual(heard.subarray(at, at + CALL), right);
  }
  return { ring, heard };
}

test('a device whose clock is faster or slower is followed without a gap', () => {
  for (const drift of [-0.003, 0, 0.003]) {
    const { ring, heard } = play(drift, () => 0);
    const { gaps, skips, level } = ring.figures;
    assert.deepEqual([gaps, skips], [0, 0], `${drift}`);
    // At the end the surplus is what follows the drift: a second of samples by its share, and a piece at most.
    assert.ok(Math.abs(level - LEAD - drift * -48_000) < PIECE + 200, `${drift}: ${level}`);
    // A sine of 1 kHz changes by 0.131 at most between two samples, and by little more when it is played faster.
    for (let n = LEAD + 1; n < heard.length; n += 1) {
      assert.ok(Math.abs(heard[n]! - heard[n - 1]!) < 0.133, `${drift}: ${n}`);
    }
  }
});

test('pieces that come late by less than the lead make no gap', () => {
  let odd = 1;
  const late = (): number => (odd = (odd * 48_271) % 2_147_483_647) % 560;
  assert.equal(play(0.0005, late).ring.figures.gaps, 0);
});

test('one that comes too late is one gap, and a pause is none', () => {
  const ring = new Ring(LEAD);
  const pull = (samples: number): Float32Array => {
    const out = new Float32Array(samples);
    ring.pull([out, new Float32Array(samples)]);
    return out;
  };
  ring.push(tone(0));
  // The lead is silence, and then the piece follows.
  const heard = pull(LEAD + PIECE);
  assert.ok(heard.subarray(0, LEAD).every((sample) => sample === 0) && heard[LEAD + 12] === 1);
  pull(500);
  ring.push(tone(0));
  assert.equal(ring.figures.gaps, 1);
  // It waits a little longer from then on, so that the next may be as late.
  assert.equal(ring.figures.lead, LEAD + 240);
  pull(30_000);
  ring.push(tone(0));
  assert.equal(ring.figures.gaps, 1);
});

test('a lead that is too short for a device grows until there are no gaps', () => {
  const ring = new Ring(LEAD);
  let [gaps, before] = [0, 0];
  // Pieces by the clock, and a device that takes 45 ms at a time.
  for (let at = 0, next = 0; at < 3000 * PIECE; at += 2160) {
    while (next * PIECE <= at) ring.push(tone(next++ * PIECE));
    ring.pull([new Float32Array(2160), new Float32Array(2160)]);
    if (at < 1500 * PIECE) before = ring.figures.gaps;
    gaps = ring.figures.gaps;
  }
  assert.ok(before > 0 && gaps === before, `${before} gaps, and ${gaps - before} later`);
  assert.ok(ring.figures.lead <= 2880);
});

test('a device that never calls holds a bounded number of samples', () => {
  const ring = new Ring(LEAD);
  for (let n = 0; n < 1000; n += 1) {
    ring.push(tone(n * PIECE));
    assert.ok(ring.figures.level <= LEAD + 2880 + PIECE);
  }
  assert.ok(ring.figures.skips > 100);
  // A piece that is much too long is cut.
  ring.push(tone(0, 1 << 20));
  assert.ok(ring.figures.level <= LEAD + 2880 + 2880 + PIECE);
});

test('a channel is drawn out along lines', () => {
  const line = Float32Array.from({ length: 960 }, (_, n) => n);
  assert.equal(stretched(line, 960), line);
  for (const samples of [951, 969]) {
    const out = stretched(line, samples);
    assert.equal(out.length, samples);
    out.slice(0, 940).forEach((value, n) => assert.ok(Math.abs(value - (n * 960) / samples) < 1e-3));
  }
  assert.equal(stretched(new Float32Array(0), 960).length, 0);
});
