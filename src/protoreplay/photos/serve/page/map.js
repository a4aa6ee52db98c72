// The map: a small picture for each class where it lies, with names that do not cover each other, and a zoom.

import { get, thumbnail } from "./api.js";
import { button, el, lastOnly, svg } from "./dom.js";
import { classOf, revisionOf, store, tried } from "./store.js";
import { model as text, percent } from "./strings.js";

const [MARGIN, MOST_ZOOM, STEP] = [0.08, 16, 1.5];
const GAP = 4;
let figure, stage, lines, layer, caption;
let known = null;
let drawnFor = "";
let sight = { x: 0, y: 0, zoom: 1 };
let markers = [];

// Where classes are, in the unit square, with the same scale both ways.
function placed(map) {
  const xs = map.classes.map((one) => one.x);
  const ys = map.classes.map((one) => one.y);
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const span = Math.max(right - left, high - low) || 1;
  return map.classes.map((one) => ({ label: one.label, x: 0.5 + (one.x - (left + right) / 2) / span, y: 0.5 - (one.y - (low + high) / 2) / span, one, span }));
}

const markerSide = (count, width) => Math.max(22, Math.min(64, width / Math.sqrt(count) / 2.2));

// Pushes apart what overlaps, but not far from where it belongs.
function spread(points, side) {
  const near = side + 2;
  for (let round = 0; round < 40; round += 1) {
    let moved = false;
    for (let i = 0; i < points.length; i += 1) {
      for (let j = i + 1; j < points.length; j += 1) {
        const [a, b] = [points[i], points[j]];
        const [dx, dy] = [b.px - a.px, b.py - a.py];
        const overlap = Math.min(near - Math.abs(dx), near - Math.abs(dy));
        if (overlap <= 0) continue;
        moved = true;
        const distance = Math.hypot(dx, dy) || 1;
        const [ux, uy] = distance > 1e-6 && (dx || dy) ? [dx / distance, dy / distance] : [Math.cos(i), Math.sin(i)];
        a.px -= (ux * overlap) / 2; a.py -= (uy * overlap) / 2;
        b.px += (ux * overlap) / 2; b.py += (uy * overlap) / 2;
      }
    }
    for (const one of points) { one.px += (one.tx - one.px) * 0.06; one.py += (one.ty - one.py) * 0.06; }
    if (!moved) return;
  }
}

const crosses = (a, b) => a.x < b.x + b.width + GAP && b.x < a.x + a.width + GAP && a.y < b.y + b.height && b.y < a.y + a.height;

// A name goes below its marker, above it, or to a side: wherever it covers nothing. If nowhere, it is shown on hover.
function nameAll(points, side, width, height) {
  const taken = points.map((one) => ({ x: one.px - side / 2, y: one.py - side / 2, width: side, height: side }));
  for (const one of points) {
    const label = one.element.lastChild;
    const [w, h] = [one.labelWidth, one.labelHeight];
    const places = [[-w / 2, side / 2 + 1], [-w / 2, -side / 2 - h - 1], [side / 2 + 3, -h / 2], [-side / 2 - w - 3, -h / 2]];
    const free = places.map(([x, y]) => ({ x: one.px + x, y: one.py + y, width: w, height: h, at: [x, y] }))
      .find((box) => box.x >= 0 && box.x + w <= width && box.y >= 0 && box.y + h <= height && !taken.some((other) => crosses(box, other)));
    one.element.classList.toggle("nameless", !free);
    const [x, y] = free?.at ?? places[0];
    label.style.transform = `translate(${x}px, ${y}px)`;
    if (free) taken.push(free);
  }
}

function arrange() {
  if (!markers.length || !stage.clientWidth) return;
  const [width, height] = [stage.clientWidth, stage.clientHeight];
  const side = markerSide(markers.length, Math.min(width, height)) * Math.min(sight.zoom ** 0.25, 1.6);
  const scale = (1 - 2 * MARGIN) * sight.zoom;
  const short = Math.min(width, height) * scale;
  // A wide screen is filled, but directions stay what they are: nothing is stretched to more than twice its height.
  const across = 2 * Math.max(...markers.map((one) => Math.abs(one.x - 0.5))) || 1;
  const [wide, tall] = [Math.max(short, Math.min((width * scale) / across, 2 * short)), short];
  for (const one of markers) {
    one.tx = one.px = width / 2 + (one.x - 0.5) * wide + sight.x;
    one.ty = one.py = height / 2 + (one.y - 0.5) * tall + sight.y;
  }
  spread(markers, side);
  stage.style.setProperty("--side", `${side}px`);
  for (const one of markers) one.element.style.transform = `translate(${one.px}px, ${one.py}px)`;
  const inside = markers.filter((one) => one.px > -side && one.py > -side && one.px < width + side && one.py < height + side);
  for (const one of markers) one.element.classList.toggle("outside", !inside.includes(one));
  nameAll(inside, side, width, height);
  const at = new Map(markers.map((one) => [one.label, one]));
  lines.setAttribute("viewBox", `0 0 ${width} ${height}`);
  lines.replaceChildren(
    ...known.confusions.filter((pair) => pair.share >= 0.03).map((pair) => svg("line", { x1: at.get(pair.one).px, y1: at.get(pair.one).py, x2: at.get(pair.other).px, y2: at.get(pair.other).py, class: "confused", "stroke-width": 1 + 8 * pair.share })),
    ...markers.flatMap((one) => one.one.photos.slice(0, 30).map(([x, y]) => svg("circle", { cx: one.tx + ((x - one.one.x) / one.span) * wide, cy: one.ty - ((y - one.one.y) / one.span) * tall, r: markers.length > 30 ? 1.2 : 2.2, class: "photo" }))));
  caption.textContent = `${text.mapHint} ${text.mapShare(percent(known.shown))}`;
}

function zoom(by, x = stage.clientWidth / 2, y = stage.clientHeight / 2) {
  const next = Math.max(1, Math.min(MOST_ZOOM, sight.zoom * by));
  const scale = next / sight.zoom;
  const [dx, dy] = [x - stage.clientWidth / 2, y - stage.clientHeight / 2];
  sight = next === 1 ? { x: 0, y: 0, zoom: 1 } : { zoom: next, x: dx - (dx - sight.x) * scale, y: dy - (dy - sight.y) * scale };
  arrange();
}

function marker(one) {
  const thumb = classOf(one.label)?.thumbnails[0];
  const label = el("span", { class: "map-name", dir: "auto", text: one.label.length > 24 ? `${one.label.slice(0, 23)}…` : one.label });
  const element = el("div", { class: "marker", role: "listitem", tabIndex: 0, title: one.label, "aria-label": text.marker(one.label, classOf(one.label)?.photos ?? 0) },
    thumb ? el("img", { src: thumbnail(thumb), alt: "", draggable: false }) : el("span", { class: "blank", text: [...one.label][0] }), label);
  element.onfocus = () => {
    const found = markers.find((other) => other.element === element);
    const [w, h] = [stage.clientWidth, stage.clientHeight];
    stage.scrollTo(0, 0);
    if (found.px < 0 || found.py < 0 || found.px > w || found.py > h) { sight.x += w / 2 - found.px; sight.y += h / 2 - found.py; arrange(); }
  };
  return Object.assign(one, { element });
}

function watchPointer() {
  const held = new Map();
  stage.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && sight.zoom === 1 && event.deltaY > 0) return;
    event.preventDefault();
    const box = stage.getBoundingClientRect();
    zoom(event.deltaY < 0 ? STEP ** 0.5 : STEP ** -0.5, event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });
  stage.addEventListener("pointerdown", (event) => { held.set(event.pointerId, event); if (sight.zoom > 1) stage.setPointerCapture(event.pointerId); });
  stage.addEventListener("pointermove", (event) => {
    const before = held.get(event.pointerId);
    if (!before) return;
    const other = [...held.values()].find((one) => one.pointerId !== event.pointerId);
    const box = stage.getBoundingClientRect();
    if (other) zoom(Math.hypot(event.x - other.x, event.y - other.y) / (Math.hypot(before.x - other.x, before.y - other.y) || 1), (event.x + other.x) / 2 - box.left, (event.y + other.y) / 2 - box.top);
    else if (sight.zoom > 1) { sight.x += event.x - before.x; sight.y += event.y - before.y; arrange(); }
    held.set(event.pointerId, event);
  });
  for (const kind of ["pointerup", "pointercancel", "lostpointercapture"]) stage.addEventListener(kind, (event) => held.delete(event.pointerId));
}

export function mapFigure() {
  lines = svg("svg", { class: "map-lines", "aria-hidden": "true" });
  layer = el("div", { class: "markers", role: "list" });
  stage = el("div", { class: "map", role: "group", "aria-label": text.map }, lines, layer);
  caption = el("figcaption", { class: "soft" });
  figure = el("figure", {}, stage, el("div", { class: "row map-tools" },
    button("", () => zoom(STEP), { class: "square", "aria-label": text.zoomIn, title: text.zoomIn }, "plus"),
    button("", () => zoom(1 / STEP), { class: "square", "aria-label": text.zoomOut, title: text.zoomOut }, "minus"),
    button(text.zoomAll, () => { sight = { x: 0, y: 0, zoom: 1 }; arrange(); }, { class: "quiet" })), caption);
  new ResizeObserver(() => arrange()).observe(stage);
  watchPointer();
  return figure;
}

export const drawMap = lastOnly(tried(async () => {
  if (drawnFor === revisionOf(store.state)) return;
  const map = await get("map");
  if (map.revision !== store.state.revision) return;
  drawnFor = revisionOf(store.state);
  known = map;
  stage.hidden = !map.classes.length;
  caption.textContent = text.mapNone;
  markers = map.classes.length ? placed(map).map(marker) : [];
  layer.replaceChildren(...markers.map((one) => one.element));
  // All are measured before any is moved, so that the page is laid out once.
  for (const one of markers) [one.labelWidth, one.labelHeight] = [one.element.lastChild.offsetWidth, one.element.lastChild.offsetHeight];
  arrange();
}));
