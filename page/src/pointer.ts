/** A mouse, a pen or fingers to one pointer with buttons. */

import type { ToWorker } from './talk.ts';

const [LEFT, MIDDLE, RIGHT] = [1, 2, 4];
/** Buttons 4 to 7 are the wheel: up, down, left, right. */
const [UP, DOWN, BACK, ON] = [8, 16, 32, 64];
/** So far, in pixels, is one step of the wheel. */
const STEP = 40;
/** A finger that rests so long presses the right button, in milliseconds. */
const LONG = 600;
/** A finger that moved less has tapped, in pixels. */
const SLACK = 8;

export class Pointer {
  private buttons = 0;
  private at = { x: 0, y: 0 };
  private wheel = { x: 0, y: 0 };
  private readonly fingers = new Map<number, { x: number; y: number }>();
  private resting = 0;

  constructor(private readonly canvas: HTMLCanvasElement, private readonly send: (message: ToWorker) => void) {
    canvas.addEventListener('contextmenu', (event) => event.preventDefault());
    canvas.addEventListener('wheel', (event) => this.turned(event), { passive: false });
    canvas.addEventListener('pointerdown', (event) => this.pressed(event));
    canvas.addEventListener('pointermove', (event) => this.moved(event));
    canvas.addEventListener('pointerup', (event) => this.released(event));
    canvas.addEventListener('pointercancel', (event) => this.released(event));
  }

  /** Where on the desktop. */
  private place(event: { clientX: number; clientY: number }): void {
    const box = this.canvas.getBoundingClientRect();
    const side = (name: string): number => Number(this.canvas.dataset[name] ?? 0);
    const within = (share: number, most: number): number => Math.max(0, Math.min(most - 1, Math.floor(share * most)));
    this.at = {
      x: within((event.clientX - box.left) / box.width, side('width')),
      y: within((event.clientY - box.top) / box.height, side('height')),
    };
  }

  private tell(buttons = this.buttons): void {
    if (this.canvas.dataset['width'] !== undefined) this.send({ kind: 'pointer', buttons, ...this.at });
  }

  private click(button: number): void {
    this.tell(this.buttons | button);
    this.tell();
  }

  private pressed(event: PointerEvent): void {
    event.preventDefault();
    this.canvas.focus();
    this.canvas.setPointerCapture(event.pointerId);
    if (event.pointerType === 'touch') {
      this.touched(event);
      return;
    }
    this.place(event);
    this.set(event.buttons);
  }

  private moved(event: PointerEvent): void {
    if (event.pointerType === 'touch') {
      this.dragged(event);
      return;
    }
    this.place(event);
    this.set(event.buttons);
  }

  private released(event: PointerEvent): void {
    if (event.pointerType === 'touch') {
      this.lifted(event);
      return;
    }
    this.place(event);
    this.set(event.buttons);
  }

  /** The bits of DOM are left, right, middle; those of RFB left, middle, right. */
  private set(bits: number): void {
    this.buttons = (bits & 1 ? LEFT : 0) | (bits & 4 ? MIDDLE : 0) | (bits & 2 ? RIGHT : 0);
    this.tell();
  }

  private turned(event: WheelEvent): void {
    event.preventDefault();
    this.place(event);
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_PIXEL ? 1 : STEP;
    this.scroll(event.deltaX * unit, event.deltaY * unit);
  }

  private scroll(x: number, y: number): void {
    this.wheel.x += x;
    this.wheel.y += y;
    for (; Math.abs(this.wheel.y) >= STEP; this.wheel.y -= Math.sign(this.wheel.y) * STEP) this.click(this.wheel.y > 0 ? DOWN : UP);
    for (; Math.abs(this.wheel.x) >= STEP; this.wheel.x -= Math.sign(this.wheel.x) * STEP) this.click(this.wheel.x > 0 ? ON : BACK);
  }

  /** One finger points, and presses when it taps or moves; two scroll; one that rests presses the right button. */
  private touched(event: PointerEvent): void {
    this.fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    clearTimeout(this.resting);
    if (this.fingers.size > 1) {
      this.set(0);
      return;
    }
    this.place(event);
    this.tell();
    this.resting = window.setTimeout(() => { this.click(RIGHT); this.fingers.clear(); }, LONG);
  }

  private dragged(event: PointerEvent): void {
    const before = this.fingers.get(event.pointerId);
    if (before === undefined) return;
    const [x, y] = [event.clientX - before.x, event.clientY - before.y];
    if (this.fingers.size > 1) {
      this.fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
      // Of two fingers each moves as far.
      this.scroll(-x / 2, -y / 2);
      return;
    }
    if (this.buttons === 0 && Math.hypot(x, y) < SLACK) return;
    clearTimeout(this.resting);
    this.buttons = LEFT;
    this.place(event);
    this.tell();
  }

  private lifted(event: PointerEvent): void {
    clearTimeout(this.resting);
    const tapped = this.fingers.size === 1 && this.buttons === 0;
    if (!this.fingers.delete(event.pointerId)) return;
    if (tapped && event.type === 'pointerup') this.click(LEFT);
    if (this.buttons !== 0) this.set(0);
  }
}
