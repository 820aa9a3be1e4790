// The attention map: columns are source tokens, rows are output tokens. Coordinates are computed from the left; for a
// right-to-left source the map is mirrored, so that the first column is the rightmost.

import { clamp, picture, shape } from "./elements.js";
import { shortened, tokenText, TYPE_SIZE, widthOf } from "./tokens.js";
import { SCALE_WIDTH, weightCells, weightScale } from "./cells.js";

const MIN_CELL = 16; // pixels, the height of a label
const MAX_CELL = 40;
const GAP = 1;
const MARGIN = 10;
const FOOT = 30; // for the color scale
const SLANT = Math.SQRT1_2; // sine of the angle of slanted labels, 45°
const WIDE = 1.5 * TYPE_SIZE; // wider column labels are rotated

/** { node, highlight(position), positionAt(event), pin(x, y), labels }: `pin` keeps labels visible while scrolling. */
export function drawMap(source, output, weights, availableWidth) {
  const labels = [source, output].map((side) => side.labels.map(shortened));
  const layout = mapLayout(...labels, source.direction === "rtl", availableWidth);
  const columns = columnLabels(layout, source);
  const rows = rowLabels(layout, output);
  const pinned = (width, height, ...parts) => shape("g", { class: "pinned" }, backing(layout, width, height), parts);
  const above = pinned(layout.width, layout.top, columns, columnBrackets(layout, source));
  const beside = pinned(layout.left, layout.height, rows, rowBrackets(layout, output));
  const corner = pinned(layout.left, layout.top, axisNames(layout, source.name, output.name));
  const overlay = shape("g", { class: "overlay" });
  let scrolled = { x: 0, y: 0 };
  const node = picture(
    "map",
    layout.width,
    layout.height,
    gridBackground(layout),
    weightCells(weights, (row, column) => [layout.x(column) + GAP, layout.y(row) + GAP], layout.cell - GAP),
    linesBetweenWords(layout, source, output),
    overlay,
    shape("g", {}, weightScale(layout.at(layout.left, SCALE_WIDTH), layout.bottom + 14)),
    beside,
    above,
    corner,
  );
  return {
    node,
    highlight: (position) => {
      overlay.replaceChildren(...highlightShapes(layout, position));
      columns.forEach((label, column) => label.classList.toggle("highlighted", column === position.source));
      rows.forEach((label, row) => label.classList.toggle("highlighted", row === position.output));
    },
    positionAt: (event) => mapPositionAt(layout, node, scrolled, event),
    pin: (x, y) => {
      scrolled = { x: Math.abs(x), y };
      above.setAttribute("transform", `translate(0 ${y})`);
      beside.setAttribute("transform", `translate(${x} 0)`);
      corner.setAttribute("transform", `translate(${x} ${y})`);
    },
    labels: { left: layout.left, top: layout.top },
  };
}

/** The coordinates of all parts. */
function mapLayout(columns, rows, mirrored, availableWidth) {
  const widths = columns.map((label) => widthOf(label));
  const slanted = widths.filter((width) => width > WIDE).length > columns.length / 2;
  const lean = (width) => (slanted ? SLANT * (width + TYPE_SIZE) : 0); // the horizontal extent of a slanted label
  const left = Math.ceil(Math.max(...rows.map((label) => widthOf(label)), widthOf("output ↓"))) + 2 * MARGIN;
  const rise = (width) => (slanted ? lean(width) : width > WIDE ? width : TYPE_SIZE);
  const top = Math.ceil(Math.max(...widths.map(rise))) + 2 * MARGIN;
  const cell = clamp(
    Math.floor((availableWidth - left - lean(Math.max(...widths))) / columns.length),
    MIN_CELL,
    MAX_CELL,
  );
  const right = left + cell * columns.length;
  const bottom = top + cell * rows.length;
  const reach = Math.max(...widths.map((width, column) => left + cell * (column + 0.5) + lean(width)));
  const width = Math.ceil(Math.max(right, reach, left + SCALE_WIDTH)) + MARGIN;
  const at = (x, size = 0) => (mirrored ? width - x - size : x);
  return {
    columns,
    rows,
    mirrored,
    slanted,
    left,
    top,
    cell,
    right,
    bottom,
    width,
    at,
    beside: mirrored ? "start" : "end", // the text anchor of row labels
    height: bottom + FOOT,
    x: (column) => at(left + column * cell, cell),
    y: (row) => top + row * cell,
  };
}

/** The cell under the pointer, or the row or column of the label under it. Pinned labels cover scrolled cells. */
function mapPositionAt(layout, node, scrolled, event) {
  const corner = node.getBoundingClientRect();
  const [x, y] = [layout.at(event.clientX - corner.left) - layout.left, event.clientY - corner.top - layout.top];
  const indexAt = (offset, hidden, count) =>
    offset >= hidden && offset < count * layout.cell ? Math.floor(offset / layout.cell) : null;
  return { source: indexAt(x, scrolled.x, layout.columns.length), output: indexAt(y, scrolled.y, layout.rows.length) };
}

/** A background for pinned labels, which hides the cells below them. */
function backing(layout, width, height) {
  return shape("rect", { class: "backing", x: layout.at(0, width), width, height });
}

function gridBackground(layout) {
  const { left, right, top, bottom } = layout;
  return shape("rect", {
    class: "grid",
    x: layout.at(left, right - left),
    y: top,
    width: right - left + GAP,
    height: bottom - top + GAP,
  });
}

function columnLabels(layout, source) {
  return layout.columns.map((label, column) => {
    const x = layout.x(column) + layout.cell / 2;
    const y = layout.top - MARGIN;
    const angle = layout.slanted ? (layout.mirrored ? 45 : -45) : widthOf(label) > WIDE ? -90 : 0;
    const anchor = angle === 0 ? "middle" : angle === 45 ? "end" : "start";
    const drop = angle === -90 ? TYPE_SIZE / 3 : 0; // centers a vertical label in its column
    const transform = `translate(${x + drop} ${y}) rotate(${angle})`;
    return tokenText(label, source.tokens[column], { transform, "text-anchor": anchor });
  });
}

function rowLabels(layout, output) {
  const x = layout.at(layout.left - MARGIN);
  const middle = layout.cell / 2 + 0.36 * TYPE_SIZE;
  return layout.rows.map((label, row) =>
    tokenText(label, output.tokens[row], { x, y: layout.y(row) + middle, "text-anchor": layout.beside }),
  );
}

function axisNames(layout, columns, rows) {
  const x = layout.at(layout.left - MARGIN);
  const name = (y, label) => shape("text", { class: "caption", x, y, "text-anchor": layout.beside }, label);
  return [
    name(layout.top - MARGIN - 16, layout.mirrored ? `← ${columns}` : `${columns} →`),
    name(layout.top - MARGIN, `${rows} ↓`),
  ];
}

/** Lines between words, if some words consist of several subwords. */
function linesBetweenWords(layout, source, output) {
  if (!source.split.length && !output.split.length) return null;
  const across = output.words
    .slice(1)
    .map(([begin]) => `M${layout.at(layout.left)} ${layout.y(begin)}H${layout.at(layout.right)}`);
  const down = source.words
    .slice(1)
    .map(([begin]) => `M${layout.at(layout.left + begin * layout.cell)} ${layout.top}V${layout.bottom}`);
  return shape("path", { class: "between", d: [...across, ...down].join("") });
}

/** A bracket between the map and the labels for each word of several subwords. */
function columnBrackets(layout, source) {
  const x = (column, inset) => layout.at(layout.left + column * layout.cell + inset);
  const lines = source.split.map(([begin, end]) => `M${x(begin, 3)} ${layout.top - 4}H${x(end, -3)}`);
  return shape("path", { class: "bracket", d: lines.join("") });
}

function rowBrackets(layout, output) {
  const x = layout.at(layout.left - 4);
  const lines = output.split.map(([begin, end]) => `M${x} ${layout.y(begin) + 3}V${layout.y(end) - 3}`);
  return shape("path", { class: "bracket", d: lines.join("") });
}

/** Dims everything except the row and the column, and frames the cell. */
function highlightShapes(layout, { output, source }) {
  if (output === null && source === null) return [];
  const { left, right, top, bottom, cell } = layout;
  const [x0, x1] = source === null ? [left, left] : [left + source * cell, left + (source + 1) * cell];
  const [y0, y1] = output === null ? [top, top] : [layout.y(output), layout.y(output) + cell];
  const box = (name, a, b, c, d) =>
    shape("rect", { class: name, x: layout.at(a, b - a), y: c, width: b - a, height: d - c });
  const shades = [
    [left, x0, top, y0],
    [x1, right, top, y0],
    [left, x0, y1, bottom],
    [x1, right, y1, bottom],
  ];
  const frames = [];
  if (output !== null) frames.push(box("frame", left, right, y0, y1));
  if (source !== null) frames.push(box("frame", x0, x1, top, bottom));
  if (output !== null && source !== null) frames.push(box("frame cell", x0, x1, y0, y1));
  return [...shades.map((shade) => box("shade", ...shade)), ...frames];
}
