// The attention weights of a translation: one map, or one for each layer and head and their mean.

/** All maps, the mean first if there are several. `indices` are those of a map, { layer: 0, head: 2 }, or {}. */
export function mapsOf(weights, axes) {
  if (!weights) return [];
  const maps = unfold(weights, axes, {});
  return maps.length > 1 ? [{ name: "mean of all", indices: {}, weights: mean(maps) }, ...maps] : maps;
}

function unfold(weights, axes, indices) {
  if (!axes.length) {
    const name = Object.entries(indices)
      .map(([axis, index]) => `${axis} ${index + 1}`)
      .join(" · ");
    return [{ name: name || "attention", indices, weights }];
  }
  return weights.flatMap((part, index) => unfold(part, axes.slice(1), { ...indices, [axes[0]]: index }));
}

/** The mean, with as many decimals as the weights have. */
function mean(maps) {
  const total = (output, source) => maps.reduce((sum, map) => sum + map.weights[output][source], 0);
  return maps[0].weights.map((row, output) =>
    row.map((_, source) => Number((total(output, source) / maps.length).toFixed(6))),
  );
}

/** The selected map; the first if this translation does not have it. */
export function selectedMap(maps, choice) {
  const isChosen = (map) => ["layer", "head"].every((axis) => (map.indices[axis] ?? null) === (choice[axis] ?? null));
  return maps.find(isChosen) ?? maps[0];
}

/** True if all weights are zero: the model has no attention. */
export function hasNoAttention(maps) {
  return maps.every((map) => map.weights.every((row) => row.every((weight) => weight === 0)));
}

/** The indices of the largest values, the largest first; values that round to 0.00 are left out. */
export function largestIndices(values, count) {
  const indices = values.map((_, index) => index).filter((index) => values[index] >= 0.005);
  return indices.sort((a, b) => values[b] - values[a]).slice(0, count);
}
