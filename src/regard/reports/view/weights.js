// The weights of a translation: one map, or one for each layer and head, and the mean of all of them.

/** The maps to choose from, the mean first if there are several. `place` says which: { layer: 0, head: 2 }, or {}. */
export function mapsOf(answer, hypothesis) {
  if (!hypothesis.attention) return [];
  const maps = unfold(hypothesis.attention, answer.axes, {});
  return maps.length > 1 ? [{ name: "mean of all", place: {}, weights: mean(maps) }, ...maps] : maps;
}

function unfold(weights, axes, place) {
  if (!axes.length) {
    const name = Object.entries(place)
      .map(([axis, index]) => `${axis} ${index + 1}`)
      .join(" · ");
    return [{ name: name || "attention", place, weights }];
  }
  return weights.flatMap((part, index) => unfold(part, axes.slice(1), { ...place, [axes[0]]: index }));
}

/** With as many decimals as the weights themselves have. */
function mean(maps) {
  const total = (output, source) => maps.reduce((sum, map) => sum + map.weights[output][source], 0);
  return maps[0].weights.map((row, output) =>
    row.map((_, source) => Number((total(output, source) / maps.length).toFixed(6))),
  );
}

/** The map that was chosen; the first where another answer has no such place. */
export function chosenMap(maps, choice) {
  const isChosen = (map) => ["layer", "head"].every((axis) => (map.place[axis] ?? null) === (choice[axis] ?? null));
  return maps.find(isChosen) ?? maps[0];
}

/** A model without attention looks nowhere: all its weights are zero. */
export function looksNowhere(maps) {
  return maps.every((map) => map.weights.every((row) => row.every((weight) => weight === 0)));
}

/** The places of the largest values, the largest first. */
export function strongest(values, count) {
  const places = values.map((_, place) => place).filter((place) => values[place] >= 0.005);
  return places.sort((a, b) => values[b] - values[a]).slice(0, count);
}
