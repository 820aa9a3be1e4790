// The attention map: source tokens are columns, output tokens rows. All of it is drawn from the left;
// where the source is written from right to left, it is mirrored, so that the first column is the rightmost.

import { clamp, picture, shape } from "./elements.js";
import { shortened, tokenText, TYPE_SIZE, widthOf } from "./tokens.js";
import { SCALE_WIDTH, weightCells, weightScale } from "./cells.js";

const SMALLEST_CELL = 16; // pixels: a label still fits a row
const LARGEST_CELL = 40;
const GAP = 1;
const MARGIN = 10;
const FOOT = 30; // for the color scale
const SLANT = Math.SQRT1_2; // of a label at 45°
const WIDE = 1.5 * TYPE_SIZE; // a label that is wider does not stand upright above its column

/** { node, light(place), placeAt(event), pin(x, y), labels }: `pin` keeps labels in sight when the box has scrolled. */
export function drawMap(source, output, weights, room) {
  const sheet = mapSheet(source.labels.map(shortened), output.labels.map(shortened), source.direction === "rtl", room);
  const columns = columnLabels(sheet, source);
  const rows = rowLabels(sheet, output);
  const pinned = (width, height, ...parts) => shape("g", { class: "pinned" }, backing(sheet, width, height), parts);
  const above = pinned(sheet.width, sheet.top, columns, columnBrackets(sheet, source));
  const beside = pinned(sheet.left, sheet.height, rows, rowBrackets(sheet, output));
  const corner = pinned(sheet.left, sheet.top, axisNames(sheet));
  const light = shape("g", { class: "light" });
  let scrolled = { x: 0, y: 0 };
  const node = picture(
    "map",
    sheet.width,
    sheet.height,
    gridBehind(sheet),
    weightCells(weights, (row, column) => [sheet.x(column) + GAP, sheet.y(row) + GAP], sheet.cell - GAP),
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
    placeAt: (event) => placeOnMap(sheet, node, scrolled, event),
    pin: (x, y) => {
      scrolled = { x: Math.abs(x), y };
      above.setAttribute("transform", `translate(0 ${y})`);
      beside.setAttribute("transform", `translate(${x} 0)`);
      corner.setAttribute("transform", `translate(${x} ${y})`);
    },
    labels: { left: sheet.left, top: sheet.top },
  };
}

/** Where everything goes. */
function mapSheet(columns, rows, mirrored, room) {
  const widths = columns.map((label) => widthOf(label));
  const slanted = widths.filter((width) => width > WIDE).length > columns.length / 2;
  const lean = (width) => (slanted ? SLANT * (width + TYPE_SIZE) : 0); // how far a label reaches to the right
  const left = Math.ceil(Math.max(...rows.map((label) => widthOf(label)), widthOf("output ↓"))) + 2 * MARGIN;
  const rise = (width) => (slanted ? lean(width) : width > WIDE ? width : TYPE_SIZE);
  const top = Math.ceil(Math.max(...widths.map(rise))) + 2 * MARGIN;
  const cell = clamp(
    Math.floor((room - left - lean(Math.max(...widths))) / columns.length),
    SMALLEST_CELL,
    LARGEST_CELL,
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
    beside: mirrored ? "start" : "end", // how labels of rows are anchored to the map
    height: bottom + FOOT,
    x: (column) => at(left + column * cell, cell),
    y: (row) => top + row * cell,
  };
}

/** The cell under the pointer, or the row or the column whose label it is. Labels lie over cells that have scrolled. */
function placeOnMap(sheet, node, scrolled, event) {
  const corner = node.getBoundingClientRect();
  const [x, y] = [sheet.at(event.clientX - corner.left) - sheet.left, event.clientY - corner.top - sheet.top];
  const place = (offset, hidden, count) =>
    offset >= hidden && offset < count * sheet.cell ? Math.floor(offset / sheet.cell) : null;
  return { source: place(x, scrolled.x, sheet.columns.length), output: place(y, scrolled.y, sheet.rows.length) };
}

/** What lies under labels, so that cells that have scrolled do not show. */
function backing(sheet, width, height) {
  return shape("rect", { class: "backing", x: sheet.at(0, width), width, height });
}

function gridBehind(sheet) {
  const { left, right, top, bottom } = sheet;
  return shape("rect", {
    class: "grid",
    x: sheet.at(left, right - left),
    y: top,
    width: right - left + GAP,
    height: bottom - top + GAP,
  });
}

function columnLabels(sheet, source) {
  return sheet.columns.map((label, column) => {
    const x = sheet.x(column) + sheet.cell / 2;
    const y = sheet.top - MARGIN;
    const angle = sheet.slanted ? (sheet.mirrored ? 45 : -45) : widthOf(label) > WIDE ? -90 : 0;
    const anchor = angle === 0 ? "middle" : angle === 45 ? "end" : "start";
    const drop = angle === -90 ? TYPE_SIZE / 3 : 0; // a vertical label stands in the middle of its column
    const transform = `translate(${x + drop} ${y}) rotate(${angle})`;
    return tokenText(label, source.tokens[column], { transform, "text-anchor": anchor });
  });
}

function rowLabels(sheet, output) {
  const x = sheet.at(sheet.left - MARGIN);
  const middle = sheet.cell / 2 + 0.36 * TYPE_SIZE;
  return sheet.rows.map((label, row) =>
    tokenText(label, output.tokens[row], { x, y: sheet.y(row) + middle, "text-anchor": sheet.beside }),
  );
}

function axisNames(sheet) {
  const x = sheet.at(sheet.left - MARGIN);
  const name = (y, label) => shape("text", { class: "caption", x, y, "text-anchor": sheet.beside }, label);
  return [
    name(sheet.top - MARGIN - 16, sheet.mirrored ? "← source" : "source →"),
    name(sheet.top - MARGIN, "output ↓"),
  ];
}

/** A line between one word and the next, where words are cut into pieces. */
function linesBetweenWords(sheet, source, output) {
  if (!source.split.length && !output.split.length) return null;
  const across = output.words
    .slice(1)
    .map(([begin]) => `M${sheet.at(sheet.left)} ${sheet.y(begin)}H${sheet.at(sheet.right)}`);
  const down = source.words
    .slice(1)
    .map(([begin]) => `M${sheet.at(sheet.left + begin * sheet.cell)} ${sheet.top}V${sheet.bottom}`);
  return shape("path", { class: "between", d: [...across, ...down].join("") });
}

/** A bracket between the map and its labels for each word of several pieces. */
function columnBrackets(sheet, source) {
  const x = (column, inset) => sheet.at(sheet.left + column * sheet.cell + inset);
  const lines = source.split.map(([begin, end]) => `M${x(begin, 3)} ${sheet.top - 4}H${x(end, -3)}`);
  return shape("path", { class: "bracket", d: lines.join("") });
}

function rowBrackets(sheet, output) {
  const x = sheet.at(sheet.left - 4);
  const lines = output.split.map(([begin, end]) => `M${x} ${sheet.y(begin) + 3}V${sheet.y(end) - 3}`);
  return shape("path", { class: "bracket", d: lines.join("") });
}

/** All but the row and the column is dimmed, and the cell is framed. */
function lightOn(sheet, { output, source }) {
  if (output === null && source === null) return [];
  const { left, right, top, bottom, cell } = sheet;
  const [x0, x1] = source === null ? [left, left] : [left + source * cell, left + (source + 1) * cell];
  const [y0, y1] = output === null ? [top, top] : [sheet.y(output), sheet.y(output) + cell];
  const box = (name, a, b, c, d) =>
    shape("rect", { class: name, x: sheet.at(a, b - a), y: c, width: b - a, height: d - c });
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
