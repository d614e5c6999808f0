"""From a declaration to an ordered program: which wave does what, where it is kept, when it runs.

Every loop is lowered first:

shares, roles     how waves and quadrants divide the dimensions; waves with jobs of their own
matrix_choice     which matrix instruction multiplies, and how many of them a share takes
layouts, spread   how register tiles lie over lanes, so that steps fit each other without moves
partial           sums and maxima that need not cross lanes in the loop
homes             which values share storage, and which storage rotates
tasks             the steps of one iteration, before they have an order
node_tasks        the meaning's nodes as tasks; node_issues: their instructions, skipping: those
                  that are needed under a condition only
unit_times        what a task takes of each unit of the machine; how long an iteration must take
problem_builder   a modulo problem of them, at any granularity

Then it is woven from single instructions, in many ways of which the fastest is taken:

instructions      tasks cut into single instructions; grains: how large the parts are
pattern, patterns one way to weave a loop; all of them, and the program of each
weave, slots      a time for every instruction; interleave, dependences: with vector ops
exact_weave       times from the modulo solver; instruction_problem: what it solves, and the bound
turns             priorities
fill_waits, peel  waits; masks in a loop of their own

or, where that cannot be or somebody says how, its tasks are ordered as they are:

prices            what of a unit a whole task reserves
task_problem      the tasks as a modulo problem
strategy          who solves it: the exact scheduler, in_order, or an object of yours
crossings         where barriers would stall nobody
arrange           all of it, in one call

Both end in ``sections``, the sections of a program. ``modulo`` is the modulo scheduler.

``__init__.pyi`` lists modules that are imported when they are first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
