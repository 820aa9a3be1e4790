// The download buttons of a panel.

import { element } from "./elements.js";
import { csvText, fileName, pngBlob, save, svgText } from "./downloads.js";

/** `map` is the selected attention map; null if there is none to save. */
export function downloadRow(panel, map) {
  const { picture, translation, title, name, choice, attention } = panel;
  const shown = choice.view === "beam" || attention.name === "source" ? [choice.view] : [choice.view, attention.name];
  const saveAs = (blob, ending) => save(blob, fileName([name, ...shown, title], ending));
  const formats = {
    JSON: () => saveAs(new Blob([JSON.stringify(translation, null, 1)], { type: "application/json" }), "json"),
  };
  if (map) {
    formats.CSV = () =>
      saveAs(new Blob(["\ufeff", csvText(attention.columns, attention.rows, map.weights)], { type: "text/csv" }), "csv");
  }
  if (picture) {
    formats.PNG = async () =>
      saveAs(await pngBlob(svgText(picture), picture.width.baseVal.value, picture.height.baseVal.value), "png");
    formats.SVG = () => saveAs(new Blob([svgText(picture)], { type: "image/svg+xml" }), "svg");
  }
  const button = ([format, act]) =>
    element("button", { type: "button", "aria-label": `download as ${format}`, onclick: act }, format);
  return element(
    "div",
    { class: "downloads", role: "group", "aria-label": "downloads" },
    "Download ",
    Object.entries(formats).reverse().map(button),
  );
}
