// The box of a map or of lines: it scrolls, it follows the pointer, and arrow keys move through it.

import { clamp, element, followPointer } from "./elements.js";

const NOWHERE = { output: null, source: null };

/** `picture` is what `drawMap` or `drawLines` gives; `onLight(place)` is told what to light up, null: nothing. */
export function drawStage(label, picture, source, output, onLight) {
  const box = element(
    "div",
    { class: "stage", role: "application", tabindex: "0", dir: source.direction, "aria-label": label },
    picture.node,
  );
  const mirror = source.direction === "rtl" ? -1 : 1;
  let cursor = null;
  const step = (place, by, count) => clamp((place ?? 0) + by, 0, count - 1);
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
    onLight(cursor);
    picture.node.querySelector(".frame.cell, .token.lit")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  });
  const point = (event) => {
    const place = picture.placeAt(event);
    onLight(place.output === null && place.source === null ? null : place);
  };
  followPointer(box, point, () => onLight(null));
  if (picture.pin) {
    box.addEventListener("scroll", () => picture.pin(box.scrollLeft, box.scrollTop));
    box.style.scrollPaddingBlockStart = `${picture.labels.top}px`;
    box.style.scrollPaddingInlineStart = `${picture.labels.left}px`;
  }
  return { node: box, light: (place) => picture.light(place ?? NOWHERE) };
}
