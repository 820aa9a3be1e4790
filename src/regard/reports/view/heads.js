// A small map for each layer and head to select from, the mean of all first.

import { element, shape, uniqueId } from "./elements.js";
import { weightCells } from "./cells.js";

const LEVELS = 16; // color levels: enough for a picture of this size

/** A group of radio buttons, one for each map, with a row for each layer. */
export function drawHeads(maps, chosen, mirrored, onChoose) {
  const name = uniqueId("head");
  const group = element("fieldset", { class: "heads" }, element("legend", {}, "Layers and heads"));
  for (const row of new Set(maps.map(rowOf))) {
    const choices = maps
      .filter((map) => rowOf(map) === row)
      .map((map) => headChoice(map, name, map === chosen, mirrored, onChoose));
    group.append(element("div", { class: "row" }, row && element("span", { class: "row-name" }, row), choices));
  }
  return group;
}

/** The name of the row of a map: its layer; null for the mean. */
function rowOf(map) {
  const { layer, head } = map.indices;
  return layer === undefined ? (head === undefined ? null : "heads") : `layer ${layer + 1}`;
}

function headChoice(map, name, isChosen, mirrored, onChoose) {
  const radio = element("input", { type: "radio", name, "aria-label": map.name, onchange: () => onChoose(map) });
  radio.checked = isChosen;
  const shortName = map.name.split(" · ").at(-1); // the row has the name of the layer
  return element(
    "label",
    {},
    radio,
    thumbnail(map.weights, mirrored),
    element("span", { "aria-hidden": "true" }, shortName),
  );
}

function thumbnail(weights, mirrored) {
  const columns = weights[0].length;
  const corner = (output, source) => [mirrored ? columns - 1 - source : source, output];
  return shape(
    "svg",
    {
      class: "thumbnail",
      viewBox: `0 0 ${columns} ${weights.length}`,
      preserveAspectRatio: "none",
      "shape-rendering": "crispEdges",
      "aria-hidden": "true",
    },
    weightCells(weights, corner, 1, LEVELS, 1),
  );
}
