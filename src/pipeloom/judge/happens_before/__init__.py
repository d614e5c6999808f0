"""What the judge of programs and the judge of recorded runs both say of two accesses.

Each finds by itself which pairs nothing orders. By how many cycles the latencies keep such a pair
apart is played in one nominal run, the same for both, so that the same pair has one class in both.
"""
