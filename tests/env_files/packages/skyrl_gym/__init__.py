"""Has the surface of SkyRL-gym that qrl_env uses."""
from skyrl_gym.envs import registration


def make(name, **kwargs):
    return registration.load_env_creator(registration.registry[name].entry_point)(**kwargs)
