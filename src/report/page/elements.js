// Elements of the page. Text from a run enters by `text` alone, never as HTML.

/** Makes an element; `attributes` are set as given, children are elements or strings. */
function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** An SVG element with attributes. */
function drawing(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function byId(id) {
  return document.getElementById(id);
}

// Characters that turn the direction of what follows, and control characters other than line ends and tabs.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;

/** Untrusted text: what would not show, or would turn the text around, becomes its number. */
function shown(text) {
  return String(text).replace(HIDDEN, (c) => "⟨U+" + c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0") + "⟩");
}

/** A number in six digits. */
function number(value) {
  return value === null || value === undefined || !Number.isFinite(value) ? "–" : String(Number(value.toPrecision(6)));
}

/** Seconds as "2h05m", "3m05s" or "12.3s". */
function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 60) return seconds.toFixed(1) + "s";
  const two = (part) => String(Math.floor(part)).padStart(2, "0");
  if (seconds < 3600) return Math.floor(seconds / 60) + "m" + two(seconds % 60) + "s";
  return Math.floor(seconds / 3600) + "h" + two(seconds / 60 % 60) + "m";
}

/** Seconds since 1970 as date and time in UTC. */
function time(seconds) {
  return seconds > 0 ? new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ") + " UTC" : "–";
}

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}
