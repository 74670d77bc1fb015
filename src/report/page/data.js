// The runs of the page: columns of float32 by metric, in the order of their rows.

/** Base64 to float32, little endian as in the file. */
function decodeColumn(text) {
  const plain = atob(text), bytes = new Uint8Array(plain.length);
  for (let i = 0; i < plain.length; ++i) bytes[i] = plain.charCodeAt(i);
  return new Float32Array(bytes.buffer);
}

/** {steps, columns} with arrays that live rows can be added to. */
function decodeTable(table) {
  const decoded = {steps: table ? Array.from(decodeColumn(table.steps)) : [], columns: {}};
  for (const [name, text] of Object.entries(table ? table.columns : {})) decoded.columns[name] = Array.from(decodeColumn(text));
  return decoded;
}

function decodeRun(run) {
  return {...run, table: decodeTable(run.table), sft: decodeTable(run.sft)};
}

/** Adds the row of a step ({step, metrics…}) to a table. */
function addRow(table, row) {
  const before = table.steps.length;
  table.steps.push(row.step);
  for (const [name, value] of Object.entries(row)) {
    if (name === "step" || (value !== null && typeof value !== "number")) continue;
    const column = table.columns[name] = table.columns[name] || new Array(before).fill(NaN);
    column[before] = value === null ? NaN : Math.fround(value);
  }
  for (const column of Object.values(table.columns)) if (column.length <= before) column.push(NaN);
}

/** Whether a metric fits a name of a panel, which may hold "*". */
function fits(name, pattern) {
  if (!pattern.includes("*")) return name === pattern;
  const escaped = pattern.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&")).join("[^/]*");
  return new RegExp("^" + escaped + "$").test(name);
}

/** Metrics of a table that fit a name of a panel. */
function matching(table, pattern) {
  if (!pattern.includes("*")) return pattern in table.columns ? [pattern] : [];
  return Object.keys(table.columns).filter((name) => fits(name, pattern));
}

/** The finite points of a metric: [steps, values]. */
function points(table, name) {
  const steps = [], values = [], column = table.columns[name];
  for (let i = 0; i < column.length; ++i) {
    if (!Number.isFinite(column[i])) continue;
    steps.push(table.steps[i]);
    values.push(column[i]);
  }
  return [steps, values];
}

/** The value of a metric in the row of a step; of two such rows the later one's. NaN where there is none. */
function valueAt(table, name, step) {
  const column = table.columns[name] || [];
  let value = NaN;
  for (let i = 0; i < column.length; ++i) if (table.steps[i] === step && Number.isFinite(column[i])) value = column[i];
  return value;
}

/** The newest finite value of a metric; NaN where there is none. */
function lastValue(table, name) {
  return (table.columns[name] || []).findLast((value) => Number.isFinite(value)) ?? NaN;
}

/** Exponential moving mean with the weight `factor` for what was before, without a bias to the start. */
function smoothed(values, factor) {
  if (factor === 0) return values;
  let mean = 0, weight = 0;
  return values.map((value) => {
    mean = factor * mean + (1 - factor) * value;
    weight = factor * weight + (1 - factor);
    return mean / weight;
  });
}

/** Gives the groups of runs their letters, A and on; runs of one group share it. */
function setLetters(runs) {
  grouped(runs).forEach((members, i) => members.forEach((run) => { run.letter = String.fromCharCode(65 + i); }));
}

/** The name of a run beside others: its curve's letter first. */
function named(run, runs) {
  return runs.length > 1 ? run.letter + " · " + run.label : run.label;
}

/** Runs by their group: those that differ in the seed alone with --group seed, else one each. */
function grouped(runs) {
  const groups = new Map();
  for (const run of runs) groups.set(run.group, [...(groups.get(run.group) || []), run]);
  return [...groups.values()];
}
