/** What the page and its worker say to each other. */

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
  | { kind: 'wish'; width: number; height: number };

export type FromWorker =
  | { kind: 'welcome'; name: string; may: { input: boolean; clipboard: boolean; wish: boolean } }
  | { kind: 'name'; name: string }
  | { kind: 'size'; width: number; height: number }
  | { kind: 'cursor'; width: number; height: number; x: number; y: number; pixels: Uint8Array }
  | { kind: 'text'; text: string }
  | { kind: 'wanted' }
  | { kind: 'offered' }
  | { kind: 'bell' }
  | { kind: 'notice'; text: string }
  | { kind: 'figures'; figures: Figures }
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
}
