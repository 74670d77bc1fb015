"""A reward function as OpenRLHF has them; Array imitates a tensor."""


class Array(list):
    def tolist(self):
        return list(self)


def reward_func(queries, prompts, labels):
    print(queries)
    responses = [query[len(prompt):] for query, prompt in zip(queries, prompts)]
    right = [float(response == label) for response, label in zip(responses, labels)]
    return {"rewards": Array(right), "scores": Array(right), "extra_logs": {"length": Array(len(response) for response in responses)}}
