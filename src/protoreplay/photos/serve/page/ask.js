// Ask: a grid of photos with their answers, which can be filtered, selected, corrected and taken away.

import { get } from "./api.js";
import { answerTile, updateTile } from "./ask_tile.js";
import { saveCsv, saveZip } from "./ask_files.js";
import { showDetails } from "./ask_details.js";
import { askAbout, askAgain, asked, best, certainty, clearAsked, correct, onAnswers } from "./asked.js";
import { button, el, freshId, icon } from "./dom.js";
import { droppable, folderInput, onPhone, photoInput, photoOf } from "./photos.js";
import { labels, store, tried } from "./store.js";
import { ask as text } from "./strings.js";
import { sampleFile } from "./teach.js";

const PAGE = 120;
const KINDS = ["all", "sure", "unsure", "unknown", "unread"];
const wanted = { kind: "all", label: "" };
const selected = new Set();
const tiles = new Map();
let page = PAGE;
let last = null;
let root, zone, untaught, board, filters, progress, grid, more, selection, classSelect;

const takeGroups = (groups) => {
  page = Math.max(page, PAGE);
  askAbout(groups.flatMap((group) => group.photos));
};

const takeSamples = tried(async () => {
  const kinds = await get("samples");
  const wantedOnes = kinds.flatMap((kind) => kind.ask.map((number) => [kind.label, number]));
  askAbout(await Promise.all(wantedOnes.map(async ([label, number]) => photoOf(await sampleFile(label, number)))));
});

function dropZone() {
  const samples = button(text.samples, takeSamples, { class: "link samples" });
  const element = el("div", { class: "drop-zone" }, icon("photos"), el("p", { class: "big", text: text.empty }), onPhone ? null : el("p", { class: "soft", text: text.emptyHint }),
    el("div", { class: "row centre" }, photoInput(takeGroups, undefined, { strong: true }), folderInput(takeGroups)), samples);
  droppable(element, takeGroups);
  return element;
}

export const matching = () => asked.photos.filter((photo) =>
  (wanted.kind === "all" || certainty(photo) === wanted.kind) && (!wanted.label || (photo.answer?.label ?? best(photo)?.label) === wanted.label));

function pick(photo, on, range) {
  const all = matching();
  const ends = range && last ? [all.indexOf(last), all.indexOf(photo)].sort((a, b) => a - b) : null;
  for (const one of ends && ends[0] >= 0 ? all.slice(ends[0], ends[1] + 1) : [photo]) {
    if (on) selected.add(one); else selected.delete(one);
    tiles.get(one)?.mark(on);
  }
  last = photo;
  drawSelection();
}

function drawFilters() {
  const counts = Object.fromEntries(KINDS.map((kind) => [kind, 0]));
  for (const photo of asked.photos) { counts.all += 1; counts[certainty(photo)] += 1; }
  for (const chip of filters.children) {
    const kind = chip.dataset.kind;
    chip.hidden = kind === "unread" && !counts.unread;
    chip.setAttribute("aria-pressed", String(wanted.kind === kind));
    chip.querySelector("b").textContent = counts[kind].toLocaleString();
  }
  const names = [...new Set(asked.photos.map((photo) => best(photo)?.label).filter(Boolean))].sort();
  if (wanted.label && !names.includes(wanted.label)) wanted.label = "";
  classSelect.replaceChildren(el("option", { value: "", text: text.anyClass }), ...names.map((name) => el("option", { value: name, text: name, selected: name === wanted.label })));
}

function drawSelection() {
  for (const photo of selected) if (!asked.photos.includes(photo)) selected.delete(photo);
  selection.hidden = !selected.size;
  selection.querySelector(".count").textContent = text.selected(selected.size);
  const confirm = selection.querySelector(".confirm");
  confirm.hidden = ![...selected].every((photo) => photo.answer?.label);
  selection.querySelector("datalist").replaceChildren(...labels().map((label) => el("option", { value: label })));
}

function drawGrid() {
  const found = matching();
  const shown = found.slice(0, page).map((photo) => {
    if (!tiles.has(photo)) tiles.set(photo, answerTile(photo, { pick, open: () => showDetails(photo, matching) }));
    const tile = tiles.get(photo);
    updateTile(tile, photo, selected.has(photo));
    return tile.element;
  });
  shown.forEach((element, i) => { if (grid.children[i] !== element) grid.insertBefore(element, grid.children[i] ?? null); });
  while (grid.children.length > shown.length) grid.lastChild.remove();
  for (const photo of tiles.keys()) if (!asked.photos.includes(photo)) tiles.delete(photo);
  more.hidden = found.length <= page;
  more.querySelector("button").textContent = text.more(found.length - page);
  board.querySelector(".nothing").hidden = found.length > 0;
  board.querySelector(".select-all").textContent = text.selectAll(found.length);
}

function draw() {
  if (!store.state || root.hidden) return;
  const known = store.state.classes.length > 0;
  untaught.hidden = known;
  zone.hidden = !known;
  zone.classList.toggle("small", asked.photos.length > 0);
  zone.querySelector(".samples").hidden = asked.photos.length > 0 || !["apple", "lemon", "pear"].every((one) => labels().includes(one));
  board.hidden = !asked.photos.length;
  if (board.hidden) { tiles.clear(); grid.replaceChildren(); selected.clear(); drawSelection(); return; }
  progress.hidden = !asked.total;
  progress.firstChild.max = asked.total || 1;
  progress.firstChild.value = asked.done;
  progress.lastChild.textContent = text.progress(asked.done, asked.total);
  drawFilters();
  drawGrid();
  drawSelection();
}

function toolbar() {
  const id = freshId("class");
  filters = el("div", { class: "row chips", role: "group", "aria-label": text.show }, KINDS.map((kind) => {
    const signs = { sure: "check", unsure: "unsure", unknown: "unknown", unread: "alert" };
    return el("button", { type: "button", class: `chip ${kind}`, data: { kind }, "aria-pressed": "false", onclick: () => { wanted.kind = kind; page = PAGE; draw(); } },
      signs[kind] ? icon(signs[kind]) : null, el("span", { text: text.filters[kind] }), el("b", { text: "0" }));
  }));
  classSelect = el("select", { id, "aria-label": text.class, onchange: () => { wanted.label = classSelect.value; page = PAGE; draw(); } });
  const zip = button(text.zip, tried(() => saveZip(asked.photos, zip)), {}, "download");
  return el("div", { class: "row tools" }, filters, classSelect, el("span", { class: "space" }),
    button("", () => { matching().forEach((photo) => selected.add(photo)); draw(); }, { class: "quiet select-all" }),
    button(text.csv, () => saveCsv(asked.photos), {}, "download"), zip, button(text.clear, clearAsked, { class: "quiet" }));
}

function selectionBar() {
  const id = freshId("these");
  const input = el("input", { id, list: `${id}-list`, autocomplete: "off", maxLength: 200, dir: "auto" });
  const clear = () => { selected.clear(); draw(); };
  const teach = tried(async (label) => {
    const photos = [...selected];
    selected.clear();
    await correct(photos, label);
    input.value = "";
    draw();
  });
  const form = el("form", { class: "row" }, el("label", { htmlFor: id, text: text.these }), input, el("datalist", { id: `${id}-list` }), el("button", { class: "strong", text: text.teachThese }));
  form.onsubmit = tried(async (event) => {
    event.preventDefault();
    if (!input.value.trim()) { input.focus(); throw new Error(text.nameFirst); }
    await teach(input.value.trim());
  });
  return el("div", { class: "bar selection", role: "group", hidden: true }, el("span", { class: "count", role: "status" }), form,
    button(text.confirm, () => teach(undefined), { class: "confirm" }, "check"), button(text.clearSelection, clear, { class: "quiet" }));
}

export const view = {
  name: "ask",
  start(place) {
    root = place;
    untaught = el("div", { class: "card centre", hidden: true }, el("p", { text: text.untaught }), el("a", { class: "button strong", href: "#teach", text: text.toTeach }));
    zone = dropZone();
    progress = el("div", { class: "row progress", hidden: true }, el("progress", { max: 1, value: 0, "aria-label": text.title }), el("span", { class: "soft", role: "status" }));
    grid = el("ul", { class: "answers" });
    more = el("p", { class: "centre", hidden: true }, button("", () => { page += PAGE; draw(); }, { class: "more" }));
    const observer = new IntersectionObserver(([entry]) => { if (entry.isIntersecting) { page += PAGE; draw(); } }, { rootMargin: "800px" });
    observer.observe(more);
    selection = selectionBar();
    board = el("div", { hidden: true }, toolbar(), progress, el("p", { class: "soft nothing", text: text.nothing, hidden: true }), grid, more);
    root.append(untaught, zone, board, selection);
    onAnswers(draw);
    droppable(root, takeGroups);
  },
  changed() {
    draw();
    tried(askAgain)();
  },
};
