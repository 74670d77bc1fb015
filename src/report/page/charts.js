// The panels: a chart each, with one cursor for all. Charts are uPlot's.

const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 5], [1, 4], [12, 6], [3, 1]];
const FADES = ["ff", "99", "66", "44"];  // in place of dashes, which take seconds for long curves
const MOST_POINTS = 20000;  // of a chart; of more, extremes of neighbors are drawn
const BUCKETS = 400;  // about a chart's pixels
const MOST_COLORS = 8;
const HEIGHT = 220;
const LABEL_ROOM = 30;  // pixels of an axis for a number

/** One curve: its name, points, and with several seeds its lowest and highest. */
function curvesOf(panel, runs, factor) {
  const curves = [];
  const groups = grouped(runs);
  groups.forEach((members, group) => {
    const tables = members.map((run) => panel.source === "sft" ? run.sft : run.table);
    const names = new Set(panel.metrics.flatMap((pattern) => tables.flatMap((table) => matching(table, pattern))));
    [...names].forEach((name, place) => {
      const sets = tables.filter((table) => name in table.columns).map((table) => points(table, name));
      if (sets.every(([steps]) => steps.length === 0)) return;
      const label = groups.length > 1 ? members[0].letter + " " + name : name;
      const look = groups.length > 1 ? {color: group, dash: place} : {color: place, dash: 0};
      curves.push({label, ...look, ...joined(sets, factor)});
    });
  });
  return curves;
}

/** Several runs' points as one curve: mean, lowest and highest of the steps that all of them have. */
function joined(sets, factor) {
  if (sets.length === 1) return {steps: sets[0][0], values: smoothed(sets[0][1], factor)};
  const bySteps = new Map();
  for (const [steps, values] of sets) {
    const fine = smoothed(values, factor);
    steps.forEach((step, i) => bySteps.set(step, [...(bySteps.get(step) || []), fine[i]]));
  }
  const steps = [...bySteps.keys()].filter((step) => bySteps.get(step).length === sets.length).sort((a, b) => a - b);
  const of = (reduce) => steps.map((step) => reduce(bySteps.get(step)));
  return {steps, values: of((all) => all.reduce((a, b) => a + b) / all.length), low: of((all) => Math.min(...all)),
    high: of((all) => Math.max(...all)), count: sets.length};
}

function tick(value) {
  if (value === null) return "";
  const size = Math.abs(value), short = Number(value.toPrecision(4));  // without the error of 0.1 + 0.2
  return size !== 0 && (size < 1e-3 || size >= 1e6) ? short.toExponential() : String(short);
}

/** Which ticks of a logarithmic axis get a number, by their first digit: as many as have room. */
function logTicks(u, values) {
  const room = (digit) => u.valToPos(digit, "y") - u.valToPos(10, "y");
  const digits = ["123456789", "12357", "125"].find((some) => room(Number(some.at(-1))) >= LABEL_ROOM) || "1";
  return values.map((value) => digits.includes(value.toExponential(0)[0]) ? value : null);
}

/** What a curve is drawn with: {color, dash}, a CSS color and lengths of strokes and gaps. Long curves fade in place of dashes. */
function lookOf(curve, isDashed) {
  const fade = isDashed ? "" : FADES[Math.min(curve.dash, FADES.length - 1)];
  return {color: color("curve-" + curve.color % MOST_COLORS) + fade, dash: isDashed ? DASHES[curve.dash % DASHES.length] : []};
}

/** uPlot's options for the curves of a panel, `width` pixels wide. */
function chartOptions(panel, curves, width, isLog) {
  const axis = {stroke: () => color("ink"), grid: {stroke: () => color("grid"), width: 1}, ticks: {stroke: () => color("grid"), width: 1},
    font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif"};
  const series = [{label: "step"}];
  const bands = [];
  const isDashed = numPoints(curves) <= MOST_POINTS;
  for (const curve of curves) {
    const stroke = () => lookOf(curve, isDashed).color;
    series.push({label: curve.label, stroke, width: isDashed ? 1.6 : 1, dash: lookOf(curve, isDashed).dash,
      spanGaps: true, points: {show: curve.steps.length < 24, size: 5}});
    if (!curve.low) continue;
    const edge = {stroke, width: 0, spanGaps: true, points: {show: false}};
    series.push({...edge, label: "highest"}, {...edge, label: "lowest"});
    bands.push({series: [series.length - 2, series.length - 1], fill: color("curve-" + curve.color % MOST_COLORS) + "33"});
  }
  return {width, height: HEIGHT, series, bands, legend: {show: false}, cursor: {sync: {key: panel.source === "sft" ? "update" : "step", setSeries: false, scales: ["x", null]}, y: false, drag: {x: true, y: false}},
    scales: {x: {time: false}, y: {distr: isLog ? 3 : 1, range: isLog ? undefined : evenRange}},
    axes: [{...axis, label: panel.source === "sft" ? "cold-start update" : "step", labelSize: 20, size: 36,
      values: (u, ticks) => ticks.map((value) => Number.isInteger(value) ? tick(value) : "")},
    {...axis, label: panel.unit, labelSize: 20, size: 58, ...(isLog ? {filter: logTicks} : {}), values: (u, ticks) => ticks.map(tick)}]};
}

/** A range of the y axis with room above and below, also for a constant. */
function evenRange(u, low, high) {
  if (low === null || high === null) return [0, 1];
  const room = high > low ? (high - low) * 0.06 : Math.abs(high) * 0.1 || 1;
  return [low >= 0 && low - room < 0 ? 0 : low - room, high + room];
}

function sameSteps(a, b) {
  return a === b || (a.length === b.length && a.every((step, i) => step === b[i]));
}

function numPoints(curves) {
  return curves.reduce((sum, curve) => sum + curve.steps.length, 0);
}

/** Columns [steps, values, …] with the lowest and highest values of neighbors, in the order in which they come. */
function thinned(columns) {
  const [steps, ...rest] = columns, count = steps.length;
  if (count <= 2 * BUCKETS) return columns;
  const thin = columns.map(() => []);
  for (let k = 0; k < BUCKETS; ++k) {
    const first = Math.floor(k * count / BUCKETS), last = Math.floor((k + 1) * count / BUCKETS) - 1;
    thin[0].push(steps[first], steps[last]);
    rest.forEach((values, i) => {
      let low = first, high = first;
      for (let j = first; j <= last; ++j) {
        if (values[j] < values[low]) low = j;
        if (values[j] > values[high]) high = j;
      }
      thin[i + 1].push(values[Math.min(low, high)], values[Math.max(low, high)]);
    });
  }
  return thin;
}

function chartData(curves, isLog) {
  const positive = (values) => isLog ? values.map((value) => value > 0 ? value : null) : values;
  const fit = numPoints(curves) > MOST_POINTS ? thinned : (columns) => columns;
  const tables = curves.map((curve) => fit([curve.steps, positive(curve.values), ...(curve.low ? [positive(curve.high), positive(curve.low)] : [])]));
  return tables.every(([steps]) => sameSteps(steps, tables[0][0])) ? [tables[0][0], ...tables.flatMap((table) => table.slice(1))] : uPlot.join(tables);
}

/** A line as a curve has it, with its dashes. */
function lineSample(look) {
  return drawing("svg", {width: 34, height: 8, "aria-hidden": "true"},
    drawing("line", {x1: 0, y1: 4, x2: 34, y2: 4, stroke: look.color, "stroke-width": 2, "stroke-dasharray": look.dash.join(" ") || "none"}));
}

/** The legend below a chart: each curve's line, name and value at the cursor, without a cursor its last. A click hides a curve. */
class Legend {
  constructor(panel, curves) {
    const isDashed = numPoints(curves) <= MOST_POINTS;
    let index = 1;  // of uPlot's series
    this.at = element("span", {class: "at"});
    this.entries = curves.map((curve) => {
      const value = element("span", {class: "value"}), first = index;
      index += curve.low ? 3 : 1;
      const button = element("button", {type: "button", title: "show or hide", "aria-pressed": "true", onclick: () => this.toggle(first)},
        lineSample(lookOf(curve, isDashed)), element("span", {}, shown(curve.label) + (curve.count ? " (mean of " + curve.count + ")" : "")), value);
      return {first, last: curve.low ? first + 2 : first, value, button, hasRange: Boolean(curve.low)};
    });
    this.unit = panel.source === "sft" ? "update" : "step";
    this.box = element("div", {class: "legend"}, this.at, ...this.entries.map((entry) => entry.button));
  }

  toggle(first) {
    const {last, button} = this.entries.find((entry) => entry.first === first), isShown = button.getAttribute("aria-pressed") !== "true";
    for (let i = first; i <= last; ++i) this.chart.setSeries(i, {show: isShown});
    button.setAttribute("aria-pressed", String(isShown));
  }

  /** The last value of a series, and its index. */
  lastOf(values) {
    let i = values.length - 1;
    while (i >= 0 && !Number.isFinite(values[i])) --i;
    return i;
  }

  /** Shows the values at the chart's cursor. */
  show(chart) {
    this.chart = chart;
    const steps = chart.data[0], at = chart.cursor.idx ?? null;
    const last = Math.max(-1, ...this.entries.map((entry) => this.lastOf(chart.data[entry.first])));
    this.at.textContent = at !== null ? this.unit + " " + steps[at] : last >= 0 ? "last values, to " + this.unit + " " + steps[last] : "";
    for (const entry of this.entries) {
      const column = chart.data[entry.first], i = at !== null ? at : this.lastOf(column);
      const range = entry.hasRange && Number.isFinite(column[i]) ? " (" + number(chart.data[entry.last][i]) + " to " + number(chart.data[entry.last - 1][i]) + ")" : "";
      entry.value.textContent = number(column[i]) + range;
    }
  }
}

/** Draws the curves of a panel into a box, with a legend below: uPlot's chart. {title, unit, source} of the panel are read. */
function drawChart(panel, curves, isLog, box) {
  const legend = new Legend(panel, curves);
  const options = chartOptions(panel, curves, Math.max(box.clientWidth, 200), isLog);
  const show = (chart) => legend.show(chart);
  box.replaceChildren();
  const chart = new uPlot({...options, hooks: {setCursor: [show], setData: [show]}}, chartData(curves, isLog), box);
  box.append(legend.box);
  show(chart);
  return chart;
}

/** The panels of the page. `page` has runs, panels, smoothing and the step under the cursor. */
class Charts {
  constructor(container, page) {
    this.container = container;
    this.page = page;
    this.drawn = [];  // {panel, chart, box, isLog}
    this.resizing = new ResizeObserver((entries) => {
      for (const {target} of entries) {
        const one = this.drawn.find((each) => each.box === target);
        if (one && one.chart && target.clientWidth > 0 && target.clientWidth !== one.chart.width) one.chart.setSize({width: target.clientWidth, height: HEIGHT});
      }
    });
  }

  /** Draws every panel that has a curve; returns how many. */
  draw() {
    for (const {chart} of this.drawn) chart.destroy();
    this.resizing.disconnect();
    this.container.replaceChildren();
    const before = this.drawn;
    this.drawn = [];
    let grid = null, question = null;
    for (const panel of this.page.panels) {
      const curves = curvesOf(panel, this.page.runs, this.page.smoothing);
      if (curves.length === 0) continue;
      if (panel.question !== question) {
        question = panel.question;
        grid = element("div", {class: "grid"});
        this.container.append(element("h2", {}, question), grid);
      }
      const box = element("div", {class: "chart"});
      const known = before.find((each) => each.panel.title === panel.title);
      const one = {panel, box, isLog: known ? known.isLog : panel.log};
      const button = element("button", {type: "button", class: "log", "aria-pressed": String(one.isLog), onclick: () => this.setLog(one, !one.isLog)}, "log");
      one.button = button;
      grid.append(element("article", {}, element("h3", {}, panel.title, " ", element("small", {}, "[" + panel.unit + "]"), button), box));
      this.drawn.push(one);
      this.drawOne(one, curves);
      this.resizing.observe(box);
    }
    setTimeout(() => this.showCursor(), 0);  // uPlot draws in a microtask
    return this.drawn.length;
  }

  drawOne(one, curves) {
    if (one.chart) one.chart.destroy();
    one.chart = drawChart(one.panel, curves, one.isLog, one.box);
    if (one.panel.source === "sft") return;
    const chart = one.chart;
    chart.over.addEventListener("mousemove", (event) => this.page.setStep(chart.data[0][chart.posToIdx(event.offsetX)], false));
    chart.over.addEventListener("click", () => this.page.showSamples());
  }

  setLog(one, isLog) {
    one.isLog = isLog;
    one.button.setAttribute("aria-pressed", String(isLog));
    this.drawOne(one, curvesOf(one.panel, this.page.runs, this.page.smoothing));
    setTimeout(() => this.showCursor(), 0);
  }

  setAllLog() {
    const isLog = this.drawn.some((one) => !one.isLog);
    for (const one of this.drawn) this.setLog(one, isLog);
  }

  /** New data in the charts there are; false when a panel has other curves than before, or its first. */
  update() {
    const isUpdated = this.page.panels.every((panel) => {
      const curves = curvesOf(panel, this.page.runs, this.page.smoothing);
      const one = this.drawn.find((each) => each.panel === panel);
      if (!one || curves.length === 0) return !one && curves.length === 0;
      const data = chartData(curves, one.isLog), chart = one.chart;
      if (data.length !== chart.data.length) return false;
      const steps = chart.data[0], {min, max} = chart.scales.x;
      const isEnlarged = min > steps[0] || max < steps[steps.length - 1];
      chart.setData(data, !isEnlarged);
      return true;
    });
    setTimeout(() => this.showCursor(), 0);
    return isUpdated;
  }

  /** Puts the cursor of every chart at the page's step; without one nowhere. */
  showCursor() {
    const step = this.page.step;
    for (const {chart, panel} of this.drawn) {
      if (panel.source !== "sft") chart.setCursor(step === null ? {left: -10, top: -10} : {left: chart.valToPos(step, "x"), top: 1});
    }
  }
}
