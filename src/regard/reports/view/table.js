// The weights as an HTML table, for screen readers and exact numbers.

import { element } from "./elements.js";
import { weightText } from "./wording.js";

/** A disclosure element; its table is created when it is opened. */
export function drawTable(source, output, weights, isOpen) {
  const details = element("details", { class: "numbers" }, element("summary", {}, "Weights as a table"));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(tableBox(source, output, weights));
  });
  details.open = isOpen;
  return details;
}

function tableBox(source, output, weights) {
  const heads = source.labels.map((label) => element("th", { scope: "col" }, element("bdi", {}, label)));
  const rows = weights.map((row, index) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, element("bdi", {}, output.labels[index])),
      row.map((weight) => element("td", {}, weightText(weight))),
    ),
  );
  const table = element(
    "table",
    { dir: source.direction },
    element("caption", {}, `Attention weight of each ${source.name} token (column) for each ${output.name} token (row)`),
    element("thead", {}, element("tr", {}, element("td", {}), heads)),
    element("tbody", {}, rows),
  );
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "table of weights" }, table);
}
