"""Compiled schedules for people: tables in the terminal."""
