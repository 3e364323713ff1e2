/** Keys of a person to keys of X11: what is down goes up again, whatever becomes of the focus. */

import { keycode, keysym, ofCharacter } from './keys.ts';
import type { ToWorker } from './talk.ts';

export class Keyboard {
  /** What is down, by the place of the key, which stays while its meaning may change. */
  private readonly down = new Map<string, number>();

  constructor(
    canvas: HTMLElement,
    private readonly typing: HTMLTextAreaElement,
    private readonly send: (message: ToWorker) => void,
  ) {
    for (const target of [canvas, typing]) {
      target.addEventListener('keydown', (event) => this.pressed(event));
      target.addEventListener('keyup', (event) => this.released(event));
      target.addEventListener('blur', () => this.releaseAll());
    }
    addEventListener('blur', () => this.releaseAll());
    document.addEventListener('visibilitychange', () => { if (document.hidden) this.releaseAll(); });
    // Of dead keys, compositions and keyboards on a screen only the text comes.
    typing.addEventListener('input', () => this.typed());
  }

  /** A key goes down and up. */
  press(key: string): void {
    const symbol = keysym(key);
    if (symbol === undefined) return;
    for (const down of [true, false]) this.send({ kind: 'key', down, keysym: symbol, keycode: keycode(key) });
  }

  /** The session is over: the server has let all keys go. */
  forget(): void {
    this.down.clear();
  }

  private pressed(event: KeyboardEvent): void {
    if (event.isComposing || event.key === 'Process' || event.key === 'Dead' || event.key === 'Unidentified') return;
    const symbol = keysym(event.key, event.location);
    if (symbol === undefined) return;
    event.preventDefault();
    this.down.set(event.code, symbol);
    this.send({ kind: 'key', down: true, keysym: symbol, keycode: keycode(event.code) });
  }

  private released(event: KeyboardEvent): void {
    const symbol = this.down.get(event.code);
    if (symbol === undefined) return;
    event.preventDefault();
    this.down.delete(event.code);
    this.send({ kind: 'key', down: false, keysym: symbol, keycode: keycode(event.code) });
  }

  private releaseAll(): void {
    for (const [code, symbol] of this.down) {
      this.send({ kind: 'key', down: false, keysym: symbol, keycode: keycode(code) });
    }
    this.down.clear();
  }

  private typed(): void {
    const text = this.typing.value;
    this.typing.value = '';
    for (const character of text) {
      const symbol = ofCharacter(character);
      if (symbol === undefined) continue;
      for (const down of [true, false]) this.send({ kind: 'key', down, keysym: symbol, keycode: undefined });
    }
  }
}
