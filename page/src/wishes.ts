/** What a person wishes of the picture: kept for each server and desktop, and said in each session. */

/** How photographs and films are to be. */
export type Picture = 'sharp' | 'balanced' | 'fast';

export interface Wishes {
  readonly picture: Picture;
  /** Bits per second that the server is to send at most; 0: as many as it likes. */
  readonly rate: number;
}

/** What a session says: a rate, and two qualities of JPEG, each 0 for no wish. */
export interface SaidWishes {
  readonly rate: number;
  readonly least: number;
  readonly most: number;
}

export const NO_WISHES: Wishes = { picture: 'balanced', rate: 0 };

/** The server stays within its own limits, whatever is said. */
const QUALITIES: Readonly<Record<Picture, readonly [number, number]>> = {
  sharp: [80, 100],
  balanced: [0, 0],
  fast: [1, 45],
};

/** Bits per second: with less no desktop is of use, and more is no limit. */
const LEAST_RATE = 100_000;
const MOST_RATE = 100_000_000_000;

/** Reads Mbit/s as a person writes them; what is no number above 0 is no limit. */
export function readRate(text: string): number {
  const trimmed = text.trim().replace(',', '.');
  const rate = /^\d{1,12}(\.\d{0,9})?$|^\.\d{1,9}$/.test(trimmed) ? Math.round(Number(trimmed) * 1e6) : 0;
  return rate > 0 ? Math.min(Math.max(rate, LEAST_RATE), MOST_RATE) : 0;
}

/** The same the other way round. */
export function writeRate(rate: number): string {
  return rate > 0 ? String(rate / 1e6) : '';
}

export function readPicture(text: string): Picture {
  return text === 'sharp' || text === 'fast' ? text : 'balanced';
}

export function said({ picture, rate }: Wishes): SaidWishes {
  const [least, most] = QUALITIES[picture];
  return { rate, least, most };
}

/** Whether there is nothing to say. */
export function isSilent({ rate, least }: SaidWishes): boolean {
  return rate === 0 && least === 0;
}

/** Where they are kept: not by the link itself, since that has a token in it. */
function place(server: string, desktop: string): string {
  return `wishes ${server} ${desktop}`;
}

/** What was kept; what cannot be read, or is not kept, is no wish. */
export function keptWishes(storage: () => Pick<Storage, 'getItem'>, server: string, desktop: string): Wishes {
  try {
    const kept: unknown = JSON.parse(storage().getItem(place(server, desktop)) ?? '{}');
    if (typeof kept !== 'object' || kept === null) return NO_WISHES;
    const { picture, rate } = kept as { picture?: unknown; rate?: unknown };
    return {
      picture: readPicture(typeof picture === 'string' ? picture : ''),
      rate: typeof rate === 'number' ? readRate(writeRate(rate)) : 0,
    };
  } catch {
    return NO_WISHES;
  }
}

/** Keeps them, if this browser keeps anything. */
export function keepWishes(storage: () => Pick<Storage, 'setItem'>, server: string, desktop: string, wishes: Wishes): void {
  try {
    storage().setItem(place(server, desktop), JSON.stringify(wishes));
  } catch {
    // A private window may keep nothing: they last as long as the page.
  }
}
