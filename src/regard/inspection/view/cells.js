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
  return paths.map((cells, level) => (cells.length && level >= lowest ? inColour(cells.join(""), level / levels) : null));
}

function inColour(path, weight) {
  const cells = shape("path", { class: "weight", d: path });
  cells.style.setProperty("--weight", `${100 * weight}%`);
  return cells;
}

/** The scale of colours from 0 to 1, drawn to the right of and below a point. */
export function weightScale(x, y) {
  const steps = 32;
  const width = 3;
  const scale = Array.from({ length: steps + 1 }, (_, step) => inColour(`M${x + 16 + width * step} ${y}h${width}v10h${-width}z`, step / steps));
  const text = (at, anchor, label) => shape("text", { class: "caption", x: at, y: y + 9, "text-anchor": anchor }, label);
  return shape("g", {}, text(x, "start", "0"), scale, text(x + 16 + width * (steps + 1) + 8, "start", "1 · weight"));
}
