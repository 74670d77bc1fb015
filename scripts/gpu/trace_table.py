"""What scripts/gpu/profile makes of a trace: a row for each kernel and shape, and when the GPU was idle."""
import bisect
import collections
import re
import struct

RECORD = struct.Struct("<QQ8I")  # trace.c's Record
MAGIC = b"QRLTRC1\n"
ONE_STEP_NS = 50_000  # kernels of a pattern nearer than that begin one step: an optimizer's, one for each tensor
GAPS = ((2, "below 2 us"), (10, "2 to 10 us"), (100, "10 to 100 us"), (1000, "0.1 to 1 ms"), (float("inf"), "1 ms and more"))


def read(path):
    """(names, records by their begin) of a trace. ValueError: another file."""
    data = path.read_bytes()
    if data[:8] != MAGIC or len(data) < 20:
        raise ValueError("expected a trace of scripts/gpu/profile, got another file")
    count, num_names = struct.unpack_from("<QI", data, 8)
    names, at = [], 20
    for _ in range(num_names):
        if (end := data.find(b"\0", at)) < 0:
            raise ValueError(f"expected {num_names} names, got {len(names)}: it was cut off")
        names.append(data[at:end].decode(errors="replace"))
        at = end + 1
    if len(data) != at + count * RECORD.size:
        raise ValueError(f"expected {count} records, got {(len(data) - at) / RECORD.size:g}: it was cut off")
    return names, sorted(RECORD.iter_unpack(data[at:]))


def short(name):
    """A mangled name in a few words: our own kernels by their name and what distinguishes them, others cut off."""
    if own := re.search(r"\d([a-z][a-z_]*_kernel)(\w*)", name):
        return " ".join([own[1], *map("".join, re.findall(r"E(\d+)E|LS\w{0,3}_(\d+)E|L[ib](\d+)E", own[2]))])[:60]
    return re.sub(r"^_ZN?\d*", "", name)[:100]


def steps_of(names, records, pattern):
    """[begin, end) indices of the last steps that are alike: as many records each, and of such steps those that take longest in all."""
    wanted = {i for i, name in enumerate(names) if re.search(pattern, name, re.I)}
    begins, stop = [], float("-inf")
    for i, (start, end, name, *_) in enumerate(records):
        if name in wanted:
            if start > stop + ONE_STEP_NS:
                begins.append(i)
            stop = max(stop, end)
    if len(begins) < 2:
        raise ValueError(f"expected a pattern of at least two steps' begins, got {len(begins)}")
    alike = collections.defaultdict(list)
    for begin, end in zip(begins, begins[1:]):
        alike[end - begin].append((begin, end))
    repeated = [spans for spans in alike.values() if len(spans) > 1] or list(alike.values())
    return max(repeated, key=lambda spans: sum(records[end][0] - records[begin][0] for begin, end in spans))[-6:]


def table(names, records, pattern=None):
    """Figures in us: of a step (see steps_of), or of the whole trace."""
    spans = steps_of(names, records, pattern) if pattern else [(0, len(records))]
    rows, gaps, before = {}, collections.Counter(), collections.Counter()
    span_ns = busy_ns = count = 0
    for begin, end in spans:
        first = at = records[begin][0]
        for start, stop, name, grid_x, grid_y, grid_z, block, shared, registers, _ in records[begin:end]:
            if start > at:
                gap_us = (start - at) / 1e3
                gaps[GAPS[bisect.bisect_right([most for most, _ in GAPS], gap_us)][1]] += gap_us
                before[short(names[name])] += gap_us
            shown = max(0, stop - max(start, at))
            at = max(at, stop)
            busy_ns += shown
            row = rows.setdefault((name, grid_x if block else 0, grid_y, grid_z, block),
                                  {"total": 0, "shown": 0, "calls": 0, "least": 1 << 62, "most": 0, "registers": registers, "shared": shared})
            took = stop - start
            row["total"] += took
            row["shown"] += shown
            row["calls"] += 1
            row["least"], row["most"] = min(row["least"], took), max(row["most"], took)
        # To the next step's begin, so that what is idle before it counts.
        span_ns += (records[end][0] if pattern and end < len(records) else at) - first
        count += end - begin
    steps = len(spans)
    us = lambda ns: round(ns / 1e3 / steps, 2)  # noqa: E731
    return {"steps": steps, "span_us": us(span_ns), "busy_us": us(busy_ns), "idle_us": us(max(0, span_ns - busy_ns)), "kernels": count / steps,
            "gaps_us": {name: round(gap / steps, 2) for name, gap in gaps.items()},
            "idle_before_us": {name: round(gap / steps, 2) for name, gap in before.most_common(12)},
            "rows": [{"kernel": short(names[key[0]]), "total_us": us(row["total"]), "exposed_us": us(row["shown"]),
                      "calls": round(row["calls"] / steps, 2), "mean_us": round(row["total"] / row["calls"] / 1e3, 2),
                      "least_us": round(row["least"] / 1e3, 2), "most_us": round(row["most"] / 1e3, 2),
                      "grid": "x".join(map(str, key[1:4])), "block": key[4], "registers": row["registers"], "shared_bytes": row["shared"]}
                     for key, row in sorted(rows.items(), key=lambda item: -item[1]["total"])]}


def text(figures, top):
    """The same as a Markdown table."""
    of = f"a step, the mean of {figures['steps']}" if figures["steps"] > 1 else "all"
    lines = [f"{of}: {figures['span_us']:.0f} us, {figures['busy_us']:.0f} busy, {figures['idle_us']:.0f} idle, {figures['kernels']:.0f} kernels",
             "idle by length: " + ("; ".join(f"{name} {us:.0f} us" for name, us in figures["gaps_us"].items()) or "never"),
             "idle before: " + ("; ".join(f"{name} {us:.0f} us" for name, us in list(figures["idle_before_us"].items())[:6]) or "nothing"), "",
             "| us | exposed | calls | mean | least | most | grid x block | registers | kernel |", "|--:|--:|--:|--:|--:|--:|---|--:|---|"]
    lines += [f"| {row['total_us']} | {row['exposed_us']} | {row['calls']:g} | {row['mean_us']} | {row['least_us']} | {row['most_us']} | "
              f"{row['grid']} x {row['block']} | {row['registers']} | {row['kernel']} |" for row in figures["rows"][:top]]
    if len(figures["rows"]) > top:
        lines.append(f"\n{len(figures['rows']) - top} more rows: --top or --json")
    return "\n".join(lines)
