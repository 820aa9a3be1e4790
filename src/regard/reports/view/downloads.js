// Files for download: self-contained pictures, weights as CSV, and the translation as JSON.

import { shape } from "./elements.js";

const PIXEL_RATIO = 2; // pixels of the image for each pixel of the page
const MAX_CANVAS_SIZE = 16000; // pixels, the limit of browsers
const STYLE_PROPERTIES = [
  "fill",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "stroke-opacity",
  "stroke-linecap",
  "fill-opacity",
  "opacity",
  "font-family",
  "font-size",
  "font-weight",
  "unicode-bidi",
  "shape-rendering",
];
const OMITTED = ".overlay, title"; // titles contain raw tokens, perhaps with characters that XML forbids
const NOT_INHERITED = { opacity: "1", "unicode-bidi": "normal" }; // initial values

/** Downloads a blob as a file. */
export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

/** A valid file name from arbitrary texts. */
export function fileName(parts, ending) {
  const safe = parts.map((part) => part.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "")).filter(Boolean);
  return `${[...safe.join("-")].slice(0, 60).join("") || "regard"}.${ending}`;
}

/** The picture as a self-contained SVG: style sheets become attributes, and it gets a background. */
export function svgText(picture) {
  const copy = picture.cloneNode(true);
  const originals = [picture, ...picture.querySelectorAll("*")];
  const copies = [copy, ...copy.querySelectorAll("*")];
  const removed = [];
  originals.forEach((original, number) => {
    const style = getComputedStyle(original);
    if (style.display === "none" || original.matches(OMITTED)) removed.push(copies[number]);
    else copyStyle(copies[number], style, number ? getComputedStyle(original.parentNode) : null);
    if (original.matches(".pinned")) copies[number].removeAttribute("transform"); // undoes scrolling
  });
  removed.forEach((node) => node.remove());
  const fill = plainColor(getComputedStyle(picture).backgroundColor);
  copy.prepend(shape("rect", { width: "100%", height: "100%", fill }));
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return new XMLSerializer().serializeToString(copy);
}

function copyStyle(node, style, parentStyle) {
  for (const name of ["class", "style", "aria-hidden", "data-number"]) node.removeAttribute(name);
  for (const name of STYLE_PROPERTIES) {
    const value = style.getPropertyValue(name);
    const isRedundant = value === (NOT_INHERITED[name] ?? parentStyle?.getPropertyValue(name));
    if (!isRedundant) node.setAttribute(name, ["fill", "stroke"].includes(name) ? plainColor(value) : value);
  }
}

const knownColors = new Map();

/** Any CSS color as rgb(), which every program supports: it is painted on a canvas and read back. */
function plainColor(color) {
  if (color === "none" || color.startsWith("rgb(")) return color;
  if (!knownColors.has(color)) {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 1;
    const context = canvas.getContext("2d");
    context.fillStyle = color;
    context.fillRect(0, 0, 1, 1);
    knownColors.set(color, `rgb(${context.getImageData(0, 0, 1, 1).data.slice(0, 3).join(", ")})`);
  }
  return knownColors.get(color);
}

/** An SVG as a PNG image. */
export async function pngBlob(svg, width, height) {
  const image = new Image();
  const url = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg.toWellFormed())}`;
  await new Promise((resolve, reject) => Object.assign(image, { onload: resolve, onerror: reject, src: url }));
  const scale = Math.min(PIXEL_RATIO, MAX_CANVAS_SIZE / Math.max(width, height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

/** The weights as comma-separated values: a column for each source token, a row for each output token. */
export function csvText(source, output, weights) {
  const rows = weights.map((row, index) => [csvCell(output.tokens[index]), ...row]);
  return [["", ...source.tokens.map(csvCell)], ...rows].map((row) => `${row.join(",")}\r\n`).join("");
}

/** A quoted cell, with an apostrophe before text that a spreadsheet would evaluate as a formula. */
function csvCell(text) {
  const escaped = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return `"${escaped.replaceAll('"', '""')}"`;
}
