/**
 * Messages with fences between them, and repair of those that are lost, in the datagrams of WebTransport.
 *
 * The format is `spec/web.md` of Quickset, §§3 to 7. The rules are in WebAssembly; this drives them.
 */

import init, { WasmFencedReceiver, WasmFencedSender, type InitInput } from './fences.js';

/** The part of a `WebTransport` that is used. */
export interface DatagramCarrier {
  readonly datagrams: {
    readonly readable: ReadableStream<Uint8Array>;
    readonly writable?: WritableStream<Uint8Array>;
    /** In browsers that have no `writable`. */
    createWritable?(): WritableStream<Uint8Array>;
    readonly maxDatagramSize: number;
  };
  readonly closed: Promise<unknown>;
  close(info?: { closeCode?: number; reason?: string }): void;
}

/** Time, which tests have of their own. In milliseconds. */
export interface FencedClock {
  now(): number;
  /** Calls back after a while, and returns what cancels that. */
  after(ms: number, call: () => void): () => void;
}

export interface FencedOptions {
  /** Where the WebAssembly is: its bytes, its address, or a response with it. Beside this module unless given. */
  module?: InitInput | Promise<InitInput>;
  /** The round trip in milliseconds, as far as one knows; it is measured from then on. 100 unless given. */
  roundTrip?: number;
  /** The code with which a session is closed whose other end breaks the rules. 1 unless given. */
  faultCode?: number;
  clock?: FencedClock;
}

/** Counts since the session began. */
export interface FencedFigures {
  /** Messages sent, each once; again; repair datagrams; messages that the other end computed from repair; given up. */
  readonly sent: number;
  readonly resent: number;
  readonly repairs: number;
  readonly repaired: number;
  readonly abandoned: number;
  /** Messages that came by themselves; that were computed from repair; that the other end gave up. */
  readonly received: number;
  readonly recovered: number;
  readonly gone: number;
}

/** What became of a message: its number, and whether it has arrived. */
export type OutcomeListener = (number: number, arrived: boolean) => void;

const none = (): void => {};

const realClock: FencedClock = {
  now: () => performance.now(),
  after(ms, call) {
    const timer = setTimeout(call, ms);
    return () => clearTimeout(timer);
  },
};

let loaded: Promise<unknown> | undefined;

/** Loads the WebAssembly, once for all sessions. `open` does it, too. */
export async function load(module?: InitInput | Promise<InitInput>): Promise<void> {
  loaded ??= init(module === undefined ? undefined : { module_or_path: module });
  try {
    await loaded;
  } catch (error) {
    // The next one may have a better address.
    loaded = undefined;
    throw error;
  }
}

/** Fenced messages both ways on one session of WebTransport, of which it takes over the datagrams. */
export class FencedSession {
  /** Is called when it is known what became of a message. */
  onoutcome: OutcomeListener | undefined;
  /** Ends with the session; it fails with a sentence when that was a fault. */
  readonly closed: Promise<void>;

  private readonly sender: WasmFencedSender;
  private readonly receiver = new WasmFencedReceiver();
  private readonly writer: WritableStreamDefaultWriter<Uint8Array>;
  private readonly reader: ReadableStreamDefaultReader<Uint8Array>;
  private readonly faultCode: number;
  private readonly clock: FencedClock;
  private cancelTimer: () => void = none;
  private isWriting = false;
  private isOver = false;
  private fault: Error | undefined;
  /** Who waits for a message, for room, and for the end. */
  private awaited: (() => void) | undefined;
  private readonly waiters: { resolve: () => void; reject: (error: Error) => void }[] = [];
  private ended!: { resolve: () => void; reject: (error: Error) => void };

  /** Loads the WebAssembly and takes over the datagrams of `carrier`, a `WebTransport` that is ready. */
  static async open(carrier: DatagramCarrier, options: FencedOptions = {}): Promise<FencedSession> {
    await load(options.module);
    return new FencedSession(carrier, options);
  }

  private constructor(private readonly carrier: DatagramCarrier, options: FencedOptions) {
    const writable = carrier.datagrams.writable ?? carrier.datagrams.createWritable?.();
    if (writable === undefined) throw new TypeError('This session has no datagrams to write.');
    this.sender = new WasmFencedSender(options.roundTrip ?? 100);
    this.clock = options.clock ?? realClock;
    this.faultCode = options.faultCode ?? 1;
    this.writer = writable.getWriter();
    this.reader = carrier.datagrams.readable.getReader();
    this.closed = new Promise((resolve, reject) => { this.ended = { resolve, reject }; });
    this.closed.catch(none);
    carrier.closed.then(() => this.end(), (error: unknown) => this.end(asError(error)));
    void this.read();
  }

  /** The longest message, in bytes, that fits a datagram with its repair. */
  get longest(): number {
    return this.isOver ? 0 : this.sender.longest(this.carrier.datagrams.maxDatagramSize);
  }

  /** Whether another message may be sent. */
  get hasRoom(): boolean {
    return !this.isOver && this.sender.has_room();
  }

  /** Waits until another message may be sent. It fails when the session ends before that. */
  room(): Promise<void> {
    if (this.hasRoom) return Promise.resolve();
    if (this.isOver) return Promise.reject(this.overError());
    return new Promise((resolve, reject) => { this.waiters.push({ resolve, reject }); });
  }

  /**
   * Queues a message, and returns its number. One that is not to be kept is given up when it is lost.
   *
   * It throws a `RangeError` when the message is longer than `longest`, or there is no room.
   */
  send(message: Uint8Array, { keep = true }: { keep?: boolean } = {}): number {
    if (this.isOver) throw this.overError();
    const longest = this.longest;
    if (message.length > longest) {
      throw new RangeError(`A message of ${message.length} bytes does not fit a datagram here; ${longest} do.`);
    }
    if (!this.hasRoom) throw new RangeError('Too much is under way; wait for room() before sending.');
    const number = this.sender.message(message, keep);
    this.turn();
    return number;
  }

  /** Nothing that is sent later is delivered before what was sent so far. */
  fence(): void {
    if (!this.isOver) this.sender.fence();
  }

  /**
   * Sends repair for what has not arrived: `count` datagrams, or as many as are worth while by the losses so far.
   * Returns how many.
   */
  repair(count?: number): number {
    if (this.isOver) return 0;
    const wanted = count ?? this.sender.repairs_due();
    if (!Number.isInteger(wanted) || wanted < 0 || wanted > MOST_REPAIRS) {
      throw new RangeError(`${wanted} is no number of repair datagrams; it is a whole number up to ${MOST_REPAIRS}.`);
    }
    this.sender.repair(wanted);
    this.turn();
    return wanted;
  }

  /** Gives up a message that nobody needs any more. */
  abandon(number: number): void {
    if (this.isOver) return;
    this.sender.abandon(number);
    this.turn();
  }

  /** What the other end has sent, until the session ends; it fails when that was a fault. One loop at a time. */
  get messages(): AsyncIterable<Uint8Array> {
    return { [Symbol.asyncIterator]: () => ({ next: () => this.next() }) };
  }

  get figures(): FencedFigures {
    const [sent = 0, resent = 0, repairs = 0, repaired = 0, abandoned = 0] = this.isOver ? [] : this.sender.figures();
    const [received = 0, recovered = 0, gone = 0] = this.isOver ? [] : this.receiver.figures();
    return { sent, resent, repairs, repaired, abandoned, received, recovered, gone };
  }

  /** Ends the session. What waits to be sent is not sent. */
  close(code = 0, reason = ''): void {
    if (this.isOver) return;
    this.end();
    try {
      this.carrier.close({ closeCode: code, reason });
    } catch {
      // It was over already.
    }
  }

  private async next(): Promise<IteratorResult<Uint8Array>> {
    for (;;) {
      const value = this.isOver ? undefined : this.receiver.next();
      if (value !== undefined) return { value, done: false };
      if (this.fault !== undefined) throw this.fault;
      if (this.isOver) return { value: undefined, done: true };
      await new Promise<void>((resolve) => { this.awaited = resolve; });
    }
  }

  private async read(): Promise<void> {
    try {
      for (;;) {
        const { value, done } = await this.reader.read();
        if (done || this.isOver) return;
        this.take(value);
      }
    } catch {
      // How the session ended is told by `closed`.
    }
  }

  private take(datagram: Uint8Array): void {
    const now = this.clock.now();
    try {
      // Each passes over what is the other's.
      this.receiver.receive(now, datagram);
      this.sender.report(now, datagram);
    } catch (error) {
      const fault = asError(error);
      this.end(fault);
      this.carrier.close({ closeCode: this.faultCode, reason: fault.message });
      return;
    }
    this.turn();
    this.awaited?.();
  }

  /** Sends what is due, tells what is known, and sets the timer. */
  private turn(): void {
    if (this.isOver) return;
    for (let outcome; (outcome = this.sender.next_outcome()) !== undefined; outcome.free()) {
      this.onoutcome?.(outcome.number, outcome.arrived);
      // Who listens may have closed the session.
      if (this.isOver) return;
    }
    while (this.waiters.length > 0 && this.sender.has_room()) this.waiters.shift()?.resolve();
    void this.write();
  }

  /** Writes while the transport takes it. */
  private async write(): Promise<void> {
    if (this.isWriting) return;
    this.isWriting = true;
    try {
      for (;;) {
        await this.writer.ready;
        if (this.isOver) return;
        const now = this.clock.now();
        const datagram = this.receiver.report(now) ?? this.sender.poll(now);
        if (datagram === undefined) break;
        // A datagram that is too long by now, or late, is as if it were lost.
        this.writer.write(datagram).catch(none);
      }
    } catch {
      return;
    } finally {
      this.isWriting = false;
    }
    this.wake();
  }

  private wake(): void {
    this.cancelTimer();
    const due = [this.receiver.next_deadline(), this.sender.next_deadline()].filter((at) => at !== undefined);
    this.cancelTimer = none;
    if (due.length === 0) return;
    const wait = Math.max(0, Math.min(...due) - this.clock.now());
    this.cancelTimer = this.clock.after(Math.ceil(wait), () => void this.write());
  }

  private end(fault?: Error): void {
    if (this.isOver) return;
    this.isOver = true;
    this.fault = fault;
    this.cancelTimer();
    this.reader.cancel().catch(none);
    this.writer.close().catch(none);
    if (fault === undefined) this.ended.resolve();
    else this.ended.reject(fault);
    for (const { reject } of this.waiters.splice(0)) reject(this.overError());
    this.awaited?.();
    this.sender.free();
    this.receiver.free();
  }

  private overError(): Error {
    return this.fault ?? new Error('The session is over.');
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

/** Repair covers 256 messages at most. */
const MOST_REPAIRS = 256;
