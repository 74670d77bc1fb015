// The live page: asks the server for the list of runs and for new rows.

const EVERY_MS = 1000;
const RUN_COLUMNS = ["run", "status", "step", "reward", "held-out", "tokens/s", "left", "verdicts"];

/** The address of a request, with the token of the page's own. */
function request(path, parameters) {
  const token = new URLSearchParams(location.search).get("token");
  return path + "?" + new URLSearchParams({...parameters, ...(token ? {token} : {})});
}

async function ask(path, parameters) {
  const answer = await fetch(request(path, parameters));
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

/** What a run in the list does now, or how it ended. */
function statusOf(run) {
  if (!run.running) return run.ended || (run.starts > 0 ? "killed or cut off" : "not running");
  return run.step === 0 && run.cold_update > 0 && run.cold_update < run.cold_updates ? "cold start, " + run.cold_update + " of " + run.cold_updates : "running";
}

class Live {
  constructor(page) {
    this.page = page;
    this.name = null;
    this.listed = "";  // the list as it is drawn
  }

  begin() {
    byId("run-list").hidden = false;
    this.tick();
  }

  async tick() {
    try {
      const list = await ask("/runs", {});
      this.drawList(list);
      const listed = list.find((run) => run.name === this.name);
      if (this.name === null && list.length > 0) await this.open((list.find((run) => run.running) || list[0]).name);
      else await this.follow(listed);
      const gone = this.name !== null && !listed && list.every((run) => run.name !== this.name);
      byId("server-says").textContent = gone ? "The folder of " + shown(this.name) + " is gone." : list.length === 0 ? "No runs yet." : "";
      document.documentElement.dataset.asked = String(Number(document.documentElement.dataset.asked || 0) + 1);
    } catch (error) {
      byId("server-says").textContent = "qrl-train watch does not answer (" + error.message + "). This page may be out of date.";
    }
    setTimeout(() => this.tick(), EVERY_MS);
  }

  /** Draws the list where it differs from what stands there: a button that is replaced while it is pressed gets no click. */
  drawList(list) {
    const listed = JSON.stringify([list, this.name]);
    if (listed === this.listed) return;
    this.listed = listed;
    const part = byId("run-list").querySelector("table");
    part.tHead.replaceChildren(element("tr", {}, ...RUN_COLUMNS.map((name) => element("th", {}, name))));
    part.tBodies[0].replaceChildren(...list.map((run) => element("tr", {class: run.name === this.name ? "chosen" : ""},
      element("td", {}, element("button", {type: "button", onclick: () => this.open(run.name)}, shown(run.name))),
      ...[statusOf(run), run.step + (run.total_steps ? " of " + run.total_steps : ""), number(run.reward), number(run.held_out),
        number(run.tokens_per_s === null ? null : Math.round(run.tokens_per_s)), run.running ? duration(run.left_s) : "–", run.bad.join("; ") || "none"].map((text, i) => element("td", {"data-name": RUN_COLUMNS[i + 1]}, shown(text))))));
  }

  async open(name) {
    const run = await ask("/run", {run: name});
    if (name !== this.name) this.page.step = null;
    this.name = name;
    this.page.runs = [decodeRun(run)];
    this.page.draw();
  }

  /** Adds the rows that the run has written since. */
  async follow(listed) {
    const run = this.page.runs[0];
    if (!listed || !run) return;
    if (listed.bytes < run.bytes || listed.starts !== run.sessions.length) return this.open(listed.name);  // a resume
    if (listed.bytes === run.bytes && listed.cold_bytes === run.cold_bytes && listed.running === run.running) return;
    const answer = await ask("/rows", {run: run.name, since: run.bytes, cold_since: run.cold_bytes});
    if (run !== this.page.runs[0]) return;  // another was opened meanwhile
    for (const row of answer.rows) addRow(run.table, row);
    for (const row of answer.cold_rows) addRow(run.sft, row);
    const hasMore = answer.samples.length !== run.samples.length;
    const samples = answer.samples.map((file) => run.samples.find((one) => one.step === file.step) || file);
    Object.assign(run, {bytes: answer.bytes, cold_bytes: answer.cold_bytes, num_rows: run.num_rows + answer.rows.length, verdicts: answer.verdicts, judged: answer.judged,
      sessions: answer.sessions, samples, running: listed.running, seconds: listed.seconds ?? run.seconds});
    this.page.drawHead();
    if (!this.page.charts.update()) this.page.charts.draw();
    if (this.page.step === null) drawValues(this.page);
    if (hasMore) this.page.samples.drawSteps();
    const known = run.validation.length > 0 ? run.validation[run.validation.length - 1].step : null;
    if (answer.last_validation !== known) {
      run.validation = (await ask("/validation", {run: run.name})).validation;
      this.page.diff.draw();
    }
    document.documentElement.dataset.rows = String(run.num_rows);
  }

  async samples(name, step) {
    return (await ask("/samples", {run: name, step})).groups;
  }
}
