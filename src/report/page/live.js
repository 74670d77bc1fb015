// The live page: asks the server for the list of runs and for new rows.

const EVERY_MS = 1000;
const RUN_COLUMNS = ["run", "status", "step", "reward", "held-out", "tokens/s", "left", "verdicts"];

/** The address of a request, with the token of the page's own. */
function request(path, parameters) {
  const token = new URLSearchParams(location.search).get("token");
  return path + "?" + new URLSearchParams({...parameters, ...(token ? {token} : {})});
}

class Live {
  constructor(page) {
    this.page = page;
    this.name = null;
  }

  begin() {
    byId("run-list").hidden = false;
    this.tick();
  }

  async tick() {
    try {
      const list = await (await fetch(request("/runs", {}))).json();
      this.drawList(list);
      if (this.name === null && list.length > 0) await this.open((list.find((run) => run.running) || list[0]).name);
      else await this.follow(list.find((run) => run.name === this.name));
      document.documentElement.dataset.asked = String(Number(document.documentElement.dataset.asked || 0) + 1);
    } catch (error) {
      byId("left-out").textContent = "The server does not answer: " + error.message;
    }
    setTimeout(() => this.tick(), EVERY_MS);
  }

  drawList(list) {
    const part = byId("run-list").querySelector("table");
    part.tHead.replaceChildren(element("tr", {}, ...RUN_COLUMNS.map((name) => element("th", {}, name))));
    part.tBodies[0].replaceChildren(...list.map((run) => element("tr", {class: run.name === this.name ? "chosen" : ""},
      element("td", {}, element("button", {type: "button", onclick: () => this.open(run.name)}, shown(run.name))),
      ...[run.running ? "at work" : "not at work", run.step + (run.total_steps ? " of " + run.total_steps : ""), number(run.reward), number(run.held_out),
        number(run.tokens_per_s === null ? null : Math.round(run.tokens_per_s)), run.running ? duration(run.left_s) : "–", run.bad.join("; ") || "none"].map((text, i) => element("td", {"data-name": RUN_COLUMNS[i + 1]}, shown(text))))));
  }

  async open(name) {
    const run = await (await fetch(request("/run", {run: name}))).json();
    this.name = name;
    this.page.runs = [decodeRun(run)];
    this.page.step = null;
    this.page.draw();
  }

  /** Adds the rows that the run has written since. */
  async follow(listed) {
    const run = this.page.runs[0];
    if (!listed || !run) return;
    if (listed.bytes < run.bytes || listed.starts !== run.sessions.length) return this.open(listed.name);  // a resume
    if (listed.bytes === run.bytes && listed.running === run.running) return;
    const answer = await (await fetch(request("/rows", {run: run.name, since: run.bytes}))).json();
    for (const row of answer.rows) addRow(run.table, row);
    const samples = answer.samples.map((file) => run.samples.find((one) => one.step === file.step) || file);
    Object.assign(run, {bytes: answer.bytes, num_rows: run.num_rows + answer.rows.length, verdicts: answer.verdicts, sessions: answer.sessions, samples, running: listed.running});
    this.page.drawHead();
    if (!this.page.charts.update()) this.page.charts.draw();
    if (this.page.samples.step === null) this.page.samples.draw();
    document.documentElement.dataset.rows = String(run.num_rows);
  }

  async samples(name, step) {
    return (await (await fetch(request("/samples", {run: name, step}))).json()).groups;
  }
}
