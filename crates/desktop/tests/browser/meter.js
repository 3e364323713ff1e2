// When a desktop is drawn, by what is put on its canvas: each place has a colour by which it is known what it
// is of. It runs where the canvas is drawn: in a page, or in its worker. What is drawn is on the screen with
// the next frame, so that a whole one is added.
(() => {
  const [width, height] = [1024, 768];
  const frame = 1000 / 60;
  const corner = [6, 6];
  // Places are 32 apart.
  const [columns, grid] = [width / 32, (width / 32) * (height / 32)];
  // What is shown at each of them, row by row, and then in the corner.
  const shown = new Uint8Array(grid + 1);
  let job;

  // Three bits; lossy codecs do not reach across the middle.
  function look({ width: across, data }, x, y, place) {
    const at = (y * across + x) * 4;
    shown[place] = (data[at] > 127 ? 4 : 0) | (data[at + 1] > 127 ? 2 : 0) | (data[at + 2] > 127 ? 1 : 0);
  }

  // Pixels came to be at a place of the canvas.
  function drawn(image, left, top) {
    const [right, bottom] = [left + image.width, top + image.height];
    const first = (edge) => Math.max(0, Math.ceil((edge - 30) / 32));
    for (let row = first(top), y; (y = 30 + row * 32) < bottom; row += 1) {
      for (let column = first(left), x; (x = 30 + column * 32) < right; column += 1) {
        look(image, x - left, y - top, row * columns + column);
      }
    }
    const [x, y] = corner;
    if (left <= x && x < right && top <= y && y < bottom) look(image, x - left, y - top, grid);
    if (job === undefined) return;
    const { from, to, colour } = job;
    for (let place = to; place-- > from; ) if (shown[place] !== colour) return;
    job.resolve(performance.timeOrigin + performance.now() + frame);
    job = undefined;
  }

  if ('document' in globalThis) {
    // noVNC draws behind the scenes, and shows all of an update at once.
    const { drawImage } = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.drawImage = function (...what) {
      drawImage.apply(this, what);
      if (job !== undefined && this.canvas.isConnected) drawn(this.getImageData(0, 0, width, height), 0, 0);
    };
  } else {
    const { putImageData } = OffscreenCanvasRenderingContext2D.prototype;
    OffscreenCanvasRenderingContext2D.prototype.putImageData = function (image, left, top) {
      putImageData.call(this, image, left, top);
      drawn(image, left, top);
    };
  }

  const until = (from, to, colour) => new Promise((resolve) => { job = { from, to, colour, resolve }; });
  globalThis.meter = {
    /** When all of a page is there. */
    page: (colour) => until(0, grid, colour),
    /** When what a key does is there. */
    key: (colour) => until(grid, grid + 1, colour),
    /** Presses a key. When that was. */
    press: () => {
      const begun = performance.timeOrigin + performance.now();
      for (const type of ['keydown', 'keyup']) {
        document.querySelector('canvas')
          .dispatchEvent(new KeyboardEvent(type, { key: 'a', code: 'KeyA', bubbles: true, cancelable: true }));
      }
      return begun;
    },
  };
})();
