// One side of a translation: its tokens, what to show for each, which of them make up a word, and how wide they are.

import { shape } from "./elements.js";

export const TYPE_SIZE = 13; // pixels
const LONGEST = 10; // ems; what is longer is cut, and told in full in a title
const RIGHT_TO_LEFT = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;

let ruler = null;

export function sourceSide(answer) {
  return side(answer.source_tokens, answer.source_labels, answer.source_words);
}

export function outputSide(hypothesis) {
  return side(hypothesis.tokens, hypothesis.labels, hypothesis.words);
}

/** `split` are the words of several tokens: [begin, end), as all words are told. */
function side(tokens, labels, words) {
  return {
    tokens,
    labels,
    words,
    split: words.filter(([begin, end]) => end - begin > 1),
    direction: directionOf(tokens),
  };
}

/** The direction of the first letter, as `dir="auto"` has it; special tokens such as <end> say nothing about it. */
function directionOf(tokens) {
  const letter = tokens
    .filter((token) => !/^<.*>$/u.test(token))
    .join(" ")
    .match(/\p{L}/u);
  return letter && RIGHT_TO_LEFT.test(letter[0]) ? "rtl" : "ltr";
}

/** The width of a text in pixels, as bold as it gets when it lights up. */
export function widthOf(text, size = TYPE_SIZE) {
  ruler ??= createRuler();
  return (ruler.measureText(text).width * size) / TYPE_SIZE;
}

function createRuler() {
  const context = document.createElement("canvas").getContext("2d");
  context.font = `600 ${TYPE_SIZE}px ${getComputedStyle(document.body).fontFamily}`;
  return context;
}

/** The label, cut to what there is room for. */
export function shortened(label) {
  const room = LONGEST * TYPE_SIZE;
  if (widthOf(label) <= room) return label;
  const letters = [...new Intl.Segmenter().segment(label)].map((part) => part.segment);
  let count = letters.length - 1;
  while (count > 1 && widthOf(letters.slice(0, count).join("") + "…") > room) count -= 1;
  return letters.slice(0, count).join("") + "…";
}

/** A label in a picture, with the token in full behind it. */
export function tokenText(label, token, attributes) {
  return shape("text", { class: "token", ...attributes }, label, shape("title", {}, token));
}
