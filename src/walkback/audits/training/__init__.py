"""Audits of somebody's own loop: the subject, its frozen twin, backprop and the controls."""
