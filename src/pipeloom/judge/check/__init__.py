"""Judge the record of an emulated run: is every conflicting pair of accesses ordered?"""
