/** The speaker of the page: what browsers start behind a click alone. */

const RATE = 48_000;
/** How long a browser may take until it plays, in milliseconds. */
const PATIENCE = 5000;

const NONE = 'This browser plays no sound of pages (AudioWorklet). Update it, or open the link in another one.';
const NOT_NOW = 'This browser has not started to play sound. Allow sound beside the address, see that there is a device, and press Sound again.';

export class Speaker {
  private context: AudioContext | undefined;

  constructor(private readonly told: (text: string) => void) {}

  get isOn(): boolean {
    return this.context !== undefined;
  }

  /** From a sample that is played to one that is heard, in milliseconds, as the browser knows it. */
  get latency(): number {
    const { baseLatency = 0, outputLatency = 0 } = this.context ?? {};
    return (outputLatency || baseLatency) * 1000;
  }

  /** Starts, within a click. The end for whoever has the sound; it fails with a sentence. */
  async start(): Promise<MessagePort> {
    if (!('AudioWorkletNode' in globalThis)) throw new Error(NONE);
    // The least that the device has: what is `interactive` adds a frame to what lies between picture and sound.
    const context = new AudioContext({ sampleRate: RATE, latencyHint: 0 });
    this.context = context;
    try {
      const late = new Promise<never>((_, fail) => setTimeout(() => fail(new Error(NOT_NOW)), PATIENCE));
      await Promise.race([Promise.all([context.resume(), context.audioWorklet.addModule('sound.js')]), late]);
      if (this.context !== context) throw new Error('');
      const node = new AudioWorkletNode(context, 'quickset-sound', { numberOfInputs: 0, outputChannelCount: [2] });
      node.onprocessorerror = () => this.told('The sound of this page has a fault. Press Sound twice.');
      node.connect(context.destination);
      const { port1, port2 } = new MessageChannel();
      node.port.postMessage(port1, [port1]);
      return port2;
    } catch (fault) {
      if (this.context === context) this.stop();
      throw fault;
    }
  }

  stop(): void {
    void this.context?.close().catch(() => {});
    this.context = undefined;
  }
}
