// Pictures from the webcam, as long as a button is held. Browsers give it only to pages of this machine or behind https.

import { button, el, freshId, icon } from "./dom.js";
import { openDialog, toast } from "./dialogs.js";
import { photoOf } from "./photos.js";
import { labels } from "./store.js";
import { camera as text, teach as teachText } from "./strings.js";

const SIDE = 480;
const EVERY = 120;
// Mean difference of grey values, of 255, below which two pictures are almost the same; and how many it is compared with.
const ALIKE = 3.5;
const COMPARED = 12;
const GRID = 16;

export async function openCamera(video) {
  const stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment", width: { ideal: 640 } } });
  video.srcObject = stream;
  await video.play();
  return stream;
}

export const closeCamera = (stream) => stream?.getTracks().forEach((track) => track.stop());

// The central square of what the camera sees.
export function frame(video, side, canvas = el("canvas")) {
  const square = Math.min(video.videoWidth, video.videoHeight);
  if (!square) return null;
  [canvas.width, canvas.height] = [side, side];
  const from = [(video.videoWidth - square) / 2, (video.videoHeight - square) / 2, square, square];
  canvas.getContext("2d", { willReadFrequently: side <= GRID }).drawImage(video, ...from, 0, 0, side, side);
  return canvas;
}

export const jpeg = (canvas) => new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.9));

// Says of one picture after the other whether it differs from those before it.
export function thinning() {
  const kept = [];
  return (pixels) => {
    const grey = Array.from({ length: pixels.length / 4 }, (_, i) => 0.3 * pixels[4 * i] + 0.6 * pixels[4 * i + 1] + 0.1 * pixels[4 * i + 2]);
    const apart = (other) => grey.reduce((sum, value, i) => sum + Math.abs(value - other[i]), 0) / grey.length;
    if (kept.slice(-COMPARED).some((other) => apart(other) < ALIKE)) return false;
    kept.push(grey);
    return true;
  };
}

function recorder(video, tell) {
  const small = el("canvas");
  let photos = [];
  let seen = 0;
  let differs = thinning();
  let timer = null;
  const shoot = async () => {
    const look = frame(video, GRID, small);
    if (!look) return;
    seen += 1;
    if (differs(look.getContext("2d").getImageData(0, 0, GRID, GRID).data)) {
      const number = photos.length + 1;
      const blob = await jpeg(frame(video, SIDE));
      photos.push(photoOf(new File([blob], `camera ${number}.jpg`, { type: "image/jpeg" })));
    }
    tell(photos.length, seen);
  };
  return {
    hold: () => { if (timer === null) { shoot(); timer = setInterval(shoot, EVERY); } },
    release: () => { clearInterval(timer); timer = null; },
    taken: () => { const all = photos; photos = []; seen = 0; differs = thinning(); tell(0, 0); return all; },
  };
}

// Opens the camera; `take(label, photos)` is called for each class that was recorded.
export async function recordClasses(take, label = "") {
  const video = el("video", { playsInline: true, muted: true, "aria-label": text.view });
  let stream;
  try {
    stream = await openCamera(video);
  } catch (error) {
    toast(text.none(error.message));
    return;
  }
  const count = el("p", { class: "count", role: "status" });
  const tell = (kept, seen) => { count.textContent = text.count(kept, seen); next.disabled = done.disabled = !kept; };
  const own = recorder(video, tell);
  const id = freshId("record");
  const input = el("input", { id, value: label, maxLength: 200, autocomplete: "off", placeholder: teachText.namePlaceholder, dir: "auto", list: "record-classes" });
  const hold = el("button", { type: "button", class: "record" }, icon("camera"), el("span", { text: text.hold }));
  const press = (on) => (event) => {
    event.preventDefault();
    hold.classList.toggle("on", on);
    hold.lastChild.textContent = on ? text.holding : text.hold;
    if (on) own.hold(); else own.release();
  };
  for (const kind of ["pointerup", "pointerleave", "pointercancel", "blur"]) hold.addEventListener(kind, press(false));
  hold.addEventListener("pointerdown", press(true));
  hold.addEventListener("keydown", (event) => [" ", "Enter"].includes(event.key) && press(true)(event));
  hold.addEventListener("keyup", press(false));
  hold.addEventListener("contextmenu", (event) => event.preventDefault());
  const finish = () => {
    const photos = own.taken();
    if (photos.length) take(input.value.trim(), photos);
  };
  const next = button(text.next, () => { finish(); input.value = ""; input.focus(); }, { disabled: true });
  const done = button(text.done, () => dialog.close(), { class: "strong", disabled: true });
  const content = el("div", { class: "stack camera" }, video,
    el("label", { htmlFor: id, text: text.class }), input, el("datalist", { id: "record-classes" }, labels().map((one) => el("option", { value: one }))),
    hold, el("p", { class: "soft small", text: text.hint }), count, el("div", { class: "row end" }, next, done));
  const dialog = openDialog(text.title, content, { onclose: () => { own.release(); finish(); closeCamera(stream); } });
  tell(0, 0);
  input.focus();
}
