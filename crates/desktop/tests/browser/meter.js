// What a page with a desktop shows, frame by frame: each place has a colour by which it is known what it is of.
(() => {
  const [width, height] = [1024, 768];
  const canvas = document.querySelector('canvas');
  const context = new OffscreenCanvas(width, height).getContext('2d', { alpha: false, willReadFrequently: true });
  const grid = [];
  for (let y = 30; y < height; y += 32) for (let x = 30; x < width; x += 32) grid.push([x, y]);
  let job;

  // Three bits; lossy codecs do not reach across the middle.
  function colour(pixels, [x, y]) {
    const at = (y * width + x) * 4;
    return (pixels[at] > 127 ? 4 : 0) | (pixels[at + 1] > 127 ? 2 : 0) | (pixels[at + 2] > 127 ? 1 : 0);
  }

  function frame() {
    requestAnimationFrame(frame);
    if (job === undefined) return;
    if (job.drawn) {
      // It was drawn before the frame of which this is the next.
      job.resolve([job.begun, performance.timeOrigin + performance.now()]);
      job = undefined;
      return;
    }
    context.drawImage(canvas, 0, 0, width, height);
    const { data } = context.getImageData(0, 0, width, height);
    job.drawn = job.places.every((place) => colour(data, place) === job.colour);
  }
  requestAnimationFrame(frame);

  const until = (places, colour, begun) => new Promise((resolve) => {
    job = { places, colour, begun, drawn: false, resolve };
  });
  globalThis.meter = {
    /** When all of a page is there. */
    page: (colour) => until(grid, colour, 0),
    /** When a key was pressed, and when what it does is there. */
    key: (colour) => {
      const begun = performance.timeOrigin + performance.now();
      const seen = until([[6, 6]], colour, begun);
      for (const type of ['keydown', 'keyup']) {
        canvas.dispatchEvent(new KeyboardEvent(type, { key: 'a', code: 'KeyA', bubbles: true, cancelable: true }));
      }
      return seen;
    },
  };
})();
