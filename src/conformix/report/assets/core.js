// The numbers of the page, the level that is shown, and everything that follows the level.
const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

const TYPES = { f8: Float64Array, u4: Uint32Array, u1: Uint8Array };
function unpack(packed) {
  if (packed.v) {
    return { shape: packed.n, data: packed.v.map((value) => (value === null ? NaN : value)) };
  }
  const bytes = Uint8Array.from(atob(packed.b), (letter) => letter.charCodeAt(0));
  return { shape: packed.n, data: new TYPES[packed.t](bytes.buffer) };
}

const page = JSON.parse($("#numbers").textContent);
const columns = Object.fromEntries(
  Object.entries(page.columns).map(([name, packed]) => [name, unpack(packed)]),
);

function valueOf(key, place = 0, level = state.level) {
  const { shape, data } = columns[key];
  return data[level * shape[1] + place];
}

// As `fixed` in compact.py: the same text for the same number.
function fixed(value, digits, scale = 1) {
  const number = scale * value;
  if (Number.isNaN(number)) return "–";
  if (!Number.isFinite(number)) return number > 0 ? "∞" : "−∞";
  const text = number.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
}

const state = { level: page.start, followers: [] };
function follow(draw) {
  state.followers.push(draw);
}

function showNumbers() {
  for (const element of $$("data[data-k]")) {
    const { k, i, d, s } = element.dataset;
    const value = valueOf(k, Number(i));
    element.value = Number.isNaN(value) ? "" : String(value);
    element.textContent = fixed(value, Number(d), Number(s));
  }
  for (const element of $$("[data-t]")) {
    element.textContent = page.texts[element.dataset.t][state.level];
  }
  document.body.dataset.tone = page.texts.tone[state.level];
}

function setLevel(level) {
  state.level = level;
  const slider = $("#level");
  slider.value = level;
  const { alpha, asked } = page.texts;
  slider.setAttribute("aria-valuetext", `alpha ${alpha[level]}, ${page.promised ? "promise" : "level"} ${asked[level]}`);
  $("#back").hidden = level === page.start;
  showNumbers();
  for (const draw of state.followers) draw();
}

$("#level").addEventListener("input", (event) => setLevel(Number(event.target.value)));
$("#back").addEventListener("click", () => {
  setLevel(page.start);
  $("#level").focus();
});
for (const form of $$("form")) form.addEventListener("submit", (event) => event.preventDefault());

// Light or dark: as the system says, until somebody asks for the other.
const dark = matchMedia("(prefers-color-scheme: dark)");
const theme = $("#theme");
function isDark() {
  const asked = document.documentElement.dataset.theme;
  return asked ? asked === "dark" : dark.matches;
}
function nameTheme() {
  theme.textContent = isDark() ? "Light" : "Dark";
  theme.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
}
theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  nameTheme();
});
dark.addEventListener("change", nameTheme);
theme.hidden = false;
nameTheme();

// A link into a folded part opens it.
function unfold() {
  const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
  const fold = target && $("details.fold", target);
  if (fold) fold.open = true;
}
addEventListener("hashchange", unfold);
addEventListener("DOMContentLoaded", unfold);

// On paper everything is open, but for tables of thousands of lines.
let opened = [];
addEventListener("beforeprint", () => {
  opened = $$("details:not([open]):not([data-long])");
  for (const details of opened) details.open = true;
});
addEventListener("afterprint", () => {
  for (const details of opened) details.open = false;
  opened = [];
});
addEventListener("DOMContentLoaded", () => setLevel(page.start));
