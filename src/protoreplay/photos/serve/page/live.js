// Live: the webcam beside its running answer.

import { photoForm, post } from "./api.js";
import { bars } from "./ask_details.js";
import { SIGNS } from "./ask_tile.js";
import { closeCamera, frame, jpeg, openCamera } from "./camera.js";
import { button, el, icon } from "./dom.js";
import { store, tried } from "./store.js";
import { ask as askText, camera as cameraText, live as text, percent } from "./strings.js";

const SIDE = 256;
const MEASURED = 20;
let root, video, said, chart, rate, start, stop, board, untaught;
let stream = null;

function show(answer) {
  const first = answer.choices[0];
  const kind = answer.label === null ? "unknown" : first.probability >= store.state.unsure ? "sure" : "unsure";
  const words = kind === "unknown" ? askText.refusal(first.label) : askText[kind](first.label, percent(first.probability));
  if (said.dataset.words !== words) {
    said.dataset.words = words;
    said.className = `big said ${kind}`;
    said.replaceChildren(icon(SIGNS[kind]), el("span", { text: words, dir: "auto" }));
  }
  chart.replaceChildren(bars(answer));
}

async function follow(own) {
  const times = [];
  const canvas = el("canvas");
  while (stream === own) {
    const seen = frame(video, SIDE, canvas);
    if (!seen || document.hidden) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      continue;
    }
    const answer = (await post("predict?nearest=false", photoForm([await jpeg(seen)]))).answers[0];
    if (stream !== own) return;
    show(answer);
    times.push(performance.now());
    if (times.length > MEASURED) times.shift();
    if (times.length > 2) rate.textContent = text.rate((1000 * (times.length - 1)) / (times.at(-1) - times[0]));
  }
}

function end() {
  closeCamera(stream);
  stream = null;
  start.hidden = false;
  stop.hidden = true;
  board.classList.remove("on");
}

const begin = tried(async () => {
  try {
    stream = await openCamera(video);
  } catch (error) {
    throw new Error(cameraText.none(error.message));
  }
  start.hidden = true;
  stop.hidden = false;
  board.classList.add("on");
  said.textContent = text.waiting;
  try {
    await follow(stream);
  } finally {
    end();
  }
});

export const view = {
  name: "live",
  start(place) {
    root = place;
    video = el("video", { playsInline: true, muted: true, "aria-label": cameraText.view });
    said = el("p", { class: "big said", "aria-live": "polite" });
    chart = el("div");
    rate = el("p", { class: "soft rate" });
    start = button(text.start, begin, { class: "strong large" }, "camera");
    stop = button(text.stop, end, { hidden: true });
    untaught = el("div", { class: "card centre", hidden: true }, el("p", { text: askText.untaught }), el("a", { class: "button strong", href: "#teach", text: askText.toTeach }));
    const can = Boolean(navigator.mediaDevices?.getUserMedia);
    board = el("div", { class: "live" }, el("div", { class: "seen" }, video, el("div", { class: "row" }, can ? start : null, stop)),
      el("div", { class: "card stack" }, said, chart, rate, el("p", { class: "soft", text: can ? text.hint : text.noCamera })));
    root.append(untaught, board);
  },
  changed() {
    const known = store.state.classes.length > 0;
    untaught.hidden = known;
    board.hidden = !known;
    if (!known) end();
  },
  leave: end,
};
