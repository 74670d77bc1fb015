"""What the figures of a first contact decide: a sentence for a row, or nothing."""
import re

ATTENTION_BYTES = 64 * 2048 * 8 * 128 * 2 * 2  # keys and values, bf16, of 64 sequences of 2,048 in a layer of 8B


def of_cases(row):
    if row["holds"]:
        return "the kernels' numbers are the CPU's: go on"
    return ("mend this first, in the order rows, kv, quantize, gemm, attention, sample, engine; of a bound that is missed, "
            "look first how far: the matrix units round sums toward zero")


def of_chain(row):
    return ("kernels may begin before the one before has ended" if row["holds"] else
            "QRL_CUDA_OVERLAP=0 for all that follows, and the order of kernels is mended first")


def of_shared(row):
    return ("nothing to do" if row["holds"] else "graphs rely on `launch` never lowering a kernel's limit: keep its test")


def of_tiles(row):
    if row["worst"] >= 0.95:
        return "row-major weights read as fast as tiles: drop the bulk-copy layout of int4 (docs/decisions)"
    return f"a tiled layout gains up to {1 / row['worst'] - 1:.0%} of a GEMM of few rows: build it"


def of_counters_int4(row):
    issue, memory = (row["smsp__issue_active.avg.pct_of_peak_sustained_active"],
                     row["dram__throughput.avg.pct_of_peak_sustained_elapsed"])
    if issue >= 60 and memory < 75:
        return "bound by instruction issue: the bulk-copy layout (docs/decisions)"
    if issue < 50 and memory < 60:
        return "bound by latency: more stages before another layout"
    return "bound by memory: the layout stays"


def of_counters_attention(row):
    excess = row["dram__bytes_read.sum"] / ATTENTION_BYTES
    return (f"reads {excess:.2f} times what it must: shorten the prefetch first" if excess > 1.1 else
            f"reads {excess:.2f} times what it must: the prefetch stays")


def of_attention(row):
    ratio = re.findall(r"batch 64: [^;]*?([\d.]+) times flashinfer_decode", row["what"])
    if not ratio or "int8" in row["check"] or "shared" in row["check"] or "2,048" not in row["check"]:
        return ""
    return ("FlashInfer's decode is above 15% faster: take it where neither int8 pages nor bitwise is asked"
            if float(ratio[0]) < 1 / 1.15 else "our attention stays")


def of_overlap(row):
    return "below 5%: launches are not what limits a tick" if row["gain"] < 0.05 else "overlap pays: keep it everywhere"


def of_estimate(row):
    return ("off by more than a fifth: find out why before anything is changed (step 4)" if row["misses"] else
            "as estimated: the largest share of the estimate is the next to mend")


def of_fp8(row):
    share = float(re.findall(r"(\d+)% of the limit", row["what"])[0])
    return "reached" if share >= 60 else "below 60%: write down the three largest losses in us (step 4) and mend them"


def of_learner(row):
    if "learner_share_of_limit" not in row or " bf16" not in row["check"] or "1.5b" not in row["check"]:
        return ""
    return "reached" if row["learner_share_of_limit"] >= 0.45 else "below 45%: profile a step before any other change"


def of_sanitizer(row):
    return "" if row["holds"] is not False else "memory errors come before every figure: mend"


def of_same_bits(row):
    return "" if row["holds"] is not False else "a source of chance is left: find it before training on a GPU"


RULES = (("operations", of_cases), ("the learner against", of_cases), ("probe: chain", of_chain), ("probe: shared", of_shared),
         ("probe: rows", of_tiles), ("counters: int4", of_counters_int4), ("counters: attention", of_counters_attention),
         ("attention", of_attention), ("overlapping", of_overlap), ("ticks ", of_estimate), ("fp8 with fp8 KV", of_fp8), ("learner ", of_learner),
         ("compute-sanitizer", of_sanitizer), ("save, resume", of_same_bits), ("bitwise", of_same_bits))


def decision(row):
    """A row whose check failed before it had figures decides nothing but itself."""
    for begin, rule in RULES:
        if row["check"].startswith(begin):
            try:
                return rule(row)
            except (KeyError, IndexError):
                return ""
    return ""
