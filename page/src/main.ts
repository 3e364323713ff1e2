/** The page: a link is read, a desktop is shown, and what a person does is passed on. */

import { Keyboard } from './keyboard.ts';
import { readLink, type Link } from './link.ts';
import { Pointer } from './pointer.ts';
import { Speaker } from './speaker.ts';
import type { Figures, FromWorker, ToWorker } from './talk.ts';
import { keepWishes, keptWishes, readPicture, readRate, said, writeRate, type Wishes } from './wishes.ts';

const STORED = 'link';
const DEVICE = 'device';
/** Between two tries, in milliseconds; it doubles up to the longest. */
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 15_000;
/** Until a window that is being resized has come to rest, in milliseconds. */
const RESIZE_PAUSE = 300;

function element<T extends HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no ${id}`);
  return found as T;
}

const canvas = element<HTMLCanvasElement>('screen');
const notice = element<HTMLParagraphElement>('notice');
const overlay = element<HTMLDListElement>('figures');
const bar = element<HTMLElement>('bar');
let unkept: string | undefined;
const sound = element<HTMLButtonElement>('sound');
const typing = element<HTMLTextAreaElement>('typing');

/** The fragment leaves the address bar at once; a reload of this tab finds it again. */
function takeLink(): Link | string {
  const fragment = location.hash.length > 1 ? location.hash : (sessionStorage.getItem(STORED) ?? '');
  const link = readLink(fragment, location.host);
  if (typeof link !== 'string') sessionStorage.setItem(STORED, fragment);
  history.replaceState(null, '', location.pathname);
  return link;
}

/** What this browser calls itself towards a server that has invited one device: nobody else knows it. */
function device(server: string): string {
  const name = `${DEVICE} ${server}`;
  const make = (): string => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
  // A private window may keep nothing but for a tab.
  for (const storage of [(): Storage => localStorage, (): Storage => sessionStorage]) {
    try {
      const kept = storage().getItem(name) ?? make();
      storage().setItem(name, kept);
      return kept;
    } catch {
      continue;
    }
  }
  return unkept ??= make();
}

function say(text: string): void {
  notice.textContent = text;
  notice.hidden = text === '';
}

class Page {
  private readonly worker = new Worker('worker.js', { type: 'module' });
  private readonly keyboard: Keyboard;
  private pause = FIRST_PAUSE;
  private may = { input: false, clipboard: false, wish: false };
  private shown = false;
  /** The newest text of either clipboard that the page knows. */
  private copied = '';
  /** It was copied there, and this browser has not taken it yet. */
  private waiting = false;
  /** Whether this browser lets the page read its clipboard, as far as is known. */
  private readable = true;
  private offered = false;
  private byTcp = false;
  private readonly speaker = new Speaker((text) => this.hint(text));
  private last: { figures: Figures; at: number } | undefined;

  constructor(private readonly link: Link) {
    const send = (message: ToWorker): void => { if (this.may.input) this.worker.postMessage(message); };
    this.keyboard = new Keyboard(canvas, typing, send);
    new Pointer(canvas, send);
    this.worker.onmessage = ({ data }: MessageEvent<FromWorker>) => this.hear(data);
    this.worker.onerror = (error) => say(`The page has a fault: ${error.message}. Reload it.`);
    this.buttons();
    const offscreen = canvas.transferControlToOffscreen();
    this.worker.postMessage(this.beginning(offscreen), [offscreen]);
    this.wishes();
  }

  private beginning(offscreen?: OffscreenCanvas): ToWorker {
    const start = { kind: 'start' as const, ...this.link, device: device(this.link.server) };
    return offscreen === undefined ? start : { ...start, canvas: offscreen };
  }

  private hear(message: FromWorker): void {
    switch (message.kind) {
      case 'welcome':
        this.may = message.may;
        this.pause = FIRST_PAUSE;
        this.shown = true;
        sound.hidden = !message.sound;
        if (!message.sound && this.speaker.isOn) this.mute('The desktop has no sound any more.');
        document.body.classList.toggle('looking', !message.may.input);
        document.title = message.name;
        say('');
        canvas.focus();
        // What was wished for in the session before may not have got there.
        dispatchEvent(new Event('resize'));
        break;
      case 'name': document.title = message.name; break;
      case 'size': {
        const isFirst = canvas.dataset['width'] === undefined;
        canvas.style.setProperty('--ratio', `${message.width} / ${message.height}`);
        canvas.dataset['width'] = String(message.width);
        canvas.dataset['height'] = String(message.height);
        // Until it has a size it is hidden, and what is hidden takes no focus: the first keys would be lost.
        if (isFirst) canvas.focus();
        break;
      }
      case 'cursor': void this.point(message); break;
      case 'text': void this.copy(message.text); break;
      case 'wanted': void this.paste(); break;
      case 'offered': this.worker.postMessage({ kind: 'ask' } satisfies ToWorker); break;
      case 'bell': bar.animate([{ opacity: 0.3 }, { opacity: 1 }], 200); break;
      case 'notice': this.hint(message.text); break;
      case 'figures': this.tell(message.figures); break;
      case 'mute': this.mute(message.text); break;
      case 'ended': this.ended(message.text, message.again); break;
    }
  }

  private ended(text: string, again: boolean): void {
    // What is done until the next session goes there, if that comes soon.
    this.may = again ? { ...this.may, wish: false } : { input: false, clipboard: false, wish: false };
    if (!again) this.keyboard.forget();
    this.offered = false;
    say(text);
    canvas.classList.toggle('stale', this.shown);
    if (!again) return;
    setTimeout(() => { canvas.classList.remove('stale'); this.worker.postMessage(this.beginning()); }, this.pause);
    this.pause = Math.min(this.pause * 2, LONGEST_PAUSE);
  }

  /** A click on the button: browsers start a speaker behind that alone. */
  private async listen(): Promise<void> {
    if (this.speaker.isOn) {
      this.mute('');
      return;
    }
    sound.setAttribute('aria-pressed', 'true');
    try {
      const port = await this.speaker.start();
      this.worker.postMessage({ kind: 'hear', port } satisfies ToWorker, [port]);
    } catch (fault) {
      this.mute(fault instanceof Error ? fault.message : String(fault));
    }
  }

  /** No sound any more, and why, if that is not what the person wants. */
  private mute(why: string): void {
    this.speaker.stop();
    this.worker.postMessage({ kind: 'deafen' } satisfies ToWorker);
    sound.setAttribute('aria-pressed', 'false');
    if (why !== '') this.hint(why);
  }

  /** Something that passes. */
  private hint(text: string): void {
    say(text);
    setTimeout(() => { if (notice.textContent === text) say(''); }, 4000);
  }

  private async copy(text: string): Promise<void> {
    this.copied = text;
    this.waiting = false;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Firefox takes a text within five seconds of a click or a key alone, Chromium while the page has the focus.
      this.waiting = true;
      this.hint('A text was copied there. Click into the page, so that this browser takes it.');
    }
  }

  /** Says that something may have been copied here. What it is stays here until somebody pastes it there. */
  private offer(): void {
    if (!this.may.clipboard || !this.readable) return;
    this.offered = true;
    this.worker.postMessage({ kind: 'offer' } satisfies ToWorker);
  }

  /** Somebody pastes there what was offered. */
  private async paste(): Promise<void> {
    if (!this.may.clipboard || !this.offered) return;
    try {
      this.copied = await navigator.clipboard.readText();
    } catch {
      this.readable = false;
      this.hint('This browser does not let the page read what you copied. Allow it beside the address, and reload.');
    }
    this.worker.postMessage({ kind: 'paste', text: this.copied } satisfies ToWorker);
  }

  /** The pointer as the desktop shows it. */
  private async point({ width, height, x, y, pixels }: Extract<FromWorker, { kind: 'cursor' }>): Promise<void> {
    if (width === 0 || height === 0 || pixels.length !== width * height * 4) {
      canvas.style.cursor = 'none';
      return;
    }
    const picture = new OffscreenCanvas(width, height);
    const image = new ImageData(new Uint8ClampedArray(pixels), width, height);
    picture.getContext('2d')?.putImageData(image, 0, 0);
    const url = URL.createObjectURL(await picture.convertToBlob());
    const before = canvas.dataset['cursor'];
    canvas.style.cursor = `url(${url}) ${x} ${y}, default`;
    canvas.dataset['cursor'] = url;
    if (before !== undefined) URL.revokeObjectURL(before);
  }

  private tell(figures: Figures): void {
    const at = performance.now();
    const [before, since] = this.last === undefined ? [figures, 1] : [this.last.figures, at - this.last.at];
    const rate = ((figures.bytes - before.bytes) * 8) / since / 1000;
    this.last = { figures, at };
    if (figures.byTcp !== this.byTcp) {
      this.byTcp = figures.byTcp;
      this.hint(figures.byTcp ? 'By TCP: UDP does not get through, so that losses are felt.' : 'UDP gets through.');
    }
    const rows: [string, string][] = [
      ['way', figures.byTcp ? 'TCP: UDP does not get through' : 'QUIC'],
      ['round trip', figures.roundTrip === undefined ? '–' : `${figures.roundTrip.toFixed(0)} ms`],
      ['rate', `${rate.toFixed(2)} Mbit/s`],
      ['messages', String(figures.messages)],
      ['recovered by repair', String(figures.recovered)],
      ['repair', String(figures.repairs)],
    ];
    if (figures.sound !== undefined) {
      const { delay, late, recovered, concealed, gaps } = figures.sound;
      rows.push(
        ['sound behind', `${(delay + this.speaker.latency).toFixed(0)} ms`],
        ['sound too late', String(late)],
        ['sound recovered', String(recovered)],
        ['sound concealed', String(concealed)],
        ['sound gaps', String(gaps)],
      );
    }
    overlay.replaceChildren(...rows.flatMap(([name, value]) => {
      const [term, what] = [document.createElement('dt'), document.createElement('dd')];
      [term.textContent, what.textContent] = [name, value];
      return [term, what];
    }));
  }

  /** What the person wishes of the picture: as it was kept, and as it is from now on. */
  private wishes(): void {
    const [form, button] = [element<HTMLFormElement>('wishes'), element('wish')];
    const [picture, rate] = [element<HTMLSelectElement>('picture'), element<HTMLInputElement>('rate')];
    const { server, desktop } = this.link;
    const show = (wishes: Wishes): void => { [picture.value, rate.value] = [wishes.picture, writeRate(wishes.rate)]; };
    const tell = (wishes: Wishes): void => this.worker.postMessage({ kind: 'wishes', ...said(wishes) } satisfies ToWorker);
    const kept = keptWishes(() => localStorage, server, desktop);
    show(kept);
    tell(kept);
    form.onchange = () => {
      const wishes = { picture: readPicture(picture.value), rate: readRate(rate.value) };
      // What was written there and is no rate goes away, so that nobody takes it for a limit.
      show(wishes);
      keepWishes(() => localStorage, server, desktop, wishes);
      tell(wishes);
    };
    // Enter has set it already.
    form.onsubmit = (event) => { event.preventDefault(); canvas.focus(); };
    button.onclick = () => {
      form.hidden = !form.hidden;
      button.setAttribute('aria-expanded', String(!form.hidden));
      if (form.hidden) canvas.focus(); else picture.focus();
    };
  }

  private buttons(): void {
    element('full').onclick = () => void (document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen());
    element('more').onclick = () => { overlay.hidden = !overlay.hidden; };
    sound.onclick = () => { void this.listen(); canvas.focus(); };
    element('keys').onclick = () => typing.focus();
    for (const button of bar.querySelectorAll<HTMLButtonElement>('button[data-key]')) {
      button.onclick = () => { this.keyboard.press(button.dataset['key'] ?? ''); canvas.focus(); };
    }
    canvas.addEventListener('focus', () => this.offer());
    for (const deed of ['pointerup', 'keydown']) {
      addEventListener(deed, () => { if (this.waiting) void this.copy(this.copied); }, { capture: true });
    }
    let resized = 0;
    addEventListener('resize', () => {
      clearTimeout(resized);
      resized = window.setTimeout(() => {
        if (!this.may.wish || !element<HTMLInputElement>('fit').checked) return;
        // Without the bar, which is beside it.
        const { clientWidth, clientHeight } = element('stage');
        const [width, height] = [clientWidth, clientHeight].map((side) => Math.round(side * devicePixelRatio));
        this.worker.postMessage({ kind: 'wish', width: width ?? 0, height: height ?? 0 } satisfies ToWorker);
      }, RESIZE_PAUSE);
    });
    element('fit').onchange = () => dispatchEvent(new Event('resize'));
  }
}

const link = takeLink();
if (typeof link === 'string') {
  say(link);
} else if (!('WebAssembly' in globalThis)) {
  say('This browser has WebAssembly switched off. Switch it on for this page, or open the link in another one.');
} else if (!('transferControlToOffscreen' in HTMLCanvasElement.prototype)) {
  say('This browser cannot draw beside the page (it has no OffscreenCanvas). Update it, or open the link in another one.');
} else {
  say('Connecting …');
  new Page(link);
}
