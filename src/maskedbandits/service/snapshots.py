"""Snapshots: the state of an experiment as bytes that any machine and any release can read.

    6                one byte, the format
    fold version     four bytes, least significant byte first, as in all numbers here
    length, header   four bytes, and JSON: what the state is of, and a list of its fields
    sections         compressed by zlib: reports by arm, records of the log's hash, and the fields, 8 bytes a number
    checksum         SHA-256 of everything before it

The *fold* is how a log becomes a state. Its meaning has a version, which a snapshot carries. Nothing else decides
whether a snapshot is valid: not the processor, nor the release, nor the compiler. ``tests/service/test_fold.py`` fails
when the meaning changes without a new version. The last bits of sums can depend on the machine. So a snapshot says
which code and machine it is from (``kernel``), for ``replay``, which compares bits.

Formats 4 and 5, of releases without a fold version, are read as version 1. They have no hash of the log. Formats 1 to 3
are not read: their logs are complete.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
import uuid
import zlib
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits import fingerprint
from maskedbandits._numba.state import Array, Param, ends_of, layout_of, stack_rows
from maskedbandits.contextual import Contextual
from maskedbandits.contextual import serialization as contextual
from maskedbandits.contextual.policy import LEARNED
from maskedbandits.errors import DAMAGED, UserError
from maskedbandits.policies import KINDS, Policy, serialization
from maskedbandits.service.event_columns import Ints
from maskedbandits.service.log_hash import LogHash

FOLD_VERSION = 1
FORMAT = 6
EARLY_FORMATS = (1, 2, 3)
OLD_FORMATS = (4, 5)  # a policy as `Policy.save` wrote it, and the same with groups
HEAD = struct.Struct("<BII")
OLD_HEAD = struct.Struct(">BQIQ")  # format, epsilon, arms, reports held back
CHECKSUM_BYTES = 32
MAX_SECTION_BYTES = 1 << 34
KERNEL_KEY_LENGTH = 16
MIXED_KERNELS = "mixed"  # in place of a key: the state was computed in parts by different code or machines
UNIQUE_KEY = uuid.uuid4().hex[:KERNEL_KEY_LENGTH]  # of this process alone
UNSTORED = ("rng",)  # fields that belong to one process
TYPES = {"i8": "<i8", "f8": "<f8", "u8": "<u8"}

Fields = dict[str, NDArray[Any]]


class OtherFoldError(UserError):
    """A snapshot that is sound, and that this version cannot continue."""


class EarlyFormatError(OtherFoldError):
    """A snapshot of an early release, which nothing reads any more."""


class SnapshotContents(NamedTuple):
    """Everything in a snapshot."""

    seq: int
    epsilon: int  # of the experiment, in millionths
    held_back: int
    reported: Ints
    kernel: str  # of the code and machine that computed the state, or `MIXED_KERNELS`
    origin: str  # a digest of the policy's code, if it is the user's own
    policy: str
    parameters: dict[str, Any]
    groups: dict[str, Any] | None  # levels of a contextual policy
    fields: Fields  # of the state, and with groups of what the levels have learned
    log_hash: LogHash
    terms: dict[str, Any] | None  # the settings and arms at this event; None if they are unknown


def get_origin(policy: str) -> str:
    """Return a digest of a policy's code if it is the user's own; code of this package has the fold version."""
    kind = KINDS.get(policy)
    if kind is None or not kind.is_own:
        return ""
    return UNIQUE_KEY if kind.origin.doubt else kind.origin.digest


# Writing


def encode(contents: SnapshotContents) -> bytes:
    """Return a snapshot as bytes."""
    header = {
        **{name: getattr(contents, name) for name in ("seq", "epsilon", "held_back", "kernel", "origin", "policy")},
        "parameters": contents.parameters,
        "terms": contents.terms,
        "groups": contents.groups,
        "reported": contents.reported.size,
        "hash": {
            "start": contents.log_hash.start,
            "chain": contents.log_hash.chain.hex(),
            "tail": len(contents.log_hash.tail),
            "hour": contents.log_hash.hour,
        },
        "fields": [[name, _type_of(values), values.size] for name, values in contents.fields.items()],
    }
    text = json.dumps(header, default=serialization.to_plain).encode()
    sections = [contents.reported.astype("<i8").tobytes(), bytes(contents.log_hash.tail)]
    sections += [values.astype(TYPES[_type_of(values)]).tobytes() for values in contents.fields.values()]
    body = HEAD.pack(FORMAT, FOLD_VERSION, len(text)) + text + zlib.compress(b"".join(sections), 6)
    return body + hashlib.sha256(body).digest()


def _type_of(values: NDArray[Any]) -> str:
    return f"{values.dtype.kind}{values.dtype.itemsize}"


def read_fields(policy: Policy | Contextual) -> tuple[Fields, dict[str, Any] | None]:
    """Return the fields of a policy's state, and the levels of a contextual policy."""
    if not isinstance(policy, Contextual):
        return _list_fields(policy.snapshot()), None
    state, learned, _ = policy.snapshot()
    grouping = policy.grouping
    groups = {
        "epsilon": str(policy.epsilon),
        "kinds": list(grouping.kinds),
        "parts": grouping.parts.tolist(),
        "tree": grouping.tree,
        "policies": int(state.scalars.size),
        "shares": None if policy.known_shares is None else policy.known_shares.tolist(),
    }
    return {**_list_fields(state), **{f"levels.{key}": np.asarray(learned[key]) for key in LEARNED}}, groups


def _list_fields(state: Any) -> Fields:
    """Return the fields of a state, or of several side by side."""
    found: Fields = {}
    for key, (_, what) in layout_of(state).declarations.items():
        if key in UNSTORED or (isinstance(what, Param) and not what.stored):
            continue
        if isinstance(what, Array):
            rows = stack_rows(state, key)
            found[key] = rows.astype(rows.dtype.newbyteorder("=")).ravel()
        else:
            found[key] = np.array(state.scalars[key])
    return found


# Reading


def decode(body: bytes) -> SnapshotContents:
    """Return the contents of a snapshot of any known format; raise an error if it is damaged."""
    if body[:1] and body[0] in OLD_FORMATS:
        return _decode_old(body)
    if body[:1] and body[0] in EARLY_FORMATS:
        raise EarlyFormatError(f"a snapshot has format {body[0]}, of an early release: the log is folded again")
    if len(body) < HEAD.size + CHECKSUM_BYTES or body[0] != FORMAT:
        raise OtherFoldError("a snapshot is damaged, or of another version: restore a backup")
    if hashlib.sha256(body[:-CHECKSUM_BYTES]).digest() != body[-CHECKSUM_BYTES:]:
        raise UserError("a snapshot is damaged, because its checksum differs: restore a backup")
    _, fold, length = HEAD.unpack_from(body)
    if fold != FOLD_VERSION:
        what = f"a snapshot has fold version {fold}, and this release has {FOLD_VERSION}"
        raise OtherFoldError(f"{what}: install the release that wrote it, or restore a backup")
    end = HEAD.size + length
    try:
        header = json.loads(body[HEAD.size : end])
        return _read_contents(header, memoryview(_unpack(body[end:-CHECKSUM_BYTES])))
    except (*DAMAGED, zlib.error) as error:
        raise UserError(f"a snapshot is damaged ({error})") from None


def _unpack(packed: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    found = unpacker.decompress(packed, MAX_SECTION_BYTES)
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise ValueError("its sections are cut off")
    return found


def _read_contents(header: dict[str, Any], sections: memoryview) -> SnapshotContents:
    hashed, place = header["hash"], 0

    def take(kind: str, count: int) -> NDArray[Any]:
        nonlocal place
        values = np.frombuffer(sections, TYPES[kind], count, place)
        place += 8 * count
        return values.astype(values.dtype.newbyteorder("="))

    reported = take("i8", header["reported"])
    tail = bytes(sections[place : place + hashed["tail"]])
    place += len(tail)
    fields = {name: take(kind, count) for name, kind, count in header["fields"]}
    if place != len(sections):
        raise ValueError("its sections have another length")
    plain = {name: header[name] for name in ("seq", "epsilon", "held_back", "kernel", "origin", "policy")}
    log_hash = LogHash(hashed["start"], header["seq"], bytes.fromhex(hashed["chain"]), tail, hashed["hour"])
    others = {name: header[name] for name in ("parameters", "groups", "terms")}
    return SnapshotContents(**plain, **others, reported=reported, fields=fields, log_hash=log_hash)


def _decode_old(body: bytes) -> SnapshotContents:
    """Return the contents of a snapshot of format 4 or 5, whose sequence number is beside it."""
    try:
        _, epsilon, counts, held_back = OLD_HEAD.unpack_from(body)
        end = OLD_HEAD.size + 8 * counts
        reported = np.frombuffer(body[OLD_HEAD.size : end], dtype="<i8").astype(np.int64)
        with np.load(io.BytesIO(body[end:]), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        about = json.loads(str(arrays.pop("about")))
        of_policy = about["policy"] if body[0] == OLD_FORMATS[1] else about
        fields = _read_old_fields(of_policy, arrays)
        groups = None
        if body[0] == OLD_FORMATS[1]:
            groups = {name: about[name] for name in ("epsilon", "kinds", "parts", "tree", "shares")}
            groups["policies"] = arrays["own"].size
            fields |= {f"levels.{key}": arrays[key] for key in LEARNED}
        named = of_policy["name"], of_policy["parameters"]
    except (*DAMAGED, struct.error) as error:
        raise UserError(f"a snapshot is damaged ({error})") from None
    origin = get_origin(named[0])  # there is no other; the digest of the state is checked all the same
    return SnapshotContents(
        0, epsilon, held_back, reported, MIXED_KERNELS, origin, *named, groups, fields, LogHash(), None
    )


def _read_old_fields(about: Mapping[str, Any], arrays: Mapping[str, Any]) -> Fields:
    """Return the fields in the arrays of a saved policy, whose records say where each array begins and ends."""
    layout, own = KINDS[about["name"]].variant(about["parameters"]).layout, arrays["own"]
    found: Fields = {}
    for key in layout.declarations:
        begin, end = ends_of(key)
        if key in UNSTORED:
            continue
        if begin in own.dtype.names:
            rows = arrays[layout.storage.holder(key)].reshape(own.size, -1)
            found[key] = rows[:, int(own[begin][0]) : int(own[end][0])].ravel()
        elif key in own.dtype.names:
            found[key] = own[key]
    return found


# Policies


def check_origin(contents: SnapshotContents) -> None:
    """Refuse a state of a policy whose code, the user's own, has changed since or cannot be compared."""
    if contents.policy not in KINDS:
        raise OtherFoldError(
            f"the policy {contents.policy!r} is not registered: start the service with the module that defines it"
        )
    if contents.origin != get_origin(contents.policy):
        raise OtherFoldError(
            f"the code of the policy {contents.policy!r} has changed since the snapshot at event {contents.seq}: "
            "install the earlier code, or create a new experiment"
        )


def restore_policy(contents: SnapshotContents) -> Policy | Contextual:
    """Return the policy in a snapshot; no report of it is pending."""
    kind = KINDS[contents.policy].variant(contents.parameters)
    fields = {name: values for name, values in contents.fields.items() if not name.startswith("levels.")}
    many = 1 if contents.groups is None else contents.groups["policies"]
    try:
        state = _build_state(kind.layout, fields, many)
    except DAMAGED as error:
        raise UserError(f"a snapshot is damaged ({error})") from None
    if contents.groups is None:
        policy: Policy | Contextual = serialization.revive(kind, contents.parameters, state, "a snapshot", exact=False)
    else:
        policy = _restore_contextual(contents, contents.groups, kind, state)
    policy.await_exactly(0 * policy.pending)
    return policy


def _build_state(layout: Any, fields: Fields, many: int) -> Any:
    """Return a state, or several side by side, from its fields."""
    wanted = {
        key
        for key, (_, what) in layout.declarations.items()
        if key not in UNSTORED and not (isinstance(what, Param) and not what.stored)
    }
    if fields.keys() != wanted:
        raise ValueError(f"its fields differ: {', '.join(sorted(fields.keys() ^ wanted))}")
    scalars = np.zeros(many, dtype=layout.storage.dtype)
    for key, choice in layout.choices.items():
        scalars[key] = choice
    for key in wanted - layout.arrays.keys():
        if fields[key].shape != (many,) or fields[key].dtype != scalars.dtype[key]:
            raise ValueError(f"{key} has another type or length")
        scalars[key] = fields[key]
    extents, lengths = layout.check_extents(scalars[:1])
    for key, place in extents.items():
        scalars[key] = place
    _check_lengths(layout, fields, extents, many)
    state = layout.State(
        scalars.view(np.recarray), np.zeros(many * lengths["ints"], dtype=np.int64), np.zeros(many * lengths["floats"])
    )
    for key in wanted & layout.arrays.keys():
        rows = stack_rows(state, key)
        if fields[key].dtype != rows.dtype:
            raise ValueError(f"{key} has another type")
        rows[:] = fields[key].reshape(rows.shape)
    return state


def _check_lengths(layout: Any, fields: Fields, extents: Mapping[str, int], many: int) -> None:
    """Refuse arrays whose lengths differ from those that the sizes say, before any memory is allocated."""
    for key in layout.arrays:
        begin, end = (extents[name] for name in ends_of(key))
        if key not in UNSTORED and fields[key].shape != (many * (end - begin),):
            raise ValueError(f"{key} has another length")


def _restore_contextual(contents: SnapshotContents, groups: Mapping[str, Any], kind: Any, state: Any) -> Contextual:
    learned = {key: contents.fields[f"levels.{key}"] for key in LEARNED}
    try:
        epsilon, shares, grouping = contextual.read_grouping(dict(groups), learned["named"].size)
        if sum(grouping.sizes) != groups["policies"]:
            raise ValueError("its number of policies is wrong")
    except DAMAGED as error:
        raise UserError(f"a snapshot is damaged ({error})") from None
    parts = contextual.Contents(kind, contents.parameters, Fraction(epsilon), shares, grouping, state, learned, None)
    return contextual.build(parts, "a snapshot", exact=False)


def compare_bits(one: SnapshotContents, other: SnapshotContents) -> str:
    """Return whether two states are "equal", differ by "rounding" alone, or are "different".

    Whole numbers must be equal, and others up to a share of 1e-9. Random numbers, pending reports and intermediate
    results are left out.
    """
    layout = KINDS[one.policy].variant(one.parameters).layout
    if one.fields.keys() != other.fields.keys() or one.reported.tolist() != other.reported.tolist():
        return "different"
    verdict = "equal"
    for key, values in one.fields.items():
        others = other.fields[key]
        if getattr(layout.declarations.get(key, (None, None))[1], "scratch", False):
            continue
        if values.tobytes() == others.tobytes():
            continue
        is_close = values.dtype.kind == "f" and values.shape == others.shape
        if not (is_close and np.allclose(values, others, rtol=1e-9, atol=1e-9)):
            return "different"
        verdict = "rounding"
    return verdict


def get_kernel_key() -> str:
    """Return a key of this code and machine: with the same key, states are equal to the last bit.

    Where the code is unknown, as of a policy that was defined at a prompt, the key is of this process alone.
    """
    key = fingerprint.package_key(fingerprint.SNAPSHOTS)
    own = [kind.origin for kind in KINDS.values() if kind.is_own]
    if not key or any(origin.doubt for origin in own):
        return UNIQUE_KEY
    digest = hashlib.sha256("".join([key, *(origin.digest for origin in own)]).encode())
    return digest.hexdigest()[:KERNEL_KEY_LENGTH]
