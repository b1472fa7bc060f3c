"""Numbers only: functions of scalars and arrays, compiled where policies need them in every step."""
