"""The driver: one function per job, a request in and a result out; commands only call these."""
