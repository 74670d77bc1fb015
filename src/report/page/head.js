// What stands above the charts: verdicts, the recipe with origins, machines, starts and resume points.

function verdictLine(verdict) {
  const sign = verdict.above ? " > " : " < ";
  return element("li", {class: "bad"}, element("strong", {}, verdict.name), ": ", number(verdict.number) + sign + number(verdict.bound),
    " (" + verdict.metric + ", " + verdict.how + "). ", element("span", {}, "Try: " + verdict.advice + "."));
}

/** Replaces what a box holds. Details that stood open stay open: the live page draws anew with each step. */
function redraw(box, children) {
  const open = [...box.querySelectorAll("details")].map((details) => details.open);
  box.replaceChildren(...children);
  box.querySelectorAll("details").forEach((details, i) => { details.open = Boolean(open[i]); });
}

function drawVerdicts(runs) {
  redraw(byId("verdicts").lastElementChild, runs.map((run) => {
    const bad = run.verdicts.filter((verdict) => verdict.bad), good = run.verdicts.filter((verdict) => !verdict.bad && verdict.number !== null);
    const fine = element("details", {}, element("summary", {}, good.length + (good.length === 1 ? " rule holds" : " rules hold")),
    element("ul", {}, ...good.map((verdict) => element("li", {}, "not “" + verdict.name + "”: " + number(verdict.number) + (verdict.above ? " ≤ " : " ≥ ") +
      number(verdict.bound) + " (" + verdict.metric + ", " + verdict.how + ")"))));
    return element("div", {class: "verdict"}, runs.length > 1 ? element("h3", {}, shown(named(run, runs))) : null,
      element("p", {class: bad.length > 0 || run.verdicts.some((verdict) => verdict.needs_steps) ? "" : "good"}, run.judged + "."),
      element("ul", {}, ...bad.map(verdictLine)),
      fine);
  }));
}

function table(head, rows) {
  return element("div", {class: "wide"}, element("table", {}, element("thead", {}, element("tr", {}, ...head.map((name) => element("th", {}, name)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((cell) => element("td", {}, shown(cell))))))));
}

function sessionRows(run) {
  return run.sessions.map((session) => [time(session.unix), session.host, session.processor + " (" + session.isa + ")", session.program,
    session.ranks + " × " + session.threads, String(session.first_step), session.ended ? String(session.last_step) : "–",
    session.ended ? duration(session.ended_unix - session.unix) : "–", session.ended || (run.running ? "running" : "killed or cut off")]);
}

function drawAbout(runs) {
  redraw(byId("about").lastElementChild, runs.map((run) => {
    const set = run.recipe.filter((line) => line[2] !== "default");
    return element("div", {class: "run"}, element("h3", {}, element("span", {class: "swatch", style: "background:var(--curve-" + (run.letter.charCodeAt(0) - 65) % MOST_COLORS + ")"}), shown(named(run, runs))),
      element("p", {}, run.num_rows + (run.num_rows === 1 ? " row, " : " rows, ") + duration(run.seconds) + (run.unreadable > 0 ? "; " + run.unreadable + " lines are not metric rows" : "") + (run.running ? "; running now" : "")),
      run.sessions.length > 0 ? table(["started", "host", "processor", "program", "ranks × threads", "first step", "last step", "took", "ended"], sessionRows(run)) : null,
      run.changes.length > 0 ? element("ul", {}, ...run.changes.map((change) => element("li", {}, "changed on resume, " + shown(change)))) : null,
      element("details", {}, element("summary", {}, "recipe: " + set.length + " keys set, " + (run.recipe.length - set.length) + " by default"),
        table(["key", "value", "origin"], [...set, ...run.recipe.filter((line) => line[2] === "default")])));
  }));
}

/** The keys in which the recipes of several runs differ, with each run's value. */
function drawDifferences(page) {
  const differences = page.differences || [];
  byId("differences").hidden = page.runs.length < 2;
  byId("differences").lastElementChild.replaceChildren(differences.length === 0 ? element("p", {}, "The recipes are equal, except the run folder.") :
    table(["key", ...page.runs.map((run) => named(run, page.runs))], differences.map(([key, values]) => [key, ...values.map((value) => value || "–")])));
}

/** The unit of a metric, by the first panel that shows it. */
function unitOf(panels, name) {
  const panel = panels.find((one) => one.source !== "sft" && one.metrics.some((pattern) => fits(name, pattern)));
  return panel ? panel.unit : "";
}

/** All metrics at the page's step, or without one their last values: a line a metric, a column a run. */
function drawValues(page) {
  byId("step").value = page.step === null ? "" : page.step;
  const search = byId("metric-search").value.toLowerCase();
  const names = [...new Set(page.runs.flatMap((run) => Object.keys(run.table.columns)))].filter((name) => name.toLowerCase().includes(search));
  names.sort((a, b) => a.localeCompare(b, "en", {numeric: true}));
  const valueOf = (run, name) => page.step === null ? lastValue(run.table, name) : valueAt(run.table, name, page.step);
  const lines = names.map((name) => [name, page.runs.map((run) => valueOf(run, name))]).filter(([, values]) => values.some(Number.isFinite));
  byId("values").tHead.replaceChildren(element("tr", {}, element("th", {}, "metric"), ...page.runs.map((run) => element("th", {class: "number"}, page.runs.length > 1 ? shown(named(run, page.runs)) : "value")),
    element("th", {}, "unit")));
  byId("values").tBodies[0].replaceChildren(...lines.map(([name, values]) => element("tr", {}, element("td", {}, shown(name)),
    ...values.map((value) => element("td", {class: "number"}, number(value))), element("td", {}, unitOf(page.panels, name)))));
}
