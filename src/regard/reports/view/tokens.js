// One side of a translation: its tokens, their labels, word boundaries and widths.

import { shape } from "./elements.js";

export const TYPE_SIZE = 13; // pixels
const MAX_LABEL_WIDTH = 10; // ems; longer labels are shortened, with the whole token as a title
const RIGHT_TO_LEFT = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;

let ruler = null;

export function sourceSide(translation) {
  return side("source", translation.source_tokens, translation.source_labels, translation.source_words);
}

export function outputSide(hypothesis) {
  return side("output", hypothesis.tokens, hypothesis.labels, hypothesis.words);
}

/** What the decoder reads, to which its self-attention attends. */
export function inputSide({ tokens, labels, words }) {
  return side("input", tokens, labels, words);
}

/** `words` are ranges of tokens, [begin, end); `split` are those of several tokens. */
function side(name, tokens, labels, words) {
  return {
    name,
    tokens,
    labels,
    words,
    split: words.filter(([begin, end]) => end - begin > 1),
    direction: directionOf(tokens),
  };
}

/** The direction of the first letter, as with `dir="auto"`; special tokens such as <end> are ignored. */
function directionOf(tokens) {
  const letter = tokens
    .filter((token) => !/^<.*>$/u.test(token))
    .join(" ")
    .match(/\p{L}/u);
  return letter && RIGHT_TO_LEFT.test(letter[0]) ? "rtl" : "ltr";
}

/** The width of a text in pixels, in the bold type of highlighted labels. */
export function widthOf(text, size = TYPE_SIZE) {
  ruler ??= createRuler();
  return (ruler.measureText(text).width * size) / TYPE_SIZE;
}

function createRuler() {
  const context = document.createElement("canvas").getContext("2d");
  context.font = `600 ${TYPE_SIZE}px ${getComputedStyle(document.body).fontFamily}`;
  return context;
}

/** The label, shortened to the maximum width. */
export function shortened(label) {
  const maxWidth = MAX_LABEL_WIDTH * TYPE_SIZE;
  if (widthOf(label) <= maxWidth) return label;
  const letters = [...new Intl.Segmenter().segment(label)].map((part) => part.segment);
  let count = letters.length - 1;
  while (count > 1 && widthOf(letters.slice(0, count).join("") + "…") > maxWidth) count -= 1;
  return letters.slice(0, count).join("") + "…";
}

/** A label in a picture, with the whole token as its title. */
export function tokenText(label, token, attributes) {
  return shape("text", { class: "token", ...attributes }, label, shape("title", {}, token));
}
