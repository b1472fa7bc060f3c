"""Streams of feedback and thresholds in fractions that sums keep exactly, so that slow and fast detectors agree."""

from hypothesis import strategies as st

dyadic = st.one_of(
    st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=120),
    st.lists(st.integers(0, 8).map(lambda k: k / 8), min_size=1, max_size=120),
)
drifts = st.integers(0, 8).map(lambda k: k / 32)
thresholds = st.integers(0, 24).map(lambda k: 0.51 + k / 2)  # no sum ever ties with it
