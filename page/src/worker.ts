/** The session: WebTransport on one side, the canvas on the other, and the rules in WebAssembly between them. */

import init, {
  WasmFault, WasmViewer, ask_bytes, key_bytes, offer_bytes, paste_bytes, pointer_bytes,
} from './viewer/viewer.js';
import { ofEnding } from './link.ts';
import type { FromWorker, ToWorker } from './talk.ts';

/** What a worker has; the types of a window would hide that it is one. */
interface WorkerScope extends Pick<Window, 'setTimeout' | 'clearTimeout' | 'setInterval' | 'clearInterval' | 'location'> {
  postMessage(message: FromWorker, transfer: Transferable[]): void;
  onmessage: ((event: MessageEvent<ToWorker>) => void) | null;
}

const scope = self as unknown as WorkerScope;
/** A screen of 64 million pixels. */
const MOST_BYTES = 256 << 20;
/** Until a server that says nothing is given up, in milliseconds. */
const PATIENCE = 15_000;
/** Datagrams that may wait for this page; a page flip has some fifty. */
const WAITING = 4096;
/** Between two pings, in milliseconds. */
const PING_EVERY = 2000;

let memory: WebAssembly.Memory;
let canvas: OffscreenCanvas | undefined;
let context: OffscreenCanvasRenderingContext2D | null = null;
let session: Session | undefined;

function tell(message: FromWorker, transfer: Transferable[] = []): void {
  scope.postMessage(message, transfer);
}

/** Writes in order, and never two at a time. */
class Outlet {
  private readonly writer: WritableStreamDefaultWriter<Uint8Array>;
  constructor(stream: WritableStream<Uint8Array>) {
    this.writer = stream.getWriter();
  }
  /** An error ends the session, which is noticed there. */
  write(bytes: Uint8Array): void {
    this.writer.write(bytes).catch(() => {});
  }
}

class Session {
  private readonly viewer = new WasmViewer(MOST_BYTES);
  private input: Outlet | undefined;
  private control: Outlet | undefined;
  private reports: Outlet | undefined;
  private timer = 0;
  private pinger = 0;
  private pinged = 0;
  private roundTrip: number | undefined;
  private over = false;

  constructor(private readonly transport: WebTransport) {}

  async run(token: string): Promise<void> {
    await this.transport.ready;
    const control = await this.transport.createBidirectionalStream();
    this.control = new Outlet(control.writable);
    this.control.write(WasmViewer.hello(token));
    this.input = new Outlet(await this.transport.createUnidirectionalStream());
    const { datagrams } = this.transport;
    // Both of its names; browsers drop what waits beyond it.
    datagrams.incomingHighWaterMark = WAITING;
    Object.assign(datagrams, { incomingMaxBufferedDatagrams: WAITING });
    this.reports = new Outlet(datagrams.writable);
    this.pinger = scope.setInterval(() => this.ping(), PING_EVERY);
    const none = (): void => {};
    this.read(control.readable, (bytes) => this.viewer.control_bytes(performance.now(), bytes)).catch(none);
    this.read(datagrams.readable, (bytes) => this.viewer.datagram(performance.now(), bytes)).catch(none);
    this.readClipboard().catch(none);
  }

  /** Nothing but the reading is awaited between two datagrams. */
  private async read(stream: ReadableStream<Uint8Array>, take: (bytes: Uint8Array) => void): Promise<void> {
    const reader = stream.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done || this.over) return;
      try {
        take(value);
      } catch (fault) {
        this.fail(fault);
        return;
      }
      this.turn();
    }
  }

  private async readClipboard(): Promise<void> {
    const streams = this.transport.incomingUnidirectionalStreams.getReader();
    const { done, value } = await streams.read();
    if (!done) await this.read(value as ReadableStream<Uint8Array>, (bytes) => this.viewer.clipboard_bytes(bytes));
  }

  /** Says what is due, hears the news, and draws. */
  private turn(): void {
    const now = performance.now();
    for (let report; (report = this.viewer.next_datagram(now)) !== undefined; ) this.reports?.write(report);
    for (let bytes; (bytes = this.viewer.next_control(now)) !== undefined; ) this.control?.write(bytes);
    for (let news; (news = this.viewer.next_news()) !== undefined; news.free()) this.hear(news);
    this.draw();
    scope.clearTimeout(this.timer);
    const due = this.viewer.next_deadline();
    if (due !== undefined) this.timer = scope.setTimeout(() => this.turn(), Math.max(0, due - performance.now()));
  }

  private hear(news: NonNullable<ReturnType<WasmViewer['next_news']>>): void {
    switch (news.kind) {
      case 'welcome': {
        const may = { input: (news.bits & 1) !== 0, clipboard: (news.bits & 2) !== 0, wish: (news.bits & 4) !== 0 };
        tell({ kind: 'welcome', name: news.text, may });
        break;
      }
      case 'name': tell({ kind: 'name', name: news.text }); break;
      case 'bell': tell({ kind: 'bell' }); break;
      case 'offer': tell({ kind: 'offered' }); break;
      case 'ask': tell({ kind: 'wanted' }); break;
      case 'text': tell({ kind: 'text', text: news.text }); break;
      case 'layout': if (news.text !== '') tell({ kind: 'notice', text: news.text }); break;
      case 'pong': this.roundTrip = performance.now() - this.pinged; this.tellFigures(); break;
      case 'cursor': {
        const { width, height, hot_x: x, hot_y: y, pixels } = news;
        tell({ kind: 'cursor', width, height, x, y, pixels }, [pixels.buffer as ArrayBuffer]);
        break;
      }
      default:
    }
  }

  private draw(): void {
    if (canvas === undefined || context === null) return;
    if (this.viewer.changes()) {
      const [width, height] = [this.viewer.width(), this.viewer.height()];
      [canvas.width, canvas.height] = [width, height];
      tell({ kind: 'size', width, height });
    }
    for (let rect; (rect = this.viewer.next_rect()) !== undefined; ) {
      const [left = 0, top = 0, width = 0, height = 0] = rect;
      const pixels = new Uint8ClampedArray(memory.buffer as ArrayBuffer, this.viewer.pixels(), width * height * 4);
      context.putImageData(new ImageData(pixels, width, height), left, top);
    }
  }

  private ping(): void {
    this.pinged = performance.now();
    this.viewer.ping(Math.floor(this.pinged));
    this.turn();
  }

  private tellFigures(): void {
    const [messages = 0, recovered = 0, repairs = 0, , , bytes = 0] = this.viewer.figures();
    tell({ kind: 'figures', figures: { roundTrip: this.roundTrip, messages, recovered, repairs, bytes } });
  }

  private fail(fault: unknown): void {
    const [code, text] = fault instanceof WasmFault ? [fault.code, fault.text] : [7, String(fault)];
    this.end();
    this.transport.close({ closeCode: code, reason: text });
    tell({ kind: 'ended', text: `${text}. Reload the page.`, again: false });
  }

  end(): void {
    this.over = true;
    scope.clearTimeout(this.timer);
    scope.clearInterval(this.pinger);
  }

  get isOver(): boolean {
    return this.over;
  }

  do(message: ToWorker): void {
    switch (message.kind) {
      case 'key': this.input?.write(key_bytes(message.down, message.keysym, message.keycode)); break;
      case 'pointer': this.input?.write(pointer_bytes(message.buttons, message.x, message.y)); break;
      case 'offer': this.input?.write(offer_bytes()); break;
      case 'paste': this.input?.write(paste_bytes(message.text)); break;
      case 'ask': this.input?.write(ask_bytes()); break;
      case 'wish': this.viewer.wish(message.width, message.height); this.turn(); break;
      default:
    }
  }
}

async function start(message: Extract<ToWorker, { kind: 'start' }>): Promise<void> {
  if (message.canvas !== undefined) {
    canvas = message.canvas;
    context = canvas.getContext('2d', { alpha: false, desynchronized: true });
  }
  session?.end();
  try {
    memory ??= (await init({ module_or_path: new URL('viewer.wasm', scope.location.href) })).memory;
  } catch (error) {
    tell({ kind: 'ended', text: `This browser does not run WebAssembly here (${String(error)}).`, again: false });
    return;
  }
  const serverCertificateHashes = message.hashes.map((value) => ({ algorithm: 'sha-256', value: value as BufferSource }));
  const options: WebTransportOptions = { congestionControl: 'low-latency', requireUnreliable: true };
  if (serverCertificateHashes.length > 0) Object.assign(options, { serverCertificateHashes });
  let transport: WebTransport;
  try {
    transport = new WebTransport(`https://${message.server}/desktop`, options);
  } catch (error) {
    tell({ kind: 'ended', text: `The address of this link cannot be used (${String(error)}).`, again: false });
    return;
  }
  const mine = new Session(transport);
  session = mine;
  const silent = scope.setTimeout(() => transport.close(), PATIENCE);
  let wasReady = false;
  try {
    await mine.run(message.token);
    wasReady = true;
    scope.clearTimeout(silent);
    const { closeCode = 0, reason = '' } = await transport.closed;
    if (mine.isOver) return;
    tell({ kind: 'ended', ...ofEnding(closeCode, reason) });
  } catch (error) {
    scope.clearTimeout(silent);
    if (mine.isOver) return;
    const text = wasReady
      ? 'The connection is lost. Trying again.'
      : `${message.server} cannot be reached by QUIC, or its certificate is not that of the link. Check that UDP gets through, and that both clocks are right. Trying again.`;
    tell({ kind: 'ended', text, again: true });
    console.debug(error);
  } finally {
    mine.end();
  }
}

scope.onmessage = ({ data }: MessageEvent<ToWorker>) => {
  if (data.kind === 'start') void start(data);
  else session?.do(data);
};
