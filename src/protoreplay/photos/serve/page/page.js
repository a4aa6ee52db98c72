// The page: five views, of which the one that the address names is shown and kept up to date.

import { view as ask } from "./ask.js";
import { el, icon } from "./dom.js";
import { view as improve } from "./improve.js";
import { view as live } from "./live.js";
import { view as model } from "./model.js";
import { onChange, onConnection, refresh, store, tried, watch } from "./store.js";
import * as strings from "./strings.js";
import { view as teach } from "./teach.js";

const views = [teach, ask, live, improve, model];
const places = new Map();
let current = null;

function build() {
  const nav = document.querySelector("nav");
  const main = document.querySelector("main");
  for (const view of views) {
    const title = strings[view.name].title;
    nav.append(el("a", { href: `#${view.name}` }, icon(view.name), el("span", { text: strings.common.views[view.name] })));
    const section = el("section", { id: view.name, class: "view", "aria-labelledby": `${view.name}-title`, hidden: true },
      el("h1", { id: `${view.name}-title`, tabIndex: -1, text: title }));
    main.append(section);
    places.set(view, section);
    view.start(section);
  }
}

function show(moved) {
  const wanted = views.find((view) => `#${view.name}` === location.hash) ?? teach;
  if (current !== wanted) current?.leave?.();
  current = wanted;
  for (const [view, section] of places) section.hidden = view !== wanted;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${wanted.name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const title = document.getElementById(`${wanted.name}-title`);
  document.title = `${title.textContent} · ${strings.common.brand}`;
  if (store.state) wanted.changed();
  if (moved) {
    title.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
}

addEventListener("hashchange", () => show(true));
// A photo dropped beside its place must not replace the page.
for (const kind of ["dragover", "drop"]) addEventListener(kind, (event) => event.preventDefault());
onChange((state) => {
  document.getElementById("model-name").textContent = state.name;
  current?.changed();
});
onConnection((problem) => {
  const banner = document.getElementById("banner");
  banner.hidden = !problem;
  banner.textContent = problem;
  if (!problem && current && store.state) current.changed();
});
build();
show(false);
await tried(refresh)();
watch();
