// What came out: how good the model thinks it is, which of the best it is, and its tokens.

import { element } from "./elements.js";
import { drawOutput } from "./output.js";
import { scoreText } from "./wording.js";

/** The tokens of a panel as `drawOutput` gives them, with a `node` that holds the facts, too. */
export function drawResult({ answer, hypothesis, output, forced, choice }, onForce, onRank, onLight) {
  const tokens = drawOutput(output, hypothesis, forced, onForce, onLight);
  const several = answer.n_best.length > 1;
  const facts = [several ? rankChoice(answer, choice.rank, onRank) : `score ${scoreText(hypothesis.score)}`];
  if (!hypothesis.finished) facts.push(element("span", {}, "truncated at the maximum length"));
  if (several && answer.length_penalty) facts.push(rankRule(answer.length_penalty));
  if (forced && onForce) facts.push(releaseButton(() => onForce([])));
  return { ...tokens, node: element("div", {}, element("div", { class: "facts" }, facts), tokens.node) };
}

function rankChoice(answer, chosen, onRank) {
  const options = answer.n_best.map(({ text, score }, rank) =>
    element("option", { value: rank }, `#${rank + 1} · score ${scoreText(score)} · ${text}`),
  );
  const select = element("select", { "aria-label": "which of the best translations" }, options);
  select.value = chosen;
  select.addEventListener("change", () => onRank(Number(select.value)));
  return select;
}

/** Why a lower score may have a better rank. */
function rankRule(penalty) {
  return element("span", {}, `ranked by score / ((5 + length) / 6)^${penalty}`);
}

/** Takes back what was forced. */
export function releaseButton(onRelease) {
  return element("button", { type: "button", class: "release", onclick: onRelease }, "Let the model choose again");
}
