// The page: puts the parts together, keeps the step under the cursor and the keys.

const began = performance.now();
let numErrors = 0;
window.addEventListener("error", () => { ++numErrors; });
window.addEventListener("unhandledrejection", () => { ++numErrors; });

/** Runs one part of the page; a fault in it is counted and leaves the others. */
function attempt(part) {
  try {
    return part();
  } catch (error) {
    ++numErrors;
    console.error(error);
    return 0;
  }
}

class Page {
  constructor(data) {
    this.panels = data.panels;
    this.runs = data.runs.map(decodeRun);
    this.differences = data.differences;
    this.smoothing = 0;
    this.step = null;
    this.live = data.live ? new Live(this) : null;
    this.charts = new Charts(byId("panels"), this);
    this.samples = new Samples(byId("samples").lastElementChild, this);
    this.diff = new Diff(byId("diff").lastElementChild, this);
    byId("left-out").textContent = data.left_out || "";
    this.pairs = data.pairs;
  }

  drawHead() {
    byId("runs-named").textContent = this.runs.length === 1 ? shown(this.runs[0].label) : this.runs.length + " runs";
    document.title = "qrl-train: " + byId("runs-named").textContent;
    drawVerdicts(this.runs);
    drawAbout(this.runs);
    drawDifferences(this);
  }

  /** Draws everything; returns counts of what was drawn. */
  draw() {
    if (this.pairs) return {panels: attempt(() => drawPairs(this.pairs)), rows: 0, samples: 0};
    setLetters(this.runs);
    attempt(() => this.drawHead());
    const panels = attempt(() => this.charts.draw());
    const samples = attempt(() => this.samples.draw());
    attempt(() => this.diff.draw());
    attempt(() => drawValues(this));
    return {panels, rows: this.runs.reduce((sum, run) => sum + run.num_rows, 0), samples};
  }

  /** Moves to a step; `everywhere`: the charts' cursors too. */
  setStep(step, everywhere) {
    if (step === undefined || Number.isNaN(step) || step === this.step) return;
    this.step = step;
    drawValues(this);
    if (everywhere) this.charts.showCursor();
  }

  allSteps() {
    return [...new Set(this.runs.flatMap((run) => run.table.steps))].sort((a, b) => a - b);
  }

  move(by) {
    const steps = this.allSteps();
    if (steps.length === 0) return;
    const at = this.step === null ? (by > 0 ? -1 : steps.length) : steps.indexOf(this.step);
    this.setStep(steps[Math.min(Math.max(at + by, 0), steps.length - 1)], true);
  }

  showSamples() {
    if (this.step === null) return;
    this.samples.goTo(this.step);
    byId("samples").scrollIntoView();
  }

  /** #step=N of the address. */
  readAddress() {
    const found = /[#&]step=(\d+)/.exec(location.hash);
    if (found) {
      this.setStep(Number(found[1]), true);
      this.samples.goTo(Number(found[1]));
    }
  }
}

function setTheme() {
  const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
}

function addKeys(page) {
  const list = byId("keys-list"), toggle = () => { list.hidden = !list.hidden; byId("keys").setAttribute("aria-expanded", String(!list.hidden)); };
  byId("keys").addEventListener("click", toggle);
  byId("theme").addEventListener("click", () => { setTheme(); page.pairs ? page.draw() : page.charts.draw(); });
  byId("step").addEventListener("change", () => page.setStep(byId("step").value === "" ? null : Number(byId("step").value), true));
  byId("metric-search").addEventListener("input", () => drawValues(page));
  byId("smoothing").addEventListener("input", () => {
    page.smoothing = Number(byId("smoothing").value);
    byId("smoothing-shown").textContent = String(page.smoothing);
    page.charts.draw();
  });
  window.addEventListener("hashchange", () => page.readAddress());
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") document.activeElement.blur();
    const focused = document.activeElement.tagName;
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT)$/.test(focused)) return;
    if (/^(BUTTON|SUMMARY)$/.test(focused) && event.key === "Enter") return;  // presses it
    const actions = {ArrowLeft: () => page.move(-1), ArrowRight: () => page.move(1), Enter: () => page.showSamples(), "/": () => page.samples.field.focus(),
      l: () => page.charts.setAllLog(), t: () => byId("theme").click(), "?": toggle};
    if (!(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
  });
}

function start() {
  const page = new Page(JSON.parse(byId("data").textContent));
  attempt(() => addKeys(page));
  const counts = page.draw();
  attempt(() => page.readAddress());
  if (page.live) page.live.begin();
  // uPlot draws in a microtask: the state is told behind the last panel's.
  requestAnimationFrame(() => setTimeout(() => {
    document.documentElement.dataset.ready = "panels=" + counts.panels + " rows=" + counts.rows + " samples=" + counts.samples + " errors=" + numErrors +
      " ms=" + Math.round(performance.now() - began);
  }, 0));
  return page;
}

const page = start();
