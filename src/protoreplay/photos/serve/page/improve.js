// Improve: what would make the answers better. Each part is asked for only while this view is shown.

import { get, post, thumbnail } from "./api.js";
import { asked, correct, smallPicture } from "./asked.js";
import { curve } from "./curve.js";
import { unite } from "./class_card.js";
import { button, el, freshId, icon, lastOnly, name } from "./dom.js";
import { question } from "./dialogs.js";
import { picture } from "./photos.js";
import { change, classOf, labels, revisionOf, store, tried } from "./store.js";
import { improve as text, percent } from "./strings.js";

const [PAIRS, SHOWN, STEPS] = [8, 12, 24];
// How unsure an answer must be, so that labelling the photo is worth the while.
const NEWS = 0.05;
let root, untaught, board, parts;
let drawnFor = "";
let everyClass = false;

const small = (label, count) => (classOf(label)?.thumbnails ?? []).slice(0, count).map((key) => el("img", { class: "thumb", src: thumbnail(key), alt: "", loading: "lazy" }));

function suggestion(one, photo) {
  const [first, second] = one.choices;
  const words = one.label === null ? text.unknownClosest(first.label) : second && first.probability < 0.9 ? text.or(first.label, second.label) : text.only(first.label, percent(first.probability));
  const teach = tried((label) => correct([photo], label));
  const another = tried(async () => {
    const label = await question(text.anotherAsk, text.another.replace(" …", ""), { value: "", label: text.anotherAsk });
    if (label) await teach(label);
  });
  return el("li", { class: "tile" }, el("span", { class: "open" }, picture(photo, photo.name, () => smallPicture(photo))),
    el("p", { class: "said" }, el("span", { class: "words" }, el("span", { text: words, dir: "auto" }), el("span", { class: "soft small", text: text.stands(one.like_it) }))),
    el("div", { class: "row small" }, one.choices.slice(0, 2).map((choice) => button(choice.label, () => teach(choice.label), { dir: "auto" })), button(text.another, another, { class: "quiet" })));
}

async function drawNext(place) {
  const known = new Map(asked.photos.filter((photo) => photo.answer && !photo.taught).map((photo) => [photo.answer.key, photo]));
  const found = known.size ? await post("suggest", { keys: [...known.keys()].slice(0, 3000), count: 8 }) : [];
  const items = found.filter((one) => known.has(one.key) && one.unsure >= NEWS).map((one) => suggestion(one, known.get(one.key)));
  place.replaceChildren(el("h2", { text: text.next }),
    ...(items.length ? [el("p", { class: "soft", text: text.nextHint }), el("ul", { class: "answers" }, items)]
      : [el("p", { class: "soft", text: known.size ? text.nextNothing : text.nextNone }), el("a", { class: "button", href: "#ask", text: text.toAsk })]));
}

function pairs(judged) {
  const found = new Map();
  for (const one of judged) for (const [other, times] of one.taken_for) {
    const key = JSON.stringify([one.label, other].sort());
    const pair = found.get(key) ?? { names: [one.label, other].sort(), times: 0 };
    pair.times += times;
    found.set(key, pair);
  }
  const count = new Map(judged.map((one) => [one.label, one.asked]));
  return [...found.values()].map((pair) => ({ ...pair, all: pair.names.reduce((sum, label) => sum + (count.get(label) ?? 0), 0) }))
    .sort((a, b) => b.times / b.all - a.times / a.all).slice(0, PAIRS);
}

function drawConfused(place, judged) {
  const rows = pairs(judged).map(({ names: [one, other], times, all }) => el("li", { class: "pair" },
    el("div", { class: "side" }, el("b", {}, name(one)), el("div", { class: "few" }, small(one, 4))),
    el("p", { class: "between" }, icon("unsure"), el("span", { class: "small", text: text.pair(times, all) }), button(text.unite, () => unite(one, other), { class: "quiet small", "aria-label": `${text.unite} ${text.pairShort(one, other)}` })),
    el("div", { class: "side" }, el("b", {}, name(other)), el("div", { class: "few" }, small(other, 4)))));
  place.replaceChildren(el("h2", { text: text.confused }), el("p", { class: "soft", text: rows.length ? text.confusedHint : text.confusedNone }), el("ul", { class: "pairs" }, rows));
}

function drawAccuracy(place, judged) {
  const rate = (one) => (one.asked ? one.right / one.asked : -1);
  const sorted = judged.toSorted((a, b) => rate(a) - rate(b));
  const rows = sorted.slice(0, everyClass ? sorted.length : SHOWN).map((one) => el("tr", {}, el("th", { scope: "row" }, name(one.label)),
    el("td", { class: "wide" }, el("div", { class: "meter" }, el("progress", { max: 1, value: Math.max(rate(one), 0), "aria-label": one.label }), mark(one))),
    el("td", { class: "number", text: text.rightOf(one.right, one.asked) }), el("td", { class: `small ${one.verdict === "enough" ? "good" : "poor"}`, text: text.verdict[one.verdict] })));
  const rest = sorted.length - rows.length;
  place.replaceChildren(el("h2", { text: text.accuracy }), el("p", { class: "soft", text: text.accuracyHint }),
    el("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": text.accuracy }, el("table", {}, el("tbody", {}, rows))),
    rest > 0 ? button(text.all(sorted.length), () => { everyClass = true; drawAccuracy(place, judged); }, { class: "quiet" }) : "");
}

function mark(one) {
  if (!one.half_asked) return "";
  const line = el("span", { class: "mark" });
  line.style.insetInlineStart = `${(100 * one.half_right) / one.half_asked}%`;
  return line;
}

async function drawCurve(place) {
  place.replaceChildren(el("h2", { text: text.curve }), el("p", { class: "soft", text: text.measuring }));
  const points = (await get("curve")).map((point) => {
    const all = Object.values(point.classes).reduce(([a, b], [count, right]) => [a + count, b + right], [0, 0]);
    return { photos: point.photos, share: all[0] ? all[1] / all[0] : 0 };
  });
  if (points.length < 2) { place.hidden = true; return; }
  place.hidden = false;
  const [a, b] = [points[0], points.at(-1)];
  const told = text.curveText(a.photos.toFixed(a.photos % 1 ? 1 : 0), b.photos.toFixed(b.photos % 1 ? 1 : 0), a.share, b.share);
  place.replaceChildren(el("h2", { text: text.curve }), el("p", { class: "soft", text: told }), curve(points, told));
}

async function drawRefusals(place) {
  const found = await get("refusals");
  place.replaceChildren(el("h2", { text: text.refuse }), el("p", { class: "soft", text: found.photos.length ? text.refuseHint : text.refuseNone }));
  if (!found.photos.length) return;
  const id = freshId("share");
  const output = el("output", { htmlFor: id, class: "big" });
  const told = el("p", { role: "status" });
  const strip = el("ul", { class: "thumbs strip", "aria-label": text.refusedPhotos });
  const save = button(text.save, tried(() => change("settings", { unknown: Number(slider.value) / 100 }, text.saved(percent(Number(slider.value) / 100)))), { class: "strong" });
  const show = () => {
    const share = Number(slider.value) / 100;
    const refused = share ? found.photos.filter((photo) => photo.refused_from < share) : [];
    output.textContent = percent(share);
    told.textContent = share ? text.refuseText(found.photos.length, refused.length, refused.filter((photo) => photo.taken_for !== photo.label).length) : text.never;
    save.disabled = Math.abs(share - found.unknown) < 0.0005;
    const seen = refused.filter((photo) => photo.thumbnail).slice(0, STEPS);
    strip.replaceChildren(...seen.map((photo) => el("li", {}, el("img", { class: "thumb", src: thumbnail(photo.thumbnail), alt: photo.label, title: photo.label }))));
  };
  const slider = el("input", { id, type: "range", min: 0, max: 50, step: 1, value: Math.round(100 * found.unknown), oninput: show });
  place.append(el("label", { htmlFor: id, text: text.share }), el("div", { class: "row slider" }, slider, output), told, strip, save);
  show();
}

const draw = lastOnly(tried(async () => {
  const known = store.state.classes.length;
  untaught.hidden = known > 1;
  board.hidden = known < 2;
  if (known < 2 || root.hidden) return;
  const now = `${revisionOf(store.state)} ${asked.photos.filter((photo) => photo.answer).length}`;
  if (drawnFor === now) return;
  drawnFor = now;
  await Promise.all([
    drawNext(parts.next),
    get("taught").then((judged) => { drawConfused(parts.confused, judged); drawAccuracy(parts.accuracy, judged); }),
    drawRefusals(parts.refusals),
  ]);
  await drawCurve(parts.curve);
}));

export const view = {
  name: "improve",
  start(place) {
    root = place;
    parts = Object.fromEntries(["next", "confused", "accuracy", "curve", "refusals"].map((part) => [part, el("section", { class: `card ${part}` })]));
    untaught = el("div", { class: "card centre", hidden: true }, el("p", { text: text.untaught }));
    board = el("div", { class: "board", hidden: true }, Object.values(parts));
    root.append(untaught, board);
  },
  changed() {
    everyClass &&= labels().length > SHOWN;
    draw();
  },
};
