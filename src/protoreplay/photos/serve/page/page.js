// The page: three views, one of them shown, as the address says.

import * as ask from "./ask.js";
import { tellChange } from "./base.js";
import * as look from "./look.js";
import * as teach from "./teach.js";

const views = ["teach", "ask", "look"];

function show(moved) {
  const wanted = location.hash.slice(1);
  const current = views.includes(wanted) ? wanted : "teach";
  for (const view of views) {
    document.getElementById(view).hidden = view !== current;
    const link = document.querySelector(`nav a[href="#${view}"]`);
    if (view === current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${document.getElementById(`${current}-title`).textContent} · protoreplay`;
  if (moved) {
    document.getElementById(`${current}-title`).focus({ preventScroll: true });
    scrollTo(0, 0);
  }
}

addEventListener("hashchange", () => show(true));
// A photo dropped beside its card must not replace the page.
for (const kind of ["dragover", "drop"]) addEventListener(kind, (event) => event.preventDefault());
[teach, ask, look].forEach((view) => view.start());
show(false);
await tellChange();
