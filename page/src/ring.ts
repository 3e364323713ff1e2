/** Samples between a decoder and a device whose clocks differ; nothing of a browser is in it. */

/** Of both channels. */
export type Stereo = readonly [Float32Array, Float32Array];

/** What a ring has seen. */
export interface RingFigures {
  /** Samples that wait, and that are to wait before each piece comes. */
  readonly level: number;
  readonly lead: number;
  /** How often nothing was there for a moment. */
  readonly gaps: number;
  /** How often too much was there, and some was left out. */
  readonly skips: number;
}

/** Samples of each channel that it holds: more than two thirds of a second. */
const SIZE = 1 << 15;
/** What waits beyond the lead at most, in samples: 60 ms, of which devices that call in blocks need 40. */
const MOST_BEYOND = 2880;
/** By how much the lead grows with each gap, and up to where, in samples: 5 and 60 ms. */
const GROWTH = 240;
const MOST_LEAD = 2880;
/** For how long nothing may come until it is a pause, in samples: a fifth of a second. */
const PAUSE = 9600;
/** By which share the device is followed at most (`spec/desktop.md` DT-73: no more than a percent in all). */
const MOST_DRIFT = 0.004;
/** In how many samples a level that is wrong is made good: a second. */
const CORRECTION = 48_000;
/** Of how many pieces a level is the mean, about: 40 ms of jitter move it by little. */
const MEAN_OF = 32;

/**
 * Holds as much as a lead before each piece comes: where the device takes more or less than comes, what is there
 * is played slower or faster. A lead that is too short for the device's blocks or this machine's pace grows.
 */
export class Ring {
  private readonly channels: Stereo = [new Float32Array(SIZE), new Float32Array(SIZE)];
  /** How many samples were taken and put since the beginning; those taken may end between two. */
  private taken = 0;
  private put = 0;
  /** How much more than the lead waits, as a mean. */
  private surplus = 0;
  /** Samples that the device wanted while there were none. */
  private dry = PAUSE;
  private gaps = 0;
  private skips = 0;

  /** `lead` is in samples. */
  constructor(private lead: number) {}

  get figures(): RingFigures {
    return { level: this.level, lead: this.lead, gaps: this.gaps, skips: this.skips };
  }

  /** Puts a piece behind what is there. */
  push([left, right]: Stereo): void {
    if (this.level < 1) {
      if (this.dry > 0 && this.dry < PAUSE) {
        this.gaps += 1;
        this.lead = Math.min(this.lead + GROWTH, Math.max(this.lead, MOST_LEAD));
      }
      // As if it had been there in time.
      this.write(new Float32Array(this.lead), new Float32Array(this.lead));
      this.surplus = 0;
    } else {
      this.surplus += (this.level - this.lead - this.surplus) / MEAN_OF;
    }
    if (this.level > this.lead + MOST_BEYOND) {
      this.skips += 1;
      this.taken = this.put - this.lead;
      this.surplus = 0;
    }
    this.dry = 0;
    const most = Math.min(left.length, right.length, MOST_BEYOND);
    this.write(left.subarray(0, most), right.subarray(0, most));
  }

  /** Fills what the device wants, with silence where nothing is there. */
  pull([left, right]: Stereo): void {
    const step = 1 + Math.max(-MOST_DRIFT, Math.min(MOST_DRIFT, this.surplus / CORRECTION));
    for (let n = 0; n < left.length; n += 1) {
      const before = Math.floor(this.taken);
      if (before + 1 >= this.put) {
        [left[n], right[n]] = [0, 0];
        this.dry += 1;
        this.taken = this.put;
        continue;
      }
      const share = this.taken - before;
      left[n] = this.between(this.channels[0], before, share);
      right[n] = this.between(this.channels[1], before, share);
      this.taken += step;
    }
  }

  private get level(): number {
    return this.put - this.taken;
  }

  private between(samples: Float32Array, before: number, share: number): number {
    const [near = 0, far = 0] = [samples[before % SIZE], samples[(before + 1) % SIZE]];
    return near + (far - near) * share;
  }

  private write(left: Float32Array, right: Float32Array): void {
    for (let n = 0; n < left.length; n += 1) {
      const at = (this.put + n) % SIZE;
      this.channels[0][at] = left[n] ?? 0;
      this.channels[1][at] = right[n] ?? 0;
    }
    this.put += left.length;
  }
}

/** A channel that plays in so many samples: lines between those that there are. */
export function stretched(sound: Float32Array, samples: number): Float32Array {
  if (samples === sound.length || samples <= 0 || sound.length === 0) return sound;
  const step = sound.length / samples;
  return Float32Array.from({ length: samples }, (_, n) => {
    const before = Math.floor(n * step);
    const near = sound[before] ?? 0;
    const far = sound[Math.min(before + 1, sound.length - 1)] ?? 0;
    return near + (far - near) * (n * step - before);
  });
}
