/** What the device calls for samples: an AudioWorklet. The worker sends it pieces; how they fare goes back there. */

import { Ring, type Stereo } from './ring.ts';
import type { FromSpeaker, ToSpeaker } from './talk.ts';

/** What a worklet has; the types of a window do not know it. */
interface Processor { readonly port: MessagePort }
declare const AudioWorkletProcessor: new () => Processor;
declare function registerProcessor(name: string, processor: unknown): void;

/** How often the worker is told, in calls of 128 samples: 43 ms. */
const TELL_EVERY = 16;

class SpeakerProcessor extends AudioWorkletProcessor {
  private ring: Ring | undefined;
  private worker: MessagePort | undefined;
  private pieces = 0;
  private calls = 0;

  constructor() {
    super();
    // The page hands over the way to its worker.
    this.port.onmessage = ({ data }: MessageEvent<MessagePort>) => {
      this.worker = data;
      this.worker.onmessage = ({ data: said }: MessageEvent<ToSpeaker>) => this.hear(said);
    };
  }

  private hear(said: ToSpeaker): void {
    if ('lead' in said) {
      this.ring = new Ring(said.lead);
      return;
    }
    this.pieces += 1;
    this.ring?.push(said);
  }

  process(_: unknown, [out]: readonly Float32Array[][]): boolean {
    const [left, right] = out ?? [];
    if (left === undefined || right === undefined || this.ring === undefined) return true;
    this.ring.pull([left, right] as Stereo);
    this.calls += 1;
    if (this.calls % TELL_EVERY === 0) {
      this.worker?.postMessage({ pieces: this.pieces, ...this.ring.figures } satisfies FromSpeaker);
    }
    return true;
  }
}

registerProcessor('quickset-sound', SpeakerProcessor);
