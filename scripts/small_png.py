"""Makes pictures of pages small: 256 colours are enough for them, and an eighth of the bytes."""

from __future__ import annotations

import struct
import zlib
from base64 import b64decode, b64encode

from playwright.sync_api import Page

# Takes a picture as base64; returns its width, its palette, and the colour of each point by number.
REDUCE = """async (picture) => {
  const bytes = Uint8Array.from(atob(picture), (letter) => letter.charCodeAt(0));
  const image = await createImageBitmap(new Blob([bytes]));
  const canvas = new OffscreenCanvas(image.width, image.height);
  const drawing = canvas.getContext("2d");
  drawing.drawImage(image, 0, 0);
  const points = drawing.getImageData(0, 0, image.width, image.height).data;
  const colours = new Uint32Array(points.length / 4), counts = new Map();
  for (let at = 0; at < colours.length; at++) {
    const [red, green, blue] = points.subarray(4 * at, 4 * at + 3);
    colours[at] = (red << 16) | (green << 8) | blue;
    counts.set(colours[at], (counts.get(colours[at]) ?? 0) + 1);
  }
  const palette = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 256).map(([one]) => one);
  const parts = (one) => [one >> 16, (one >> 8) & 255, one & 255];
  const numbers = new Map();
  for (const one of counts.keys()) {
    const away = (other) => parts(other).reduce((sum, c, n) => sum + (c - parts(one)[n]) ** 2, 0);
    let best = 0;
    for (let n = 1; n < palette.length && away(palette[best]); n++) {
      if (away(palette[n]) < away(palette[best])) best = n;
    }
    numbers.set(one, best);
  }
  const text = Array.from(colours, (one) => String.fromCharCode(numbers.get(one)));
  return [image.width, palette.flatMap(parts), btoa(text.join(""))];
}"""


def small_png(page: Page, picture: bytes) -> bytes:
    """Return a picture with its 256 most frequent colours, as PNG. `page` computes them."""
    width, palette, numbers = page.evaluate(REDUCE, b64encode(picture).decode())
    points = b64decode(numbers)
    rows = b"".join(b"\0" + points[start : start + width] for start in range(0, len(points), width))
    head = struct.pack(">IIBBBBB", width, len(points) // width, 8, 3, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"PLTE", bytes(palette)), (b"IDAT", zlib.compress(rows, 9)))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*one) for one in (*chunks, (b"IEND", b"")))


def _chunk(kind: bytes, data: bytes) -> bytes:
    length, check = struct.pack(">I", len(data)), struct.pack(">I", zlib.crc32(kind + data))
    return length + kind + data + check
