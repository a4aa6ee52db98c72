// Teach: the classes with their photos, and the first minute of a model that knows none.

import { get } from "./api.js";
import { classCard } from "./class_card.js";
import { button, el, freshId, icon, lastOnly } from "./dom.js";
import { droppable, folderInput, onPhone, photoInput, photoOf } from "./photos.js";
import { isStaged, recordButton, stage, startStaging } from "./staging.js";
import { store, tried } from "./store.js";
import { first as firstText, teach as text } from "./strings.js";

const MANY = 20;
const drawn = new Map();
let judged = new Map();
let root, hero, toolbar, grid, tile, total;
const wanted = { search: "", sort: "name" };

export async function sampleFile(label, number) {
  const answer = await fetch(`/api/samples/${label}/${number}`);
  return new File([await answer.blob()], `${label} ${number + 1}.jpg`, { type: "image/jpeg" });
}

const takeSamples = tried(async () => {
  const kinds = await get("samples");
  const groups = kinds.filter((kind) => kind.teach.length).map(async (kind) => ({
    label: kind.label,
    photos: await Promise.all(kind.teach.map(async (number) => photoOf(await sampleFile(kind.label, number)))),
  }));
  stage(await Promise.all(groups));
  document.getElementById("staged-title").scrollIntoView({ block: "start" });
});

function firstMinute() {
  const steps = (onPhone ? firstText.phoneSteps : firstText.steps).map(([head, body]) => el("li", {}, el("h3", { text: head }), el("p", { class: "soft", text: body })));
  const zone = el("div", { class: "hero-drop" }, icon("photos"),
    el("p", { class: "big", text: onPhone ? firstText.start : firstText.drop }),
    el("div", { class: "row centre" }, photoInput(stage, undefined, { strong: true }), folderInput(stage), recordButton()),
    button(firstText.samples, takeSamples, { class: "link" }));
  const element = el("section", { class: "hero", "aria-label": firstText.title, hidden: true },
    el("p", { class: "lead", text: firstText.title }), el("p", { class: "soft", text: firstText.lead }), zone, el("ol", { class: "steps" }, steps));
  droppable(element, stage);
  return element;
}

function tools() {
  const [search, sort] = [freshId("search"), freshId("sort")];
  const input = el("input", { id: search, type: "search", autocomplete: "off", oninput: () => { wanted.search = input.value; arrange(); } });
  const select = el("select", { id: sort, onchange: () => { wanted.sort = select.value; arrange(); } },
    Object.entries(text.sorts).map(([value, label]) => el("option", { value, text: label })));
  return el("div", { class: "row tools" }, el("label", { htmlFor: search, text: text.search }), input, el("label", { htmlFor: sort, text: text.sort }), select);
}

function addTile() {
  const element = el("article", { class: "card add", "aria-label": text.add }, icon("plus"),
    el("h3", { text: text.add }), onPhone ? null : el("p", { class: "soft", text: text.addHint }),
    el("div", { class: "row centre" }, photoInput(stage), folderInput(stage), recordButton()));
  droppable(element, stage);
  return element;
}

const RANK = { alone: 0, mixed: 1, more: 2, few: 3, unknown: 4, enough: 5 };
const ORDER = {
  name: () => 0,
  photos: (a, b) => b.photos - a.photos,
  recent: (a, b) => b.last - a.last,
  poor: (a, b) => RANK[judged.get(a.label)?.verdict ?? "unknown"] - RANK[judged.get(b.label)?.verdict ?? "unknown"] || a.photos - b.photos,
};

// Only cards of classes that have changed are made again, so that nothing flickers and no focus is lost.
function arrange() {
  const all = store.state.classes;
  const words = wanted.search.trim().toLocaleLowerCase();
  const found = all.filter((one) => one.label.toLocaleLowerCase().includes(words)).sort(ORDER[wanted.sort]);
  const cards = found.map((one) => {
    const own = judged.get(one.label);
    const content = JSON.stringify([one.photos, one.thumbnails, own?.verdict, own?.taken_for[0], all.length > 1]);
    const old = drawn.get(one.label);
    if (old?.content === content) return old.card;
    const card = classCard(one, own);
    drawn.set(one.label, { content, card });
    return card;
  });
  for (const label of drawn.keys()) if (!all.some((one) => one.label === label)) drawn.delete(label);
  const none = found.length || !words ? [] : [el("p", { class: "soft", text: text.none(wanted.search) })];
  const next = [tile, ...cards, ...none];
  next.forEach((card, i) => { if (grid.children[i] !== card) grid.insertBefore(card, grid.children[i] ?? null); });
  while (grid.children.length > next.length) grid.lastChild.remove();
}

function draw() {
  if (!store.state) return;
  const count = store.state.classes.length;
  hero.hidden = count > 0 || isStaged();
  grid.hidden = !count;
  toolbar.hidden = count < MANY;
  total.hidden = !count;
  total.textContent = text.classes(count, store.state.classes.reduce((sum, one) => sum + one.photos, 0));
  if (toolbar.hidden) Object.assign(wanted, { search: "", sort: "name" });
  arrange();
}

const judge = lastOnly(tried(async () => {
  const revision = store.state.revision;
  const found = new Map((await get("taught")).map((one) => [one.label, one]));
  if (revision !== store.state.revision) return;
  judged = found;
  arrange();
}));

export const view = {
  name: "teach",
  start(place) {
    root = place;
    hero = firstMinute();
    toolbar = tools();
    tile = addTile();
    total = el("p", { class: "soft" });
    grid = el("div", { class: "grid classes", hidden: true });
    const staging = startStaging(draw, () => { root.querySelector("h1").focus({ preventScroll: true }); });
    root.append(total, hero, staging, toolbar, grid);
  },
  changed() {
    draw();
    if (store.state.classes.length > 1) judge();
    else judged = new Map();
  },
};
