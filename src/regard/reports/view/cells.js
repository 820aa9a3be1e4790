// The coloured cells of a map. Cells of like weight are one path: a map of 200 × 200 is 65 elements, not 40,000.

import { shape } from "./elements.js";

/** One path for each level of weight. `corner(output, source)` is where a cell begins; `size` is its side. */
export function weightCells(weights, corner, size, levels = 64, lowest = 0) {
  const paths = Array.from({ length: levels + 1 }, () => []);
  weights.forEach((row, output) => {
    row.forEach((weight, source) => {
      const [x, y] = corner(output, source);
      paths[Math.round(weight * levels)].push(`M${x} ${y}h${size}v${size}h${-size}z`);
    });
  });
  return paths.map((cells, level) =>
    cells.length && level >= lowest ? inColour(cells.join(""), level / levels) : null,
  );
}

function inColour(path, weight) {
  const cells = shape("path", { class: "weight", d: path });
  cells.style.setProperty("--weight", `${100 * weight}%`);
  return cells;
}

export const SCALE_WIDTH = 190; // with its numbers

/** The scale of colours from 0 to 1, drawn to the right of and below a point. */
export function weightScale(x, y) {
  const steps = 32;
  const step = 3; // pixels
  const begin = x + 16;
  const colours = Array.from({ length: steps + 1 }, (_, number) =>
    inColour(`M${begin + step * number} ${y}h${step}v10h${-step}z`, number / steps),
  );
  const caption = (at, label) => shape("text", { class: "caption", x: at, y: y + 9 }, label);
  return shape("g", {}, caption(x, "0"), colours, caption(begin + step * (steps + 1) + 8, "1 · weight"));
}
