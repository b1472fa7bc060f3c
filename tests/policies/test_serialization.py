"""Saved policies: all that was played can be loaded, and no file from elsewhere reaches compiled code unchecked."""

import contextlib
import io
import json
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import changed_numbers
from children import finished
from helpers.private import live_state
from maskedbandits import GaussianNoise, LaplaceNoise, RandomizedResponse, load_policy, make_policy
from specimens import RR
from twins import stream

MEMORIES: dict[str, dict[str, Any]] = {"": {}, "sw-": {"window": 40}, "d-": {"gamma": 0.99}}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    policy = make_policy("sw-klucb-cf", arms=3, corruption=RR, window=10)
    stream(policy, np.random.default_rng(0).random(25))
    policy.observe(0, 1, RandomizedResponse(0.9, 0.9))
    policy.save(tmp_path / "policy")
    return tmp_path / "policy"


def rewrite(path: Path, about: dict[str, Any] | None = None, **others: Any) -> None:
    """Put other things in the place of some that were saved; None leaves one out."""
    with np.load(path) as file:
        arrays: dict[str, Any] = {**file, **others}
    if about is not None:
        arrays["about"] = np.array(json.dumps({**json.loads(str(arrays["about"])), **about}))
    with path.open("wb") as stream:
        np.savez(stream, **{key: value for key, value in arrays.items() if value is not None})


def refused(path: Path, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        load_policy(path)
    assert "\n" not in str(caught.value)


@pytest.mark.plain
class TestLongPlays:
    """What takes long to happen must not end in a file that cannot be loaded."""

    @pytest.mark.parametrize("index", ["ts", "klucb", "ucb", "klucb-plus"])
    @pytest.mark.parametrize("seen", [[0, 1, 2], [0]])
    def test_a_discount_under_which_everything_has_faded(self, index: str, seen: list[int], tmp_path: Path) -> None:
        """After 709 / (1 - gamma) observations a weight passes all floats; so does the age of an arm not seen."""
        given = {"horizon": 3000} if index == "klucb-plus" else {}
        policy = make_policy(f"d-{index}-cf", arms=3, corruption=RR, gamma=0.5, **given)
        stream(policy, np.random.default_rng(1).random(30))
        for step in range(1200):
            policy.observe(seen[step % len(seen)], step % 2)
            if step % 97 == 0 or step > 1190:
                policy.save(tmp_path / "policy")
                assert load_policy(tmp_path / "policy").observations == 31 + step
        assert 0 <= policy.choose() < 3

    @pytest.mark.parametrize("before", MEMORIES)
    def test_doubling_with_an_index_that_needs_the_horizon(self, before: str, tmp_path: Path) -> None:
        given = {"restarts": "doubling", **MEMORIES[before]}
        policy = make_policy(f"{before}klucb-plus-cf", arms=3, corruption=RR, **given)
        draws = np.random.default_rng(2).random(2200)
        for begin, end in [(0, 0), (0, 999), (999, 1000), (1000, 1001), (1001, 1999), (1999, 2000), (2000, 2200)]:
            stream(policy, draws[begin:end])
            policy.save(tmp_path / "policy")
            copy = load_policy(tmp_path / "policy")
            assert copy.parameters == policy.parameters
            assert np.array_equal(copy.indices(), policy.indices())


class TestFilesFromElsewhere:
    def test_what_is_no_policy_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "text").write_text("hello")
        (tmp_path / "empty").write_bytes(b"")
        np.savez(tmp_path / "other.npz", a=np.zeros(3))
        for name in ("text", "empty", "other.npz"):
            refused(tmp_path / name, "not a saved policy")
        with pytest.raises(FileNotFoundError):
            load_policy(tmp_path / "missing")

    def test_a_cut_off_file_is_refused(self, saved: Path) -> None:
        data = saved.read_bytes()
        for length in range(0, len(data), 97):
            saved.write_bytes(data[:length])
            refused(saved, "not a saved policy")

    @pytest.mark.parametrize(
        ("about", "complaint"),
        [
            ({"format": 2}, "another format"),
            ({"format": None}, "another format"),
            ({"name": "klucb-cd"}, "its policy is unknown"),
            ({"name": ["klucb-cf"]}, "its policy is unknown"),
            ({"name": "klucb-cf"}, "damaged"),
            ({"name": "auto"}, "damaged"),
            ({"parameters": None}, "parameters"),
            ({"parameters": {}}, "parameters"),
            ({"parameters": {"window": 2**32}}, "size"),
            ({"parameters": {"window": "x"}}, "parameters"),
            ({"parameters": {"window": 11}}, "size"),
            ({"parameters": {"window": 10, "c": 1.0}}, "its c contradicts its parameters"),
            ({"parameters": {"window": 10, "restarts": [0, 5]}}, "size"),
            ({"parameters": {"window": 10, "restarts": "doubling"}}, "parameters"),
        ],
    )
    def test_what_it_says_of_itself_must_be_so(self, saved: Path, about: dict[str, Any], complaint: str) -> None:
        rewrite(saved, about=about)
        refused(saved, complaint)

    @pytest.mark.parametrize("about", ["", "{", "[]", "3", "[" * 100_000], ids=len)
    def test_what_says_nothing_is_refused(self, saved: Path, about: str) -> None:
        with np.load(saved) as file:
            arrays: dict[str, Any] = {**file, "about": np.array(about)}
        with saved.open("wb") as stream:
            np.savez(stream, **arrays)
        refused(saved, "not a saved policy|another format")

    @pytest.mark.parametrize("key", ["own", "ints", "floats"])
    def test_arrays_of_another_kind_or_length_are_refused(self, saved: Path, key: str) -> None:
        with np.load(saved) as file:
            array: Any = file[key]
        wrong: list[Any] = [array[:-1], np.concatenate([array, array]), array.reshape(1, -1), np.array(3), None]
        wrong += [np.zeros(array.size, dtype=np.float32), np.array(["x"] * array.size)]
        for other in wrong:
            rewrite(saved, **{key: other})
            refused(saved, "damaged")
            rewrite(saved, **{key: array})
        assert load_policy(saved).observations == 26

    @pytest.mark.parametrize(
        "shape", ["(1099511627776,)", "(4611686018427387904,)", "(9223372036854775808, 9)", "(-1,)"]
    )
    def test_huge_shapes_in_headers_are_refused(self, saved: Path, shape: str) -> None:
        header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
        data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(64)
        replace_member(saved, "ints.npy", data)
        refused(saved, "not a saved policy")

    def test_an_archive_that_would_fill_the_memory_is_refused(self, saved: Path) -> None:
        for member in ("ints", "about"):
            replace_member(saved, f"{member}.npy", bytes(100), claimed=1 << 40)
            refused(saved, "it has more content")

    def test_no_more_is_unpacked_than_the_record_says(self, saved: Path) -> None:
        """Zeros pack a thousand to one: 64 MiB of them would still be a small file."""
        stream = io.BytesIO()
        np.lib.format.write_array(stream, np.zeros(1 << 23, dtype=np.int64))
        replace_member(saved, "ints.npy", stream.getvalue())
        refused(saved, "it has more content")

    def test_a_damaged_member_is_refused_or_harmless(self, saved: Path) -> None:
        data = bytearray(saved.read_bytes())
        rng = np.random.default_rng(0)
        for place in rng.integers(0, len(data), 200):
            changed = data.copy()
            changed[place] ^= 1 << int(rng.integers(8))
            saved.write_bytes(changed)
            with contextlib.suppress(ValueError):
                assert load_policy(saved).observations == 26


def replace_member(path: Path, name: str, data: bytes, claimed: int | None = None) -> None:
    """Put other bytes into the archive, and claim perhaps that they are more."""
    with zipfile.ZipFile(path) as archive:
        members = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in {**members, name: data}.items():
            archive.writestr(member, content)
        if claimed is not None:
            archive.getinfo(name).file_size = claimed


def test_two_that_save_to_one_path_leave_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "policy"
    policies = [make_policy("sw-klucb-cf", arms=3, corruption=RR, window=window) for window in (10, 2000)]
    failures: list[Exception] = []

    def keep_saving(which: int) -> None:
        try:
            for _ in range(100):
                policies[which].save(path)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=keep_saving, args=(which,)) for which in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert load_policy(path).parameters["window"] in (10, 2000)
    assert [entry.name for entry in tmp_path.iterdir()] == ["policy"]


class TestChangedNumbers:
    """One number of a file is another: it is refused, or does no harm."""

    @pytest.mark.parametrize("span", [0.0, -0.5, 1e-300, 2.0, np.nan, np.inf])
    def test_a_mask_without_a_slope_is_refused(self, span: float, tmp_path: Path) -> None:
        """The mean of an arm is found by dividing by it."""
        policy = changed_numbers.played("sw-ts-cf")
        live_state(policy).ring_spans[4] = span
        policy.save(tmp_path / "policy")
        refused(tmp_path / "policy", "out of range")

    @pytest.mark.slow
    def test_every_number_interpreted(self) -> None:
        """In a process of its own, without the compiler: what is out of bounds or divided by zero raises an error."""
        self.tried(1, {"NUMBA_DISABLE_JIT": "1"})

    @pytest.mark.slow
    def test_every_number_compiled(self) -> None:
        self.tried(1, {})

    @staticmethod
    def tried(attempts: int, environment: dict[str, str]) -> None:
        command = [sys.executable, changed_numbers.__file__, attempts]
        done = finished(command, environment=environment)
        assert done.returncode == 0, done.stderr[-2000:]
        refused, harmless = map(int, done.stdout.split())
        assert refused > harmless > 0


@pytest.mark.plain
class TestFeedbackOfAnySize:
    """What is saved goes on exactly, and is checked for its kind."""

    @pytest.mark.parametrize("noise", [GaussianNoise(1), LaplaceNoise(0.7)])
    def test_it_goes_on_exactly(self, noise: Any, tmp_path: Path) -> None:
        drawn = np.random.default_rng(5).normal(size=120) * 3
        one = make_policy("sw-klucb-cf", arms=2, corruption=noise, window=30)
        for feedback in drawn[:50]:
            one.observe(one.choose(), feedback)
        one.save(tmp_path / "policy")
        other = load_policy(tmp_path / "policy", exact=True)
        assert (other.name, other.parameters, other.sigma) == (one.name, one.parameters, one.sigma)
        for feedback in drawn[50:]:
            arm = one.choose()
            assert other.choose() == arm
            one.observe(arm, feedback)
            other.observe(arm, feedback)
        assert np.array_equal(one.indices(), other.indices())

    def test_large_numbers_are_damage_only_for_bits(self, tmp_path: Path) -> None:
        path = tmp_path / "policy"
        policy = make_policy("sw-ucb-cf", arms=2, corruption=GaussianNoise(1), window=30)
        policy.observe(0, 5.0)
        policy.observe(1, -5.0)
        policy.save(path)
        assert load_policy(path).estimates().tolist() == [1.0, 0.0]
        rewrite(path, {"parameters": {"window": 30, "xi": float(policy.snapshot().scalars[0].xi)}})
        refused(path, "out of range")
        policy.save(path)
        with np.load(path) as file:
            saved = json.loads(str(file["about"]))["parameters"]
        rewrite(path, {"parameters": {**saved, "sigma": 7.0}})
        refused(path, "its xi contradicts its parameters")
        rewrite(path, {"parameters": {**saved, "divergence": "sub-gamma", "tail": 1.0}})
        refused(path, "damaged")
