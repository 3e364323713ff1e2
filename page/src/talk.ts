/** What the page, its worker and its speaker say to each other. */

import type { RingFigures, Stereo } from './ring.ts';
import type { SaidWishes } from './wishes.ts';

/** Who wants to see what. */
export interface Visitor {
  readonly token: string;
  /** The desktop; empty: the first. */
  readonly desktop: string;
  /** What this browser calls itself towards the server. */
  readonly device: string;
}

export type ToWorker =
  | { kind: 'start'; canvas?: OffscreenCanvas; server: string; hashes: readonly Uint8Array[] } & Visitor
  | { kind: 'key'; down: boolean; keysym: number; keycode: number | undefined }
  | { kind: 'pointer'; buttons: number; x: number; y: number }
  | { kind: 'offer' }
  | { kind: 'paste'; text: string }
  | { kind: 'ask' }
  | { kind: 'wish'; width: number; height: number }
  | { kind: 'wishes' } & SaidWishes
  | { kind: 'hear'; port: MessagePort }
  | { kind: 'deafen' };

export type FromWorker =
  | { kind: 'welcome'; name: string; may: { input: boolean; clipboard: boolean; wish: boolean }; sound: boolean }
  | { kind: 'name'; name: string }
  | { kind: 'size'; width: number; height: number }
  | { kind: 'cursor'; width: number; height: number; x: number; y: number; pixels: Uint8Array }
  | { kind: 'text'; text: string }
  | { kind: 'wanted' }
  | { kind: 'offered' }
  | { kind: 'bell' }
  | { kind: 'notice'; text: string }
  | { kind: 'figures'; figures: Figures }
  | { kind: 'mute'; text: string }
  | { kind: 'ended'; text: string; again: boolean };

/** Since the session began. */
export interface Figures {
  /** By a WebSocket: UDP does not get through. */
  readonly byTcp: boolean;
  /** Of the last ping, in milliseconds. */
  readonly roundTrip: number | undefined;
  readonly messages: number;
  readonly recovered: number;
  readonly repairs: number;
  readonly bytes: number;
  /** While somebody hears. */
  readonly sound: SoundFigures | undefined;
}

/** Of sound, since the session began; gaps and skips of the speaker since it was switched on. */
export interface SoundFigures extends RingFigures {
  /** From the fastest frames of late to what leaves for the device, in milliseconds. */
  readonly delay: number;
  readonly received: number;
  /** Frames that came when their place had been played. */
  readonly late: number;
  readonly recovered: number;
  /** Frames in whose place the decoder has concealed. */
  readonly concealed: number;
}

/** For the speaker: first how much is to wait before each piece comes, in samples, and then pieces. */
export type ToSpeaker = { lead: number } | Stereo;

/** How it fares there. */
export interface FromSpeaker extends RingFigures {
  /** Pieces that it has taken. */
  readonly pieces: number;
}
