"""A demonstration: a real service, a crowd of simulated visitors in a changing world, and a page that shows both."""
