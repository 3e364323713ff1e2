/** What carries a session: WebTransport, or a WebSocket where UDP does not get through (`spec/web.md` §8). */

import type { WasmViewer } from './viewer/viewer.js';
import { control_frames, input_frames, still_here } from './viewer/viewer.js';

/** How a session ended, in the words of the other end. */
export interface Ending {
  readonly code: number;
  readonly reason: string;
}

/** Whom a carrier tells. */
export interface Listener {
  readonly viewer: WasmViewer;
  /** Something came, and the viewer has it. */
  came(): void;
  /** What came cannot be read. */
  failed(fault: unknown): void;
}

export interface Carrier {
  readonly byTcp: boolean;
  /** How it ended; it fails when the connection is lost. */
  readonly closed: Promise<Ending>;
  /** Says hello, and hands over what comes from then on. */
  begin(hello: Uint8Array, listener: Listener): Promise<void>;
  control(bytes: Uint8Array): void;
  input(bytes: Uint8Array): void;
  /** What was given to `input`, once more, where packets may be lost. */
  copy(datagram: Uint8Array): void;
  report(datagram: Uint8Array): void;
  close(code: number, reason: string): void;
}

/** Datagrams that may wait for this page; a page flip has some fifty. */
const WAITING = 4096;
/** The longest that a WebSocket says nothing, in milliseconds. */
const STILL_HERE_EVERY = 3000;
/** How long QUIC has before TCP is tried beside it, in milliseconds (RFC 8305). */
const TCP_AFTER = 250;
/** Until a server that says nothing is given up, in milliseconds. */
const PATIENCE = 15_000;

const none = (): void => {};
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Writes in order, and never two at a time. */
class Outlet {
  private readonly writer: WritableStreamDefaultWriter<Uint8Array>;
  constructor(stream: WritableStream<Uint8Array>) {
    this.writer = stream.getWriter();
  }
  /** An error ends the session, which is noticed there. */
  write(bytes: Uint8Array): void {
    this.writer.write(bytes).catch(none);
  }
}

class TransportCarrier implements Carrier {
  readonly byTcp = false;
  readonly closed: Promise<Ending>;
  private outlets: { control: Outlet; input: Outlet; datagrams: Outlet } | undefined;
  private over = false;

  constructor(private readonly transport: WebTransport) {
    this.closed = transport.closed.then(({ closeCode = 0, reason = '' }) => ({ code: closeCode, reason }));
    this.closed.catch(none);
  }

  async begin(hello: Uint8Array, listener: Listener): Promise<void> {
    const { viewer } = listener;
    const control = await this.transport.createBidirectionalStream();
    const outlet = new Outlet(control.writable);
    outlet.write(hello);
    const input = new Outlet(await this.transport.createUnidirectionalStream());
    const { datagrams } = this.transport;
    // Both of its names; browsers drop what waits beyond it.
    datagrams.incomingHighWaterMark = WAITING;
    Object.assign(datagrams, { incomingMaxBufferedDatagrams: WAITING });
    this.outlets = { control: outlet, input, datagrams: new Outlet(datagrams.writable) };
    this.read(control.readable, listener, (bytes) => viewer.control_bytes(performance.now(), bytes)).catch(none);
    this.read(datagrams.readable, listener, (bytes) => viewer.datagram(performance.now(), bytes)).catch(none);
    this.readClipboard(listener).catch(none);
  }

  control(bytes: Uint8Array): void { this.outlets?.control.write(bytes); }
  input(bytes: Uint8Array): void { this.outlets?.input.write(bytes); }
  copy(datagram: Uint8Array): void { this.outlets?.datagrams.write(datagram); }
  report(datagram: Uint8Array): void { this.outlets?.datagrams.write(datagram); }

  close(code: number, reason: string): void {
    this.over = true;
    this.transport.close({ closeCode: code, reason });
  }

  /** Nothing but the reading is awaited between two datagrams. */
  private async read(
    stream: ReadableStream<Uint8Array>,
    listener: Listener,
    take: (bytes: Uint8Array) => void,
  ): Promise<void> {
    const reader = stream.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done || this.over) return;
      try {
        take(value);
      } catch (fault) {
        listener.failed(fault);
        return;
      }
      listener.came();
    }
  }

  private async readClipboard(listener: Listener): Promise<void> {
    const streams = this.transport.incomingUnidirectionalStreams.getReader();
    const { done, value } = await streams.read();
    if (done) return;
    const take = (bytes: Uint8Array): void => listener.viewer.clipboard_bytes(bytes);
    await this.read(value as ReadableStream<Uint8Array>, listener, take);
  }
}

class SocketCarrier implements Carrier {
  readonly byTcp = true;
  readonly closed: Promise<Ending>;
  private still = 0;

  constructor(private readonly socket: WebSocket) {
    this.closed = new Promise((_, fail) => {
      // The server's words come before, as a frame.
      socket.onclose = () => { clearInterval(this.still); fail(new Error('the connection is lost')); };
    });
    this.closed.catch(none);
  }

  async begin(hello: Uint8Array, { viewer, came, failed }: Listener): Promise<void> {
    this.send(control_frames(hello));
    this.still = self.setInterval(() => this.send(still_here()), STILL_HERE_EVERY);
    this.socket.onmessage = ({ data }: MessageEvent<ArrayBuffer>) => {
      try {
        viewer.socket_bytes(performance.now(), new Uint8Array(data));
      } catch (fault) {
        failed(fault);
        return;
      }
      came();
    };
  }

  control(bytes: Uint8Array): void { this.send(control_frames(bytes)); }
  input(bytes: Uint8Array): void { this.send(input_frames(bytes)); }
  /** In order nothing is missing. */
  copy(): void {}
  report(): void {}

  close(): void {
    clearInterval(this.still);
    this.socket.onmessage = null;
    this.socket.close();
  }

  private send(bytes: Uint8Array): void {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(bytes as BufferSource);
  }
}

/** Where the server is, and by what it is known. */
export interface Place {
  readonly server: string;
  readonly hashes: readonly Uint8Array[];
}

/** A session by QUIC. */
export async function byQuic({ server, hashes }: Place, patience = PATIENCE): Promise<Carrier> {
  if (!('WebTransport' in globalThis)) throw new Error('this browser has no WebTransport');
  const serverCertificateHashes = hashes.map((value) => ({ algorithm: 'sha-256', value: value as BufferSource }));
  const options: WebTransportOptions = { congestionControl: 'low-latency', requireUnreliable: true };
  if (serverCertificateHashes.length > 0) Object.assign(options, { serverCertificateHashes });
  const transport = new WebTransport(`https://${server}/desktop`, options);
  const silent = setTimeout(() => transport.close(), patience);
  try {
    await transport.ready;
  } finally {
    clearTimeout(silent);
  }
  return new TransportCarrier(transport);
}

/** One by TCP. */
export async function byTcp({ server }: Place, patience = PATIENCE): Promise<Carrier> {
  const socket = new WebSocket(`wss://${server}/desktop`);
  socket.binaryType = 'arraybuffer';
  const silent = setTimeout(() => socket.close(), patience);
  try {
    await new Promise<void>((open, fail) => {
      socket.onopen = () => open();
      socket.onclose = () => fail(new Error('no connection by TCP'));
    });
  } finally {
    clearTimeout(silent);
  }
  return new SocketCarrier(socket);
}

/** By whichever way is the first to be there; QUIC has a start (`spec/desktop.md` DT-58). */
export async function connect(place: Place): Promise<Carrier> {
  const quic = byQuic(place);
  const failed = quic.then(() => new Promise<void>(none), none);
  const tcp = Promise.race([pause(TCP_AFTER), failed]).then(() => byTcp(place));
  const first = await Promise.any([quic, tcp]);
  for (const other of [quic, tcp]) other.then((carrier) => { if (carrier !== first) carrier.close(0, ''); }, none);
  return first;
}
