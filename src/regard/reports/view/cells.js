// The colored cells of an attention map. Cells of similar weight share one path: a map of 200 × 200 has 65 elements.

import { shape } from "./elements.js";

const LAST_ANCHOR = 8; // view.css defines --attention-0 to --attention-8

/** One path for each level of weight. `corner(output, source)` is the upper left corner of a cell, `size` its side. */
export function weightCells(weights, corner, size, levels = 64, lowest = 0) {
  const paths = Array.from({ length: levels + 1 }, () => []);
  weights.forEach((row, output) => {
    row.forEach((weight, source) => {
      const [x, y] = corner(output, source);
      paths[Math.round(weight * levels)].push(`M${x} ${y}h${size}v${size}h${-size}z`);
    });
  });
  return paths.map((cells, level) =>
    cells.length && level >= lowest ? coloredPath(cells.join(""), level / levels) : null,
  );
}

function coloredPath(path, weight) {
  const cells = shape("path", { class: "weight", d: path });
  cells.style.fill = weightColor(weight);
  return cells;
}

/** The CSS color of a weight: linear in sRGB between two anchors, as in the figures of regard.plotting. */
export function weightColor(weight) {
  const below = Math.min(Math.floor(LAST_ANCHOR * weight), LAST_ANCHOR - 1);
  const share = 100 * (LAST_ANCHOR * weight - below);
  return `color-mix(in srgb, var(--attention-${below + 1}) ${share}%, var(--attention-${below}))`;
}

export const SCALE_WIDTH = 190; // with its numbers

/** The color scale from 0 to 1; (x, y) is its upper left corner. */
export function weightScale(x, y) {
  const steps = 32;
  const step = 3; // pixels
  const begin = x + 16;
  const colors = Array.from({ length: steps + 1 }, (_, number) =>
    coloredPath(`M${begin + step * number} ${y}h${step}v10h${-step}z`, number / steps),
  );
  const caption = (at, label) => shape("text", { class: "caption", x: at, y: y + 9 }, label);
  return shape("g", {}, caption(x, "0"), colors, caption(begin + step * (steps + 1) + 8, "1 · weight"));
}
