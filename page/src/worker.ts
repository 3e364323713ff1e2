/** The session: a carrier on one side, the canvas on the other, and the rules in WebAssembly between them. */

import init, { WasmFault, WasmViewer, WasmVisit, sound_lead } from './viewer/viewer.js';
import { byQuic, byTcp, connect, type Carrier, type Place } from './carrier.ts';
import { Hearing, NO_DECODER } from './hearing.ts';
import { ofEnding } from './link.ts';
import type { FromWorker, SoundFigures, ToWorker, Visitor } from './talk.ts';
import { isSilent, NO_WISHES, said, type SaidWishes } from './wishes.ts';

/** What a worker has; the types of a window would hide that it is one. */
interface WorkerScope extends Pick<Window, 'setTimeout' | 'clearTimeout' | 'setInterval' | 'clearInterval' | 'location'> {
  postMessage(message: FromWorker, transfer: Transferable[]): void;
  onmessage: ((event: MessageEvent<ToWorker>) => void) | null;
}

const scope = self as unknown as WorkerScope;
/** A screen of 64 million pixels. */
const MOST_BYTES = 256 << 20;
/** Between two pings, in milliseconds. */
const PING_EVERY = 1000;
/** How long nothing may come before TCP is tried, besides two round trips (`spec/desktop.md` DT-58). */
const SILENT = 1500;
/** How long an answer may be overdue at that time, besides as many; one that was lost is sent again within it. */
const OVERDUE = 500;
/** From one try by QUIC to the next, for a session by TCP; it doubles up to the longest. */
const FIRST_TRY = 1000;
const LONGEST_TRY = 15_000;
/** The longest that what came is not drawn, in milliseconds: a small part of a frame. */
const UNDRAWN = 4;
/** How long a session that is left lasts, in milliseconds: the server ends it at the hello of the next. */
const HANDED_OVER = 3000;
const QUIC_WITHIN = 5000;
const TCP_WITHIN = 10_000;
/** How long a speaker may say nothing, in milliseconds. */
const SPEAKER_WITHIN = 5000;

let memory: WebAssembly.Memory;
let canvas: OffscreenCanvas | undefined;
let context: OffscreenCanvasRenderingContext2D | null = null;
let session: Session | undefined;
/** What the person does, from session to session. */
let visit: WasmVisit | undefined;
/** What the person wishes of the picture, from session to session. */
let wishes: SaidWishes = said(NO_WISHES);
/** Somebody hears, from session to session. */
let hearing: Hearing | undefined;

function tell(message: FromWorker, transfer: Transferable[] = []): void {
  scope.postMessage(message, transfer);
}

class Session {
  readonly viewer: WasmViewer;
  private timer = 0;
  private copying = 0;
  private pinger = 0;
  private soundTimer = 0;
  /** When the newest ping was sent, when its answer came, and when anything did. */
  private pinged = 0;
  private answered = 0;
  private heard = performance.now();
  private roundTrip: number | undefined;
  private over = false;
  /** There is sound. */
  private mayHear = false;
  private welcomed = false;
  /** By its means a turn comes behind what waits for this worker; whether one is to come, and since when. */
  private readonly later = new MessageChannel();
  private awaited = false;
  private since = 0;
  /** The words of the other end, of a WebSocket. */
  private goodbye: ((ending: { code: number; reason: string }) => void) | undefined;

  constructor(readonly carrier: Carrier, private readonly visit: WasmVisit) {
    this.viewer = carrier.byTcp ? WasmViewer.bySocket(MOST_BYTES) : new WasmViewer(MOST_BYTES);
    this.later.port1.onmessage = () => {
      this.awaited = false;
      if (!this.over) this.turn();
    };
  }

  /** How the session ended; it fails when the connection is lost. */
  async run(who: Visitor): Promise<{ code: number; reason: string }> {
    const goodbye = new Promise<{ code: number; reason: string }>((resolve) => { this.goodbye = resolve; });
    await this.carrier.begin(this.visit.hello(who.token, who.desktop, who.device), {
      viewer: this.viewer,
      came: () => this.came(),
      failed: (fault) => this.fail(fault),
    });
    this.pinger = scope.setInterval(() => this.ping(), PING_EVERY);
    return Promise.race([this.carrier.closed, goodbye]);
  }

  /** Whether an answer is overdue, and nothing else has come. */
  get isSilent(): boolean {
    const [now, trips] = [performance.now(), 2 * (this.roundTrip ?? 0)];
    const overdue = this.pinged > this.answered && now - this.pinged > OVERDUE + trips;
    return overdue && now - this.heard > SILENT + trips;
  }

  /** Something came. What else waits to be read is read before all of it is drawn, unless that takes long. */
  private came(): void {
    if (this.over) return;
    this.heard = performance.now();
    if (!this.awaited) {
      this.awaited = true;
      this.since = this.heard;
      this.later.port2.postMessage(undefined);
    } else if (this.heard - this.since > UNDRAWN) {
      this.since = this.heard;
      this.turn();
    }
  }

  /** Says what is due, hears the news, and draws. */
  private turn(): void {
    const now = performance.now();
    for (let report; (report = this.viewer.next_datagram(now)) !== undefined; ) this.carrier.report(report);
    for (let news; (news = this.viewer.next_news()) !== undefined; news.free()) {
      const missed = this.heed(news);
      if (this.over) return;
      this.hear(news);
      if (missed !== undefined) tell({ kind: 'notice', text: missed });
    }
    this.input();
    this.sound();
    this.draw();
    // Behind that: whether the screen is the server's takes a look at all of its pixels.
    for (let bytes; (bytes = this.viewer.next_control(now)) !== undefined; ) this.carrier.control(bytes);
    scope.clearTimeout(this.timer);
    this.timer = this.timed(this.viewer.next_deadline(), () => this.turn());
  }

  private timed(due: number | undefined, act: () => void): number {
    return due === undefined ? 0 : scope.setTimeout(act, Math.max(0, due - performance.now()));
  }

  /** Plays what is due, before it is drawn: that waits for nothing. */
  private sound(): void {
    if (this.over) return;
    for (let piece; (piece = this.viewer.next_sound(performance.now())) !== undefined; piece.free()) {
      hearing?.play({ packet: piece.packet, samples: piece.samples });
    }
    scope.clearTimeout(this.soundTimer);
    this.soundTimer = this.timed(this.viewer.sound_due(), () => this.sound());
  }

  /** Says what the person wishes of the picture (WB-28). */
  wishes(said: SaidWishes): void {
    // DT-1: before it is welcome it says nothing; then it says them all the same.
    if (this.over || !this.welcomed) return;
    this.say(said);
    this.turn();
  }

  private say({ rate, least, most }: SaidWishes): void {
    this.viewer.wants_rate(rate);
    this.viewer.wants_quality(least, most);
  }

  /** Says whether somebody hears. */
  hears(wanted: boolean): void {
    if (this.over || !this.mayHear) return;
    this.viewer.wants_sound(wanted);
    this.turn();
  }

  /** Takes note of what has reached the desktop. What the person is to be told. */
  private heed(news: NonNullable<ReturnType<WasmViewer['next_news']>>): string | undefined {
    try {
      return this.visit.hear(performance.now(), news);
    } catch (fault) {
      this.fail(fault);
      return undefined;
    }
  }

  /** Sends what the person has done, and a little later once more (WB-27). */
  input(): void {
    if (this.over) return;
    const now = performance.now();
    for (let bytes; (bytes = this.visit.next_input(now)) !== undefined; ) this.carrier.input(bytes);
    const copy = this.visit.next_copy(now);
    if (copy !== undefined) this.carrier.copy(copy);
    scope.clearTimeout(this.copying);
    this.copying = this.timed(this.visit.next_deadline(), () => this.input());
  }

  private hear(news: NonNullable<ReturnType<WasmViewer['next_news']>>): void {
    switch (news.kind) {
      case 'welcome': {
        const may = { input: (news.bits & 1) !== 0, clipboard: (news.bits & 2) !== 0, wish: (news.bits & 4) !== 0 };
        this.mayHear = (news.bits & 8) !== 0;
        tell({ kind: 'welcome', name: news.text, may, sound: this.mayHear });
        if (hearing !== undefined && this.mayHear) this.viewer.wants_sound(true);
        this.welcomed = true;
        if (!isSilent(wishes)) this.say(wishes);
        break;
      }
      case 'name': tell({ kind: 'name', name: news.text }); break;
      case 'bell': tell({ kind: 'bell' }); break;
      case 'offer': tell({ kind: 'offered' }); break;
      case 'ask': tell({ kind: 'wanted' }); break;
      case 'text': tell({ kind: 'text', text: news.text }); break;
      case 'layout': if (news.text !== '') tell({ kind: 'notice', text: news.text }); break;
      case 'pong':
        this.answered = performance.now();
        this.roundTrip = this.answered - this.pinged;
        this.tellFigures();
        break;
      case 'goodbye': this.goodbye?.({ code: news.number, reason: news.text }); break;
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
      // What is there stays until it is drawn over.
      if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
      tell({ kind: 'size', width, height });
    }
    for (let rect; (rect = this.viewer.next_rect()) !== undefined; ) {
      const [left = 0, top = 0, width = 0, height = 0] = rect;
      const pixels = new Uint8ClampedArray(memory.buffer as ArrayBuffer, this.viewer.pixels(), width * height * 4);
      context.putImageData(new ImageData(pixels, width, height), left, top);
    }
  }

  /** One at a time. */
  private ping(): void {
    if (this.pinged > this.answered) return;
    this.pinged = performance.now();
    this.viewer.ping(Math.floor(this.pinged));
    this.turn();
  }

  private tellFigures(): void {
    const [messages = 0, recovered = 0, repairs = 0, , , bytes = 0] = this.viewer.figures();
    const { byTcp } = this.carrier;
    tell({ kind: 'figures', figures: { byTcp, roundTrip: this.roundTrip, messages, recovered, repairs, bytes, sound: this.soundFigures() } });
  }

  private soundFigures(): SoundFigures | undefined {
    if (hearing === undefined || !this.mayHear) return undefined;
    const [behind = 0, received = 0, late = 0, recovered = 0, concealed = 0] = this.viewer.sound_figures();
    // The speaker's lead may have grown.
    const delay = behind + hearing.figures.lead / 48 - sound_lead();
    return { ...hearing.figures, delay, received, late, recovered, concealed };
  }

  private fail(fault: unknown): void {
    const [code, text] = fault instanceof WasmFault ? [fault.code, fault.text] : [7, String(fault)];
    this.end();
    this.carrier.close(code, text);
    tell({ kind: 'ended', text: `${text}. Reload the page.`, again: false });
  }

  end(): void {
    if (this.over) return;
    this.over = true;
    this.visit.ended();
    this.later.port1.close();
    scope.clearTimeout(this.timer);
    scope.clearTimeout(this.copying);
    scope.clearTimeout(this.soundTimer);
    scope.clearInterval(this.pinger);
  }

  get isOver(): boolean {
    return this.over;
  }

  wish(width: number, height: number): void {
    if (this.over) return;
    this.viewer.wish(width, height);
    this.turn();
  }
}

/** The person does something, whether there is a session or not. */
function act(message: ToWorker): void {
  const now = performance.now();
  switch (message.kind) {
    case 'key': visit?.key(now, message.down, message.keysym, message.keycode); break;
    case 'pointer': visit?.pointer(now, message.buttons, message.x, message.y); break;
    case 'offer': visit?.offer(now); break;
    case 'paste': visit?.paste(now, message.text); break;
    case 'ask': visit?.ask(now); break;
    case 'wish': session?.wish(message.width, message.height); break;
    default:
  }
  session?.input();
}

/** Somebody hears from now on. */
async function hear(port: MessagePort): Promise<void> {
  deafen();
  const mine = hearing = new Hearing(port, sound_lead());
  if (!await Hearing.isPossible()) {
    deafen();
    tell({ kind: 'mute', text: NO_DECODER });
    return;
  }
  if (hearing !== mine) return;
  session?.hears(true);
  scope.setTimeout(() => {
    if (hearing !== mine || mine.isHeard) return;
    tell({ kind: 'notice', text: 'This browser does not play the sound that comes. Press Sound twice, or reload the page.' });
  }, SPEAKER_WITHIN);
}

function deafen(): void {
  if (hearing === undefined) return;
  hearing.close();
  hearing = undefined;
  session?.hears(false);
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
    tell({ kind: 'ended', text: `This browser does not run this page's WebAssembly (${String(error)}). Update it, or open the link in another one.`, again: false });
    return;
  }
  visit ??= new WasmVisit(crypto.getRandomValues(new Uint8Array(16)));
  const place: Place = { server: message.server, hashes: message.hashes };
  try {
    let carrier: Carrier | undefined = await connect(place);
    while (carrier !== undefined) carrier = await look(new Session(carrier, visit), place, message);
  } catch (error) {
    tell({ kind: 'ended', text: unreachable(place), again: true });
    console.debug(error);
  }
}

/** One session, to its end. The carrier of the next, if it goes on by another way. */
async function look(mine: Session, place: Place, who: Visitor): Promise<Carrier | undefined> {
  session = mine;
  try {
    const ended = mine.run(who).then((ending) => ({ ending }));
    const moved = anotherWay(mine, place).then((other) => ({ other }));
    const end = await Promise.race([ended, moved]);
    if ('other' in end) {
      ended.catch(() => {});
      mine.end();
      // The hello of the next one ends it at the server, which hands over what is held down: had it ended
      // before, what is dragged would fall.
      scope.setTimeout(() => mine.carrier.close(0, 'the session goes on by another way'), HANDED_OVER);
      return end.other;
    }
    if (!mine.isOver) tell({ kind: 'ended', ...ofEnding(end.ending.code, end.ending.reason) });
  } catch (error) {
    if (!mine.isOver) tell({ kind: 'ended', text: 'The connection is lost. Trying again.', again: true });
    console.debug(error);
  } finally {
    mine.end();
  }
  return undefined;
}

/** A better carrier than the one that there is, as soon as there is one. */
async function anotherWay(mine: Session, place: Place): Promise<Carrier> {
  let wait = FIRST_TRY;
  for (;;) {
    await new Promise((resolve) => scope.setTimeout(() => resolve(undefined), mine.carrier.byTcp ? wait : SILENT / 6));
    if (mine.isOver) return new Promise(() => {});
    try {
      if (mine.carrier.byTcp) {
        wait = Math.min(wait * 2, LONGEST_TRY);
        const other = await byQuic(place, QUIC_WITHIN);
        if (!mine.isOver) return other;
        other.close(0, '');
      } else if (mine.isSilent) {
        const other = await byTcp(place, TCP_WITHIN);
        // It may have come back meanwhile.
        if (!mine.isOver && mine.isSilent) return other;
        other.close(0, '');
      }
    } catch (error) {
      console.debug(error);
    }
  }
}

/** Why there is no session, and the step that helps. */
function unreachable({ server, hashes }: Place): string {
  const udp = 'WebTransport' in globalThis
    ? `${server} cannot be reached by QUIC, or its certificate is not that of the link. Check that UDP gets through, and that both clocks are right.`
    : 'This browser has no WebTransport.';
  // Browsers take no hash for a WebSocket.
  const tcp = hashes.length > 0 ? ` Without either, open https://${server} once, accept its certificate, and come back.` : '';
  return `${udp}${tcp} Trying again.`;
}

scope.onmessage = ({ data }: MessageEvent<ToWorker>) => {
  switch (data.kind) {
    case 'start': void start(data); break;
    case 'hear': void hear(data.port); break;
    case 'deafen': deafen(); break;
    case 'wishes': {
      wishes = { rate: data.rate, least: data.least, most: data.most };
      session?.wishes(wishes);
      break;
    }
    default: act(data);
  }
};
