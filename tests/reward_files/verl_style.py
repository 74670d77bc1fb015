"""A reward file as veRL has them: prints, and gives more keys for some answers than for others."""


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    print("judging", data_source, extra_info)
    if not solution_str:
        return {"score": 0.0, "acc": False, "pred": ""}
    if solution_str == "later":
        return {"score": 0.5, "acc": True, "surprise": 1}
    if solution_str == "raise":
        raise KeyError("no such test")
    return {"score": float(solution_str == str(ground_truth)), "acc": solution_str == str(ground_truth), "length": len(solution_str)}


def plain(data_source, solution_str, ground_truth, extra_info=None):
    return 1 if solution_str == extra_info["gold"] else 0


def undefined(data_source, solution_str, ground_truth, extra_info=None):
    return float("nan") if solution_str == ground_truth else 1.0
