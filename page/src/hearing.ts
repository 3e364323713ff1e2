/** Packets of Opus become samples for the speaker, by the browser's own decoder. */

import { stretched, type RingFigures, type Stereo } from './ring.ts';
import type { FromSpeaker, ToSpeaker } from './talk.ts';

const OPUS: AudioDecoderConfig = { codec: 'opus', sampleRate: 48_000, numberOfChannels: 2 };
/** How long a packet plays, in microseconds. */
const FRAME = 20_000;
/** Packets that wait to be decoded, and pieces that wait for the speaker: what comes then is dropped. */
const MOST_UNDECODED = 10;
const MOST_UNPLAYED = 25;
/** From a decoder that gives up to the next, in milliseconds. */
const ANOTHER_AFTER = 1000;

/** What to tell of a browser that cannot. */
export const NO_DECODER = 'This browser cannot decode sound (WebCodecs). Chromium, and Firefox from 130 on, can: open the link there.';

/** One packet, and in how many samples it is to play. */
export interface Packet {
  readonly packet: Uint8Array;
  readonly samples: number;
}

export class Hearing {
  private decoder: AudioDecoder | undefined;
  /** When the last decoder was made. */
  private made = -ANOTHER_AFTER;
  /** Of the next packet, for the decoder. */
  private timestamp = 0;
  private readonly samples = new Map<number, number>();
  private sent = 0;
  private speaker: FromSpeaker;
  private heardOf = false;

  /** `lead` is how long before it is heard each packet comes, in milliseconds. */
  constructor(private readonly port: MessagePort, lead: number) {
    port.onmessage = ({ data }: MessageEvent<FromSpeaker>) => {
      this.speaker = data;
      this.heardOf = true;
    };
    const samples = Math.round((lead * OPUS.sampleRate) / 1000);
    this.speaker = { pieces: 0, level: 0, lead: samples, gaps: 0, skips: 0 };
    port.postMessage({ lead: samples } satisfies ToSpeaker);
  }

  /** Whether this browser can. */
  static async isPossible(): Promise<boolean> {
    try {
      return 'AudioDecoder' in globalThis && (await AudioDecoder.isConfigSupported(OPUS)).supported === true;
    } catch {
      return false;
    }
  }

  get figures(): RingFigures {
    return this.speaker;
  }

  /** Whether the speaker has ever said anything. */
  get isHeard(): boolean {
    return this.heardOf;
  }

  /** Plays a packet behind the one before. What the decoder or the speaker does not keep up with is dropped. */
  play({ packet, samples }: Packet): void {
    const decoder = this.decoder ?? this.anotherDecoder();
    if (decoder === undefined || decoder.decodeQueueSize >= MOST_UNDECODED) return;
    this.timestamp += FRAME;
    if (this.samples.size > 4 * MOST_UNDECODED) this.samples.clear();
    this.samples.set(this.timestamp, samples);
    const chunk = new EncodedAudioChunk({ type: 'key', timestamp: this.timestamp, duration: FRAME, data: packet as BufferSource });
    try {
      decoder.decode(chunk);
    } catch (fault) {
      this.gaveUp(decoder, fault);
    }
  }

  close(): void {
    if (this.decoder?.state !== 'closed') this.decoder?.close();
    this.port.close();
  }

  /** One that has met something that is no sound is of no more use (DT-71: that packet is a gap). */
  private anotherDecoder(): AudioDecoder | undefined {
    const now = performance.now();
    if (now - this.made < ANOTHER_AFTER) return undefined;
    this.made = now;
    this.samples.clear();
    const decoder: AudioDecoder = new AudioDecoder({
      output: (data) => this.decoded(data),
      error: (fault) => this.gaveUp(decoder, fault),
    });
    decoder.configure(OPUS);
    return this.decoder = decoder;
  }

  private gaveUp(decoder: AudioDecoder, fault: unknown): void {
    console.debug(fault);
    if (this.decoder === decoder) this.decoder = undefined;
  }

  private decoded(data: AudioData): void {
    const samples = this.samples.get(data.timestamp) ?? data.numberOfFrames;
    this.samples.delete(data.timestamp);
    const left = this.channel(data, 0, samples);
    const right = data.numberOfChannels > 1 ? this.channel(data, 1, samples) : left.slice();
    data.close();
    // A speaker that does not run takes nothing.
    if (this.sent - this.speaker.pieces >= MOST_UNPLAYED) return;
    this.sent += 1;
    const piece: Stereo = [left, right];
    this.port.postMessage(piece satisfies ToSpeaker, [left.buffer as ArrayBuffer, right.buffer as ArrayBuffer]);
  }

  private channel(data: AudioData, planeIndex: number, samples: number): Float32Array {
    const plane = new Float32Array(data.numberOfFrames);
    data.copyTo(plane, { planeIndex, format: 'f32-planar' });
    return stretched(plane, samples);
  }
}
