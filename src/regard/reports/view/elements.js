// HTML and SVG elements. Texts are inserted as text nodes, so input is never parsed as markup.

const SVG_NAMES = "http://www.w3.org/2000/svg";
let idCount = 0;

/** An HTML element. Functions are event listeners: `onclick: act`. Attributes that are null or false are left out. */
export function element(name, attributes = {}, ...children) {
  return addContent(document.createElement(name), attributes, children);
}

/** An SVG element, with the same arguments. */
export function shape(name, attributes = {}, ...children) {
  return addContent(document.createElementNS(SVG_NAMES, name), attributes, children);
}

/** An SVG picture of a size in pixels. It is hidden from screen readers, which get a description instead. */
export function picture(name, width, height, ...children) {
  const size = { width, height, viewBox: `0 0 ${width} ${height}` };
  return shape("svg", { class: `picture ${name}`, ...size, "aria-hidden": "true" }, children);
}

/** The path of a curve between two points, horizontal at both ends. */
export function curvedPath(x0, y0, x1, y1) {
  const middle = (x0 + x1) / 2;
  return `M${x0} ${y0}C${middle} ${y0} ${middle} ${y1} ${x1} ${y1}`;
}

function addContent(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false)
      node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null));
  return node;
}

/** Calls `onMove(event)` when the pointer moves over a box, and `onLeave()` when it leaves. */
export function followPointer(box, onMove, onLeave) {
  let lastPoint = null;
  for (const name of ["pointermove", "pointerdown"]) {
    box.addEventListener(name, (event) => {
      const point = `${event.clientX} ${event.clientY}`;
      if (name === "pointermove" && point === lastPoint) return; // the picture was scrolled below the pointer
      lastPoint = point;
      onMove(event);
    });
  }
  // A touch ends with pointerleave at once; its highlight stays.
  box.addEventListener("pointerleave", (event) => event.pointerType === "touch" || onLeave());
  box.addEventListener("blur", onLeave);
}

/** A unique id, to link elements by ARIA attributes. */
export function uniqueId(stem) {
  idCount += 1;
  return `${stem}-${idCount}`;
}

export function clamp(value, minimum, maximum) {
  return Math.min(Math.max(value, minimum), maximum);
}
