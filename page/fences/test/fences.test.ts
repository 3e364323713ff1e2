import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';

import { FencedSession, load, type DatagramCarrier, type FencedClock } from '../src/index.ts';

await load(await readFile(new URL('../src/fences_bg.wasm', import.meta.url)));

/** Time that goes on when nothing else does. */
class VirtualClock implements FencedClock {
  private time = 0;
  private readonly calls = new Set<{ at: number; call: () => void }>();
  now(): number {
    return this.time;
  }
  after(ms: number, call: () => void): () => void {
    const entry = { at: this.time + ms, call };
    this.calls.add(entry);
    return () => this.calls.delete(entry);
  }
  /** Lets everything happen until `is` holds; it fails when nothing is left to happen, or after a minute. */
  async until(is: () => boolean): Promise<void> {
    for (;;) {
      await settled();
      if (is()) return;
      const [next] = [...this.calls].sort((one, other) => one.at - other.at);
      assert.ok(next !== undefined && next.at < 60_000, `nothing is left to happen at ${this.time} ms`);
      this.calls.delete(next);
      this.time = Math.max(this.time, next.at);
      next.call();
    }
  }
}

/** Whatever waits for promises has run. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

/** Two ends, 10 ms apart; `isLost` says of each datagram from the first to the second whether it is. */
function pair(clock: VirtualClock, isLost: (count: number, datagram: Uint8Array) => boolean) {
  const sent: Uint8Array[] = [];
  const closings: unknown[] = [];
  const inlets: ReadableStreamDefaultController<Uint8Array>[] = [];
  const readables = [0, 1].map(() => new ReadableStream<Uint8Array>({ start: (inlet) => { inlets.push(inlet); } }));
  const carriers = [0, 1].map((end): DatagramCarrier => ({
    datagrams: {
      readable: readables[end]!,
      writable: new WritableStream<Uint8Array>({
        write(datagram) {
          const copy = datagram.slice();
          if (end === 0) {
            sent.push(copy);
            if (isLost(sent.length - 1, copy)) return;
          }
          clock.after(10, () => inlets[1 - end]!.enqueue(copy));
        },
      }),
      maxDatagramSize: 1200,
    },
    closed: new Promise(() => {}),
    close: (info) => { closings.push(info); },
  }));
  return { first: carriers[0]!, second: carriers[1]!, sent, closings };
}

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

/** What comes, as texts. */
function collect(session: FencedSession): string[] {
  const came: string[] = [];
  void (async () => {
    for await (const message of session.messages) came.push(new TextDecoder().decode(message));
  })().catch(() => {});
  return came;
}

test('the datagrams are those of the specification', async () => {
  const clock = new VirtualClock();
  const { first, sent } = pair(clock, () => true);
  const session = await FencedSession.open(first, { clock });
  session.send(bytes('a'));
  session.send(bytes('b'));
  session.fence();
  session.send(bytes('c'));
  await settled();
  // spec/web.md §3: MESSAGE, sequence, number, how far behind the fence, and the payload.
  assert.deepEqual(sent.map((datagram) => [...datagram]), [[1, 0, 0, 0, 97], [1, 0, 1, 1, 98], [1, 0, 2, 0, 99]]);
});

test('a message overtakes a lost one, but no fence', async () => {
  const clock = new VirtualClock();
  // The first message is lost, once.
  const { first, second } = pair(clock, (count) => count === 0);
  const [sender, receiver] = [await FencedSession.open(first, { clock }), await FencedSession.open(second, { clock })];
  const came = collect(receiver);
  const outcomes: [number, boolean][] = [];
  sender.onoutcome = (number, arrived) => { outcomes.push([number, arrived]); };
  for (const text of ['lost', 'overtakes']) sender.send(bytes(text));
  sender.fence();
  sender.send(bytes('behind'));
  await clock.until(() => came.length > 0);
  await settled();
  assert.deepEqual(came, ['overtakes']);
  await clock.until(() => outcomes.length === 3);
  assert.deepEqual(came, ['overtakes', 'lost', 'behind']);
  assert.deepEqual(outcomes.sort(), [[0, true], [1, true], [2, true]]);
  assert.equal(sender.figures.resent > 0, true);
});

test('repair replaces what is lost within the same journey', async () => {
  const clock = new VirtualClock();
  const { first, second } = pair(clock, (count) => count === 1);
  const [sender, receiver] = [await FencedSession.open(first, { clock }), await FencedSession.open(second, { clock })];
  const came = collect(receiver);
  for (const text of ['one', 'two', 'three']) sender.send(bytes(text));
  assert.equal(sender.repair(1), 1);
  await clock.until(() => came.length === 3);
  assert.deepEqual([...came].sort(), ['one', 'three', 'two']);
  // One way takes 10 ms; to send it again would take 30.
  assert.equal(clock.now(), 10);
  assert.equal(receiver.figures.recovered, 1);
});

test('what is not to be kept is given up when it is lost, and what is behind it comes', async () => {
  const clock = new VirtualClock();
  const { first, second } = pair(clock, (count) => count === 0);
  const [sender, receiver] = [await FencedSession.open(first, { clock }), await FencedSession.open(second, { clock })];
  const came = collect(receiver);
  const outcomes = new Map<number, boolean>();
  sender.onoutcome = (number, arrived) => { outcomes.set(number, arrived); };
  sender.send(bytes('old picture'), { keep: false });
  sender.fence();
  sender.send(bytes('new picture'));
  await clock.until(() => outcomes.size === 2);
  assert.deepEqual([...outcomes].sort(), [[0, false], [1, true]]);
  await clock.until(() => came.length === 1);
  assert.deepEqual(came, ['new picture']);
  assert.equal(receiver.figures.gone, 1);
});

test('both ends send', async () => {
  const clock = new VirtualClock();
  const { first, second } = pair(clock, () => false);
  const [one, other] = [await FencedSession.open(first, { clock }), await FencedSession.open(second, { clock })];
  const [atOne, atOther] = [collect(one), collect(other)];
  one.send(bytes('there'));
  other.send(bytes('back'));
  await clock.until(() => atOne.length + atOther.length === 2);
  assert.deepEqual([atOne, atOther], [['back'], ['there']]);
});

test('what does not fit, or has no room, is an error that says so', async () => {
  const clock = new VirtualClock();
  const { first } = pair(clock, () => true);
  const session = await FencedSession.open(first, { clock });
  assert.ok(session.longest > 1100 && session.longest < 1200);
  assert.throws(() => session.send(new Uint8Array(session.longest + 1)), /does not fit a datagram/);
  // WB-7: 4096 numbers from the lowest that has not arrived.
  for (let count = 0; count < 4096; count += 1) session.send(new Uint8Array(1));
  assert.equal(session.hasRoom, false);
  assert.throws(() => session.send(new Uint8Array(1)), /wait for room/);
  assert.throws(() => session.repair(-1), RangeError);
  assert.throws(() => session.repair(0.5), RangeError);
  const room = session.room();
  session.close();
  await assert.rejects(room, /The session is over/);
  assert.throws(() => session.send(new Uint8Array(1)), /The session is over/);
});

test('a peer that breaks the rules ends the session with a sentence', async () => {
  const clock = new VirtualClock();
  // WB-2: further behind the fence than its number.
  for (const datagram of [[1], [1, 0, 0, 1], [3, 0, 0, 0, 0], [4, 0, 1, 0, 0, 0, 0]]) {
    const { first, closings } = pair(clock, () => false);
    let inlet: ReadableStreamDefaultController<Uint8Array> | undefined;
    const readable = new ReadableStream<Uint8Array>({ start: (controller) => { inlet = controller; } });
    const session = await FencedSession.open({ ...first, datagrams: { ...first.datagrams, readable } }, { clock, faultCode: 9 });
    inlet?.enqueue(Uint8Array.from(datagram));
    await assert.rejects(session.closed, Error);
    await assert.rejects((async () => { for await (const _ of session.messages); })(), Error);
    assert.equal((closings[0] as { closeCode: number }).closeCode, 9);
    assert.ok((closings[0] as { reason: string }).reason.length > 10);
  }
});

test('datagrams of unknown kinds are passed over', async () => {
  // WB-1.
  const clock = new VirtualClock();
  const { first, closings } = pair(clock, () => false);
  let inlet: ReadableStreamDefaultController<Uint8Array> | undefined;
  const readable = new ReadableStream<Uint8Array>({ start: (controller) => { inlet = controller; } });
  const session = await FencedSession.open({ ...first, datagrams: { ...first.datagrams, readable } }, { clock });
  const came = collect(session);
  for (const datagram of [[99, 1, 2], [1, 0, 0, 0, 104, 105]]) inlet?.enqueue(Uint8Array.from(datagram));
  await settled();
  assert.deepEqual([came, closings], [['hi'], []]);
});
