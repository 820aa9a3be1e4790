// The result of a translation: its score, the n-best list, and its tokens.

import { element } from "./elements.js";
import { drawOutput } from "./output.js";
import { scoreText } from "./wording.js";

/** The result of `drawOutput`, whose `node` also contains the score and the n-best list. */
export function drawResult({ translation, hypothesis, output, forced, choice }, onForce, onRank, onHighlight) {
  const tokens = drawOutput(output, hypothesis, forced, onForce, onHighlight);
  const several = translation.n_best.length > 1;
  const facts = [several ? rankChoice(translation, choice.rank, onRank) : `score ${scoreText(hypothesis.score)}`];
  if (!hypothesis.finished) facts.push(element("span", {}, "truncated at the maximum length"));
  if (several && translation.length_penalty) facts.push(rankFormula(translation.length_penalty));
  if (forced && onForce) facts.push(releaseButton(() => onForce([])));
  return { ...tokens, node: element("div", {}, element("div", { class: "facts" }, facts), tokens.node) };
}

function rankChoice(translation, chosen, onRank) {
  const options = translation.n_best.map(({ text, score }, rank) =>
    element("option", { value: rank }, `#${rank + 1} · score ${scoreText(score)} · ${text}`),
  );
  const select = element("select", { "aria-label": "n-best list" }, options);
  select.value = chosen;
  select.addEventListener("change", () => onRank(Number(select.value)));
  return select;
}

/** Explains why a lower score may have a better rank. */
function rankFormula(penalty) {
  return element("span", {}, `ranked by score / ((5 + length) / 6)^${penalty}`);
}

/** A button that removes forced tokens. */
export function releaseButton(onRelease) {
  return element("button", { type: "button", class: "release", onclick: onRelease }, "Remove forced tokens");
}
