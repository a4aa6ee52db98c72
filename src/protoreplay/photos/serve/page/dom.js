// Elements, icons and small helpers that every view uses.

// `el("p", {class: "soft", text: "Hi"}, child)`: properties where the element has them, attributes otherwise.
export function el(tag, given = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") element.className = value;
    else if (key === "text") element.textContent = value;
    else if (key === "data") Object.assign(element.dataset, value);
    else if (key in element && key !== "list" && key !== "form") element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";
export function svg(tag, given = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(given)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const PATHS = {
  check: "M4 12.5l5 5L20 6.5",
  unsure: "M3 10c3-4 6-4 9-1s6 3 9-1M3 17c3-4 6-4 9-1s6 3 9-1",
  unknown: "M8.5 9a3.5 3.5 0 1 1 5.2 3c-1.2.8-1.7 1.5-1.7 3M12 19h.01",
  cross: "M6 6l12 12M18 6L6 18",
  plus: "M12 5v14M5 12h14",
  minus: "M5 12h14",
  more: "M12 5.5h.01M12 12h.01M12 18.5h.01",
  camera: "M4 8h3l2-3h6l2 3h3v11H4zM12 10a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7z",
  photos: "M4 5h16v14H4zM4 16l5-5 4 4 2-2 5 5M15.5 9h.01",
  folder: "M3 6h6l2 2h10v11H3z",
  alert: "M12 4l9 16H3zM12 10v4M12 17h.01",
  teach: "M3 9l9-4 9 4-9 4zM7 11v5c3 2.5 7 2.5 10 0v-5",
  ask: "M4 5h16v12H10l-4 3v-3H4z",
  live: "M3 7h12v10H3zM15 11l6-3v8l-6-3",
  improve: "M4 18l5-6 4 3 7-9M15 6h5v5",
  model: "M12 3l8 4.5v9L12 21l-8-4.5v-9zM4 7.5l8 4.5 8-4.5M12 12v9",
  left: "M14 6l-6 6 6 6",
  right: "M10 6l6 6-6 6",
  download: "M12 4v11M7 11l5 5 5-5M5 20h14",
};
export function icon(name, given = {}) {
  const drawn = svg("svg", { viewBox: "0 0 24 24", class: `icon icon-${name}`, "aria-hidden": "true", ...given });
  drawn.append(svg("path", { d: PATHS[name] }));
  return drawn;
}

export const button = (text, onclick, given = {}, sign) =>
  el("button", { type: "button", onclick, ...given }, sign && icon(sign), text && el("span", { text }));

// A name of any length and direction; it never breaks the sentence around it.
export const name = (text) => el("bdi", { text });

let shown = 0;
export const freshId = (prefix) => `${prefix}-${++shown}`;

// Calls `work` with what was asked for last; what is asked while it runs waits, and only the last of it is done.
export function lastOnly(work) {
  let running = null;
  let again = false;
  const run = async () => {
    do {
      again = false;
      await work();
    } while (again);
  };
  return () => {
    if (running) again = true;
    else running = run().finally(() => (running = null));
    return running;
  };
}

export function download(blob, file) {
  const link = el("a", { href: URL.createObjectURL(blob), download: file });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

export function namesOf(names, most, more) {
  const shownNames = names.slice(0, most).join(", ");
  return names.length > most ? more(shownNames, names.length - most) : shownNames;
}
