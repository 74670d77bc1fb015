// A comparison's section: verdicts, each seed's difference as a point, and the curves of all seeds by arm.

/** Thin curves of all runs in their arm's color, then each arm's mean over the seeds. */
function armCurves(endpoint, arms) {
  const runs = endpoint.curves.filter((curve) => curve.points.length > 0).map((curve) => ({arm: arms.findIndex((arm) => arm.name === curve.arm),
    steps: curve.points.map((point) => point[0]), values: curve.points.map((point) => point[1])}));
  const means = arms.map((arm, place) => {
    const own = runs.filter((run) => run.arm === place);
    return own.length === 0 ? null : {arm: place, isMean: true, ...joined(own.map((run) => [run.steps, run.values]), 0)};
  }).filter((mean) => mean !== null);
  return [...runs, ...means].map((curve) => ({label: arms[curve.arm].name, color: curve.arm, dash: Math.floor(curve.arm / MOST_COLORS), isMean: curve.isMean, steps: curve.steps, values: curve.values}));
}

function armOptions(curves, width) {
  const options = chartOptions({unit: "", source: "steps"}, curves, width, false);
  options.series.slice(1).forEach((series, i) => {
    series.points = {show: curves[i].steps.length === 1, size: curves[i].isMean ? 8 : 4};
    series.width = curves[i].isMean ? 2.5 : 1;
    if (!curves[i].isMean) series.stroke = () => color("curve-" + curves[i].color % MOST_COLORS) + "66";
  });
  return options;
}

/** The seeds' differences as points on one axis, over the interval, the margin and zero. Logarithms become ratios. */
function differencePlot(contrast) {
  const isRatio = contrast.kind === "ratio", values = contrast.differences || contrast.log_ratios;
  const [low, high] = contrast.interval_95.map((edge) => edge === null ? null : isRatio ? Math.log(edge) : edge);
  const margin = contrast.margin || 0, marks = [...values, 0, margin, -margin, ...(low === null ? [] : [low, high])];
  const least = Math.min(...marks), most = Math.max(...marks), room = (most - least) * 0.05 || 1, width = 400, height = 64;
  const x = (value) => (value - least + room) / (most - least + 2 * room) * width;
  const said = (value) => number(Number((isRatio ? Math.exp(value) : value).toPrecision(3)));
  const plot = drawing("svg", {viewBox: "0 0 " + width + " " + height, class: "pairs", role: "img",
    "aria-label": "Differences of " + values.length + " seeds from " + said(Math.min(...values)) + " to " + said(Math.max(...values))});
  if (margin > 0) plot.append(drawing("rect", {x: x(-margin), y: 2, width: x(margin) - x(-margin), height: 42, class: "margin"}));
  plot.append(drawing("line", {x1: x(0), x2: x(0), y1: 2, y2: 44, class: "zero"}));
  if (low !== null) plot.append(drawing("line", {x1: x(low), x2: x(high), y1: 34, y2: 34, class: "interval"}));
  const mean = isRatio ? Math.log(contrast.ratio) : contrast.mean;
  plot.append(drawing("line", {x1: x(mean), x2: x(mean), y1: 28, y2: 40, class: "interval"}));
  values.forEach((value, i) => plot.append(drawing("circle", {cx: x(value), cy: 12 + 4 * (i % 3), r: 4},
    drawing("title", {}, "seed " + contrast.seeds[i] + ": " + said(value)))));
  for (const [value, anchor] of least < most ? [[least, "start"], [most, "end"]] : []) plot.append(drawing("text", {x: x(value), y: 60, "text-anchor": anchor}, said(value)));
  if (x(0) > 60 && x(0) < width - 60) plot.append(drawing("text", {x: x(0), y: 60, "text-anchor": "middle"}, isRatio ? "1" : "0"));
  return plot;
}

function contrastCard(contrast) {
  const [low, high] = contrast.interval_95, value = contrast.kind === "ratio" ? contrast.ratio : contrast.mean;
  const sure = contrast.p === null ? "" : ", p " + number(Number(contrast.p.toPrecision(2))) + ", with Holm " + number(Number(contrast.p_holm.toPrecision(2)));
  return element("article", {}, element("h3", {}, shown(contrast.first + " − " + contrast.second), " ", element("small", {}, shown("[" + contrast.endpoint + ", " + contrast.kind + (contrast.margin > 0 ? " " + contrast.margin : "") + "]"))),
    element("p", {}, element("strong", {class: {better: "good", worse: "bad"}[contrast.verdict] || ""}, contrast.verdict),
      value === null ? "" : ": " + number(Number(value.toPrecision(4))) + (low === null ? "" : " (95 %: " + number(Number(low.toPrecision(4))) + " to " + number(Number(high.toPrecision(4))) + ")") + sure),
    value === null ? null : differencePlot(contrast), contrast.reason ? element("p", {class: "reason"}, shown(contrast.reason)) : null);
}

/** Draws the section; `pairs` is what qrl-train compare wrote. Returns the number of charts. */
function drawPairs(pairs) {
  const box = byId("pairs");
  box.hidden = false;
  byId("runs-named").textContent = "comparison of " + pairs.arms.length + " arms";
  document.title = "qrl-train: " + byId("runs-named").textContent;
  for (const id of ["verdicts", "about", "panels", "under", "samples", "diff"]) byId(id).hidden = true;
  document.querySelector(".tools label").hidden = true;
  const arms = pairs.arms.map((arm, place) => element("li", {}, lineSample({color: color("curve-" + place % MOST_COLORS), dash: DASHES[Math.floor(place / MOST_COLORS)]}), " ",
    element("strong", {}, shown(arm.name)), shown(arm.set.length > 0 ? ": " + arm.set.join(", ") : ": the base recipe")));
  const charts = element("div", {class: "grid"});
  box.lastElementChild.replaceChildren(element("p", {}, shown("plan " + pairs.plan + ", " + pairs.program)), element("ul", {class: "arms"}, ...arms), element("h2", {}, "Contrasts"),
    element("div", {class: "grid"}, ...pairs.contrasts.map(contrastCard)), element("h2", {}, "Curves of all seeds, and their means"), charts);
  for (const endpoint of pairs.endpoints) {
    const curves = armCurves(endpoint, pairs.arms), chart = element("div", {class: "chart"});
    if (curves.length === 0) continue;
    const where = endpoint.steps.length > 8 ? "steps " + endpoint.steps[0] + " to " + endpoint.steps.at(-1) : endpoint.steps.length > 0 ? "steps " + endpoint.steps.join(", ") : "the last step";
    charts.append(element("article", {}, element("h3", {}, shown(endpoint.name), " ", element("small", {}, shown("[" + endpoint.metric + "; decided by " + where + "]"))), chart));
    const plot = new uPlot(armOptions(curves, Math.max(chart.clientWidth, 200)), chartData(curves, false), chart);
    new ResizeObserver(() => { if (chart.clientWidth > 0) plot.setSize({width: chart.clientWidth, height: HEIGHT}); }).observe(chart);
  }
  return pairs.endpoints.length;
}
