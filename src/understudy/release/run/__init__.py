"""One release from plan to judgement: transformation, fit, candidate, criteria, state."""
