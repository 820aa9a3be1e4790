// The box around a map or lines: it scrolls, follows the pointer, and responds to arrow keys.

import { clamp, element, followPointer } from "./elements.js";

const NO_POSITION = { output: null, source: null };

/** `picture` is the result of `drawMap` or `drawLines`; `onHighlight(position)` is called with a position, or null. */
export function drawStage(label, picture, source, output, onHighlight) {
  const box = element(
    "div",
    { class: "stage", role: "application", tabindex: "0", dir: source.direction, "aria-label": label },
    picture.node,
  );
  const mirror = source.direction === "rtl" ? -1 : 1;
  let cursor = null;
  const step = (index, by, count) => clamp((index ?? 0) + by, 0, count - 1);
  const across = (by) => ({ output: cursor.output ?? 0, source: step(cursor.source, by, source.labels.length) });
  const down = (by) => ({ output: step(cursor.output, by, output.labels.length), source: cursor.source ?? 0 });
  const moves = {
    ArrowRight: () => across(mirror),
    ArrowLeft: () => across(-mirror),
    ArrowDown: () => down(1),
    ArrowUp: () => down(-1),
    Home: () => across(-Infinity),
    End: () => across(Infinity),
    PageUp: () => down(-Infinity),
    PageDown: () => down(Infinity),
  };
  box.addEventListener("keydown", (event) => {
    if (!(event.key in moves) || event.altKey || event.metaKey) return;
    event.preventDefault();
    cursor = cursor ? moves[event.key]() : { output: 0, source: 0 };
    onHighlight(cursor);
    const target = picture.node.querySelector(".frame.cell, .token.highlighted");
    target?.scrollIntoView({ block: "nearest", inline: "nearest" });
  });
  const point = (event) => {
    const position = picture.positionAt(event);
    onHighlight(position.output === null && position.source === null ? null : position);
  };
  followPointer(box, point, () => onHighlight(null));
  if (picture.pin) {
    box.addEventListener("scroll", () => picture.pin(box.scrollLeft, box.scrollTop));
    box.style.scrollPaddingBlockStart = `${picture.labels.top}px`;
    box.style.scrollPaddingInlineStart = `${picture.labels.left}px`;
  }
  return { node: box, highlight: (position) => picture.highlight(position ?? NO_POSITION) };
}
