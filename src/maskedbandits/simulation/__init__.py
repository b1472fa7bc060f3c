"""Simulations: play a policy on a problem many times, and count regret and pulls."""
