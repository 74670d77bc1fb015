#!/usr/bin/env python3
"""qrl-train port on scripts in the style of each trainer: every name is accounted for, and the recipe is one that the program accepts.

usage: test.py PROGRAM
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()

VERL = r"""
set -x
export HYDRA_FULL_ERROR=1            # a comment
MODEL_PATH=${MODEL_PATH:-Qwen/Qwen3-0.6B}
n=8
max_response_length=$((1024 * 2))
if [ "$HOST" = big ]; then
    n=16
    offload=True
fi
cat > notes.txt <<EOF
python3 -m verl.trainer.main_ppo data.train_batch_size=1
EOF
ACTOR=(
    actor_rollout_ref.actor.ppo_mini_batch_size=32   # behind a word
    'actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4'
    actor_rollout_ref.actor.fsdp_config.param_offload=${offload}
)
ACTOR+=(+actor_rollout_ref.actor.clip_ratio_c=10.0)
nohup python3 -m verl.trainer.main_ppo \
    --config-name=ppo_trainer \
    algorithm.adv_estimator=rloo \
    data.train_files="['$HOME/a.parquet', 'b.parquet']" \
    data.max_prompt_length=512 data.max_response_length=${max_response_length} \
    data.train_batch_size=64 \
    actor_rollout_ref.model.path="$MODEL_PATH" \
    "${ACTOR[@]}" \
    ++actor_rollout_ref.rollout.n=$n \
    actor_rollout_ref.actor.kl_loss_type=low_var_kl actor_rollout_ref.actor.use_kl_loss=True actor_rollout_ref.actor.kl_loss_coef=0.001 \
    custom_reward_function.path=judge.py custom_reward_function.name=score \
    trainer.experiment_name=run_$(date +%m) trainer.nnodes=1 \
    trainer.unheard_of=1 "$@" 2>&1 | tee log.txt
"""

TRL = '''
"""A script that trains as soon as it is imported."""
import re
import torch
from datasets import load_dataset
from peft import LoraConfig
from trl import GRPOConfig, GRPOTrainer

MODEL = "Qwen/Qwen3-0.6B"
STEPS = 4
raise SystemExit("port must not run this")


def found(text):
    return re.findall(r"\\d+", text)


def digits(completions, answer, **kwargs):
    return [float(a in found(c[0]["content"])) for c, a in zip(completions, answer)]


def short(completions, **kwargs):
    return [float(len(c) < 40) for c in completions]


def main(learning_rate):
    dataset = load_dataset("openai/gsm8k", "main", split="train[:50%]").map(str)
    config = GRPOConfig(output_dir=f"runs/{MODEL}-{STEPS}", learning_rate=learning_rate, per_device_train_batch_size=8,
                        gradient_accumulation_steps=STEPS, steps_per_generation=2 * STEPS, num_generations=4, max_steps=100, save_steps=10,
                        num_iterations=2, optim="adamw_torch", lr_scheduler_type="constant_with_warmup", warmup_steps=3, loss_type="bnpo",
                        scale_rewards="none", beta=0.04, epsilon=0.1, chat_template_kwargs={"enable_thinking": False},
                        model_init_kwargs={"torch_dtype": torch.bfloat16}, report_to=["tensorboard"], neftune_noise_alpha=5, callbacks=[],
                        reward_weights=[1.0, 0.5])
    trainer = GRPOTrainer(model=MODEL, reward_funcs=[digits, short], args=config, train_dataset=dataset,
                          peft_config=LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "v_proj"], bias="none"))
    trainer.train()
'''

COUNTS = re.compile(r"(\d+) names? read: (\d+) translated, (\d+) without a counterpart, (\d+) not constant")


def value(recipe, key):
    """Returns the text of a key's value in a recipe of sections; None if it is not set."""
    place = []
    for line in recipe.splitlines():
        found = re.match(r"( *)([\w.]+):(?: (.*?))?(?:  # .*)?$", line)
        if found:
            place = [*place[:len(found.group(1)) // 2], found.group(2)]
            if ".".join(place) == key:
                return found.group(3)
    return None


TRAINS = '''
from dataclasses import replace
from trl import GRPOConfig, GRPOTrainer


def r(completions, **kwargs):
    return [1.0] * len(completions)


cfg = GRPOConfig(seed=1, learning_rate=1e-6)
r = GRPOTrainer(model="m", reward_funcs=r, args=cfg)
'''


class Port(unittest.TestCase):
    def setUp(self):
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="qrl-port-"))
        self.addCleanup(shutil.rmtree, self.work)

    def run_program(self, *words):
        done = subprocess.run([PROGRAM, *words], cwd=self.work, capture_output=True, text=True, check=False, timeout=120)
        return done.returncode, done.stdout + done.stderr

    def port(self, name, text, files=None):
        """Returns the recipe of a script. Its counts add up, and the program accepts it."""
        (self.work / "made_rewards.py").unlink(missing_ok=True)
        for file, inner in {name: textwrap.dedent(text), **(files or {})}.items():
            (self.work / file).write_text(inner)
        code, said = self.run_program("port", name, "--out", "made.yaml")
        self.assertEqual(code, 0, said)
        recipe = (self.work / "made.yaml").read_text()
        (self.work / "made.yaml").rename(self.work / "kept.yaml")
        read, *parts = map(int, COUNTS.search(recipe).groups())
        self.assertEqual(read, sum(parts), recipe)
        self.assertIn(COUNTS.search(recipe).group(), said)
        code, said = self.run_program("kept.yaml", "--dry-run", "--allow-absent")
        self.assertEqual(code, 0, said + recipe)
        return recipe, parts

    def check(self, recipe, **values):
        for name, wanted in values.items():
            key = name.replace("__", ".")
            self.assertEqual(value(recipe, key), wanted, f"{key}\n{recipe}")

    def test_a_veRL_script(self):
        recipe, (translated, without, varying) = self.port("run.sh", VERL)
        self.check(recipe, model__path="Qwen/Qwen3-0.6B", data__max_response_length="2048", data__train_batch_size="64", rollout__n="8",
                   actor__mini_batch_size="32", actor__max_tokens_per_micro_batch="10240", algorithm__adv_estimator="rloo",
                   algorithm__clip_ratio_c="10.0", algorithm__kl_loss_coef="0.001", algorithm__kl_loss_type="k3", optim__weight_decay="0.01",
                   reward__command='[python3, "-m", qrl_reward, "verl:judge.py:score"]', reward__verifier="command")
        self.assertEqual(value(recipe, "data.train_files"), f'["{pathlib.Path.home()}/a.parquet", b.parquet]')
        self.assertEqual((translated, without, varying), (15, 3, 1), recipe)
        for line in ("#   trainer.unheard_of = 1: qrl-train does not know this name", "4 samples × (512 + 2048) tokens",
                     "#   trainer.experiment_name = run_$(date +%m): here trainer.default_local_dir",
                     "# n: line 8 has 16, under a condition", "param_offload = True (line 9, under a condition)"):
            self.assertIn(line, recipe)

    def test_a_TRL_script(self):
        recipe, (_, without, varying) = self.port("train.py", TRL)
        self.check(recipe, model__path="Qwen/Qwen3-0.6B", model__dtype="bfloat16", data__enable_thinking="false",
                   data__train_batch_size="16", actor__mini_batch_size="8", actor__ppo_epochs="2", rollout__n="4", optim__name="adamw",
                   optim__lr_scheduler="constant", optim__lr_warmup_steps="3", optim__lr=None, optim__weight_decay="0", algorithm__name="grpo",
                   algorithm__loss_agg_mode="token-mean", algorithm__norm_adv_by_std="false", algorithm__kl_loss_coef="0.04",
                   algorithm__clip_ratio_low="0.1", algorithm__clip_ratio_high="0.1", lora__rank="16", lora__target_modules="[q_proj, v_proj]",
                   trainer__total_training_steps="25", trainer__save_freq="3", trainer__total_epochs=None, trainer__tensorboard="true",
                   trainer__default_local_dir="runs/Qwen/Qwen3-0.6B-4", data__train_files='["openai/gsm8k:train"]',
                   reward__weights="{digits: 1.0, short: 0.5}")
        self.assertEqual((without, varying), (3, 1), recipe)
        for line in ("#   learning_rate = learning_rate: here optim.lr", "per_device_train_batch_size 8 × gradient_accumulation_steps 4 × 1 process = 32 responses; / num_generations 4 = 8",
                     "hf download --repo-type dataset openai/gsm8k --local-dir openai/gsm8k", "100 updates / 4 updates a step",
                     "the script then does .map(str)"):
            self.assertIn(line, recipe)
        # The functions are cut out with what they use, and judge.
        rewards = (self.work / "made_rewards.py").read_text()
        self.assertIn("import re", rewards)
        self.assertNotIn("GRPOTrainer", rewards)
        rows = [{"prompt": "q", "answer": "7"}]
        (self.work / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        code, said = self.run_program("check", "reward", "kept.yaml", "--set", "data.train_files=[rows.jsonl]", "--set", "model.path=null", "--set", "lora.rank=0", "--set", "data.enable_thinking=null",
                                      "--set", "model.init.config=recipes:models/quickstart/config.json")
        self.assertIn("digits", said)

    def test_environments_and_tools(self):
        script = TRL.replace("def found(text):", 'class Shop:\n    def reset(self, **row):\n        self.seen = found("1")\n\n    def price(self, item: str) -> int:\n'
                             '        """Has a price.\n\n        Args:\n            item: An item.\n        """\n        return len(item)\n\n\ndef found(text):')
        script = script.replace("train_dataset=dataset,", "train_dataset=dataset, environment_factory=Shop, tools=[],")
        recipe, _ = self.port("train.py", script.replace("callbacks=[]", "max_tool_calling_iterations=3"))
        self.check(recipe, environment__command='[python3, "-m", qrl_env, "trl:made_environment.py:Shop:digits,short"]', environment__max_turns="4",
                   reward__verifier="environment", reward__command=None, reward__weights="{digits: 1.0, short: 0.5}")
        made = (self.work / "made_environment.py").read_text()
        for text in ("class Shop:", "def found(text):", "def digits("):
            self.assertIn(text, made)
        self.assertNotIn("GRPOTrainer", made)
        recipe, _ = self.port("verl.sh", VERL.replace('trainer.nnodes=1 ', 'trainer.nnodes=1 actor_rollout_ref.rollout.multi_turn.enable=True '
            'actor_rollout_ref.rollout.multi_turn.tool_config_path=tools.yaml actor_rollout_ref.rollout.multi_turn.max_assistant_turns=5 '
            'actor_rollout_ref.rollout.multi_turn.tool_response_truncate_side=left data.tool_config_path=tools.yaml '
            'actor_rollout_ref.rollout.multi_turn.max_tool_response_length=300 '))
        self.check(recipe, environment__command='[python3, "-m", qrl_env, "verl_tools:tools.yaml"]', environment__max_turns="5",
                   environment__truncate="left", reward__verifier="command")
        self.assertIn("max_tool_response_length = 300: see environment.max_observation_tokens (tokens, not characters)", recipe)

    def test_flags_of_a_shell_script_win_over_its_python_script(self):
        (self.work / "train.py").write_text(TRL.replace("learning_rate=learning_rate, ", ""))
        recipe, _ = self.port("run.sh", """
            accelerate launch --num_processes 2 train.py --learning_rate 2e-6 --beta=0.0 --per_device_train_batch_size 4 \\
                --log_completions --report_to none
        """)
        self.check(recipe, optim__lr="2e-6", algorithm__kl_loss_coef="0.0", actor__mini_batch_size="8", trainer__rollout_dump="true")
        self.assertIn("× 2 processes = 32 responses", recipe)

    def test_unsloth(self):
        recipe, _ = self.port("unsloth.py", '''
            from unsloth import FastLanguageModel
            from trl import GRPOConfig, GRPOTrainer
            max_seq_length = 1024
            model, tokenizer = FastLanguageModel.from_pretrained(model_name="unsloth/Qwen3-4B", max_seq_length=max_seq_length, load_in_4bit=True,
                                                                 fast_inference=True, max_lora_rank=32, gpu_memory_utilization=0.6)
            model = FastLanguageModel.get_peft_model(model, r=32, target_modules=["q_proj"], lora_alpha=64,
                                                     use_gradient_checkpointing="unsloth", random_state=3407)
            args = GRPOConfig(optim="paged_adamw_8bit", num_generations=6, max_prompt_length=256, max_completion_length=max_seq_length - 256)
            trainer = GRPOTrainer(model=model, processing_class=tokenizer, reward_funcs="org/reward-model", args=args, train_dataset=rows())
        ''')
        self.check(recipe, model__path="unsloth/Qwen3-4B", lora__rank="32", lora__alpha="64", quant__rollout__weights="int4",
                   actor__activation_checkpointing="true", data__max_response_length="768", rollout__n="6", optim__name="adamw")
        self.assertIn("#   fast_inference = true: the decoder is built in", recipe)

    def test_configs(self):
        recipe, parts = self.port("grpo.json", '{"model_name_or_path": "a/b", "loss_type": "cispo", "epsilon_high": 5.0, "rollout_is": "sequence"}')
        self.check(recipe, algorithm__name="cispo", algorithm__clip_ratio_high="4.0")
        self.assertEqual(parts, [3, 1, 0], recipe)
        _, parts = self.port("odd.json", '{"TRAIN_BATCH_SIZE": 4, "eps_clip_low_high": "x", "adam_beta1": 0.8}')
        self.assertEqual(parts, [1, 2, 0])
        recipe, parts = self.port("ppo.yaml", """
            actor_rollout_ref: {rollout: {n: 4, val_kwargs: {do_sample: true, n: 2}}, actor: {optim: {lr: 1e-6}}}
            algorithm: {adv_estimator: gae, rollout_correction: {rollout_is: token, rollout_is_threshold: 2.0}}
        """)
        self.check(recipe, rollout__n="4", eval__n="2", optim__lr="1e-6", eval__temperature=None, rollout_correction__method="tis")
        self.assertIn("gae: there is no critic", recipe)

    def test_a_value_that_the_recipe_refuses_becomes_a_comment_with_the_error(self):
        recipe, parts = self.port("grpo.json", '{"num_generations": 1, "learning_rate": -1, "temperature": 0.5}')
        self.check(recipe, rollout__n=None, optim__lr=None, rollout__temperature="0.5")
        self.assertEqual(parts, [1, 2, 0], recipe)
        self.assertIn("#   refused: rollout.n: expected integer from 2", recipe)

    def test_an_absent_model_is_planned_with_allow_absent_alone(self):
        self.port("grpo.json", '{"model_name_or_path": "nobody/absent", "max_completion_length": 100}')
        code, said = self.run_program("kept.yaml", "--dry-run", "--allow-absent")
        self.assertIn("\nmodel       nobody/absent is absent: its shapes, and so memory and disk use, are unknown\n", said)
        self.assertIn("\nabsent      model nobody/absent (model.path): needed by a run\n", said)
        code, said = self.run_program("kept.yaml", "--dry-run")
        self.assertEqual(code, 2, said)
        self.assertIn("run hf download nobody/absent", said)

    def test_every_rule_of_the_table_has_a_function_and_every_default_is_translated(self):
        table = (ROOT / "src/config/keys/other_trainers.yaml").read_text()
        rules = set(re.findall(r", ([a-z_0-9]+)\]$", "\n".join(line for line in table.splitlines() if line.count(", ") >= 2), re.MULTILINE))
        done = subprocess.run([sys.executable, "-c", "from qrl_port.rules import RULES; print(*RULES)"], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(ROOT / "apps/python")}, check=True)
        known = set(done.stdout.split())
        self.assertEqual((known - rules, rules - known), (set(), {"hint"}))
        recipe, _ = self.port("grpo.json", '{"model_name_or_path": "a/b"}')
        self.check(recipe, optim__lr_scheduler="linear", optim__weight_decay="0", algorithm__loss_agg_mode="token-mean", rollout__n="8")

    def test_a_name_of_another_section_is_not_taken_for_the_plain_one(self):
        sections = ("actor_rollout_ref.actor.qat.group_size=128 actor_rollout_ref.actor.foo.max_steps=4 "
                    "actor_rollout_ref.model.lora.dtype=float16 trace.project_name=x actor_rollout_ref.rollout.n=4")
        recipe = self.port("run.sh", f"python3 -m verl.trainer.main_ppo {sections}\n")[0]
        self.assertIn("  n: 4  # actor_rollout_ref.rollout.n\n", recipe)
        for name in ("qat.group_size = 128", "foo.max_steps = 4", "lora.dtype = float16", "trace.project_name = x"):
            self.assertIn(f"{name}: qrl-train does not know this name", recipe)
        recipe = self.port("rollout.yaml", "temperature: 0.7\nval_kwargs:\n  temperature: 0.5\n  do_sample: true\n")[0]
        self.assertIn("  temperature: 0.7  # temperature\n", recipe)
        self.assertIn("  temperature: 0.5  # val_kwargs.temperature\n", recipe)
        recipe = self.port("run.sh", "python3 train.py --batch_size 8 --steps 5 --learning_rate 1e-6\n")[0]
        self.assertIn("batch_size = 8: qrl-train does not know this name", recipe)

    def test_values_that_name_others_are_read(self):
        recipe = self.port("c.yaml", textwrap.dedent("""
            data: {train_batch_size: 64, max_prompt_length: 256}
            trainer: {experiment_name: e1, default_local_dir: "ckpt/${trainer.experiment_name}", project_name: "${oc.env:PROJECT}"}
            actor_rollout_ref:
              model: {path: ~/models/m}
              actor: {ppo_mini_batch_size: "${data.train_batch_size}"}
              rollout: {n: "${oc.select:data.n,5}", temperature: "${oc.select:data.t,${oc.select:data.u,0.9}}", prompt_length: "${nowhere.length}"}
            """))[0]
        for line in ("mini_batch_size: 64", "n: 5", "temperature: 0.9", "default_local_dir: ckpt/e1", f'path: "{os.path.expanduser("~/models/m")}"'):
            self.assertIn(f"  {line}  #", recipe)
        for line in ("#   actor_rollout_ref.rollout.prompt_length = ${nowhere.length}: here", "#   trainer.project_name = ${oc.env:PROJECT}: here"):
            self.assertIn(line, recipe)

    def test_a_config_of_the_command_is_read(self):
        files = {"c.yaml": "learning_rate: 1e-6\nnum_generations: 4\nseed: 3\n", "train.py": TRAINS}
        for command in ("trl grpo --config c.yaml --learning_rate 3e-6", "accelerate launch train.py --config c.yaml --learning_rate=3e-6"):
            with self.subTest(command):
                recipe = self.port("run.sh", command + "\n", files)[0]
                for line in ("lr: 3e-6  # learning_rate", "n: 4  # num_generations", "seed: 3  # seed"):
                    self.assertIn(f"  {line}\n", recipe)
                self.assertIn("#   config = c.yaml: names of the file stand for themselves", recipe)
        self.assertIn("# d.yaml was not found: its values are not read", self.port("run.sh", "trl grpo --config d.yaml --seed 5\n")[0])

    def test_a_trainer_is_read_rather_than_a_script_that_prepares(self):
        recipe = self.port("run.sh", "python3 download.py --model_path a/b --seed 3\npython3 -m verl.trainer.main_ppo data.train_batch_size=64\n")[0]
        self.assertIn("train_batch_size: 64  # data.train_batch_size", recipe)
        self.assertIn("# line 1 has another command of a trainer, which is not read", recipe)

    def test_renamed_imports_subclasses_and_replaced_configs(self):
        for text in (TRAINS.replace("import GRPOConfig, GRPOTrainer", "import GRPOConfig as C, GRPOTrainer as G").replace("GRPOConfig(", "C(").replace("GRPOTrainer(", "G("),
                     TRAINS.replace("cfg = ", "class Mine(GRPOTrainer):\n    pass\n\n\ncfg = ").replace("r = GRPOTrainer(", "r = Mine("),
                     TRAINS.replace("cfg = GRPOConfig(seed=1, learning_rate=1e-6)", "cfg = replace(GRPOConfig(seed=1), learning_rate=1e-6)")):
            recipe = self.port("s.py", "\ufeff" + text)[0]
            for line in ("path: m  # model", "lr: 1e-6  # learning_rate", "seed: 1  # seed"):
                self.assertIn(f"  {line}\n", recipe)
        self.assertIn("# Mine extends GRPOTrainer: what it overrides is not read", self.port("s.py", TRAINS.replace(
            "cfg = ", "class Mine(GRPOTrainer):\n    pass\n\n\ncfg = "))[0])

    def test_quotes_names_and_lengths_of_a_shell(self):
        names = " ".join(["$A"] * 9).replace(" ", "")
        grown = "A=7\n" + f"A={names}\n" * 9
        recipe, _ = self.port("a\nb", f"{grown}python3 -m verl.trainer.main_ppo data.train_batch_size=$A trainer.seed=5 "
                                   "trainer.experiment_name=$'it\\'s' data.max_prompt_length=$\"12\"\n")
        self.assertIn("seed: 5  # trainer.seed", recipe)
        self.assertIn('default_local_dir: "runs/it\'s"', recipe)
        self.assertIn("  max_prompt_length: 12  # data.max_prompt_length", recipe)
        self.assertIn("#   data.train_batch_size = 7777", recipe)
        self.assertTrue(recipe.startswith('# qrl-train port "a\\nb": '), recipe[:60])

    def test_what_is_no_script_of_a_trainer_is_one_error(self):
        for name, text, error in (("a.sh", "echo hello\n", "a.sh: expected a command that starts TRL, veRL or OpenRLHF, got 1 other command"),
                                  ("b.py", "print(1)\n", "b.py: expected a script with GRPOConfig"),
                                  ("c.py", "def (\n", "c.py:1: expected Python, got invalid syntax"),
                                  ("d.json", "{", "d.json: expected JSON, got "), ("e.json", "[1]", "e.json: expected a config"),
                                  ("f.yaml", "a: [", "f.yaml:1: expected well-formed YAML"), ("g.ipynb", "{}", "g.ipynb: expected a script with"),
                                  ("h.sh", "trl grpo\n", "h.sh: expected names of a trainer's options, got none"),
                                  ("i.sh", b"\xff\xfe\n", "i.sh: expected a text in UTF-8"), ("j.sh", "", "j.sh: expected a command that starts")):
            (self.work / name).write_bytes(text if isinstance(text, bytes) else text.encode())
            code, said = self.run_program("port", name)
            self.assertEqual((code, said.count("\n")), (2, 1), said)
            self.assertTrue(said.startswith("error: " + error), said)
        for words, error in ((["absent.sh"], "absent.sh: expected a script, notebook or config of another trainer, got no such file"),
                             (["a.sh", "--out", "a.sh"], "a.sh: expected the name of a new file, got an existing file")):
            code, said = self.run_program("port", *words)
            self.assertEqual((code, said.count("\n")), (2, 1), said)
            self.assertTrue(said.startswith("error: " + error), said)


if __name__ == "__main__":
    unittest.main()
