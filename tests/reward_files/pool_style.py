"""Reward functions that start processes: a child finds the function of this file, whatever the start method."""
import multiprocessing


def equal(pair):
    return float(pair[0] == pair[1])


def by(method, solution_str, ground_truth):
    with multiprocessing.get_context(method).Pool(1) as pool:
        return pool.map(equal, [(solution_str, ground_truth)])[0]


def fork(data_source, solution_str, ground_truth, extra_info=None):
    return by("fork", solution_str, ground_truth)


def spawn(data_source, solution_str, ground_truth, extra_info=None):
    return by("spawn", solution_str, ground_truth)


def forkserver(data_source, solution_str, ground_truth, extra_info=None):
    return by("forkserver", solution_str, ground_truth)
