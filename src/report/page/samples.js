// The responses of a step: groups of one prompt's samples side by side, filtered by score and search.

const BINS = 10;

/** Words of a response that a search is looked for in. */
function sampleText(group, sample) {
  return [group.prompt, group.ground_truth, sample.response, sample.reason, sample.extracted].join("\n").toLowerCase();
}

class Samples {
  constructor(container, page) {
    this.container = container;
    this.page = page;
    this.run = 0;
    this.step = null;
    this.search = "";
    this.bin = null;
    this.list = element("div", {class: "groups"});
    this.bars = element("div", {class: "bars", role: "group", "aria-label": "scores"});
    this.field = element("input", {type: "search", placeholder: "search", "aria-label": "search in samples", oninput: () => { this.search = this.field.value.toLowerCase(); this.drawList(); }});
    this.runs = element("select", {"aria-label": "run", onchange: () => { this.run = Number(this.runs.value); this.draw(); }});
    this.steps = element("select", {"aria-label": "step of the samples", onchange: () => { this.step = Number(this.steps.value); this.draw(); }});
  }

  stepsOf() {
    return (this.page.runs[this.run] || {samples: []}).samples.map((file) => file.step);
  }

  /** The step with samples that is nearest to `step`. */
  goTo(step) {
    const known = this.stepsOf();
    if (known.length === 0) return;
    this.step = known.reduce((best, each) => Math.abs(each - step) < Math.abs(best - step) ? each : best);
    this.draw();
  }

  fillSteps(known) {
    this.steps.replaceChildren(...known.map((step) => element("option", {value: step}, "step " + step)));
    this.steps.value = String(this.step);
  }

  /** Offers steps that have come. The step that is read stays. */
  drawSteps() {
    if (this.step === null) this.draw();
    else this.fillSteps(this.stepsOf());
  }

  /** Draws the browser; returns how many samples the page holds. */
  draw() {
    const runs = this.page.runs;
    this.run = Math.min(this.run, Math.max(runs.length - 1, 0));
    const known = this.stepsOf();
    if (!known.includes(this.step)) this.step = known.length > 0 ? known[known.length - 1] : null;
    this.runs.replaceChildren(...runs.map((run, i) => element("option", {value: i}, shown(named(run, runs)))));
    this.runs.value = String(this.run);
    this.fillSteps(known);
    const parts = [element("div", {class: "tools"}, runs.length > 1 ? this.runs : null, known.length > 0 ? this.steps : null, known.length > 0 ? this.field : null), this.bars, this.list];
    this.container.replaceChildren(...(known.length > 0 ? parts : [...(runs.length > 1 ? [parts[0]] : []), element("p", {}, "The run folder has no rollouts (trainer.rollout_dump).")]));
    this.load();
    return runs.reduce((sum, run) => sum + run.samples.reduce((all, file) => all + (file.groups || []).reduce((n, group) => n + group.samples.length, 0), 0), 0);
  }

  /** Draws what is there; a live page asks for it first. */
  async load() {
    const run = this.page.runs[this.run], file = run && run.samples.find((one) => one.step === this.step);
    this.groups = file && file.groups ? file.groups : [];
    if (file && !file.groups && this.page.live) {
      file.groups = await this.page.live.samples(run.name, this.step);
      if (file.step === this.step) this.groups = file.groups;
    }
    this.bin = null;
    this.drawBars();
    this.drawList();
  }

  binOf(sample) {
    const scores = this.groups.flatMap((group) => group.samples.map((one) => one.score));
    const low = Math.min(...scores), high = Math.max(...scores);
    return high > low ? Math.min(BINS - 1, Math.floor((sample.score - low) / (high - low) * BINS)) : 0;
  }

  drawBars() {
    const all = this.groups.flatMap((group) => group.samples);
    const bins = Array.from({length: BINS}, () => []);
    for (const sample of all) bins[this.binOf(sample)].push(sample.score);
    const most = Math.max(1, ...bins.map((bin) => bin.length));
    this.bars.replaceChildren(...bins.map((bin, i) => bin.length === 0 ? null : element("button", {type: "button", "aria-pressed": String(this.bin === i),
      onclick: () => { this.bin = this.bin === i ? null : i; this.drawBars(); this.drawList(); }},
    element("span", {class: "bar", style: "height:" + Math.round(6 + 34 * bin.length / most) + "px"}),
    bin.length + " × " + (Math.min(...bin) === Math.max(...bin) ? number(bin[0]) : number(Math.min(...bin)) + "…" + number(Math.max(...bin))))).filter(Boolean));
  }

  drawList() {
    const boxes = this.groups.map((group) => {
      const samples = group.samples.filter((sample) => (this.bin === null || this.binOf(sample) === this.bin) && (this.search === "" || sampleText(group, sample).includes(this.search)));
      return samples.length === 0 ? null : element("article", {class: "group"}, element("p", {class: "prompt"}, element("b", {}, "prompt "), element("bdi", {class: "text"}, shown(group.prompt)),
        element("b", {}, " answer "), element("bdi", {class: "text"}, shown(group.ground_truth))),
      element("div", {class: "cards"}, ...samples.map(sampleCard)));
    }).filter(Boolean);
    this.list.replaceChildren(...(boxes.length > 0 ? boxes : [element("p", {}, "No sample matches the search and filter.")]));
  }
}

/** The response, or each turn and what the environment answered. */
function responseParts(sample) {
  const block = (text, kind) => element("pre", {class: "text" + kind, dir: "auto"}, shown(text));
  if (!sample.turns) return [block(sample.response, "")];
  return sample.turns.flatMap((turn) => [block(turn.drawn, ""), turn.observation ? block(turn.observation, " observed") : null]).filter(Boolean);
}

function sampleCard(sample) {
  const parts = Object.entries(sample.score_parts || {}).filter(([, value]) => value !== 0).map(([name, value]) => name + " " + number(value)).join(", ");
  const facts = [sample.response_tokens + " tokens", sample.stop === "length" ? "truncated" : null, parts || null, Number.isFinite(sample.advantage) ? "A " + number(sample.advantage) : null];
  return element("div", {class: "card"}, element("p", {}, element("b", {class: "score"}, number(sample.score)), " ", facts.filter(Boolean).join(" · ")),
    ...responseParts(sample),
    element("p", {class: "reason"}, shown(sample.reason || ""), sample.extracted ? " · extracted: " : "", element("bdi", {class: "text"}, shown(sample.extracted || ""))));
}
