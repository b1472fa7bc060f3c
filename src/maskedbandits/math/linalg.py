"""Small symmetric matrices; nothing here allocates memory."""

import numpy as np
from numpy.typing import NDArray

from maskedbandits._numba.jit import compiled, inlined

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@inlined
def dot(one: Vector, other: Vector) -> float:
    """Return the sum of products."""
    total = 0.0
    for index in range(one.size):
        total += one[index] * other[index]
    return total


@inlined
def times(matrix: Matrix, vector: Vector, out: Vector) -> None:
    """Write a matrix times a vector to ``out``."""
    for row in range(vector.size):
        total = 0.0
        for column in range(vector.size):
            total += matrix[row, column] * vector[column]
        out[row] = total


@inlined
def form(matrix: Matrix, vector: Vector) -> float:
    """Return v' M v, or 0 if rounding makes it negative."""
    total = 0.0
    for row in range(vector.size):
        for column in range(vector.size):
            total += vector[row] * matrix[row, column] * vector[column]
    return max(total, 0.0)


@inlined
def add_square(matrix: Matrix, vector: Vector, factor: float) -> None:
    """Add a multiple of v v'."""
    for row in range(vector.size):
        for column in range(vector.size):
            matrix[row, column] += factor * vector[row] * vector[column]


@compiled
def invert(matrix: Matrix, least: float, out: Matrix) -> None:
    """Write the inverse of a matrix to ``out``, by Gauss-Jordan elimination.

    No eigenvalue of the matrix is below ``least``. Pivots are bounded by eigenvalues of Schur complements, so no pivot
    is below it either, except by rounding.
    """
    size = matrix.shape[0]
    for row in range(size):
        for column in range(size):
            out[row, column] = matrix[row, column]
    for k in range(size):
        pivot = max(out[k, k], least)
        for row in range(size):
            if row != k:
                factor = out[row, k] / pivot
                for column in range(size):
                    if column != k:
                        out[row, column] -= factor * out[k, column]
                out[row, k] = -factor
        for column in range(size):
            out[k, column] /= pivot
        out[k, k] = 1.0 / pivot
