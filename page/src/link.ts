/** What a link says behind its `#`: it stays in the browser, and so does the token. */
export interface Link {
  /** Host and port of the server. */
  readonly server: string;
  /** SHA-256 of its certificates; none when an authority vouches for it. */
  readonly hashes: readonly Uint8Array[];
  readonly token: string;
  /** The one of the server's desktops to show; empty: the first. */
  readonly desktop: string;
}

/** Reads a fragment; the sentence says what is wrong with it, and what to do. */
export function readLink(fragment: string, host: string): Link | string {
  const fields = new URLSearchParams(fragment.replace(/^#/, ''));
  const token = fields.get('token') ?? '';
  if (token === '') return 'This link has no token. Copy all of it, from https or http to its end, or ask for a new one.';
  const server = fields.get('server') ?? host;
  if (!/^(\[[0-9a-fA-F:.]+\]|[\w.-]+)(:\d{1,5})?$/.test(server)) return 'This link names no server. Ask for a new one.';
  const hashes: Uint8Array[] = [];
  for (const text of (fields.get('hash') ?? '').split(',').filter((part) => part !== '')) {
    const hash = fromBase64Url(text);
    if (hash?.length !== 32) return 'This link was cut, or altered on its way. Ask for a new one.';
    hashes.push(hash);
  }
  return { server, hashes, token, desktop: fields.get('desktop') ?? '' };
}

function fromBase64Url(text: string): Uint8Array | undefined {
  try {
    const bytes = atob(text.replaceAll('-', '+').replaceAll('_', '/'));
    return Uint8Array.from(bytes, (byte) => byte.charCodeAt(0));
  } catch {
    return undefined;
  }
}

/** What a person is told of the end of a session, by the codes of `spec/desktop.md` §11; and whether to try again. */
export function ofEnding(code: number, reason: string): { text: string; again: boolean } {
  const words = reason === '' ? '' : ` (${reason})`;
  switch (code) {
    case 2: return { text: 'This page is older or newer than the server. Reload it.', again: false };
    case 3: return { text: reason || 'This link is not good any more. Ask for a new one.', again: false };
    case 4: return { text: 'The desktop is larger than this page can show.', again: false };
    case 5: return { text: `The desktop is away${words}. Trying again.`, again: true };
    case 6: return { text: `There is no place for another viewer${words}.`, again: false };
    case 9: return { text: reason || 'Not now. Trying again.', again: true };
    case 0: return { text: 'The server has ended the session.', again: true };
    default: return { text: `The session broke off${words}. Trying again.`, again: true };
  }
}
