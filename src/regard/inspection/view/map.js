// The attention map: source tokens are columns, output tokens rows. All of it is drawn from the left;
// where the source is written from right to left, it is mirrored, so that the first column is the rightmost.

import { clamp, shape } from "./elements.js";
import { shortened, TYPE_SIZE, widthOf } from "./tokens.js";
import { SCALE_WIDTH, weightCells, weightScale } from "./cells.js";

const SMALLEST_CELL = 16; // pixels: a label still fits a row
const LARGEST_CELL = 40;
const GAP = 1;
const MARGIN = 10;
const FOOT = 30; // for the scale of colours
const SLANT = Math.SQRT1_2; // of a label at 45°

/** { node, light(place), placeAt(event), pin(x, y), labels }: `pin` keeps the labels in sight when the box has scrolled so far. */
export function drawMap(source, output, weights, room) {
  const sheet = mapSheet(source.labels.map(shortened), output.labels.map(shortened), source.direction === "rtl", room);
  const columns = columnLabels(sheet, source);
  const rows = rowLabels(sheet, output);
  const above = shape("g", {}, backing(sheet, 0, sheet.width, sheet.top), columns, columnBrackets(sheet, source));
  const beside = shape("g", {}, backing(sheet, 0, sheet.left, sheet.height), rows, rowBrackets(sheet, output));
  const corner = shape("g", {}, backing(sheet, 0, sheet.left, sheet.top), axisNames(sheet));
  const light = shape("g", { class: "light" });
  const node = shape(
    "svg",
    { class: "picture map", width: sheet.width, height: sheet.height, viewBox: `0 0 ${sheet.width} ${sheet.height}`, "aria-hidden": "true" },
    gridBehind(sheet),
    weightCells(weights, (row, column) => [sheet.x(column) + GAP / 2, sheet.y(row) + GAP / 2], sheet.cell - GAP),
    linesBetweenWords(sheet, source, output),
    light,
    shape("g", {}, weightScale(sheet.at(sheet.left, SCALE_WIDTH), sheet.bottom + 14)),
    beside,
    above,
    corner,
  );
  return {
    node,
    light: (place) => {
      light.replaceChildren(...lightOn(sheet, place));
      columns.forEach((label, column) => label.classList.toggle("lit", column === place.source));
      rows.forEach((label, row) => label.classList.toggle("lit", row === place.output));
    },
    placeAt: (event) => sheet.placeAt(node, event),
    pin: (x, y) => {
      above.setAttribute("transform", `translate(0 ${y})`);
      beside.setAttribute("transform", `translate(${x} 0)`);
      corner.setAttribute("transform", `translate(${x} ${y})`);
    },
    labels: { left: sheet.mirrored ? 20 : sheet.left, top: sheet.top },
  };
}

/** Where everything goes. */
function mapSheet(columns, rows, mirrored, room) {
  const widths = columns.map((label) => widthOf(label));
  const slanted = widths.filter((width) => width > 1.5 * TYPE_SIZE).length > columns.length / 2;
  const left = Math.ceil(Math.max(...rows.map((label) => widthOf(label)), widthOf("output ↓"))) + 2 * MARGIN;
  const tallest = Math.max(...widths.map((width) => (slanted ? SLANT * (width + TYPE_SIZE) : width > 1.5 * TYPE_SIZE ? width : TYPE_SIZE)));
  const top = Math.ceil(Math.max(tallest, TYPE_SIZE)) + 2 * MARGIN;
  const lean = slanted ? SLANT * (Math.max(...widths) + TYPE_SIZE) : 0; // how far the last label may reach beyond its column
  const cell = clamp(Math.floor((room - left - lean) / columns.length), SMALLEST_CELL, LARGEST_CELL);
  const right = left + cell * columns.length;
  const bottom = top + cell * rows.length;
  const reach = Math.max(...widths.map((width, column) => left + cell * (column + 0.5) + (slanted ? SLANT * (width + TYPE_SIZE) : 0)));
  const width = Math.ceil(Math.max(right + MARGIN, reach + MARGIN, left + SCALE_WIDTH));
  const at = (x, size = 0) => (mirrored ? width - x - size : x);
  return {
    columns, rows, mirrored, slanted, left, top, cell, right, bottom, width, at,
    height: bottom + FOOT,
    x: (column) => at(left + column * cell, cell),
    y: (row) => top + row * cell,
    placeAt: (node, event) => {
      const box = node.getBoundingClientRect();
      const place = (offset, count) => (offset >= 0 && offset < count ? Math.floor(offset) : null);
      const x = ((event.clientX - box.left) * width) / box.width;
      return {
        source: place((at(x) - left) / cell, columns.length),
        output: place((event.clientY - box.top - top) / cell, rows.length),
      };
    },
  };
}

function backing(sheet, x, width, height) {
  return shape("rect", { class: "backing", x: sheet.at(x, width), width, height });
}

function gridBehind(sheet) {
  const { left, right, top, bottom } = sheet;
  return shape("rect", { class: "grid", x: sheet.at(left, right - left), y: top, width: right - left, height: bottom - top });
}

function columnLabels(sheet, source) {
  return sheet.columns.map((label, column) => {
    const x = sheet.x(column) + sheet.cell / 2;
    const y = sheet.top - MARGIN;
    const isLong = widthOf(label) > 1.5 * TYPE_SIZE;
    const angle = sheet.slanted ? (sheet.mirrored ? 45 : -45) : isLong ? -90 : 0;
    const anchor = angle === 0 ? "middle" : angle === 45 ? "end" : "start";
    const drop = angle === -90 ? TYPE_SIZE / 3 : 0; // a vertical label stands in the middle of its column
    const place = `translate(${x + drop} ${y}) rotate(${angle})`;
    return shape("text", { class: "token", transform: place, "text-anchor": anchor }, label, titleOf(source.tokens[column]));
  });
}

function rowLabels(sheet, output) {
  return sheet.rows.map((label, row) => {
    const place = { x: sheet.at(sheet.left - MARGIN), y: sheet.y(row) + sheet.cell / 2 + 0.36 * TYPE_SIZE };
    return shape("text", { class: "token", ...place, "text-anchor": sheet.mirrored ? "start" : "end" }, label, titleOf(output.tokens[row]));
  });
}

export function titleOf(token) {
  return shape("title", {}, token);
}

function axisNames(sheet) {
  const x = sheet.at(sheet.left - MARGIN);
  const name = (y, label) => shape("text", { class: "caption", x, y, "text-anchor": sheet.mirrored ? "start" : "end" }, label);
  return [name(sheet.top - MARGIN - 16, sheet.mirrored ? "← source" : "source →"), name(sheet.top - MARGIN, "output ↓")];
}

/** A line between one word and the next, where words are cut into pieces. */
function linesBetweenWords(sheet, source, output) {
  if (!source.inPieces && !output.inPieces) return null;
  const across = output.words.slice(1).map(([begin]) => `M${sheet.at(sheet.left)} ${sheet.y(begin)}H${sheet.at(sheet.right)}`);
  const down = source.words.slice(1).map(([begin]) => `M${sheet.at(sheet.left + begin * sheet.cell)} ${sheet.top}V${sheet.bottom}`);
  return shape("path", { class: "between", d: [...across, ...down].join("") });
}

/** A bracket between the map and its labels for each word of several pieces. */
function columnBrackets(sheet, source) {
  const pieces = source.words.filter(([begin, end]) => end - begin > 1);
  const lines = pieces.map(([begin, end]) => [sheet.left + begin * sheet.cell + 3, sheet.left + end * sheet.cell - 3]);
  return shape("path", { class: "bracket", d: lines.map(([a, b]) => `M${sheet.at(a)} ${sheet.top - 4}H${sheet.at(b)}`).join("") });
}

function rowBrackets(sheet, output) {
  const pieces = output.words.filter(([begin, end]) => end - begin > 1);
  const lines = pieces.map(([begin, end]) => `M${sheet.at(sheet.left - 4)} ${sheet.y(begin) + 3}V${sheet.y(end) - 3}`);
  return shape("path", { class: "bracket", d: lines.join("") });
}

/** All but the row and the column is dimmed, and the cell is framed. */
function lightOn(sheet, { output, source }) {
  if (output === null && source === null) return [];
  const { left, right, top, bottom, cell } = sheet;
  const [x0, x1] = source === null ? [left, left] : [left + source * cell, left + (source + 1) * cell];
  const [y0, y1] = output === null ? [top, top] : [sheet.y(output), sheet.y(output) + cell];
  const box = (name, a, b, c, d) => shape("rect", { class: name, x: sheet.at(a, b - a), y: c, width: b - a, height: d - c });
  const shades = [[left, x0, top, y0], [x1, right, top, y0], [left, x0, y1, bottom], [x1, right, y1, bottom]];
  const frames = [];
  if (output !== null) frames.push(box("frame", left, right, y0, y1));
  if (source !== null) frames.push(box("frame", x0, x1, top, bottom));
  if (output !== null && source !== null) frames.push(box("frame cell", x0, x1, y0, y1));
  return [...shades.map((shade) => box("shade", ...shade)), ...frames];
}
