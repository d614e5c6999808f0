"""From a declaration to an ordered program: which wave does what, where it is kept, when it runs.

shares       how waves and quadrants divide the dimensions
matrix       which matrix instruction multiplies, and how many of them a share takes
spread       how register tiles lie over lanes, so that steps fit each other without moves
homes        which values share storage, and which storage rotates
tasks        the steps of one iteration, before they have an order
lower        the meaning's nodes as tasks
prices       what a task costs the machine
problem      the tasks as a modulo scheduling problem
strategy     who solves it: the exact scheduler, or an object of yours
crossings    where barriers would stall nobody
phases       the solution as sections of a program
arrange      all of it, in one call
modulo       the exact modulo scheduler
"""
