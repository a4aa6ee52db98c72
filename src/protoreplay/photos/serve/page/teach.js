// Teach: photos are staged on a card, looked at, and kept or dropped once it is said what they do.

import { call, droppable, fileInput, form, make, onChange, picture, plural, size, tellChange, toast, tried, undo } from "./base.js";
import { hasCamera, shoot } from "./camera.js";

const cards = document.getElementById("cards");
const notice = document.getElementById("lesson");
const newClass = document.getElementById("new-class");
const staged = new Map();
let busy = false;

// The photos chosen for one class, with the controls around them; `label` gives the class's name when it is asked for.
function staging(key, of, label, first = false) {
  const photos = staged.get(key) ?? [];
  staged.set(key, photos);
  const list = make("ul", { className: "pictures", "aria-label": "Photos to learn" });
  const learn = make("button", { type: "button", className: "strong", disabled: true });
  const clear = make("button", { type: "button", textContent: "Clear" });
  const show = () => {
    list.replaceChildren(...photos.slice(0, 24).map((photo, i) => make("li", {}, picture(photo, `chosen photo ${i + 1}`))));
    if (photos.length > 24) list.append(make("li", { textContent: `and ${photos.length - 24} more` }));
    learn.textContent = photos.length ? `Learn ${plural(photos.length, "photo")}` : "Learn";
    learn.disabled = !photos.length;
    learn.hidden = !first && !photos.length;
    clear.hidden = !photos.length;
  };
  const take = (more) => {
    photos.push(...more);
    show();
  };
  const empty = () => {
    photos.length = 0;
    show();
  };
  clear.onclick = empty;
  learn.onclick = tried(async () => {
    const name = label();
    if (!name) throw new Error("Give the class a name first.");
    if (!photos.length) throw new Error("Choose some photos first.");
    if (await teach(name, photos)) {
      empty();
      if (first) newClass.label.value = "";
    }
  });
  droppable(of, take);
  const buttons = make("div", { className: "row" }, fileInput("Choose photos", take));
  if (hasCamera) buttons.append(make("button", { type: "button", textContent: "Use the camera", onclick: () => shoot(take) }));
  buttons.append(learn, clear);
  show();
  return { parts: [list, buttons], learn };
}

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// True once the lesson is learned or dropped; what failed can be tried again.
async function teach(label, photos) {
  if (busy) throw new Error("One lesson at a time: this one first.");
  busy = true;
  try {
    const bar = make("progress", { max: photos.length, value: 0, "aria-label": "Photos looked at" });
    notice.replaceChildren(make("h2", { textContent: `Learning ${label}` }), bar);
    notice.hidden = false;
    let lesson = await call("lessons", form(photos, { label }));
    while (lesson.state === "looking") {
      await pause(150);
      lesson = await call(`lessons/${lesson.id}`);
      bar.value = lesson.done;
    }
    if (lesson.state === "failed") throw new Error(lesson.error);
    if (!lesson.warnings.length || (await decided(lesson))) {
      lesson = await call(`lessons/${lesson.id}/keep`, null, "POST");
      const again = lesson.known ? `, ${lesson.known} known before` : "";
      const unread = lesson.errors.length ? `; not read: ${lesson.errors.join("; ")}` : "";
      await tellChange();
      toast(`${label}: ${plural(lesson.learned, "photo")} learned${again}${unread}`, lesson.learned ? ["Undo", undo] : undefined);
    } else {
      await call(`lessons/${lesson.id}`, null, "DELETE");
      toast(`${label} was not learned.`);
    }
    return true;
  } finally {
    notice.hidden = true;
    busy = false;
  }
}

function decided(lesson) {
  return new Promise((resolve) => {
    notice.replaceChildren(
      make("h2", { textContent: `Before “${lesson.label}” is learned` }),
      make("ul", {}, ...lesson.warnings.map((warning) => make("li", { className: "warn", textContent: warning }))),
      make("p", { className: "soft", textContent: "More photos that show the difference help. You can also undo later." }),
      make("div", { className: "row" },
        make("button", { type: "button", className: "strong", textContent: "Learn it", onclick: () => resolve(true) }),
        make("button", { type: "button", textContent: "Do not learn it", onclick: () => resolve(false) })),
    );
    notice.focus();
    notice.scrollIntoView({ block: "nearest" });
  });
}

function card(one) {
  const element = make("article", { className: "card drop", "aria-label": one.label });
  const bytes = Object.values(one.kept).reduce((sum, part) => sum + part, 0);
  element.append(
    make("h2", { textContent: one.label }),
    make("p", { className: "soft", textContent: `${plural(one.photos, "photo")} seen, ${size(bytes)} kept` }),
  );
  if (one.thumbnails.length) {
    const kept = one.thumbnails.map((key, i) => make("li", {}, make("img", { src: `/api/thumbnails/${key}`, alt: `kept photo ${i + 1} of ${one.label}`, loading: "lazy" })));
    element.append(make("ul", { className: "pictures", "aria-label": `Kept photos of ${one.label}` }, ...kept));
  }
  const worst = one.confused[0];
  if (worst && worst.share >= 0.1) element.append(make("p", { className: "warn", textContent: `May be taken for ${worst.label}.` }));
  element.append(...staging(`known ${one.label}`, element, () => one.label).parts);
  return element;
}

async function show() {
  const state = await call("classes");
  cards.replaceChildren(...state.classes.map(card));
}

export function start() {
  const fresh = staging("new", newClass, () => newClass.label.value.trim(), true);
  newClass.querySelector(".staging").append(...fresh.parts);
  newClass.onsubmit = (event) => {
    event.preventDefault();
    fresh.learn.click();
  };
  onChange(tried(show));
}
