//! What the page of `desktop serve --web` shows, as a number that is compared.

/// An expression of JavaScript for it: CRC-32 of IEEE 802.3, of width and height and of blue, green, red and
/// 0 for each pixel, like [`quickset_rfb::Framebuffer::crc32`].
pub(crate) const CANVAS_SUM: &str = "(() => {
    const canvas = document.getElementById('screen');
    const [width, height] = ['width', 'height'].map((name) => Number(canvas.dataset[name]));
    const context = new OffscreenCanvas(width, height).getContext('2d', { alpha: false, willReadFrequently: true });
    context.drawImage(canvas, 0, 0, width, height);
    const pixels = context.getImageData(0, 0, width, height).data;
    const table = Array.from({ length: 256 }, (_, n) => {
        for (let bit = 0; bit < 8; bit++) n = n & 1 ? n >>> 1 ^ 0xedb88320 : n >>> 1;
        return n >>> 0;
    });
    let sum = 0xffffffff;
    const add = (byte) => { sum = sum >>> 8 ^ table[(sum ^ byte) & 255]; };
    for (const side of [width, height]) { add(side & 255); add(side >> 8); }
    for (let at = 0; at < pixels.length; at += 4) { add(pixels[at + 2]); add(pixels[at + 1]); add(pixels[at]); add(0); }
    return ~sum >>> 0;
})()";
