"""The parts of scripts/gpu/check by name, in their order, and how they are run one after the other."""
import benchmarks
import correctness


def on_both(check):
    def parts(session):
        for device in ("rollout.device", "trainer.device"):
            check(session, device)
    return parts


QUICK = ("operations", "learner", "resume")
PARTS = {
    "operations": lambda session: correctness.check_cases(session, correctness.OPERATIONS, [session.programs.tests]),
    "learner": lambda session: correctness.check_cases(session, "the learner against the CPU's",
                                                       [session.programs.learner, "[gpu]"]),
    "resume": on_both(correctness.check_resume),
    "adapters": correctness.check_adapters,
    "bitwise": correctness.check_bitwise,
    "quickstart": on_both(correctness.check_learning),
    "bench-ticks": lambda session: benchmarks.bench_peers(session, benchmarks.bench_ticks(session)),
    "bench-learner": benchmarks.bench_learner,
    "bench-decode": benchmarks.bench_decode,
    "bench-products": benchmarks.bench_products,
    "bench-attention": benchmarks.bench_attention,
    "sanitizer": correctness.check_sanitizer,
}


def run_part(session, name, part, left_out):
    """`left_out`: what is noted of a part for which no time is left."""
    if session.left_s() < 10:
        session.left_out = True
        return session.note(name, None, f"left out: {left_out}")
    try:
        part(session)
    except correctness.NoGpu:
        raise
    except Exception as error:  # an answer of another form than expected must not cost the rest
        session.note(name, False, f"scripts/gpu itself: {type(error).__name__}: {error}")


def print_table(rows):
    print("\n| check | | |\n|---|---|---|")
    for row in rows:
        state = {True: "holds", False: "FAILS", None: "-"}[row["holds"]]
        print(f"| {row['check']} | {state} | {row['what']} |")
