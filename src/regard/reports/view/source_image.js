// The picture that a model read, with the attention of an output token over its patches.

import { shape } from "./elements.js";
import { weightColor } from "./cells.js";

const MAX_SCALE = 4; // pixels of the page for each pixel of the picture
const DARK_FROM = 0.5; // weight: on the dark half of the color map, ink is white

/** { node, highlight(weights, source) }: `weights` of one output token, or null; `source` is a patch to frame, or null. */
export function drawSourceImage({ width, height, uri, boxes }, availableWidth, onHighlight) {
  const scale = Math.min(MAX_SCALE, availableWidth / width);
  const size = { width: width * scale, height: height * scale, viewBox: `0 0 ${width} ${height}` };
  const ground = shape("g", {});
  const light = shape("g", {});
  const frame = shape("g", {});
  const ink = (name) => shape("image", { class: name, href: uri, width, height });
  const targets = boxes.map((box, source) => {
    const enter = () => onHighlight({ output: null, source });
    return shape("rect", { class: "target", ...area(box), onpointerenter: enter });
  });
  const parts = [ground, ink("dark-ink"), light, frame, targets];
  const leave = () => onHighlight(null);
  const label = { role: "img", "aria-label": "the picture that was read" };
  const node = shape("svg", { class: "source-image", ...size, ...label, onpointerleave: leave }, parts);
  return {
    node,
    highlight: (weights, source) => {
      const colored = boxes.map((box, index) => [box, weights?.[index] ?? 0]).filter(([, weight]) => weight >= 0.005);
      ground.replaceChildren(...colored.map(([box, weight]) => patch(box, weight)));
      const dark = colored.filter(([, weight]) => weight > DARK_FROM);
      light.replaceChildren(
        ...dark.map(([box, weight]) => {
          const { x, y, ...extent } = area(box);
          const view = { viewBox: `${x} ${y} ${extent.width} ${extent.height}` };
          return shape("svg", { x, y, ...extent, ...view }, patch(box, weight), ink("light-ink"));
        }),
      );
      const framed = source !== null && source < boxes.length ? [boxes[source]] : [];
      frame.replaceChildren(...framed.map((box) => shape("rect", { class: "frame", ...area(box) })));
    },
  };
}

function area([left, top, right, bottom]) {
  return { x: left, y: top, width: right - left, height: bottom - top };
}

function patch(box, weight) {
  const rect = shape("rect", { class: "weight", ...area(box) });
  rect.style.fill = weightColor(weight);
  return rect;
}
