// The modes of `quickset demo --web`, live. What is sent is described in crates/cli/src/demo/web/visit.rs.

const ABOUT = {
  "total": "Each message waits for all before it, as on TCP or an ordinary QUIC stream.",
  "partial": "A fence after each update: messages within one are drawn as they arrive, the next update waits until it is complete.",
  "partial+fec": "The same fences, and what is lost of an update is repaired from what was sent along with it.",
  "latest": "No fences: each part of the screen keeps the newest pixels, and what newer ones cover is not sent again.",
};
/** How long to wait before the server is looked for again, in milliseconds. */
const PAUSE = 2000;

const find = (id) => document.getElementById(id);
const loss = find("loss");
/** @type {{cell: number, across: number, colours: Uint32Array, views: View[], span: number} | undefined} */
let shown;
/** The bytes in front of the cells of a mode: which mode it is, and how many cells. */
const HEAD = 3;

/** The screen of a mode, and what is said of it. */
class View {
  constructor(mode, greeting) {
    const section = find("mode").content.firstElementChild.cloneNode(true);
    const part = (query) => section.querySelector(query);
    this.section = section;
    section.className = mode.name;
    part(".title").textContent = mode.title;
    part("code").textContent = mode.name;
    part(".about").textContent = ABOUT[mode.name] ?? "";
    this.standing = part(".standing");
    this.strip = part(".strip");
    this.figures = Object.fromEntries([...section.querySelectorAll("dd")].map((dd) => [dd.dataset.figure, dd]));
    const canvas = part("canvas");
    canvas.width = greeting.width;
    canvas.height = greeting.height;
    canvas.setAttribute("aria-label", `The desktop as the mode ${mode.name} has it now`);
    this.canvas = canvas.getContext("2d", { alpha: false });
    this.image = this.canvas.createImageData(greeting.width, greeting.height);
    this.pixels = new Uint32Array(this.image.data.buffer).fill(shown.colours[0]);
    this.clean();
  }

  /** Nothing has to be painted. */
  clean() {
    this.dirty = { left: Infinity, top: Infinity, right: 0, bottom: 0 };
  }

  /** Takes a cell over: its palette indices begin at `at`. */
  take(cell, bytes, at) {
    const { cell: side, across, colours } = shown;
    const x = (cell % across) * side, y = Math.floor(cell / across) * side;
    const { dirty, pixels, image } = this;
    for (let line = 0; line < side; line++) {
      let to = (y + line) * image.width + x;
      for (let i = 0; i < side; i++) pixels[to++] = colours[bytes[at++]];
    }
    dirty.left = Math.min(dirty.left, x);
    dirty.top = Math.min(dirty.top, y);
    dirty.right = Math.max(dirty.right, x + side);
    dirty.bottom = Math.max(dirty.bottom, y + side);
  }

  /** Shows what was taken over. */
  paint() {
    const { left, top, right, bottom } = this.dirty;
    if (right > 0) this.canvas.putImageData(this.image, 0, 0, left, top, right - left, bottom - top);
    this.clean();
  }

  tell(figures) {
    const { blocked, p50, p99, stall } = this.figures;
    const has = figures.updates > 0;
    blocked.textContent = figures.messages > 0 ? `${(figures.blocked_share * 100).toFixed(1)} %` : "–";
    p50.textContent = has ? ms(figures.whole_update_p50_ms) : "–";
    p99.textContent = has ? ms(figures.whole_update_p99_ms) : "–";
    const last = figures.last_stall;
    stall.textContent = last ? ms(last.lasted_ms) : "none yet";
    if (last) {
      const ago = document.createElement("small");
      ago.textContent = ` ${(last.ago_ms / 1000).toFixed(last.ago_ms < 9950 ? 1 : 0)} s ago`;
      stall.append(ago);
    }
    const stands = figures.standing_ms ?? 0;
    this.section.classList.toggle("stands", stands > 0);
    this.standing.hidden = stands === 0;
    this.standing.textContent = `stands still for ${ms(stands)}`;
    const now = stands > 0 ? [{ ago_ms: 0, lasted_ms: stands }] : [];
    this.strip.replaceChildren(...[...figures.stalls, ...now].map((one) => {
      const bar = document.createElement("i");
      bar.style.right = `${one.ago_ms / shown.span * 100}%`;
      bar.style.width = `${one.lasted_ms / shown.span * 100}%`;
      return bar;
    }));
  }
}

const ms = (value) => `${value.toFixed(value < 10 ? 1 : 0)} ms`;

/** A quantity of the link as it is printed: `100mbit`, `9MB`. */
function size(text) {
  const [, number, unit] = /^([\d.]+)(\D+)$/.exec(text) ?? [];
  return number ? `${number} ${unit.replace(/^([kmgt])bit$/, (_, k) => `${k === "k" ? k : k.toUpperCase()}bit/s`)}` : text;
}

/** What is lost, as it is printed. */
const share = (text) => text === "none" ? "nothing" : text.replace(/^([\d.]+)%$/, "$1 %");

function greet(greeting) {
  const { link, palette } = greeting;
  const colours = new Uint32Array(palette.length);
  const bytes = new Uint8Array(colours.buffer);
  palette.forEach((rgb, i) => bytes.set([...rgb, 255], i * 4));
  shown = { cell: greeting.cell, across: greeting.width / greeting.cell, colours, views: [], span: greeting.span_s * 1000 };
  shown.views = greeting.modes.map((mode) => new View(mode, greeting));
  find("modes").replaceChildren(...shown.views.map((view) => view.section));
  find("link").textContent = `One moving desktop, ${greeting.pace} updates a second, sent in ${greeting.modes.length} ways at once, each through a link of its own: `
    + `${size(link.rate)}, ${link.rtt_ms} ms round trip, queue ${size(link.queue)}, ${link.congestion.toUpperCase()}. `
    + "All links lose the same packets by their number.";
  find("span").textContent = String(greeting.span_s);
  loss.replaceChildren(...greeting.losses.map((text) => new Option(share(text), text)));
  find("controls").hidden = false;
}

function tell(figures) {
  if (document.activeElement !== loss || loss.dataset.asked === figures.loss) {
    loss.value = figures.loss;
    delete loss.dataset.asked;
  }
  say(figures.waits ? "The link, or this machine, carries less than there is to show: the desktop waits for the slowest." : "");
  figures.modes.forEach((mode, i) => shown.views[i].tell(mode));
}

function draw(frame) {
  const bytes = new Uint8Array(frame);
  const step = 2 + shown.cell * shown.cell;
  for (let at = 0; at < bytes.length;) {
    const view = shown.views[bytes[at]];
    const end = at + HEAD + (bytes[at + 1] << 8 | bytes[at + 2]) * step;
    for (at += HEAD; at < end; at += step) view.take(bytes[at] << 8 | bytes[at + 1], bytes, at + 2);
    view.paint();
  }
}

function say(words) {
  const notice = find("notice");
  if (notice.textContent !== words) notice.textContent = words;
  notice.hidden = words === "";
}

function watch() {
  const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/live`);
  socket.binaryType = "arraybuffer";
  let greeted = false;
  socket.onmessage = ({ data }) => {
    if (typeof data !== "string") {
      draw(data);
      socket.send("drawn");
    } else if (greeted) {
      tell(JSON.parse(data));
    } else {
      greeted = true;
      document.body.classList.remove("stale");
      greet(JSON.parse(data));
    }
  };
  loss.onchange = () => {
    loss.dataset.asked = loss.value;
    if (socket.readyState === WebSocket.OPEN) socket.send(`loss ${loss.value}`);
    loss.blur();
  };
  socket.onclose = ({ code, reason }) => {
    document.body.classList.add("stale");
    if (code === 1001 && reason === "ended") {
      say("The demonstration has ended.");
      return;
    }
    say(greeted ? "The demonstration is gone. Looking for it …" : "The demonstration does not answer, or too many look at it. Trying again …");
    setTimeout(watch, PAUSE);
  };
}

say("Looking for the demonstration …");
watch();
