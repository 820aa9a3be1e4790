// The source of a run that reads pictures: drawn on a canvas, or dropped, pasted or chosen as a file.

import { element } from "../view/elements.js";

const HEIGHT = 128; // pixels of the canvas
const WIDTH = 640;
const MAX_WIDTH = 4000;
const PEN = 11; // pixels, as thick as printed digits
const MAX_BYTES = 300000; // a larger file is sent as it is on the canvas
const SENT_AS_IT_IS = ["image/png", "image/jpeg"];

/** { node, show(uri) }. `onInput(uri)` is called with the picture as a data URI, or "" if there is none. */
export function createPictureInput(onInput, onProblem) {
  const label = "drawing area: write a line of digits, or drop or paste a picture";
  const canvas = element("canvas", { role: "img", "aria-label": label, width: WIDTH, height: HEIGHT });
  const context = canvas.getContext("2d");
  const file = element("input", { type: "file", accept: "image/*", id: "picture-file" });
  const clear = element("button", { type: "button", onclick: () => (blank(), onInput("")) }, "Clear");
  const hint = element("span", { class: "note" }, "Write here with mouse or finger, or drop or paste a picture.");
  const choose = element("label", { for: "picture-file" }, "Picture file ");
  const row = element("div", { class: "picture-row" }, choose, file, clear, hint);
  const node = element("div", { class: "picture-input" }, canvas, row);

  function blank(width = WIDTH) {
    canvas.width = Math.min(Math.max(Math.round(width), 1), MAX_WIDTH);
    context.fillStyle = "white";
    context.fillRect(0, 0, canvas.width, HEIGHT);
    Object.assign(context, { lineWidth: PEN, lineCap: "round", lineJoin: "round", strokeStyle: "black" });
  }

  async function paint(address) {
    const image = new Image();
    image.src = address;
    await image.decode();
    blank((HEIGHT * image.naturalWidth) / image.naturalHeight);
    context.drawImage(image, 0, 0, canvas.width, HEIGHT);
  }

  async function useFile(chosen) {
    if (!chosen) return;
    const address = URL.createObjectURL(chosen);
    try {
      await paint(address);
      const isSent = SENT_AS_IT_IS.includes(chosen.type) && chosen.size <= MAX_BYTES;
      onInput(isSent ? await dataUri(chosen) : canvas.toDataURL("image/png"));
    } catch {
      onProblem(`${chosen.name || "This"} is not a picture that the browser can read; choose a PNG or JPEG file.`);
    } finally {
      URL.revokeObjectURL(address);
    }
  }

  const draw = (event) => {
    const { left, top, width, height } = canvas.getBoundingClientRect();
    context.lineTo(((event.clientX - left) * canvas.width) / width, ((event.clientY - top) * HEIGHT) / height);
    context.stroke();
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    context.beginPath();
    draw(event);
    draw(event); // a point
  });
  canvas.addEventListener("pointermove", (event) => canvas.hasPointerCapture(event.pointerId) && draw(event));
  canvas.addEventListener("pointerup", () => onInput(canvas.toDataURL("image/png")));
  node.addEventListener("dragover", (event) => event.preventDefault());
  node.addEventListener("drop", (event) => {
    event.preventDefault();
    useFile(event.dataTransfer.files[0]);
  });
  document.addEventListener("paste", (event) => node.offsetParent && useFile(event.clipboardData.files[0]));
  file.addEventListener("change", () => useFile(file.files[0]));
  blank();
  return { node, show: (uri) => (uri ? paint(uri).catch(() => blank()) : blank()) };
}

function dataUri(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    Object.assign(reader, { onload: () => resolve(reader.result), onerror: reject });
    reader.readAsDataURL(blob);
  });
}
