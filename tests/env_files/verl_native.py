"""A tool in the style of veRL's BaseTool."""
from verl.tools.base_tool import BaseTool
from verl.tools.schemas import OpenAIFunctionToolSchema, ToolResponse
from verl.utils.rollout_trace import rollout_trace_op


class Compare(BaseTool):
    def __init__(self, config: dict, tool_schema: OpenAIFunctionToolSchema):
        super().__init__(config, tool_schema)
        self.instances = {}

    async def create(self, instance_id=None, create_kwargs=None, **kwargs):
        assert not self.instances  # each is released
        self.instances["one"] = create_kwargs["answer"]
        return "one", ToolResponse()

    @rollout_trace_op
    async def execute(self, instance_id, parameters, **kwargs):
        is_right = parameters["number"] == self.instances[instance_id]
        return ToolResponse(text="right" if is_right else "wrong"), self.config["bonus"] if is_right else -0.1, {}

    async def release(self, instance_id, **kwargs):
        del self.instances[instance_id]
