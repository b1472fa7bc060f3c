"""Compiled steps of policies for groups of people."""
