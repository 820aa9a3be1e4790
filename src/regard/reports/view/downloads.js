// Files to take away: pictures that need nothing around them, numbers, and the whole answer.

import { shape } from "./elements.js";

const SHARPNESS = 2; // pixels of the image for one of the page
const LARGEST_IMAGE = 16000; // pixels: browsers have no larger canvas
const LOOKS = [
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
const LEFT_OUT = ".light, title"; // titles hold tokens as they are, maybe with characters that XML forbids
const PLAIN = { opacity: "1", "unicode-bidi": "normal" }; // these two are not handed down from a parent

/** Offers a blob as a file. */
export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

/** A name for a file from texts that may hold anything. */
export function fileName(parts, ending) {
  const safe = parts.map((part) => part.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "")).filter(Boolean);
  return `${[...safe.join("-")].slice(0, 60).join("") || "regard"}.${ending}`;
}

/** The picture as a file of its own: what style sheets say of it is written into it, and it gets a background. */
export function svgText(picture) {
  const copy = picture.cloneNode(true);
  const originals = [picture, ...picture.querySelectorAll("*")];
  const copies = [copy, ...copy.querySelectorAll("*")];
  const gone = [];
  originals.forEach((original, number) => {
    const style = getComputedStyle(original);
    if (style.display === "none" || original.matches(LEFT_OUT)) gone.push(copies[number]);
    else writeLooks(copies[number], style, number ? getComputedStyle(original.parentNode) : null);
    if (original.matches(".pinned")) copies[number].removeAttribute("transform"); // back from where scrolling put it
  });
  gone.forEach((node) => node.remove());
  const fill = plainColor(getComputedStyle(picture).backgroundColor);
  copy.prepend(shape("rect", { width: "100%", height: "100%", fill }));
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return new XMLSerializer().serializeToString(copy);
}

function writeLooks(node, style, parentStyle) {
  for (const name of ["class", "style", "aria-hidden", "data-number"]) node.removeAttribute(name);
  for (const name of LOOKS) {
    const value = style.getPropertyValue(name);
    const isTold = value === (PLAIN[name] ?? parentStyle?.getPropertyValue(name));
    if (!isTold) node.setAttribute(name, ["fill", "stroke"].includes(name) ? plainColor(value) : value);
  }
}

const knownColors = new Map();

/** Any CSS color as rgb(), which every program reads: it is painted on a canvas and read back. */
function plainColor(color) {
  if (color === "none" || color.startsWith("rgb(")) return color;
  if (!knownColors.has(color)) {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 1;
    const brush = canvas.getContext("2d");
    brush.fillStyle = color;
    brush.fillRect(0, 0, 1, 1);
    knownColors.set(color, `rgb(${brush.getImageData(0, 0, 1, 1).data.slice(0, 3).join(", ")})`);
  }
  return knownColors.get(color);
}

/** An SVG as an image of dots. */
export async function pngBlob(svg, width, height) {
  const image = new Image();
  const address = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg.toWellFormed())}`;
  await new Promise((resolve, reject) => Object.assign(image, { onload: resolve, onerror: reject, src: address }));
  const scale = Math.min(SHARPNESS, LARGEST_IMAGE / Math.max(width, height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

/** The weights as comma-separated values: a column for each source token, a row for each output token. */
export function csvText(source, output, weights) {
  const rows = weights.map((row, place) => [csvCell(output.tokens[place]), ...row]);
  return [["", ...source.tokens.map(csvCell)], ...rows].map((row) => `${row.join(",")}\r\n`).join("");
}

/** Quoted, and with an apostrophe before what a spreadsheet would run as a formula. */
function csvCell(text) {
  const harmless = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return `"${harmless.replaceAll('"', '""')}"`;
}
