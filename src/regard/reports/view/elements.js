// Elements of HTML and SVG. A text goes in as text, so nothing that was typed is ever read as markup.

const SVG_NAMES = "http://www.w3.org/2000/svg";
let idsGiven = 0;

/** An HTML element. A function among the attributes listens: `onclick: act`. What is null or false is left out. */
export function element(name, attributes = {}, ...children) {
  return furnish(document.createElement(name), attributes, children);
}

/** The same for SVG. */
export function shape(name, attributes = {}, ...children) {
  return furnish(document.createElementNS(SVG_NAMES, name), attributes, children);
}

/** A picture of so many pixels. What it shows is told in words elsewhere, so readers of the screen pass it over. */
export function picture(name, width, height, ...children) {
  const size = { width, height, viewBox: `0 0 ${width} ${height}` };
  return shape("svg", { class: `picture ${name}`, ...size, "aria-hidden": "true" }, children);
}

/** The path of a line that leaves one point and reaches another on the level. */
export function bend(x0, y0, x1, y1) {
  const middle = (x0 + x1) / 2;
  return `M${x0} ${y0}C${middle} ${y0} ${middle} ${y1} ${x1} ${y1}`;
}

function furnish(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false)
      node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null));
  return node;
}

/** Tells where the pointer is on a box, and when it has left. */
export function followPointer(box, onMove, onLeave) {
  let lastSpot = null;
  for (const name of ["pointermove", "pointerdown"]) {
    box.addEventListener(name, (event) => {
      const spot = `${event.clientX} ${event.clientY}`;
      if (name === "pointermove" && spot === lastSpot) return; // it was the picture that moved, by arrow keys
      lastSpot = spot;
      onMove(event);
    });
  }
  // A finger leaves as soon as it has touched; what it has touched stays lit.
  box.addEventListener("pointerleave", (event) => event.pointerType === "touch" || onLeave());
  box.addEventListener("blur", onLeave);
}

/** A fresh id, for labels and what they name. */
export function freshId(stem) {
  idsGiven += 1;
  return `${stem}-${idsGiven}`;
}

export function clamp(value, least, most) {
  return Math.min(Math.max(value, least), most);
}
