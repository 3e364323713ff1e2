// What dash.js would have chosen: `node oracle.mjs FOLDER < EVENTS`, FOLDER as sources.mjs made it.
//
// Each line of the input is something that happened to a player, in the order in which it happened:
//
//   { "session": { rule, bitrates, segment, live } }        a new player; segment in ms
//   { "arrived": { quality, bytes, media, buffer, requested, first, finished } }
//   { "stall": {} }, { "seek": {} }
//   { "ask": { now, buffer, target, current, latency, rate } }
//
// Times are in ms. Each question is answered by a line: { quality, wait }. The controllers, models and rules are those of
// dash.js; what is around them (elements, network, manifest) only says what the line says.

import path from 'node:path';
import readline from 'node:readline';
import { pathToFileURL } from 'node:url';

const folder = path.resolve(process.argv[2]);
const load = async (name) => import(pathToFileURL(path.join(folder, 'src', name)));
const one = async (name) => (await load(name)).default;

// dash.js catches what its rules throw, and logs it: here that is the end.
const fail = (...words) => {
    throw new Error(words.join(' '));
};
globalThis.window = { console: { error: fail, warn() {}, info() {}, debug() {}, log() {} } };
let now = 0;
const EPOCH = 1_700_000_000_000;
Date.now = () => EPOCH + now;

const [AbrController, ThroughputController, Debug, Settings, EventBus, Events, MediaPlayerEvents, MetricsConstants] =
    await Promise.all([
        one('streaming/controllers/AbrController.js'),
        one('streaming/controllers/ThroughputController.js'),
        one('core/Debug.js'),
        one('core/Settings.js'),
        one('core/EventBus.js'),
        one('core/events/Events.js'),
        one('streaming/MediaPlayerEvents.js'),
        one('streaming/constants/MetricsConstants.js'),
    ]);
Events.extend(MediaPlayerEvents);

const ACTIVE = {
    throughput: ['throughputRule'],
    bola: ['bolaRule'],
    dynamic: ['throughputRule', 'bolaRule'],
    l2a: ['l2ARule'],
    'lol+': ['loLPRule'],
};
const STREAM = 'stream';
const VIDEO = 'video';

class Player {
    constructor({ rule, bitrates, segment, live }) {
        const context = {};
        Object.assign(this, { segment, live, current: 0, level: 0, state: null, wait: 0, played: 0, last: null });
        this.settings = Settings(context).getInstance();
        Debug(context).getInstance({ settings: this.settings });
        const rules = Object.keys(this.settings.get().streaming.abr.rules);
        const active = rules.map((name) => [name, { active: ACTIVE[rule].includes(name) }]);
        this.settings.update({ streaming: { abr: { rules: Object.fromEntries(active) } } });
        this.bus = EventBus(context).getInstance();

        const streamInfo = { id: STREAM, manifestInfo: { isDynamic: live } };
        const mediaInfo = { id: 'media', index: 0, type: VIDEO, streamInfo };
        this.representations = bitrates.map((bandwidth, i) => ({
            id: `r${i}`,
            bandwidth,
            bitrateInKbit: bandwidth / 1000,
            absoluteIndex: i,
            fragmentDuration: segment / 1000,
            mediaInfo,
        }));

        const playbackController = {
            getIsDynamic: () => live,
            getCurrentLiveLatency: () => this.latency,
            getPlaybackRate: () => this.rate,
        };
        const scheduleController = {
            setTimeToLoadDelay: (ms) => (this.wait = ms),
            getPlaybackController: () => playbackController,
        };
        const representation = () => this.representations[this.current];
        const processor = {
            getStreamInfo: () => streamInfo,
            getMediaInfo: () => mediaInfo,
            getAllMediaInfos: () => [mediaInfo],
            getScheduleController: () => scheduleController,
            getRepresentation: representation,
            getRepresentationController: () => ({ getCurrentCompositeRepresentation: representation }),
            getLastSegment: () => null,
        };
        const throughputController = ThroughputController(context).getInstance();
        throughputController.setConfig({ settings: this.settings, playbackController });
        throughputController.initialize();
        this.abr = AbrController(context).getInstance();
        this.abr.setConfig({
            settings: this.settings,
            throughputController,
            adapter: { getVoRepresentations: () => this.representations, areMediaInfosEqual: () => true },
            capabilities: { areKeyIdsUsable: () => true },
            customParametersModel: { getAbrCustomRules: () => [] },
            domStorage: { setSavedBitrateSettings() {} },
            videoModel: { getPlaybackQuality: () => null, getPlaybackRate: () => this.rate },
            mediaPlayerModel: {
                getAbrBitrateParameter: () => -1,
                getBufferTimeDefault: () => this.target,
            },
            dashMetrics: {
                getCurrentBufferLevel: () => this.level,
                getCurrentBufferState: () => this.state && { state: this.state },
                getCurrentHttpRequest: () => this.last,
            },
        });
        this.abr.initialize();
        this.abr.registerStreamType(VIDEO, processor);
        this.tell(MediaPlayerEvents.QUALITY_CHANGE_REQUESTED, null, (e) => {
            this.current = e.newRepresentation.absoluteIndex;
        });
    }

    tell(event, payload, listener) {
        if (listener) {
            this.bus.on(event, listener, this);
        } else {
            this.bus.trigger(event, payload, { streamId: STREAM, mediaType: VIDEO });
        }
    }

    buffer(ms) {
        this.level = ms / 1000;
        // BufferController's threshold; before anything has arrived there is no state.
        if (this.last) {
            this.state = this.level > 0.3 ? MetricsConstants.BUFFER_LOADED : MetricsConstants.BUFFER_EMPTY;
        }
        this.tell(MediaPlayerEvents.METRIC_ADDED, { metric: MetricsConstants.BUFFER_LEVEL, value: { level: ms } });
    }

    arrived({ quality, bytes, media, buffer, requested, first, finished }) {
        now = finished;
        this.buffer(buffer);
        const date = (ms) => new Date(EPOCH + ms);
        this.played += 1;
        this.last = {
            type: 'MediaSegment',
            url: `segment${this.played}`,
            trequest: date(requested),
            tresponse: date(first),
            _tfinish: date(finished),
            _streamId: STREAM,
            trace: [{ s: date(first), d: finished - first, b: [bytes] }],
            _resourceTimingValues: {
                transferSize: bytes,
                decodedBodySize: bytes,
                responseStart: first,
                responseEnd: finished,
            },
        };
        this.tell(MediaPlayerEvents.METRIC_ADDED, { metric: MetricsConstants.HTTP_REQUEST, value: this.last });
        const chunk = {
            representation: this.representations[quality],
            start: (this.played * media) / 1000,
            duration: media / 1000,
        };
        this.tell(Events.MEDIA_FRAGMENT_LOADED, { chunk });
        this.buffer(buffer + media);
    }

    stall() {
        this.buffer(0);
        this.tell(MediaPlayerEvents.BUFFER_EMPTY, {});
    }

    seek() {
        this.buffer(0);
        this.tell(MediaPlayerEvents.PLAYBACK_SEEKING, {});
    }

    ask({ now: at, buffer, target, current, latency, rate }) {
        now = at;
        Object.assign(this, { target: target / 1000, current, latency: latency / 1000, rate });
        this.buffer(buffer);
        this.wait = 0;
        this.abr.checkPlaybackQuality(VIDEO, STREAM);
        return { quality: this.current, wait: this.wait };
    }
}

let player = null;
for await (const line of readline.createInterface({ input: process.stdin })) {
    const [[what, details]] = Object.entries(JSON.parse(line));
    if (what === 'session') {
        player = new Player(details);
    } else {
        const answer = player[what](details);
        if (what === 'ask') {
            console.log(JSON.stringify(answer));
        }
    }
}
