"""A package of reward functions, as trainers have them."""
